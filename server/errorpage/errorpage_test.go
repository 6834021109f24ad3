package errorpage

import (
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestMeanings checks that each code has a page, and that the console says the same.
func TestMeanings(t *testing.T) {
	got, defined, console := map[string]string{}, map[string]string{}, map[string]string{}
	for code, m := range meanings {
		got[string(code)] = m.What
		if m.What == "" || m.Who == "" || m.Todo == "" {
			t.Errorf("%s: %+v", code, m)
		}
	}
	for _, match := range regexp.MustCompile(`Code = "(\w+)"`).FindAllSubmatch(must.Get(os.ReadFile("../../errors.go"))(t), -1) {
		defined[string(match[1])] = got[string(match[1])]
	}
	for _, match := range regexp.MustCompile(`(?m)^  (\w+): \["([^"]+)"`).FindAllSubmatch(must.Get(os.ReadFile("../console/web/codes.js"))(t), -1) {
		console[string(match[1])] = string(match[2])
	}
	if !maps.Equal(got, defined) {
		t.Errorf("pages %q, codes of errors.go %q", got, defined)
	}
	if !maps.Equal(got, console) {
		t.Errorf("pages %q, console %q", got, console)
	}
}
