package issuer

import (
	"iter"
	"sync"
)

// names finds the seat of a name. The names that the issuer began with are in first, a plain map
// that nobody writes to again. The names that came later are in a [sync.Map], which is slower. So
// adding one name to a million copies nothing. A name that is removed loses its seat if the seat is
// in the [sync.Map]. Then left keeps what the next strategy of the name learns.
type names struct {
	first map[string]*seat
	later sync.Map // of string to *seat

	mu   sync.Mutex // guards left
	left map[string]knowledge
}

// find returns the seat of a name, or nil.
func (n *names) find(name string) *seat {
	if s := n.first[name]; s != nil {
		return s
	}
	return n.findLater(name)
}

func (n *names) findLater(name string) *seat {
	if s, ok := n.later.Load(name); ok {
		return s.(*seat)
	}
	return nil
}

// beginChange begins a change of a name. If there is no seat, it makes one. It waits until no other
// change of the name is under way.
func (n *names) beginChange(name string) (*seat, *change) {
	for {
		s := n.find(name)
		if s == nil {
			added, _ := n.later.LoadOrStore(name, new(seat))
			s = added.(*seat)
		}
		if c := s.beginChange(); c != nil {
			n.remind(name, c.record)
			return s, c
		}
	}
}

// remind moves what left keeps of a name into the record of its seat.
func (n *names) remind(name string, to *record) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if left, ok := n.left[name]; ok {
		to.known = left
		delete(n.left, name)
	}
}

// drop removes the seat of a name, unless it is in first, and keeps left, which may be nil.
func (n *names) drop(name string, s *seat, left knowledge) (dropped bool) {
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

// all returns every seat by name, in no order.
func (n *names) all() iter.Seq2[string, *seat] {
	return func(yield func(string, *seat) bool) {
		for name, s := range n.first {
			if !yield(name, s) {
				return
			}
		}
		n.later.Range(func(name, s any) bool { return yield(name.(string), s.(*seat)) })
	}
}
