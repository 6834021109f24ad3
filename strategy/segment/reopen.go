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

// openFailed notes why a period could not begin.
func (f *family) openFailed(p seqd.Period, err *seqd.Error) {
	f.mu.Lock()
	before, known := f.failed[p]
	if f.failed == nil {
		f.failed = make(map[seqd.Period]failedOpening)
	}
	f.failed[p] = failedOpening{err, time.Now()}
	begins := canPass(err) && !f.again
	f.again = f.again || begins
	f.mu.Unlock()
	if !known || before.err.Error() != err.Error() {
		f.Env.Log.Error("the period cannot begin", "bizType", f.BizType.Name, "period", p, "error", err)
	}
	if begins {
		f.Go(f.reopen)
	}
}

// reopen tries again to open the periods that failed, as long as they are needed: a node that was
// taken out of rotation because it could not issue gets no requests, and must find out by itself
// that it can again.
func (f *family) reopen() {
	for pause := openPause; counters.Pause(f.Running, pause); pause = min(2*pause, cursor.LastPause) {
		due := f.due()
		if len(due) == 0 {
			return
		}
		var opening sync.WaitGroup
		for _, p := range due {
			// otherwise somebody tried just now, or the strategy is closing
			if f.mayOpen(p) == nil {
				opening.Go(func() {
					if e, err := f.Await(f.Running, counters.Name{Period: p}); err == nil {
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
func (f *family) due() (due []seqd.Period) {
	now := f.Env.Now()
	present, soon := f.Calendar.Now(now), f.Calendar.Now(now.Add(ahead))
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, last := range f.failed {
		switch {
		case p != present && p != soon:
			delete(f.failed, p)
		case canPass(last.err):
			due = append(due, p)
		}
	}
	f.again = len(due) > 0
	return due
}

// canPass reports whether the reason why a period cannot begin may pass while it is the present
// one.
func canPass(err *seqd.Error) bool {
	return err.Code != seqd.CodeConflict && !errors.Is(err, counters.ErrPurged)
}
