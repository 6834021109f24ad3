package main

import (
	"os"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
)

func TestDocumentIsUpToDate(t *testing.T) {
	var want strings.Builder
	if err := command.Document(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/COMMANDS.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("docs/COMMANDS.md is not up to date: run go run ./internal/commanddoc >docs/COMMANDS.md")
	}
}
