package terms

import (
	"slices"

	"github.com/seqd/seqd/internal/sabotage"
)

// Permits are a semaphore that records its holders. It is the state of a document.
type Permits struct {
	// Most is the limit that the last session to take a permit named.
	Most    int      `json:"most"`
	Holders []Holder `json:"holders,omitempty"`
}

// Holder is a session that holds a permit.
type Holder struct {
	Session string `json:"session"`
	// Name says what the permit is for. A session has at most one permit for each name.
	Name string `json:"name,omitempty"`
	// Slot is the number of the permit, from 0. It stays with the holder.
	Slot int `json:"slot"`
}

// take is K7, permits: it returns the permits after a session has got one, and its slot. The
// permits of dead sessions are free, and those that the session does not use. ok is false if none is
// free.
func (p Permits) take(session, name string, most int, dead, uses func(string) bool) (next Permits, slot int, ok bool) {
	next = Permits{Most: most, Holders: slices.Clone(p.Holders)}
	next.Holders = slices.DeleteFunc(next.Holders, func(h Holder) bool {
		if h.Session == session {
			return h.Name != name && !uses(h.Name)
		}
		return dead(h.Session)
	})
	if i := next.find(session, name); i >= 0 { // an earlier attempt has got it
		return next, next.Holders[i].Slot, true
	}
	if len(next.Holders) >= most && !sabotage.Off(sabotage.PermitsBounded) {
		return next, 0, false
	}
	for slices.ContainsFunc(next.Holders, func(h Holder) bool { return h.Slot == slot }) {
		slot++
	}
	next.Holders = append(next.Holders, Holder{Session: session, Name: name, Slot: slot})
	return next, slot, true
}

// free returns the permits without the one that a session holds for a name. held is false if it
// holds none.
func (p Permits) free(session, name string) (next Permits, held bool) {
	i := p.find(session, name)
	if i < 0 {
		return p, false
	}
	p.Holders = slices.Delete(slices.Clone(p.Holders), i, i+1)
	return p, true
}

func (p Permits) find(session, name string) int {
	return slices.IndexFunc(p.Holders, func(h Holder) bool { return h.Session == session && h.Name == name })
}
