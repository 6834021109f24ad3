package main

import (
	"os"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestDocumentIsUpToDate(t *testing.T) {
	var want strings.Builder
	must.Do(t, command.Document(&want))
	got := must.Get(os.ReadFile("../../docs/COMMANDS.md"))(t)
	if string(got) != want.String() {
		t.Error("docs/COMMANDS.md is not up to date: run go run ./internal/commanddoc >docs/COMMANDS.md")
	}
}
