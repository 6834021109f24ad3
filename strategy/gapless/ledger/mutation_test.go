package ledger

import (
	"slices"
	"testing"
)

// ordered are the rules that need an order of events that random schedules hardly ever have. The
// scenarios have it.
var ordered = []Rule{
	RuleDue, RuleSuspect, RuleEvicted, RuleBack, RuleFence, RuleHistory, RuleLineage, RuleKnown, RuleLookEra, RuleAhead,
}

// Each other rule is needed: without it, a random schedule goes wrong.
func TestRulesAreNeeded(t *testing.T) {
	for _, rule := range AllRules() {
		if slices.Contains(ordered, rule) {
			continue
		}
		t.Run(rule.String(), func(t *testing.T) {
			for seed := range uint64(500) {
				if err := runSeed(seed, Rules(rule)); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no seed notices that the rule is missing")
		})
	}
}
