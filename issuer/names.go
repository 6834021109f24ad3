package issuer

import (
	"iter"
	"sync"
)

// names finds the slot of a name. Names that the issuer began with are in a plain map that nobody
// writes to again. Names that came later are in a [sync.Map], which is slower, until the next
// start; so adding one name to a million copies nothing. A name that is gone takes no slot, so that
// whoever looks at all slots does not see it: only what the next strategy of the name learns
// is kept.
type names struct {
	first map[string]*slot
	later sync.Map // of string to *slot

	mu   sync.Mutex // guards left
	left map[string]knowledge
}

// find returns the slot of a name, or nil.
func (n *names) find(name string) *slot {
	if s := n.first[name]; s != nil {
		return s
	}
	return n.findLater(name)
}

func (n *names) findLater(name string) *slot {
	if s, ok := n.later.Load(name); ok {
		return s.(*slot)
	}
	return nil
}

// claim begins a change of a name. If there is no slot, it makes one. It waits until no other
// change of the name is under way.
func (n *names) claim(name string) (*slot, *change) {
	for {
		s := n.find(name)
		if s == nil {
			added, _ := n.later.LoadOrStore(name, new(slot))
			s = added.(*slot)
		}
		if c := s.claim(); c != nil {
			n.remind(name, c.record)
			return s, c
		}
	}
}

// remind gives the record of a name what was left of the name, if anything was.
func (n *names) remind(name string, to *record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left, ok := n.left[name]; ok {
		to.known = left
		delete(n.left, name)
	}
}

// drop forgets a slot, if it can: the first map keeps its slots. It keeps what is left of the name,
// nil for nothing.
func (n *names) drop(name string, s *slot, left knowledge) (dropped bool) {
	if n.findLater(name) != s {
		return false
	}
	if left != nil {
		n.mu.Lock()
		if n.left == nil {
			n.left = make(map[string]knowledge)
		}
		n.left[name] = left
		n.mu.Unlock()
	}
	return n.later.CompareAndDelete(name, s)
}

// all returns every slot by name, in no order.
func (n *names) all() iter.Seq2[string, *slot] {
	return func(yield func(string, *slot) bool) {
		for name, s := range n.first {
			if !yield(name, s) {
				return
			}
		}
		n.later.Range(func(name, s any) bool { return yield(name.(string), s.(*slot)) })
	}
}
