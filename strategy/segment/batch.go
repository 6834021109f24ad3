package segment

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sharedspan"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A caller joins the batch that is forming. One take at a time is under way, and the batch that
// forms meanwhile is sent when it is back. So a take is always sent after all its callers arrived,
// which makes the order hold in real time, and an idle system adds no delay.
//
// If a take does not bring what its batch needs, callers keep what they got and wait while the
// machine mends the cursor; then they join again.

// batch is callers that share one take.
type batch struct {
	// numbers of all callers so far; guarded by Shared.mu until the take is sent
	want int64
	span sharedspan.Span // guarded likewise
	// done is closed when the take is back; runs, ascending, is then what it brought.
	done chan struct{}
	runs []persist.Range
	back bool   // the take is back; guarded by Shared.mu
	gone []need // callers that left before it was; guarded by Shared.mu
}

// need is the part of a batch that belongs to a caller who has left.
type need struct {
	offset, n int64
	err       error // why it left
}

// lost is how many numbers a take brought for a caller who has left.
func (b *batch) lost(left need) int64 {
	var brought int64
	for _, r := range b.runs {
		brought += r.Size()
	}
	return max(0, min(left.n, brought-left.offset))
}

// await waits for the take, in a caller that does not send it itself. A caller with a deadline
// returns when it expires. A caller that can only be cancelled waits until the take is back, which
// the time-out of Redis bounds, because a select would double the cost of joining. The caller that
// sends the take also waits for it, even with a deadline, because others need its result.
func (b *batch) await(ctx context.Context) error {
	if _, limited := ctx.Deadline(); !limited {
		<-b.done
		return ctx.Err()
	}
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// share adds the numbers of the caller whose need begins at offset of the batch to seq.
func (b *batch) share(offset, n int64, seq *seqd.Sequence) {
	for _, r := range b.runs {
		size := r.Size()
		if offset >= size {
			offset -= size
			continue
		}
		part := min(n, size-offset)
		seq.Add(r.First+offset, int(part), 1)
		if n -= part; n == 0 {
			return
		}
		offset = 0
	}
}

// forsake skips the numbers of a caller that has left its batch. While the take is under way it is
// not known whether there will be any; then deliver skips them.
func (s *Shared) forsake(b *batch, left need) {
	s.mu.Lock()
	if !b.back {
		b.gone = append(b.gone, left)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.skipped(b.lost(left), left.err)
}

// takeOn takes for batch after batch until none is forming.
func (s *Shared) takeOn() {
	for s.takeOnce() {
	}
}

// takeOnce sends the forming batch's take, hands out what it brings, and reports whether another
// batch has formed.
func (s *Shared) takeOnce() (more bool) {
	// Let callers that are ready to run join. Under load this halves the calls per number. An idle
	// system has no such callers, so it loses no time.
	runtime.Gosched()
	s.mu.Lock()
	b := s.forming
	s.forming = nil
	sent, taken, err := time.Now(), rediscursor.Taken{}, errPanic
	// also if the client panics: others wait for the batch
	defer func() { more = s.deliver(b, sent, taken, err) }()
	take, wait := s.machine.Send(sent, b.want)
	for wait {
		s.awaitResume(sent)
		sent = time.Now()
		take, wait = s.machine.Send(sent, b.want)
	}
	s.mu.Unlock()
	taken, err = s.cursor.Take(b.span.Context(), take)
	return more
}

// errPanic is the error of a take that panicked.
var errPanic = errors.New("the call to Redis panicked")

// awaitResume waits until the machine lets the take be sent. mu is held, and released meanwhile.
func (s *Shared) awaitResume(now time.Time) {
	resumed := make(chan struct{})
	s.resumed = resumed
	then := s.execute(now)
	s.mu.Unlock()
	run(then)
	<-resumed
	s.mu.Lock()
}

// deliver hands what a take brought to its batch.
func (s *Shared) deliver(b *batch, sent time.Time, taken rediscursor.Taken, err error) (more bool) {
	now := time.Now()
	s.mu.Lock()
	b.runs, b.back = s.machine.Took(now, sent, b.want, taken, err).Runs, true
	if s.machine.Mode() != cursor.Online && s.forming != nil {
		close(s.forming.done) // they wait with the others
		s.forming = nil
	}
	if more = s.forming != nil; !more {
		defer s.work.Done()
	}
	s.taking = more
	gone, then := b.gone, s.execute(now)
	s.mu.Unlock()
	close(b.done) // first, so that callers do not wait for observers
	for _, left := range gone {
		s.skipped(b.lost(left), left.err)
	}
	run(then)
	return more
}
