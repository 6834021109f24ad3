package ledger

import "github.com/seqd/seqd/internal/ruleset"

// Rule is a rule that states and machines keep. Tests take rules out to show that each is needed,
// and that they would notice.
type Rule uint8

// The rules of a state, and then those of a machine.
const (
	// RuleLowest: the lowest released numbers go out first (G4).
	RuleLowest Rule = iota
	// RuleEndedOnce: a reservation that ended stays as it ended (G3).
	RuleEndedOnce
	// RuleDue: nobody confirms a reservation that is due (G3).
	RuleDue
	// RuleAwake: nothing is reclaimed that could not be confirmed because all nodes were away.
	RuleAwake
	// RuleNotEarly: a reservation is reclaimed when it is due, not before.
	RuleNotEarly
	// RuleSuspect: what came back before a failover, or comes back after it from a reservation
	// that was open then, becomes void (G2): what the store has lost may have handed it out again.
	RuleSuspect
	// RulePeriodEnd: what is released when the period ends becomes void.
	RulePeriodEnd
	// RuleOnRelease: with onRelease void nothing is released.
	RuleOnRelease
	// RuleAbove: numbers that another strategy issued are never handed out (G2).
	RuleAbove
	// RuleReturnIssued: only what is issued is returned (G2): neither void numbers, nor those of
	// another era.
	RuleReturnIssued
	// RuleLook: what the document does not hold any more is looked up in the records (G2, G3).
	RuleLook
	// RuleDropped: a look-up that began before an entry was added, which has left the document
	// since, proves nothing (G2, G3).
	RuleDropped

	// RuleDurable: nobody is told of what is not durable (G1).
	RuleDurable
	// RuleWriters: whether a write without an answer was made is seen by its number in the
	// document.
	RuleWriters
	// RuleSameBytes: a write whose outcome is unknown is repeated as it was as long as it may still
	// come.
	RuleSameBytes
	// RuleEvicted: if the number of a write has left the document, its outcome is not guessed.
	RuleEvicted
	// RuleFresh: nobody is refused, and nothing is reported, because of a state that others may have
	// changed before the request.
	RuleFresh
	// RuleCopied: an entry leaves the document after it was copied.
	RuleCopied
	// RuleUndo: numbers that nobody waits for any more come back.
	RuleUndo
	// RuleBack: a document that is older than what was seen, or gone, is not used.
	RuleBack
	// RuleFence: a document of another server is not used or written.
	RuleFence
	// RuleHistory: a record that belongs to what a failover lost is ignored (G2, G3).
	RuleHistory
	// RuleLineage: a write is not repeated on a document of another era.
	RuleLineage
	// RuleKnown: if a failover can lose something, what a node knows of an earlier time is told only
	// from a state that is as new as the request (G2).
	RuleKnown
	// RuleLookEra: what a look-up found in another era is looked up again (G2, G3).
	RuleLookEra
	// RuleAhead: a record shows how far the document had come: if a failover can lose something, a
	// document that is older than a record is not used (G2).
	RuleAhead
	// RuleStill: a repeated request is told its numbers again only while they are reserved or issued
	// for it (G2).
	RuleStill
	// RuleToldEnd: the end of a reservation that callers are told is the earliest that it can have,
	// whatever a node knows of when nodes were away (G3).
	RuleToldEnd
	// RuleTold: the write that ends a reservation has its event (V1).
	RuleTold
	rules
)

var ruleNames = [rules]string{
	RuleLowest:       "lowest-first",
	RuleEndedOnce:    "ended-once",
	RuleDue:          "due",
	RuleAwake:        "awake",
	RuleNotEarly:     "not-early",
	RuleSuspect:      "suspect",
	RulePeriodEnd:    "period-end",
	RuleOnRelease:    "on-release",
	RuleAbove:        "above-others",
	RuleReturnIssued: "return-issued",
	RuleLook:         "look-up",
	RuleDropped:      "dropped",
	RuleDurable:      "durable-first",
	RuleWriters:      "writers",
	RuleSameBytes:    "same-bytes",
	RuleEvicted:      "evicted",
	RuleFresh:        "fresh-refusal",
	RuleCopied:       "copied-first",
	RuleUndo:         "undo",
	RuleBack:         "went-back",
	RuleFence:        "ledger-fence",
	RuleHistory:      "history",
	RuleLineage:      "lineage",
	RuleKnown:        "known",
	RuleLookEra:      "look-era",
	RuleAhead:        "ahead",
	RuleStill:        "still-so",
	RuleToldEnd:      "told-end",
	RuleTold:         "event-written",
}

// String returns the name of the rule, such as "same-bytes".
func (r Rule) String() string { return ruleNames[r] }

// AllRules returns every rule.
func AllRules() []Rule { return ruleset.All(rules) }

// RuleSet is a set of rules; the zero value is empty.
type RuleSet = ruleset.Set[Rule]

// Rules returns the set of some rules.
func Rules(list ...Rule) RuleSet { return ruleset.Of(list...) }

// ParseRules returns the rules whose names are in a text, separated by commas.
func ParseRules(text string) (RuleSet, error) { return ruleset.Parse[Rule](ruleNames[:], text) }
