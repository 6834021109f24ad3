package segment

import (
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// sabotaged returns the rules of the cursor that are taken out of this build: none, unless it was
// made for tests.
func sabotaged() (set cursor.RuleSet) {
	for _, name := range sabotage.Names() {
		if rule, err := cursor.ParseRules(name); err == nil { // otherwise it is a rule of something else
			set |= rule
		}
	}
	return set
}
