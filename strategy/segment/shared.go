package segment

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sharedspan"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// cursor is what the nodes of a cluster share: [rediscursor.Cursor].
type cursor interface {
	Take(context.Context, rediscursor.Take) (rediscursor.Taken, error)
	Install(context.Context, rediscursor.Install) (rediscursor.Answer, error)
}

// Shared issues the numbers of one biz type from a cursor that all nodes of the cluster share:
// strictly increasing over all of them. It is safe for concurrent use.
//
// A caller joins the batch that is forming; one take at a time is under way, and what forms
// meanwhile is sent when it is back. So a take is always sent after all its callers arrived, which
// makes the order hold in real time, and an idle system adds no delay.
//
// When a take does not bring what its batch needs, callers keep what they got and wait while one
// goroutine mends what is wrong (see mend); then they join again. While Redis is away the node
// issues from a buffer of its own (see outage.go).
type Shared struct {
	ranges
	cursor cursor

	// local is the node's own double buffer while it issues on its own, else nil.
	local atomic.Pointer[buffer]

	mu        sync.Mutex    // guards what follows
	forming   *batch        // callers since the last take was sent; nil while there are none
	taking    bool          // a take is under way
	mending   chan struct{} // closed when waiting callers shall look again; nil while all is well
	mendBegan time.Time     // when the mending under way began
	wanted    int64         // numbers that waiting callers still need
	failure   *seqd.Error   // what the mending under way found wrong last
	refusal   *seqd.Error   // what callers get at once, nil while waiting is worth it
	failing   time.Time     // when Redis began to fail, zero while it does not
	failed    time.Time     // when a call to Redis failed last
	failures  int           // takes and installs that failed since failing
	spoiled   bool          // the last install failed: what is allocated next may be lost likewise
	// closed when the allocation of outage.spare under way ends; nil while there is none
	sparing chan struct{}
	// closed when the background refill under way ends; nil while there is none
	refilling chan struct{}
	refillAt  time.Time // when that refill began
	// the guard: the highest number this process has issued, or floor where that is more
	highest int64
	// numbers up to here are skipped without alarm: below Start, or issued otherwise than from the
	// cursor
	floor      int64
	belowFloor bool // some were
	// the size of the last segment that this node fetched, 0 before the first
	step     float32
	heritage known // from the strategy of before
	ceil     int64 // the highest number that is known to have been in the cursor
	// what the next take would begin with, as last seen; 0 while that is not known, or nothing was
	// there
	next int64
	// the highest number that is known to exist: in the cursor, issued or allocated
	seen int64
	// when the last take that brought numbers was sent, or a look of checkRedis that was answered
	served  time.Time
	checked time.Time // when checkRedis began last
	// what its look found wrong, nil for nothing or when a take has brought numbers since
	unwell   *seqd.Error
	watching bool // watchStore runs
	belief   belief
	outage   outage
	stopping chan struct{} // closed by Close
	closed   bool
	over     bool           // Close has waited for what was under way
	work     sync.WaitGroup // goroutines; added to under mu and before closed
}

var (
	_ seqd.Strategy         = (*Shared)(nil)
	_ seqd.HealthReporter   = (*Shared)(nil)
	_ seqd.DegradedReporter = (*Shared)(nil)
)

// NewShared returns the strategy of one biz type over a cursor. The biz type's Settings must be of
// type *Settings. It touches nothing.
func NewShared(env strategy.Env, bizType seqd.BizType, cursor cursor) (*Shared, error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return nil, fmt.Errorf("biz type %s: settings of type %T are not *segment.Settings", bizType.Name, bizType.Settings)
	}
	s := &Shared{
		ranges:   ranges{env: env, name: bizType.Name, bizType: bizType.Name, settings: settings, own: persist.Beside},
		cursor:   cursor,
		seen:     settings.Start - 1,
		highest:  settings.Start - 1,
		floor:    settings.Start - 1,
		stopping: make(chan struct{}),
	}
	s.passed = func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.highest
	}
	return s, nil
}

// Init makes sure that the counter exists, and learns which cursor counts.
func (s *Shared) Init(ctx context.Context, fresh bool) error {
	asked := time.Now()
	counter, known, err := s.begin(ctx, fresh)
	if known {
		s.mu.Lock()
		s.believe(counter.Epoch, asked)
		s.mu.Unlock()
	}
	return err
}

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

// need is the part of a batch that is a caller's who has left.
type need struct {
	offset, n int64
	err       error // why it left
}

// lost is how many numbers a take brought for one who has left.
func (b *batch) lost(left need) int64 {
	var brought int64
	for _, r := range b.runs {
		brought += r.Size()
	}
	return max(0, min(left.n, brought-left.offset))
}

// await waits, in a caller that does not send the take itself, until it is back. One that is in a
// hurry leaves on time. One that can only be cancelled stays until then, which the time-out of
// Redis bounds: a wait for two things at once costs as much as the rest of joining. So does the
// caller that sends the take, even when it is in a hurry: others wait for what it brings.
func (b *batch) await(ctx context.Context) error {
	if _, hurry := ctx.Deadline(); !hurry {
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

// Generate adds n numbers to seq, as one run or, where a range ends in between, as several
// ascending ones.
func (s *Shared) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if uint(n)-1 >= seqd.MaxCount {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from 1 to %d", n, seqd.MaxCount)
	}
	goal := seq.Len() + n
	var p patience
	var late *time.Timer
	for {
		missing := goal - seq.Len()
		if missing == 0 {
			return nil
		}
		if local := s.local.Load(); local != nil {
			err := local.takeWith(ctx, missing, seq, &p)
			if err == errLeft {
				continue
			}
			if err != nil {
				s.skipped(int64(n-missing), err) // what it took itself the buffer tells
			}
			return err
		}
		wake, err := s.join(ctx, int64(missing), seq)
		if err == nil && wake != nil {
			if late == nil {
				late = p.timer(s.settings.AcquireTimeout)
				defer late.Stop()
			}
			err = s.await(ctx, wake, late.C, int64(missing))
		}
		if err != nil {
			s.skipped(int64(n-(goal-seq.Len())), err)
			return err
		}
	}
}

// join takes part in the next take and adds what came of it to seq. While something is being mended
// it returns instead at once, with the channel to wait for.
func (s *Shared) join(ctx context.Context, n int64, seq *seqd.Sequence) (wake <-chan struct{}, err error) {
	span := trace.SpanFromContext(ctx)
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, errStopping
	case s.refusal != nil:
		err := s.refusal
		s.mu.Unlock()
		return nil, err
	case s.local.Load() != nil:
		s.mu.Unlock() // the node left the cursor just now
		return nil, nil
	case s.mending != nil:
		wake := s.mending
		s.wanted += n
		s.mu.Unlock()
		return wake, nil
	}
	if s.forming == nil {
		s.forming = &batch{done: make(chan struct{})}
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
		return nil, seqd.AsError(err)
	}
	b.share(offset, n, seq)
	return nil, nil
}

// forsake skips the numbers of a caller who has left its batch. While the take is under way nobody
// knows whether there will be any.
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

// skipped tells of numbers that were taken and that nobody gets.
func (s *Shared) skipped(n int64, why error) {
	if n > 0 {
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: n, Err: why})
	}
}

// await waits until what is wrong was mended. It ends the need that join registered.
func (s *Shared) await(ctx context.Context, wake <-chan struct{}, late <-chan time.Time, n int64) error {
	var err error
	select {
	case <-wake:
	case <-late:
		err = errLate
	case <-ctx.Done():
		err = seqd.AsError(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted -= n
	if err == errLate {
		err = s.late()
	}
	return err
}

// late is the refusal of a caller whose patience ended. mu is held.
func (s *Shared) late() error {
	if s.failure != nil {
		return s.failure
	}
	if away := s.storeAway(); away != nil {
		return refusal(away.Err)
	}
	return &seqd.Error{Code: seqd.CodeTimeout, Detail: "no numbers came within " + s.settings.AcquireTimeout.String(), RetryAfter: time.Second}
}

// takeOn takes for batch after batch until none is forming.
func (s *Shared) takeOn() {
	for s.takeOnce() {
	}
}

// takeOnce sends the forming batch's take, hands out what it brings, and reports whether another
// batch has formed.
func (s *Shared) takeOnce() (more bool) {
	// Whoever is ready to run may still join. Under load this halves the calls per number; an idle
	// system has nobody to yield to.
	runtime.Gosched()
	s.mu.Lock()
	b := s.forming
	s.forming = nil
	began, taken, err := time.Now(), rediscursor.Taken{}, errPanic
	// also when a client panics: others wait for it
	defer func() { more = s.deliver(b, began, taken, err) }()
	if s.outdated(began) {
		s.mu.Unlock()
		s.awaitAnswer()
		s.mu.Lock()
		began = time.Now()
	}
	take := s.look(b.want, s.storeSlow(began))
	if s.refilling != nil {
		take.Claim = 0 // it would keep the claim from the refill's own look, and from other nodes
	}
	s.mu.Unlock()
	taken, err = s.cursor.Take(b.span.Context(), take)
	return more
}

// errPanic is what a take comes to that panics.
var errPanic = errors.New("the call to Redis panicked")

// look is a take of n numbers, 0 only to look. mu is held.
func (s *Shared) look(n int64, useReserve bool) rediscursor.Take {
	return rediscursor.Take{
		Count: n, Threshold: s.settings.Threshold, Reserve: s.settings.ReserveSegments, UseReserve: useReserve, Claim: claimFor, Epoch: s.belief.epoch,
	}
}

// deliver hands what a take brought to its batch.
func (s *Shared) deliver(b *batch, began time.Time, taken rediscursor.Taken, err error) (more bool) {
	s.mu.Lock()
	if err == nil {
		s.seeNext(taken)
	}
	var late []persist.Range
	if s.over { // Close has returned: nothing is issued any more
		late, taken.Runs = taken.Runs, nil
	}
	got, dropped, wrong := s.guard(taken.Runs)
	told := s.belowFloor
	s.belowFloor = s.belowFloor || dropped > wrong
	floor, news := s.floor, s.belowFloor && !told
	b.runs, b.back = got, true
	var brought int64
	for _, r := range got {
		brought += r.Size()
	}
	s.outage.count(brought)
	s.seeCeil(taken.Ceil)
	look, back := &taken, false
	switch {
	case err != nil:
		s.callFailed(began)
		look = nil
	case brought > 0:
		s.failing, s.failures, s.served, s.unwell = time.Time{}, 0, began, nil
		back, s.outage.rejected = s.outage.rejected, false
		s.startStandby(began)
	}
	if taken.Low == rediscursor.WantsRefill && !taken.Stub {
		s.startRefill(&taken)
	}
	s.startRecheck(began)
	if brought < b.want {
		if dropped > 0 {
			look = nil // a take that got all it wanted does not look further
		}
		s.startMending(look)
		if err != nil {
			s.failure = redisAway(err)
		}
	}
	if (s.mending != nil || s.closed) && s.forming != nil {
		close(s.forming.done) // they wait with the others
		s.forming = nil
	}
	if more = s.forming != nil; !more {
		defer s.work.Done()
	}
	s.taking = more
	gone := b.gone
	s.mu.Unlock()
	close(b.done) // first: callers wait for their numbers, and not for who is told of others
	for _, left := range gone {
		s.skipped(b.lost(left), left.err)
	}
	for _, r := range late {
		s.drop(r, errStopping)
	}
	s.skipped(dropped-wrong, errBelow)
	if news {
		s.env.Log.Info("numbers in the cursor are skipped: start is above them, or this node has issued higher ones on its own", "bizType", s.name, "above", floor)
	}
	if wrong > 0 {
		s.alarm(wrong)
	}
	if back {
		s.redisBack()
	}
	return more
}

// callFailed counts a call to Redis, begun then, that failed although looks may work. mu is held.
func (s *Shared) callFailed(began time.Time) {
	s.redisFailing(began, began)
	s.failures++
}

// redisFailing notes that a call to Redis, begun then, failed. Redis counts as failing since that
// time, unless it has been for longer. mu is held.
func (s *Shared) redisFailing(began, since time.Time) {
	if s.failing.IsZero() || began.Sub(s.failed) > oldFailure {
		s.failing, s.failures = since, 0
	}
	s.failed = time.Now()
}

// guard keeps only numbers above every number this process has issued, and notes them as issued.
// dropped is how many were kept back, wrong how many of them nothing explains. mu is held.
func (s *Shared) guard(runs []persist.Range) (good []persist.Range, dropped, wrong int64) {
	good = runs[:0]
	for _, r := range runs {
		if r.First <= s.highest {
			low := min(r.Last, s.highest)
			dropped += low - r.First + 1
			wrong += max(0, low-max(r.First-1, s.floor))
			if r.First = low + 1; r.First > r.Last {
				continue
			}
		}
		s.highest = r.Last
		good = append(good, r)
	}
	s.see(s.highest)
	return good, dropped, wrong
}

// see notes a number that exists. mu is held.
func (s *Shared) see(n int64) { s.seen = max(s.seen, n) }

// seeCeil notes a number that was in the cursor. mu is held.
func (s *Shared) seeCeil(n int64) {
	s.ceil = max(s.ceil, n)
	s.see(n)
}

// alarm tells of numbers that the guard kept back.
func (s *Shared) alarm(dropped int64) {
	s.env.Log.Error("the cursor offered numbers that are not above all this node has issued; they are skipped", "bizType", s.name, "numbers", dropped)
	s.report(seqd.Event{Kind: seqd.EventGuard, Numbers: dropped})
}

// Health returns why the next request would be refused.
func (s *Shared) Health() error {
	if local := s.local.Load(); local != nil {
		return local.health()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refusal != nil && s.refusal.Code == seqd.CodeExhausted:
		return nil
	case s.refusal != nil:
		return s.refusal
	case s.mending != nil && time.Since(s.mendBegan) >= s.settings.AcquireTimeout:
		// Callers have been refused; without a known reason the node may only have been asked for
		// very many numbers.
		if s.failure != nil || s.storeAway() != nil || time.Since(s.mendBegan) > s.settings.AcquireTimeout+hangs {
			return s.late()
		}
	case s.settings.OnRedisDown == Reject:
		if away := s.awayUnasked(); away != nil {
			return away
		}
	}
	return nil
}

// awayUnasked returns why the next request would find Redis away, although none has yet. mu is
// held.
func (s *Shared) awayUnasked() *seqd.Error {
	if s.env.RedisAway == nil {
		return nil
	}
	since, cause := s.env.RedisAway()
	switch {
	case cause == nil:
		return nil
	case !s.served.After(since):
		return redisAway(cause)
	}
	// In a Redis Cluster the server of this counter may be well while another is not: so this
	// node's own takes tell, or a look where there are none.
	if now := time.Now(); now.Sub(s.served) > lastPause && now.Sub(s.checked) > lastPause && s.start(s.checkRedis) {
		s.checked = now
	}
	return s.unwell
}

// checkRedis looks whether Redis serves the cursor.
func (s *Shared) checkRedis() {
	began := time.Now()
	_, err := s.peek(context.Background(), false)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && began.After(s.served):
		s.served, s.unwell = began, nil
	case err != nil && began.After(s.served):
		s.unwell = redisAway(err)
	}
}

// Degraded returns why the node issues, but not as it should.
func (s *Shared) Degraded() *seqd.Error {
	s.mu.Lock()
	reason := s.outage.reason
	if reason == nil {
		reason = s.awayUnasked()
	}
	if reason == nil {
		reason = s.contested()
	}
	s.mu.Unlock()
	if reason != nil {
		return reason
	}
	return s.storeAway()
}

// prepare has the cursor looked at, which begins it where there is none and fills it where it is
// short. A take that is under way does that already, and mending must not overlap with it.
func (s *Shared) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.taking {
		s.startMending(nil)
	}
}

// watch implements [counting].
func (s *Shared) watch(alive func(context.Context) error) { s.alive = alive }

// forget removes the cursor.
func (s *Shared) forget(ctx context.Context) error {
	if c, ok := s.cursor.(interface{ Drop(context.Context) error }); ok {
		return c.Drop(ctx)
	}
	return nil
}

// Close ends issuing and gives back the numbers that only this node had. It waits for what is under
// way until ctx ends. Only the first call does anything.
func (s *Shared) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.stopping)
	if s.mending != nil {
		s.wake()
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { s.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	var rest []persist.Range
	if local := s.local.Load(); local != nil {
		rest = local.close(ctx, errStopping)
	}
	s.mu.Lock()
	s.over = true
	rest = append(rest, s.outage.hand()...)
	s.mu.Unlock()
	return s.giveBack(ctx, rest)
}

// wake lets waiting callers look again, and those that come meanwhile wait for the next time. mu is
// held.
func (s *Shared) wake() {
	close(s.mending)
	s.mending = make(chan struct{})
}

// start runs f in the background unless the strategy is closing. mu is held.
func (s *Shared) start(f func()) bool {
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}

// pause waits, and reports false when the strategy is closing.
func (s *Shared) pause(d time.Duration) bool {
	select {
	case <-s.stopping:
		return false
	case <-time.After(d):
		return true
	}
}
