package issuer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// A slot is the place of one name in an [Issuer]. It outlives the definitions of the name, so it
// also keeps what they leave to each other. Only a change moves a slot from one state to another:
//
//	vacant ──┐                 ┌── vacant
//	refusing ┼─ claim ▸ changing ─ settle ▸ refusing
//	serving ─┘                 ├── serving
//	                           └── dropped
type slot struct {
	// serving is the instance of a slot of the kind serving, else nil. Issuing reads nothing else, so
	// slots are small, and close together in memory.
	serving atomic.Pointer[instance]
	// record is everything else. Until the first change there is none, and serving says it all.
	record atomic.Pointer[record]
}

// record is what a slot holds, and what it keeps for the next definition.
type record struct {
	mu sync.Mutex // guards what follows
	slotState
	// known is what earlier strategies left to learn, unless the strategy of this instance has
	// learned it. Only the change under way uses it.
	known knowledge
}

// slotState is what a slot holds.
type slotState struct {
	kind     slotKind
	instance *instance   // serving; or refusing, if there are plugins that show what they know
	why      *seqd.Error // refusing: the answer to callers
	change   *change     // changing
}

// slotKind is the kind of a [slotState].
type slotKind uint8

const (
	vacant   slotKind = iota // there is no such biz type
	changing                 // a change is under way, which callers wait for
	serving                  // the instance issues, as soon as it is initialised
	refusing                 // nothing may issue: disabled, failed to be built, or stopping
	dropped                  // vacant, and no longer the slot of its name
)

// change is a change under way.
type change struct {
	record *record // of the slot
	before slotState
	began  time.Time
	ended  chan struct{}
}

// serve is the state of a slot whose instance issues.
func serve(i *instance) slotState { return slotState{kind: serving, instance: i} }

// refuse is the state of a slot that refuses. i may be nil.
func refuse(why *seqd.Error, i *instance) slotState {
	return slotState{kind: refusing, why: why, instance: i}
}

// fill sets what a new slot holds.
func (s *slot) fill(c slotState) {
	if c.kind == serving {
		s.serving.Store(c.instance)
	} else {
		s.record.Store(&record{slotState: c})
	}
}

// look returns what the slot holds.
func (s *slot) look() slotState {
	i := s.serving.Load() // before record: until there is one, serving does not change
	r := s.record.Load()
	if r == nil {
		return unchanged(i)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slotState
}

// unchanged is the state of a slot without a record.
func unchanged(i *instance) slotState {
	if i == nil {
		return slotState{kind: vacant}
	}
	return serve(i)
}

// recorded returns the record of the slot, and makes it if there is none.
func (s *slot) recorded() *record {
	if s.record.Load() == nil {
		s.record.CompareAndSwap(nil, &record{slotState: unchanged(s.serving.Load())})
	}
	return s.record.Load()
}

// claim begins a change, after the one under way. It returns nil if the slot was dropped.
func (s *slot) claim() *change {
	for {
		c, ours := s.tryClaim()
		if ours || c == nil {
			return c
		}
		<-c.ended
	}
}

// tryClaim begins a change, or returns the one under way.
func (s *slot) tryClaim() (c *change, ours bool) {
	r := s.recorded()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kind == changing || r.kind == dropped {
		return r.change, false
	}
	c = &change{record: r, before: r.slotState, began: time.Now(), ended: make(chan struct{})}
	r.slotState = slotState{kind: changing, change: c}
	s.serving.Store(nil)
	return c, true
}

// settle ends a change. Callers who wait for it find what the slot holds now.
func (s *slot) settle(c *change, after slotState) {
	c.record.mu.Lock()
	c.record.slotState = after
	if after.kind == serving {
		s.serving.Store(after.instance)
	}
	c.record.mu.Unlock()
	close(c.ended)
}

// enter returns the instance that serves, entered, nil if there is none that can be entered. s may
// be nil.
func (s *slot) enter() *instance {
	if s != nil {
		if i := s.serving.Load(); i != nil && i.enter() {
			return i
		}
	}
	return nil
}

// strategy returns the name of the strategy that issues, "" if none does.
func (s *slot) strategy() string {
	if i := s.serving.Load(); i != nil {
		return i.kind
	}
	return ""
}

// health returns why nothing can be issued, if that makes the node unready.
func (c slotState) health() *seqd.Error {
	if err := c.trouble(); err != nil && !c.bearable(err) {
		return err
	}
	return nil
}

// degraded returns why the biz type issues, but not as it should; or why it does not, if that does
// not make the node unready.
func (c slotState) degraded() *seqd.Error {
	if err := c.trouble(); err != nil {
		if c.bearable(err) {
			return err
		}
		return nil
	}
	if c.kind != serving {
		return nil
	}
	return c.instance.degraded()
}

// bearable reports whether this only degrades a node: see [Definition].OnlyDegrades. After a
// failover of the store all nodes lack the same counters, and the others go on.
func (c slotState) bearable(err *seqd.Error) bool {
	return c.kind == serving && (err.Code == seqd.CodeStoreFailedOver || c.instance.onlyDegrades && err.Code == seqd.CodeConflict)
}

// trouble returns why nothing can be issued. A biz type that was removed or disabled is no trouble;
// neither is a change, unless callers give up waiting for it.
func (c slotState) trouble() *seqd.Error {
	switch c.kind {
	case serving:
		return c.instance.trouble()
	case refusing:
		if c.disabled() {
			return nil
		}
		return c.why
	case changing:
		if time.Since(c.change.began) >= initWait {
			return errChanging
		}
	}
	return nil
}

// disabled reports whether an administrator wants the biz type not to issue.
func (c slotState) disabled() bool { return c.kind == refusing && c.why.Code == seqd.CodeDisabled }

// exists reports whether there is a biz type, as far as callers can tell.
func (c slotState) exists() bool { return c.kind != vacant && c.kind != dropped }
