package definitions

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// state is what this process made of a biz type. It is small because there may be very many.
type state struct {
	revision int64  // of the document, 0 for none
	said     digest // of what the document says
	enabled  bool
	deleted  bool
	unusable bool // this process cannot build it
	// over is set if what was built must issue no more: it did not close well, and may still be at
	// work, or the store has another shape by now. It is nil if nothing was built.
	over *atomic.Bool
}

func stateOf(revision int64, said stored) state {
	return state{
		revision: revision, said: said.digest(),
		enabled: said.Enabled, deleted: said.Deleted, over: new(atomic.Bool),
	}
}

// onlyDisabledBy reports whether the biz type could issue, and said differs only in that it must
// not.
func (s state) onlyDisabledBy(said stored) bool {
	said.Enabled = true
	return !s.unusable && said.digest() == s.said
}

// broken reports whether this process could not build the biz type, or must build it again.
func (s state) broken() bool { return s.unusable || s.over != nil && s.over.Load() }

// closedBadly notes that what was built may still be at work. What it still does must not count.
func (s state) closedBadly() {
	if s.over != nil {
		s.over.Store(true)
	}
}

// states are the states of the biz types that this process holds. It is safe for concurrent use.
type states struct {
	now func() time.Time // of a clock that nobody sets

	mu     sync.Mutex // guards what follows
	byName map[string]state
	// stopped is since when this process knows that a biz type issues no more, for those that are
	// disabled or deleted.
	stopped map[string]time.Time
	// rejected are the bindings of rejection handlers in use, for the biz types that have any.
	rejected map[string][]seqd.RejectedBinding
}

func newStates() *states {
	return &states{
		now: time.Now, byName: make(map[string]state), stopped: make(map[string]time.Time),
		rejected: make(map[string][]seqd.RejectedBinding),
	}
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
	missed := to.revision > s.byName[name].revision+1 // versions in which it may have issued
	s.byName[name] = to
	if to.enabled && !to.deleted {
		delete(s.stopped, name)
	} else if _, known := s.stopped[name]; !known || missed {
		s.stopped[name] = s.now()
	}
}

// stoppedFor returns for how long this process has known that a biz type issues no more, 0 if it
// issues, or has a version that this process has not followed yet.
func (s *states) stoppedFor(name string, revision int64) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.stopped[name]
	if !ok || s.byName[name].revision != revision {
		return 0
	}
	return s.now().Sub(since)
}

// stoppedSince reports whether a biz type issues no more, and has done so for less than this.
func (s *states) stoppedSince(name string, within time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, ok := s.stopped[name]
	return ok && s.now().Sub(since) < within
}

// forget forgets a biz type that is no longer held.
func (s *states) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
	delete(s.stopped, name)
}

// names returns the biz types that are held, and those that were deleted a short time ago.
func (s *states) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.byName))
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

// broken returns the biz types that this process could not build, or must build again.
func (s *states) broken() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, known := range s.byName {
		if known.broken() {
			names = append(names, name)
		}
	}
	return names
}

// count returns how many biz types are held.
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
