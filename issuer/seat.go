package issuer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// A seat is what an [Issuer] has for one name. It outlives the definitions of the name, so it
// also keeps what they leave to each other. Only a change moves a seat from one state to another:
//
//	vacant ──┐                 ┌── vacant
//	refusing ┼─ begin ▸ changing ─ settle ▸ refusing
//	serving ─┘                 ├── serving
//	                           └── dropped
type seat struct {
	// serving is the instance of a seat of the kind serving, else nil. Issuing reads nothing else, so
	// seats are small, and close together in memory.
	serving atomic.Pointer[instance]
	// record is everything else. Until the first change there is none, and serving says it all.
	record atomic.Pointer[record]
}

// record is what a seat holds, and what it keeps for the next definition.
type record struct {
	mu sync.Mutex // guards what follows
	seatState
	// known is what earlier strategies left to learn, unless the strategy of this instance has
	// learned it. Only the change under way uses it.
	known knowledge
}

// seatState is what a seat holds.
type seatState struct {
	kind     seatKind
	instance *instance   // serving; or refusing, if there are plugins that show what they know
	why      *seqd.Error // refusing: the answer to callers
	change   *change     // changing
}

// seatKind is the kind of a [seatState].
type seatKind uint8

const (
	vacant   seatKind = iota // there is no such biz type
	changing                 // a change is under way, which callers wait for
	serving                  // the instance issues, as soon as it is initialised
	refusing                 // nothing may issue: disabled, failed to be built, or stopping
	dropped                  // vacant, and no longer the seat of its name
)

// change is a change under way.
type change struct {
	record *record // of the seat
	before seatState
	began  time.Time
	ended  chan struct{}
}

// servingState is the state of a seat whose instance issues.
func servingState(i *instance) seatState { return seatState{kind: serving, instance: i} }

// refusingState is the state of a seat that refuses. i may be nil.
func refusingState(why *seqd.Error, i *instance) seatState {
	return seatState{kind: refusing, why: why, instance: i}
}

// fill sets what a new seat holds.
func (s *seat) fill(c seatState) {
	if c.kind == serving {
		s.serving.Store(c.instance)
	} else {
		s.record.Store(&record{seatState: c})
	}
}

// look returns what the seat holds.
func (s *seat) look() seatState {
	i := s.serving.Load() // before record: until there is one, serving does not change
	r := s.record.Load()
	if r == nil {
		return unchanged(i)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seatState
}

// unchanged is the state of a seat without a record.
func unchanged(i *instance) seatState {
	if i == nil {
		return seatState{kind: vacant}
	}
	return servingState(i)
}

// recorded returns the record of the seat, and makes it if there is none.
func (s *seat) recorded() *record {
	if s.record.Load() == nil {
		s.record.CompareAndSwap(nil, &record{seatState: unchanged(s.serving.Load())})
	}
	return s.record.Load()
}

// beginChange begins a change, after the one under way. It returns nil if the seat was dropped.
func (s *seat) beginChange() *change {
	for {
		c, ours := s.tryBegin()
		if ours || c == nil {
			return c
		}
		<-c.ended
	}
}

// tryBegin begins a change, or returns the one under way.
func (s *seat) tryBegin() (c *change, ours bool) {
	r := s.recorded()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kind == changing || r.kind == dropped {
		return r.change, false
	}
	c = &change{record: r, before: r.seatState, began: time.Now(), ended: make(chan struct{})}
	r.seatState = seatState{kind: changing, change: c}
	s.serving.Store(nil)
	return c, true
}

// settle ends a change. Callers who wait for it find what the seat holds now.
func (s *seat) settle(c *change, after seatState) {
	c.record.mu.Lock()
	c.record.seatState = after
	if after.kind == serving {
		s.serving.Store(after.instance)
	}
	c.record.mu.Unlock()
	close(c.ended)
}

// enter returns the instance that serves, entered, nil if there is none that can be entered. s may
// be nil.
func (s *seat) enter() *instance {
	if s != nil {
		if i := s.serving.Load(); i != nil && i.enter() {
			return i
		}
	}
	return nil
}

// strategy returns the name of the strategy that issues, "" if none does.
func (s *seat) strategy() string {
	if i := s.serving.Load(); i != nil {
		return i.kind
	}
	return ""
}

// health returns why nothing can be issued, if that makes the node unready.
func (c seatState) health() *seqd.Error {
	if err := c.trouble(); err != nil && !c.bearable(err) {
		return err
	}
	return nil
}

// degraded returns why the biz type issues, but not as it should; or why it does not, if that does
// not make the node unready.
func (c seatState) degraded() *seqd.Error {
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
func (c seatState) bearable(err *seqd.Error) bool {
	return c.kind == serving && (err.Code == seqd.CodeStoreFailedOver || c.instance.onlyDegrades && err.Code == seqd.CodeConflict)
}

// trouble returns why nothing can be issued. A biz type that was removed or disabled is no trouble;
// neither is a change, unless callers give up waiting for it.
func (c seatState) trouble() *seqd.Error {
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
func (c seatState) disabled() bool { return c.kind == refusing && c.why.Code == seqd.CodeDisabled }

// exists reports whether there is a biz type, as far as callers can tell.
func (c seatState) exists() bool { return c.kind != vacant && c.kind != dropped }
