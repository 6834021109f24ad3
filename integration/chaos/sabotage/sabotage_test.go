package sabotage

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	switches "github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// root is the root of the repository.
const root = "../../.."

// known are the rules that can be taken out of seqd.
func known(t *testing.T) (rules []string) {
	t.Helper()
	for _, r := range switches.Rules {
		rules = append(rules, string(r))
	}
	for _, r := range cursor.AllRules() {
		rules = append(rules, r.String())
	}
	for _, r := range storetake.AllRules() {
		rules = append(rules, r.String())
	}
	for _, r := range ledger.AllRules() {
		rules = append(rules, r.String())
	}
	for _, folder := range []string{"strategy/segment/rediscursor/lua", "server/idempotency/lua"} {
		scripts, err := filepath.Glob(filepath.Join(root, folder, "*.lua"))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, script := range scripts {
			text := must.Get(os.ReadFile(script))(t)
			for _, r := range switches.RulesOf(string(text)) {
				rules = append(rules, string(r))
			}
		}
	}
	return rules
}

func TestAll(t *testing.T) {
	names, rules := make(map[string]bool), known(t)
	for _, s := range All {
		if names[s.Name] || s.Lacks == "" || s.Caught == "" || len(s.Rules) == 0 {
			t.Errorf("%s: a sabotage has a name of its own, says which rule it breaks and what catches it, and takes out a rule", s.Name)
		}
		names[s.Name] = true
		for _, r := range s.Rules {
			if !slices.Contains(rules, r) {
				t.Errorf("%s: there is no rule %q in seqd", s.Name, r)
			}
		}
		if found, err := Find(s.Name); err != nil || found.Name != s.Name {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "no-fence") {
		t.Errorf("%v", err)
	}
}

// The build with the tag compiles, and its switches work.
func TestSabotagedBuild(t *testing.T) {
	longtest.Only(t)
	for _, args := range [][]string{
		{"build", "-tags", Tag, "./standard", "./server"}, // all of the program; linking takes most of the time
		{"test", "-tags", Tag, "./internal/sabotage"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
