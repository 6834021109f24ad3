package segment

import (
	"errors"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// failedOpening is why a period could not be opened, and when that was tried.
type failedOpening struct {
	err   *seqd.Error
	tried time.Time
}

// openFailed notes why a period could not begin. mu is held.
func (s *Periodic) openFailed(p seqd.Period, err *seqd.Error) {
	if before, known := s.failed[p]; !known || before.err.Error() != err.Error() {
		s.env.Log.Error("the period cannot begin", "bizType", s.bizType.Name, "period", p, "error", err)
	}
	if s.failed == nil {
		s.failed = make(map[seqd.Period]failedOpening)
	}
	s.failed[p] = failedOpening{err, time.Now()}
	if canPass(err) && !s.again {
		s.again = s.startLocked(s.reopen)
	}
}

// reopen tries again to open the periods that failed, as long as they are needed: a node that was
// taken out of rotation because it could not issue gets no requests, and must find out by itself
// that it can again.
func (s *Periodic) reopen() {
	for pause := openPause; counters.Pause(s.running, pause); pause = min(2*pause, cursor.LastPause) {
		due := s.due()
		if len(due) == 0 {
			return
		}
		var opening sync.WaitGroup
		for _, p := range due {
			// otherwise somebody tried just now, or the strategy is closing
			if s.mayOpen(p) == nil {
				opening.Go(func() {
					if e, err := s.set.Await(s.running, counters.Name{Period: p}); err == nil {
						e.Release()
					}
				})
			}
		}
		opening.Wait()
	}
}

// due returns the periods that failed and are still needed: the present one, and the next one while
// it is prepared. It forgets the others. If there is none, reopen ends.
func (s *Periodic) due() (due []seqd.Period) {
	now := s.env.Now()
	present, soon := s.calendar.Now(now), s.calendar.Now(now.Add(ahead))
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, f := range s.failed {
		switch {
		case p != present && p != soon:
			delete(s.failed, p)
		case canPass(f.err):
			due = append(due, p)
		}
	}
	s.again = len(due) > 0
	return due
}

// canPass reports whether the reason why a period cannot begin may pass while it is the present
// one.
func canPass(err *seqd.Error) bool {
	return err.Code != seqd.CodeConflict && !errors.Is(err, counters.ErrPurged)
}
