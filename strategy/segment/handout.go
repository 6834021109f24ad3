package segment

import (
	"context"
	"errors"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// beside is the ranges of one counter that callers issue from later ([seqd.OneRange]). They leave
// the store beside those of the buffer or cursor: the epoch stays as it is, no step is recorded, and
// the guard does not count their numbers as issued. So they change nothing for other callers, except
// that ranges may no longer be next to each other.
type beside struct {
	// highest is the last number of the highest range that was handed out. A store that is below it
	// was restored.
	highest int64
	closed  bool
	told    bool          // the next strategy may know highest already, so it must not grow
	under   int32         // hand-outs that are under way
	idle    chan struct{} // closed when the last of them ends; nil while nobody waits
}

// besides returns the highest number of a range that this process has handed out, 0 for none.
func (s *ranges) besides() int64 {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	return s.beside.highest
}

// read reads the counter, and returns with it the highest number that was handed out by then. Ranges
// that were handed out while the counter was being read count as read, so that they do not look like
// numbers that a restored store has lost.
func (s *ranges) read(ctx context.Context) (counter persist.Counter, besides int64, err error) {
	before := s.besides()
	counter, err = s.env.Store.Counters().Read(ctx, s.name)
	besides = s.besides()
	if counter.Max >= before {
		counter.Max = max(counter.Max, besides)
	}
	return counter, besides, err
}

// inheritBeside takes over the highest number that a predecessor has handed out.
func (s *ranges) inheritBeside(k known) {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	s.beside.highest = max(s.beside.highest, k.beside)
}

// handOut adds a range of n numbers to seq, or of the present step if n is 0. seen is the highest
// number that this process has seen of those that are not handed out.
//
// Like a refill it is not cancelled, because a range whose fate is unknown is lost.
func (s *ranges) handOut(ctx context.Context, n, seen int64, seq *seqd.Sequence) error {
	if n < 0 || n > seqd.MaxCount {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from 0 to %d", n, seqd.MaxCount)
	}
	if err := ctx.Err(); err != nil {
		return seqd.AsError(err)
	}
	if !s.beginHandOut() {
		return errStopping
	}
	defer s.endHandOut()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchDeadline)
	defer cancel()
	r, err := s.allocateBeside(ctx, n, seen)
	if refused, ok := errors.AsType[*noRange](err); ok { // says nothing about the health of the store
		return refused.why
	}
	if err != nil {
		// The store does not count as away: nobody tries again, so nobody would find out that it is
		// back.
		s.report(seqd.Event{Kind: seqd.EventRefillFailed, Err: err})
		return storeError(err)
	}
	s.note(r, nil)
	if !s.holds(r) {
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: errStopping})
		return errStopping
	}
	seq.Add(r.First, int(r.Size()), 1)
	return nil
}

// holds notes that a caller is about to get a range. It returns false if that is too late: the
// next strategy would not know of the range.
func (s *ranges) holds(r persist.Range) bool {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	if s.beside.told {
		return false
	}
	s.beside.highest = max(s.beside.highest, r.Last)
	return true
}

// allocateBeside takes exactly n numbers from the store, or the present step if n is 0, all above
// what this process has seen (invariant U1).
func (s *ranges) allocateBeside(ctx context.Context, n, seen int64) (persist.Range, error) {
	counters := s.env.Store.Counters()
	for {
		counter, besides, err := s.read(ctx)
		if err != nil {
			return persist.Range{}, err
		}
		floor := max(seen, besides)
		req := s.settings.withGaps(persist.Request{BizTag: s.name, Floor: floor, To: persist.Beside, Size: n}, counter.Step)
		if n == 0 {
			req.Size = min(s.settings.step(counter.Step, 0, 0), seqd.MaxCount)
		}
		base := s.beginsAt(counter, req)
		if left := s.last() - base; left < req.Size {
			return persist.Range{}, refuseRange(seqd.CodeExhausted, "%d numbers are left, fewer than the range of %d", max(0, left), req.Size)
		}
		if gap := s.settings.gap(counter.Step); req.Size > gap && s.env.Store.Lossy() {
			return persist.Range{}, refuseRange(seqd.CodeInvalidCount,
				"a range of %d numbers is more than the gap of %d above which they continue if a failover of the store loses it: "+
					"ask for fewer, or set segment.restoreGap to at least as many", req.Size, gap)
		}
		r, err := counters.Allocate(ctx, req)
		if errors.Is(err, persist.ErrExhausted) && ctx.Err() == nil {
			continue // another node took some of what was left: read again
		}
		if err == nil {
			r, err = s.confirm(ctx, r)
		}
		if err == nil && r.First == base+1 { // otherwise it was not the counter as it was read
			s.tellGap(counter, req, r.First)
		}
		return r, err
	}
}

// noRange is why there is no such range.
type noRange struct{ why *seqd.Error }

// Error implements [error].
func (e *noRange) Error() string { return e.why.Error() }

func refuseRange(code seqd.Code, format string, args ...any) error {
	return &noRange{seqd.Errorf(code, format, args...)}
}

// beginHandOut notes that a range is being handed out. It returns false after endHandOuts.
func (s *ranges) beginHandOut() bool {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	if s.beside.closed {
		return false
	}
	s.beside.under++
	return true
}

func (s *ranges) endHandOut() {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	if s.beside.under--; s.beside.under == 0 && s.beside.idle != nil {
		close(s.beside.idle) // once: no further one begins
	}
}

// endHandOuts refuses further hand-outs and waits until the others have ended. So the next strategy
// inherits the floor that they leave. If ctx ends before, they hand out nothing.
func (s *ranges) endHandOuts(ctx context.Context) {
	s.noteMu.Lock()
	s.beside.closed = true
	if s.beside.under == 0 {
		s.noteMu.Unlock()
		return
	}
	if s.beside.idle == nil {
		s.beside.idle = make(chan struct{})
	}
	idle := s.beside.idle
	s.noteMu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
		s.noteMu.Lock()
		defer s.noteMu.Unlock()
		s.beside.told = true
	}
}
