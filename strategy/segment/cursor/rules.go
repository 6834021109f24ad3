package cursor

import "github.com/seqd/seqd/internal/ruleset"

// Rule is a rule of the protocol that a machine keeps. Tests take rules out to show that each is
// needed, and that they would notice.
type Rule uint8

// The rules.
const (
	// RuleGuard: a node never issues a number that is not above all it has issued.
	RuleGuard Rule = iota
	// RuleFloor: an allocation names the highest number that this process has seen, which the range
	// must begin above (U1, for a store that was restored).
	RuleFloor
	// RuleAbandonUnknown: a range whose install has an unknown outcome is forgotten (U2).
	RuleAbandonUnknown
	// RuleYoungSpare: a range is installed only under the gen of the cursor that was seen before
	// the range was allocated (U3).
	RuleYoungSpare
	// RuleAdvanceFirst: a node that issued on its own moves the cursor above the numbers that it
	// issued before it takes from the cursor again.
	RuleAdvanceFirst
	// RuleAheadKept: the node also does that, and does not just append a range, if an earlier
	// return to the cursor failed half-way. No promise about numbers needs this; with it a node can
	// return with its spare range while the store is away.
	RuleAheadKept
	// RuleStandbyAboveCeil: a range that was kept for an outage is not issued from if a higher
	// number has been seen in the cursor.
	RuleStandbyAboveCeil
	// RuleAskToAdopt: a node adopts the epoch of a cursor only if the store says that it is the
	// counter's, not because the cursor is there (U3b).
	RuleAskToAdopt
	// RuleFreshAsks: a process that has just begun asks the store, too (U3b).
	RuleFreshAsks
	// RuleAnswersInOrder: an answer of the store does not count after the answer to a later
	// question (U3b).
	RuleAnswersInOrder
	// RuleBeliefsAge: a take is not sent if the store's last answer is too old, unless the store is
	// away (U3b).
	RuleBeliefsAge
	// RuleDrawnAnew: every seed of a cursor draws a new epoch (U3b).
	RuleDrawnAnew
	// RuleSpareEpoch: a range is installed only under the epoch that it was allocated for (U3b).
	RuleSpareEpoch
	// RulePatience: a node that loses the race for an epoch gives the winner time to install its
	// seed. No promise needs this; without it more epochs are drawn.
	RulePatience
	rules
)

var ruleNames = [rules]string{
	RuleGuard:            "guard",
	RuleFloor:            "floor",
	RuleAbandonUnknown:   "abandon-unknown",
	RuleYoungSpare:       "young-spare",
	RuleAdvanceFirst:     "advance-first",
	RuleAheadKept:        "ahead-kept",
	RuleStandbyAboveCeil: "standby-above-ceil",
	RuleAskToAdopt:       "ask-to-adopt",
	RuleFreshAsks:        "fresh-asks",
	RuleAnswersInOrder:   "answers-in-order",
	RuleBeliefsAge:       "beliefs-age",
	RuleDrawnAnew:        "drawn-anew",
	RuleSpareEpoch:       "spare-epoch",
	RulePatience:         "patience",
}

// String returns the name of the rule, such as "young-spare".
func (r Rule) String() string { return ruleNames[r] }

// AllRules returns every rule.
func AllRules() []Rule { return ruleset.All(rules) }

// RuleSet is a set of rules; the zero value is empty.
type RuleSet = ruleset.Set[Rule]

// Rules returns the set of some rules.
func Rules(list ...Rule) RuleSet { return ruleset.Of(list...) }

// ParseRules returns the rules whose names are in a text, separated by commas.
func ParseRules(text string) (RuleSet, error) { return ruleset.Parse[Rule](ruleNames[:], text) }
