//go:build seqd_sabotage

package segment

import (
	"os"

	"github.com/seqd/seqd/strategy/segment/cursor"
)

// sabotaged are the rules of the cursor that SEQD_TEST_SABOTAGE takes out: their names, separated
// by commas.
var sabotaged = func() cursor.RuleSet {
	set, err := cursor.ParseRules(os.Getenv("SEQD_TEST_SABOTAGE"))
	if err != nil {
		panic("SEQD_TEST_SABOTAGE: " + err.Error())
	}
	return set
}()
