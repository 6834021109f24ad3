package seqd

import "testing"

// Tokens of one name are different owners, and what nobody made has none.
func TestOwners(t *testing.T) {
	for owner, want := range map[string]struct{ name, id string }{
		"shop": {"shop", "shop"}, OwnerOf("shop", ""): {"shop", "shop"}, OwnerOf("shop", "7"): {"shop", "shop~7"}, OpenOwnerOf("shop"): {"shop", ""},
	} {
		if name, id := OwnerName(owner), (&Caller{Name: "other", Owner: owner}).OwnerID(); name != want.name || id != want.id {
			t.Errorf("%s: name %q, ID %q", owner, name, id)
		}
	}
}
