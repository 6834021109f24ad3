package definitions

import (
	"sync"

	"github.com/seqd/seqd"
)

// state is what this process made of a biz type. It is small because there may be very many.
type state struct {
	revision int64  // of the document, 0 for none
	said     digest // of what the document says
	enabled  bool
	deleted  bool
	damaged  bool // the document cannot be read
	unusable bool // this process cannot build it
}

func stateOf(revision int64, said stored) state {
	return state{
		revision: revision, said: said.digest(),
		enabled: said.Enabled, deleted: said.Deleted, damaged: said.Definition == nil,
	}
}

// onlyDisabledBy reports whether the biz type could issue, and said differs only in that it must
// not.
func (s state) onlyDisabledBy(said stored) bool {
	said.Enabled = true
	return !s.unusable && said.digest() == s.said
}

// states are the states of all biz types. It is safe for concurrent use.
type states struct {
	mu     sync.Mutex // guards what follows
	byName map[string]state
	// rejected are the bindings of rejection handlers in use, for the biz types that have any.
	rejected map[string][]seqd.RejectedBinding
}

func newStates() *states {
	return &states{byName: make(map[string]state), rejected: make(map[string][]seqd.RejectedBinding)}
}

func (s *states) get(name string) (state, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.byName[name]
	return known, ok
}

func (s *states) set(name string, to state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName[name] = to
}

// setRejected notes which rejection handlers a biz type uses, and returns those it used until now.
func (s *states) setRejected(name string, rejected []seqd.RejectedBinding) (before []seqd.RejectedBinding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.rejected[name]
	delete(s.rejected, name)
	if len(rejected) > 0 {
		s.rejected[name] = rejected
	}
	return before
}

// count returns how many biz types there are.
func (s *states) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, known := range s.byName {
		if !known.deleted {
			n++
		}
	}
	return n
}
