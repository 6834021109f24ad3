package segment

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// closedBy is added to next of a block when the block is closed: far above any last number, far
// below overflow.
const closedBy = int64(1) << 61

// block is one range that callers take numbers from. Taking is one atomic add, for callers and for
// close alike, so each number belongs to exactly one of them.
type block struct {
	// next is the next number that nobody has. It may run past last: callers do not get what is
	// beyond.
	next atomic.Int64
	// The padding keeps the fields every caller reads out of the cache line that every caller
	// writes.
	_ [56]byte
	// first and last are the ends of the range; mark is the number whose taking opens buffer 2.
	first, last, mark int64
}

func newBlock(r persist.Range, threshold float64) *block {
	b := &block{first: r.First, last: r.Last, mark: r.First + max(0, int64(float64(r.Size())*threshold)-1)}
	b.mark = min(b.mark, b.last)
	b.next.Store(r.First)
	return b
}

// spent is buffer 1 of every buffer that never held a number.
var spent = &block{first: math.MaxInt64, last: -1, mark: -1}

// fetcher gets ranges for a buffer.
type fetcher interface {
	// fetch returns a range of at least want numbers, if the counter has them, all above floor. It
	// bounds its own time. It cannot be cancelled, because a range whose fate is unknown is lost.
	fetch(want, floor int64, why cursor.Reason) (persist.Range, error)
	// report reports a rare event.
	report(seqd.Event)
}

// buffer is the local double buffer of one counter (the "local buffer" of the design).
//
// Promises, for concurrent callers:
//   - Every number of every installed range goes to one caller or to close, or it is skipped
//     because its caller gave up.
//   - A call that begins after another ended gets larger numbers: ranges are installed in ascending
//     order, and buffer 2 becomes buffer 1 only when buffer 1 has no number left (batches included:
//     they take the rest of 1 first).
//   - While there are numbers, a call is one atomic add. When threshold of buffer 1 is used, buffer
//     2 is filled in the background by one goroutine.
//
// An idle buffer has no goroutine, and no range before the first call.
type buffer struct {
	current   atomic.Pointer[block] // buffer 1
	threshold float64
	wait      time.Duration // how long a caller waits when both buffers are empty
	source    fetcher

	mu        lockorder.Inner // guards what follows
	second    *block          // buffer 2, nil while it is empty
	refilling chan struct{}   // closed when the refill under way ends; nil when there is none
	began     time.Time       // when that refill began
	// closed and replaced when waiting callers must look again; nil while nobody waits
	changed chan struct{}
	wanted  int64 // numbers that waiting callers still need
	highest int64 // last number of the highest range ever installed
	// the highest number taken from blocks before current, and from current too once the buffer is
	// closed; 0 for none
	before  int64
	failure error         // why the last fetch failed, nil after a good one
	closing chan struct{} // closed by close, to end the pauses of a refill
	closed  bool          // no refill begins any more
	ended   error         // what callers get once it is closed and empty
	drained bool          // what was left has been taken out; nothing may come in
}

func (b *buffer) init(source fetcher, threshold float64, wait time.Duration, floor int64) {
	b.source, b.threshold, b.wait, b.highest = source, threshold, wait, floor
	b.current.Store(spent)
}

// take adds n numbers to seq, 1 ≤ n ≤ seqd.MaxCount.
func (b *buffer) take(ctx context.Context, n int, seq *seqd.Sequence) error {
	if uint(n)-1 >= seqd.MaxCount {
		return checkCount(n)
	}
	blk, first, ok := b.takeFast(n, seq)
	if ok {
		return nil
	}
	before := seq.Len()
	p := patience{wait: b.wait}
	err := b.takeSlow(ctx, blk, first, n, seq, &p)
	if taken := seq.Len() - before; err != nil && taken > 0 {
		b.source.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: int64(taken), Err: err})
	}
	return err
}

// patience is how long a caller waits. It covers everything that one call waits for.
type patience struct {
	wait  time.Duration
	until time.Time // zero before the caller first waits
}

// timer returns a timer for the end of the patience, which it starts if need be.
func (p *patience) timer() *time.Timer {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.wait)
	}
	return time.NewTimer(time.Until(p.until))
}

// takeWith is take for a caller that may already have waited. After an error, the numbers that it
// added belong to the caller.
func (b *buffer) takeWith(ctx context.Context, n int, seq *seqd.Sequence, p *patience) error {
	blk, first, ok := b.takeFast(n, seq)
	if ok {
		return nil
	}
	return b.takeSlow(ctx, blk, first, n, seq, p)
}

// takeFast adds n numbers of buffer 1 to seq. If it does not hold as many, takeSlow continues with
// what takeFast returns.
func (b *buffer) takeFast(n int, seq *seqd.Sequence) (blk *block, first int64, ok bool) {
	blk = b.current.Load()
	end := blk.next.Add(int64(n))
	first = end - int64(n)
	if end-1 > blk.last {
		return blk, first, false
	}
	seq.Add(first, n, 1)
	if end > blk.mark && first <= blk.mark {
		b.openSecond()
	}
	return blk, first, true
}

// takeRest keeps what an add that began at first got of the block, and returns how many numbers are
// still missing of n.
func (blk *block) takeRest(first int64, n int, seq *seqd.Sequence) (missing int) {
	got := min(int64(n), blk.last-first+1)
	if got <= 0 {
		return n
	}
	seq.Add(first, int(got), 1)
	return n - int(got)
}

// takeSlow continues after an add ran past the end of blk. It takes from as many blocks as the call
// needs, and waits if there is none.
func (b *buffer) takeSlow(ctx context.Context, blk *block, first int64, n int, seq *seqd.Sequence, p *patience) error {
	missing := blk.takeRest(first, n, seq)
	var late *time.Timer
	for missing > 0 {
		next, wake, err := b.advance(blk, int64(missing))
		if err != nil {
			return err
		}
		if next == nil {
			if late == nil {
				late = p.timer()
				defer late.Stop()
			}
			select {
			case <-wake:
				b.leave(missing)
				continue
			case <-late.C:
				err = b.outOfPatience()
			case <-ctx.Done():
				err = seqd.AsError(ctx.Err())
			}
			b.leave(missing)
			return err
		}
		blk = next
		end := blk.next.Add(int64(missing))
		first := end - int64(missing)
		if end > blk.mark && first <= blk.mark {
			b.openSecond()
		}
		missing = blk.takeRest(first, missing, seq)
	}
	return nil
}

// advance returns the block after used, which has no numbers left. If there is none, it registers
// the caller's need, starts a refill and returns a channel that is closed when the caller must look
// again.
func (b *buffer) advance(used *block, missing int64) (next *block, wake <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if current := b.current.Load(); current != used {
		return current, nil, nil
	}
	if b.second != nil {
		next, b.second, b.before = b.second, nil, used.last
		b.current.Store(next)
		return next, nil, nil
	}
	if b.closed {
		return nil, nil, b.ended
	}
	if cursor.IsFinal(b.failure) {
		return nil, nil, storeError(b.failure)
	}
	b.wanted += missing
	b.startRefill()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return nil, b.changed, nil
}

// leave removes the need that advance registered.
func (b *buffer) leave(missing int) {
	b.mu.Lock()
	b.wanted -= int64(missing)
	b.mu.Unlock()
}

func (b *buffer) outOfPatience() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure != nil {
		return storeError(b.failure)
	}
	return b.late()
}

// openSecond fills buffer 2 in the background unless it is full or being filled.
func (b *buffer) openSecond() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.second == nil && !b.closed && !cursor.IsFinal(b.failure) {
		b.startRefill()
	}
}

// prepare fills a buffer that nobody has taken from.
func (b *buffer) prepare() {
	if b.current.Load() == spent {
		b.openSecond()
	}
}

// startRefill starts the one goroutine that refills. mu is held.
func (b *buffer) startRefill() {
	if b.refilling != nil {
		return
	}
	b.refilling, b.closing, b.began = make(chan struct{}), make(chan struct{}), time.Now()
	go b.refill(b.refilling, b.closing)
}

// refill fetches until buffer 2 is full, the counter is at its end, or the buffer is closed. A
// failed attempt is repeated even if no caller waits: a node that was taken out of rotation because
// it could not issue must find out by itself that it can again.
func (b *buffer) refill(done, closing chan struct{}) {
	why := cursor.Filling
	if b.current.Load() != spent {
		why = cursor.Consumed
	}
	for pause := cursor.FirstPause; ; pause = min(2*pause, cursor.LastPause) {
		b.mu.Lock()
		want, floor := b.wanted, b.highest
		b.mu.Unlock()
		r, err := b.source.fetch(want, floor, why)
		if b.install(r, err, done) {
			return
		}
		select {
		case <-closing:
			b.mu.Lock()
			b.finish(done)
			b.mu.Unlock()
			return
		case <-time.After(pause):
		}
		why = cursor.Retrying
	}
}

// install makes a fetched range buffer 2, or notes why there is none, and reports whether the
// refill is over.
func (b *buffer) install(r persist.Range, err error, done chan struct{}) (over bool) {
	var events []seqd.Event
	defer func() { // after unlocking: an observer may call back
		for _, e := range events {
			b.source.report(e)
		}
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && (r.First <= b.highest || r.Validate() != nil) {
		// The store is behind what this process has seen. These numbers may have been issued
		// already, so they are not issued.
		err = errBehind
		events = []seqd.Event{{Kind: seqd.EventOutOfOrder, Numbers: r.Size()}, {Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: err}}
	}
	b.failure = err
	switch {
	case err == nil && b.drained:
		events = []seqd.Event{{Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: b.ended}}
	case err == nil:
		b.second, b.highest = newBlock(r, b.threshold), r.Last
	}
	if over = err == nil || cursor.IsExhausted(err) || b.closed; over {
		b.finish(done)
	} else if cursor.IsFinal(err) {
		b.wake() // callers are refused until the counter is back
	}
	return over
}

// finish ends a refill. mu is held.
func (b *buffer) finish(done chan struct{}) {
	b.refilling = nil
	close(done)
	b.wake()
}

// wake makes waiting callers look again. mu is held.
func (b *buffer) wake() {
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// health returns why the next caller would wait in vain, nil if it would not. An exhausted counter
// is healthy.
func (b *buffer) health() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if blk := b.current.Load(); blk.next.Load() <= blk.last || b.second != nil || cursor.IsExhausted(b.failure) {
		return nil
	}
	if b.failure != nil {
		return storeError(b.failure)
	}
	if b.refilling != nil && time.Since(b.began) > b.wait+cursor.Hangs {
		return b.late()
	}
	return nil
}

// late returns the error for a caller whose patience ended.
func (b *buffer) late() error {
	return &seqd.Error{Code: seqd.CodeTimeout, Detail: "no numbers came from the store within " + b.wait.String(), RetryAfter: time.Second}
}

// close ends issuing, waits for a refill under way until ctx ends, and returns the ranges that
// nobody got, the highest first. A refill that does not end in time is abandoned with its range.
// Callers that find nothing get the error ended.
func (b *buffer) close(ctx context.Context, ended error) []persist.Range {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed, b.ended = true, ended
	refilling := b.refilling
	if refilling != nil {
		close(b.closing)
	}
	b.wake()
	b.mu.Unlock()
	if refilling != nil {
		select {
		case <-refilling:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var rest []persist.Range
	for _, blk := range []*block{b.second, b.current.Load()} {
		if blk == nil || blk == spent {
			continue
		}
		// The same atomic step that callers use, so no caller gets these numbers.
		first := blk.next.Add(closedBy) - closedBy
		if first <= blk.last {
			rest = append(rest, persist.Range{First: first, Last: blk.last})
		}
		if blk != b.second && first > blk.first {
			b.before = min(first-1, blk.last)
		}
	}
	b.second, b.drained = nil, true
	return rest
}

// adopt gives a buffer that nobody uses yet its first range, or its second, which must be above the
// first. Both may be below the buffer's floor, which is what others have issued.
func (b *buffer) adopt(r persist.Range) {
	if b.current.Load() == spent {
		b.current.Store(newBlock(r, b.threshold))
	} else {
		b.second = newBlock(r, b.threshold)
	}
	b.highest = max(b.highest, r.Last)
}

// issued returns the highest number that callers took out of the buffer, 0 for none.
func (b *buffer) issued() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	blk := b.current.Load()
	if next := blk.next.Load(); !b.drained && next > blk.first {
		return min(next-1, blk.last)
	}
	return b.before
}

// top returns the last number of the highest range the buffer ever held, or its floor.
func (b *buffer) top() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.highest
}
