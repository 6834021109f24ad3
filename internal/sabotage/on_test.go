//go:build seqd_sabotage

package sabotage

import "testing"

func TestSabotagedBuild(t *testing.T) {
	defer func(was []string) { names = was }(names)
	names = []string{"fence", string(Claim)}
	if !Off(Claim) || Off(Period) || Script("x --[[without fence: or true]]") != "x or true" {
		t.Error("the wrong rules are off")
	}
}
