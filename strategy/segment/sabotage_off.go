//go:build !seqd_sabotage

package segment

import "github.com/seqd/seqd/strategy/segment/cursor"

// sabotaged are the rules of the cursor that are taken out: none, except in tests that are built
// with the tag seqd_sabotage.
const sabotaged cursor.RuleSet = 0
