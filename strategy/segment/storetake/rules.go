package storetake

import "github.com/seqd/seqd/internal/ruleset"

// Rule is a rule of the protocol that a machine keeps. Tests take rules out to show that each is
// needed, and that they would notice.
type Rule uint8

// The rules.
const (
	// RuleTakeFloor: a take names the highest number that this process has seen, which its numbers
	// must be above (U1, for a store that was restored).
	RuleTakeFloor Rule = iota
	// RuleTakeGuard: a node never issues a number that is not above all it has seen.
	RuleTakeGuard
	// RuleNamesEpoch: a take names the epoch of the store, and so fails if a cursor in Redis has
	// taken over (order).
	RuleNamesEpoch
	// RuleOnce: a node takes over from a cursor in Redis only until the store has sequenced the
	// counter once. Without it, nodes with different definitions take over from each other for
	// ever.
	RuleOnce
	// RuleRetireFirst: the cursor in Redis is removed before the store takes over (order).
	RuleRetireFirst
	rules
)

var ruleNames = [rules]string{
	RuleTakeFloor:   "take-floor",
	RuleTakeGuard:   "take-guard",
	RuleNamesEpoch:  "names-epoch",
	RuleOnce:        "take-over-once",
	RuleRetireFirst: "retire-first",
}

// String returns the name of the rule, such as "names-epoch".
func (r Rule) String() string { return ruleNames[r] }

// AllRules returns every rule.
func AllRules() []Rule { return ruleset.All(rules) }

// RuleSet is a set of rules; the zero value is empty.
type RuleSet = ruleset.Set[Rule]

// Rules returns the set of some rules.
func Rules(list ...Rule) RuleSet { return ruleset.Of(list...) }

// ParseRules returns the rules whose names are in a text, separated by commas.
func ParseRules(text string) (RuleSet, error) { return ruleset.Parse[Rule](ruleNames[:], text) }
