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
	for key, want := range map[string]string{"k1": "other", "": ""} {
		var s Sequence
		if s.ask(key, &Caller{Name: "other"}); s.Asker() != want || s.Key() != key {
			t.Errorf("%q is asked for %q", s.Asker(), s.Key())
		}
	}
}

// A name that the issuer began with keeps its slot, and with it what there is to inherit.
func TestNamesFromTheStart(t *testing.T) {
	s := new(slot)
	n := names{first: map[string]*slot{"order": s}}
	if n.drop("order", s, new(legacyOfNothing)) || len(n.left) > 0 {
		t.Errorf("dropped, and %v is left", n.left)
	}
}

type legacyOfNothing struct{ Strategy }
