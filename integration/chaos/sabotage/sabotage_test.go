package sabotage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../../.."

// build builds packages of a sabotaged tree.
func build(t *testing.T, s Sabotage, args ...string) {
	t.Helper()
	overlay, err := s.Overlay(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", append([]string{"build", "-overlay", overlay}, args...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", s.Name, err, out)
	}
}

func TestEverySabotageBuilds(t *testing.T) {
	names := make(map[string]bool)
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			if names[s.Name] || s.Rule == "" || s.Caught == "" || len(s.Changes) == 0 {
				t.Error("a sabotage has a name of its own, says which rule it breaks and what catches it, and changes something")
			}
			names[s.Name] = true
			// all of the program but the linking, which takes most of the time
			build(t, s, "./standard", "./server")
		})
	}
}

// The Lua files are embedded: what is in the program must be the changed ones.
func TestEmbeddedFilesAreExchanged(t *testing.T) {
	s, err := Find("no-fence")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "seqd")
	build(t, s, "-o", binary, "./internal/testing/clockseqd")
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(program, []byte(s.Changes[0].Old)) {
		t.Error("the program has the script as it was")
	}
	if !bytes.Contains(program, []byte("local function trusted(replid)\n  return true\n")) {
		t.Error("the program has not the changed script")
	}
}

func TestPlacesThatAreNotThere(t *testing.T) {
	for old, times := range map[string]string{"no such place": "0 times", "return": "times, not once"} {
		s := Sabotage{Name: "x", Changes: []Change{{takeLua, old, ""}}}
		if _, err := s.Overlay(root, t.TempDir()); err == nil || !strings.Contains(err.Error(), times) {
			t.Errorf("%q: %v", old, err)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "no-fence") {
		t.Errorf("%v", err)
	}
}
