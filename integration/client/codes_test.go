package client

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The client names every code of the service.
func TestCodes(t *testing.T) {
	code := regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z_]+)"$`)
	read := func(file string) (codes []string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range code.FindAllSubmatch(text, -1) {
			codes = append(codes, string(found[1]))
		}
		if len(codes) < 20 {
			t.Fatalf("%s: %d codes were found", file, len(codes))
		}
		return codes
	}
	known := " " + strings.Join(read("../../client/errors.go"), " ") + " "
	for _, code := range read("../../errors.go") {
		if !strings.Contains(known, " "+code+" ") {
			t.Errorf("client/errors.go lacks %s", code)
		}
	}
}
