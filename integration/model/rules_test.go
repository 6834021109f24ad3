package model

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// The model takes out every rule that the machine and the scripts have, and no others.
func TestRules(t *testing.T) {
	for r := range rulesInAll {
		if r.String() == "" {
			t.Errorf("rule %d has no name", int(r))
		}
	}
	machine := slices.Sorted(maps.Values(ofMachine))
	if !slices.Equal(machine, cursor.AllRules()) {
		t.Errorf("the machine has the rules %v, the model knows %v", cursor.AllRules(), machine)
	}
	takes := slices.Sorted(maps.Values(ofTakes))
	if !slices.Equal(takes, storetake.AllRules()) {
		t.Errorf("the machine of takes has the rules %v, the model knows %v", storetake.AllRules(), takes)
	}
	var scripts []sabotage.Rule
	for _, file := range []string{"take.lua", "install.lua"} {
		text := must.Get(os.ReadFile(luaFolder + file))(t)
		scripts = append(scripts, sabotage.RulesOf(string(text))...)
	}
	slices.Sort(scripts)
	if known := slices.Sorted(maps.Values(ofScripts)); !slices.Equal(slices.Compact(scripts), known) {
		t.Errorf("the scripts have the rules %v, the model knows %v", scripts, known)
	}
}
