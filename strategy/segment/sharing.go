package segment

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/sharedspan"
	"github.com/seqd/seqd/persist"
)

// A caller joins the batch that is forming. One take at a time is under way. When it is back, the
// batch that has formed meanwhile is sent. So a take is always sent after all its callers arrived:
// that is why a call that starts after another ended gets larger numbers (S3). An idle system adds
// no delay.
//
// If a take does not bring what its batch needs, callers keep what they got and wait until takes
// may be sent again; then they join again.

// sharing lets the callers of one counter share takes.
type sharing struct {
	taker taker
	work  sync.WaitGroup // goroutines; added to under mu and before Close, or by one of them

	mu      lockorder.Outer // guards what follows, and the taker's state
	forming *batch          // callers since the last take was sent; nil while there are none
	taking  bool            // a take is under way
	woken   chan struct{}   // closed when waiting callers shall look again; nil while none waits
	// stopping is closed when the source stops; nil until something runs that this cancels.
	stopping chan struct{}
}

// taker sends takes. [shared] sends them to the cursor in Redis, [stored] to the store. Another way
// to take numbers is another taker.
type taker interface {
	// skipped reports numbers that were taken and that nobody gets.
	skipped(n int64, why error)
	// waited reports how long the first caller of a batch had waited when its take was sent. mu is not
	// held.
	waited(d time.Duration)
	// admit reports whether a caller who lacks n numbers may take part in the next take. If not, it
	// returns a channel to wait for, or the refusal, or neither: then the caller tries another way.
	// mu is held.
	admit(n int64) (wake <-chan struct{}, err error, ok bool)
	// send sends the take of a batch, delivers what it brings, and reports whether another batch
	// has formed. mu is held, and send releases it.
	send(b *batch) (more bool)
	// gone notes that a caller who was not admitted waits for n numbers no longer, and returns the
	// refusal of a caller whose patience ended. mu is held.
	gone(n int64, late bool) error
}

// batch is callers that share one take.
type batch struct {
	// numbers of all callers so far; guarded by sharing.mu until the take is sent
	want int64
	span sharedspan.Span // guarded likewise
	// began is when its first caller joined, and sent when its take was sent, zero until then.
	began, sent time.Time
	// done is closed when the take is back; runs, ascending, is then what it brought.
	done chan struct{}
	runs []persist.Range
	back bool   // the take is back; guarded by sharing.mu
	gone []need // callers that left before it was; guarded by sharing.mu
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
// the time-out of Redis or of the store bounds, because a select would double the cost of joining.
// The caller that sends the take also waits for it, even with a deadline, because others need its
// result.
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

// join takes part in the next take and adds the caller's numbers to seq. A caller that is not
// admitted is refused, or waits if it must. Unless join returns an error, the caller then looks
// again how many numbers it lacks.
func (s *sharing) join(ctx context.Context, n int64, seq *seqd.Sequence, p *patience) error {
	span := trace.SpanFromContext(ctx)
	s.mu.Lock()
	if wake, err, ok := s.taker.admit(n); !ok {
		s.mu.Unlock()
		if wake == nil {
			return err
		}
		return s.await(ctx, wake, n, p)
	}
	if s.forming == nil {
		s.forming = &batch{began: time.Now(), done: make(chan struct{})}
	}
	b, offset, leader := s.forming, s.forming.want, !s.taking
	b.want += n
	b.span.Join(span)
	if leader {
		s.work.Add(1) // Close waits for the take
	}
	s.taking = true
	s.mu.Unlock()
	if leader {
		// In the caller's own goroutine: an idle system pays for no switch between goroutines. It
		// stays until the take is back, past its own deadline if need be.
		if s.takeOnce() {
			go s.takeOn()
		}
	} else if err := b.await(ctx); err != nil {
		s.forsake(b, need{offset, n, err})
		return seqd.AsError(err)
	}
	b.share(offset, n, seq)
	return nil
}

// await waits until callers may take again, or a caller who lacks n numbers has no patience left.
func (s *sharing) await(ctx context.Context, wake <-chan struct{}, n int64, p *patience) error {
	late := p.timer()
	defer late.Stop()
	var err error
	isLate := false
	select {
	case <-wake:
	case <-late.C:
		isLate = true
	case <-ctx.Done():
		err = seqd.AsError(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.taker.gone(n, isLate); refusal != nil {
		return refusal
	}
	return err
}

// toWake returns the channel that wake closes. mu is held.
func (s *sharing) toWake() <-chan struct{} {
	if s.woken == nil {
		s.woken = make(chan struct{})
	}
	return s.woken
}

// wake returns the function that wakes the callers who wait now, nil if there are none. mu is held.
func (s *sharing) wake() (then func()) {
	woken := s.woken
	if woken == nil {
		return nil
	}
	s.woken = nil
	return func() { close(woken) }
}

// forsake skips the numbers of a caller that has left its batch. While the take is under way it is
// not known whether there will be any; then deliver skips them.
func (s *sharing) forsake(b *batch, left need) {
	s.mu.Lock()
	if !b.back {
		b.gone = append(b.gone, left)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	s.taker.skipped(b.lost(left), left.err)
}

// takeOn takes for batch after batch until none is forming.
func (s *sharing) takeOn() {
	for s.takeOnce() {
	}
}

// takeOnce sends the forming batch's take, hands out what it brings, and reports whether another
// batch has formed.
func (s *sharing) takeOnce() (more bool) {
	// Let callers that are ready to run join. Under load this halves the calls per number. An idle
	// system has no such callers, so it loses no time.
	runtime.Gosched()
	s.mu.Lock()
	b := s.forming
	if !sabotage.Off(sabotage.TakeAfterCallers) {
		s.forming = nil
	}
	return s.taker.send(b)
}

// untilStop returns the channel that cancel closes. mu is held.
func (s *sharing) untilStop() <-chan struct{} {
	if s.stopping == nil {
		s.stopping = make(chan struct{})
	}
	return s.stopping
}

// cancel ends what runs until the source stops, once. mu is held.
func (s *sharing) cancel() {
	if s.stopping != nil {
		close(s.stopping)
	}
}

// ended waits until all work has ended, or ctx.
func ended(ctx context.Context, work *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errPanic is the error of a take that panicked.
var errPanic = errors.New("the take panicked")

// arrived notes what the take of a batch brought, and reports whether to send the batch that has
// formed meanwhile. If open is false, callers may not take now: then that batch is not sent, and
// its callers wait. mu is held.
func (s *sharing) arrived(b *batch, runs []persist.Range, open bool) (more bool) {
	b.runs, b.back = runs, true
	if s.forming == b { // only in a sabotaged build
		s.forming = nil
	}
	if !open && s.forming != nil {
		close(s.forming.done)
		s.forming = nil
	}
	s.taking = s.forming != nil
	return s.taking
}

// deliver hands what a take brought to its batch, after arrived. mu is not held.
func (s *sharing) deliver(b *batch, gone []need) {
	close(b.done) // first, so that callers do not wait for observers
	for _, left := range gone {
		s.taker.skipped(b.lost(left), left.err)
	}
	if !b.sent.IsZero() {
		s.taker.waited(b.sent.Sub(b.began))
	}
}
