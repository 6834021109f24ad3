package events

import "github.com/seqd/seqd/internal/ruleset"

// rule is a rule of V1. Tests take rules out to show that each is needed, and that they would notice.
type rule uint8

const (
	// ruleOnce: an event of a source that is in the stream is not published again.
	ruleOnce rule = iota
	// ruleHole: the events of a source wait for those before them.
	ruleHole
	// ruleDeleted: a batch is deleted after the write that published it.
	ruleDeleted
	// rulePage: a page is kept before it leaves the document of the stream.
	rulePage
	// ruleSource: how far a source is, is kept before it leaves the document of the stream.
	ruleSource
	rules
)

var ruleNames = [rules]string{"event-once", "event-hole", "event-deleted", "event-page", "event-source"}

// Rules returns the names of the rules that tests take out.
func Rules() []string { return ruleNames[:] }

// String returns the name of the rule.
func (r rule) String() string { return ruleNames[r] }

func parseRules(text string) (ruleset.Set[rule], error) {
	return ruleset.Parse[rule](ruleNames[:], text)
}
