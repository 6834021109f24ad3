package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// stored is the source over the store itself. Numbers increase strictly over all nodes: each take
// is one Allocate for the callers who share it, and they get exactly the numbers that it returned.
// There is no buffer, so nothing is skipped at a stop, and a crash skips what was in flight.
//
// It is a shell around a machine of package storetake, which decides when a take may be sent and
// what an error means.
type stored struct {
	*ranges
	sharing
	of *Counter // whose cursor is removed when the store takes over

	// fresh is whether the counter of a key may be new, before the first take.
	fresh atomic.Bool

	// What follows is guarded by mu.
	machine  *storetake.Machine
	heritage known           // from the previous strategy
	record   persist.Counter // the counter as it was read last
	timer    *time.Timer     // begins a read of the counter; nil while none is due
	// taken is how many numbers were taken since the counter was read to record a step. step is
	// what the next take records, 0 for nothing. measuring is whether that read is under way.
	taken, step int64
	measuring   bool
	low         bool // that few numbers are left was reported
}

// lateCallers is how many numbers a take brings for callers who arrive while it is under way, in a
// build without [sabotage.TakeAfterCallers].
const lateCallers = 100

var (
	_ source = (*stored)(nil)
	_ taker  = (*stored)(nil)
)

// fromStore returns a source over the store.
func (c *Counter) fromStore() *stored {
	policy := storetake.Refuse
	switch {
	case c.settings.Sequencer == SequencerStore:
		policy = storetake.TakeOver
	case c.cursor != nil:
		policy = storetake.Follow
	}
	s := &stored{
		ranges: &c.ranges,
		of:     c,
		machine: storetake.New(storetake.Config{
			Start: c.settings.Start, Last: c.last(), Cursor: policy, Patience: c.settings.AcquireTimeout, Without: sabotage.OfMachine(storetake.ParseRules),
		}),
	}
	s.taker = s
	return s
}

// open implements [source]. It learns who sequences the counter.
func (s *stored) open(ctx context.Context, fresh bool) error {
	counter, known, err := s.begin(ctx, fresh)
	if err == nil && !known { // another node has created it just now
		counter, err = s.env.Store.Counters().Read(ctx, s.name)
		err = storeError(err)
	}
	if err != nil {
		return err
	}
	s.hasRead(counter, nil)
	return nil
}

// openKey implements [source]. It does no I/O: the first take finds out whether there is a counter,
// and creates it.
func (s *stored) openKey(_ context.Context, fresh bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh.Store(fresh)
	s.record.Step = s.settings.Step
	s.machine.Guess()
	return nil
}

func (s *stored) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	goal, p := seq.Len()+n, patience{wait: s.settings.AcquireTimeout}
	for seq.Len() < goal {
		if err := s.join(ctx, int64(goal-seq.Len()), seq, &p); err != nil {
			return err
		}
	}
	return nil
}

// admit implements [taker].
func (s *stored) admit(int64) (wake <-chan struct{}, err error, ok bool) {
	switch mode, refusal := s.machine.Mode(), s.machine.Refusal(); {
	case mode == storetake.Online:
		return nil, nil, true
	case mode == storetake.Closing:
		return nil, errStopping, false
	case refusal != nil:
		return nil, refusal, false
	}
	return s.toWake(), nil, false
}

// gone implements [taker].
func (s *stored) gone(_ int64, late bool) error {
	if late {
		return s.machine.Late()
	}
	return nil
}

// send implements [taker].
func (s *stored) send(b *batch) (more bool) {
	want := b.want
	if sabotage.Off(sabotage.TakeAfterCallers) {
		want += lateCallers
	}
	b.sent = time.Now()
	take := s.machine.Send(b.sent, want)
	floor := max(take.Floor, s.besides())
	req := persist.Request{BizTag: s.name, Size: take.Size, Floor: floor, Step: s.step, To: take.To}
	req = s.settings.withGaps(req, s.record.Step)
	if req.Gap > 0 {
		req.Gap |= 1 // see tellBehind
	}
	s.mu.Unlock()
	var r persist.Range
	err := errPanic
	// deferred, so that it also runs if the driver panics: others wait for the batch
	defer func() { more = s.took(b, take, req, r, err) }()
	ctx := b.span.Context() // the store bounds the time of every operation
	if take.Retire {
		if err := s.of.forget(ctx); err != nil {
			s.env.Log.Warn("the cursor in Redis could not be removed before the store took over; nodes that still take from it may issue lower numbers for some seconds",
				"bizType", s.name, "error", err)
		}
	}
	r, err = s.env.Store.Counters().Allocate(ctx, req)
	if isNotFound(err) && s.fresh.Load() {
		r, err = s.createFor(ctx, req, err)
	}
	if err == nil {
		s.fresh.Store(false)
	}
	if err == nil && (take.TakesOver() || take.Floor < s.settings.Start || s.keyed()) {
		// A counter that was removed and created again has no epoch until a take gives it one. So
		// that take, or the first one of this node, can bring its numbers.
		r, err = s.confirm(ctx, r)
	}
	return more
}

// took passes what a take brought on to its batch.
func (s *stored) took(b *batch, take storetake.Take, req persist.Request, r persist.Range, err error) (more bool) {
	now := time.Now()
	s.mu.Lock()
	out := s.machine.Took(now, take, r, err)
	var runs []persist.Range
	if out.Range.First > 0 {
		runs = []persist.Range{out.Range}
	}
	if sabotage.Off(sabotage.TakeOnce) {
		if runs = append(b.runs, runs...); s.forming != nil {
			s.forming.runs = runs // the batch that has formed meanwhile gets them too
		}
	}
	if more = s.arrived(b, runs, s.machine.Mode() == storetake.Online); !more {
		defer s.work.Done()
	}
	known, gone, low := s.record, b.gone, s.nearEnd(r.Last)
	if err == nil {
		s.consumed(req)
	}
	s.setTimer(now)
	s.mu.Unlock()
	s.deliver(b, gone)
	s.tellTake(take, req, known, r, out, err)
	if low {
		s.tellLeft(r.Last)
	}
	return more
}

// tellTake logs and reports what a take brought. known is the counter as it was read before it.
func (s *stored) tellTake(take storetake.Take, req persist.Request, known persist.Counter, r persist.Range, out storetake.Outcome, err error) {
	switch {
	case errors.Is(err, persist.ErrEpoch) || cursor.IsExhausted(err):
		return // the counter is read now, and says why
	case err != nil:
		s.noteStore(err)
		s.report(seqd.Event{Kind: seqd.EventRefillFailed, Err: err})
		return
	}
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	s.keepPace(r.First-1, r.First-1, r)
	if out.Dropped.First > 0 {
		s.report(seqd.Event{Kind: seqd.EventOutOfOrder, Numbers: r.Size()})
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: errBehind})
	}
	switch {
	case take.TakesOver():
		s.env.Log.Info("the store sequences the counter now", "bizType", s.name, "first", s.shown(r.First))
		if r.First == s.beginsAt(known, req)+1 {
			s.tellGap(known, req, r.First)
		}
	case req.Gap > 0 && r.First == req.Floor+req.Gap+1:
		s.tellBehind(req, r.First)
	}
}

// nearEnd reports, once, whether few numbers are left above one. mu is held.
func (s *stored) nearEnd(highest int64) bool {
	was := s.low
	s.low = was || highest > s.last()-s.last()/100
	return s.low && !was
}

// tellBehind logs and reports that the store was restored from an older copy. That is known from
// where the take begins: exactly a gap above its floor. A take also begins there if others have
// taken exactly as many numbers as the gap since this node's last take. That is very unlikely,
// because the gap is odd and large ranges have round sizes, and the report is then wrong and does
// no harm.
func (s *stored) tellBehind(req persist.Request, next int64) {
	s.env.Log.Error("the store was restored from an older copy: its maximum was below numbers that were issued; numbers continue above them",
		"bizType", s.name, "seen", s.shown(req.Floor), "next", s.shown(next))
	s.report(seqd.Event{Kind: seqd.EventStoreBehind})
}

// consumed notes that a take succeeded. When this node has taken as many numbers as the counter's
// step, it reads the counter in the background, and its next take records the step that the rule
// gives. A take needs no step, but the gaps follow it ([Settings.gap]). mu is held.
func (s *stored) consumed(req persist.Request) {
	if req.Step > 0 {
		s.record.Step, s.step = req.Step, 0
	}
	s.taken += req.Size
	if s.taken < s.settings.step(s.record.Step, 0, 0) || s.measuring || s.machine.Mode() == storetake.Closing {
		return
	}
	s.taken, s.measuring = 0, true
	stopping := s.untilStop()
	s.work.Go(func() { s.measureStep(stopping) })
}

// measureStep reads the counter to find the step that the next take records.
func (s *stored) measureStep(stopping <-chan struct{}) {
	ctx, cancel := cancelled(fetchDeadline, stopping)
	defer cancel()
	counter, err := s.env.Store.Counters().Read(ctx, s.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measuring = false
	if err == nil {
		s.record = counter
		s.step = s.settings.step(counter.Step, counter.Timestamp, s.env.Now().UnixMilli())
	}
}

// setTimer sets the timer that reads the counter when the machine wants it. mu is held.
func (s *stored) setTimer(now time.Time) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if due := s.machine.Deadline(); !due.IsZero() {
		s.timer = time.AfterFunc(due.Sub(now), s.tick)
	}
}

// tick reads the counter if that is due.
func (s *stored) tick() {
	s.mu.Lock()
	if !s.machine.Tick(time.Now()) {
		s.mu.Unlock()
		return
	}
	s.work.Add(1) // not while closing: Close waits for it
	defer s.work.Done()
	stopping := s.untilStop()
	s.mu.Unlock()
	ctx, cancel := cancelled(fetchDeadline, stopping)
	defer cancel()
	counter, err := s.env.Store.Counters().Read(ctx, s.name)
	if err == nil {
		err = s.exists(ctx) // after the read: an empty epoch may be that of a counter that was created again
	}
	if ctx.Err() == nil || err == nil {
		s.noteStore(err)
	}
	s.hasRead(counter, err)
}

// hasRead tells the machine what a read of the counter brought, and wakes callers if they can take
// or are refused.
func (s *stored) hasRead(counter persist.Counter, err error) {
	now := time.Now()
	s.mu.Lock()
	if err == nil {
		s.record = counter
	}
	before := s.machine.Refusal()
	if isNotFound(err) && s.fresh.Load() {
		s.machine.Guess() // the next take creates it, or says why not
	} else {
		s.machine.Read(now, counter, err)
	}
	refusal := s.machine.Refusal()
	var then func()
	if s.machine.Mode() != storetake.Mending || refusal != nil {
		then = s.wake()
	}
	moved := s.machine.Moved()
	s.setTimer(now)
	s.mu.Unlock()
	if moved {
		s.of.startMove(s)
	}
	if refusal != nil && refusal != before {
		s.env.Log.Error("no numbers", "bizType", s.name, "error", refusal)
	}
	if then != nil {
		then()
	}
}

func (s *stored) health() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.machine.Health(time.Now()); err != nil {
		return err
	}
	return nil
}

// degraded returns nil: a node that cannot take refuses, and one that can takes in order.
func (s *stored) degraded() *seqd.Error { return nil }

// measure implements [source]: nothing is in hand.
func (s *stored) measure() values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values{highest: s.machine.Seen()}
}

func (s *stored) sequencer() string { return SequencerStore }

func (s *stored) waited(d time.Duration) { s.tellWait(SequencerStore, d) }

func (s *stored) idle() bool { return s.health() == nil }

// prepare does nothing: there is nothing to fetch ahead.
func (s *stored) prepare() {}

// knows implements [source]. What was issued did not come from a cursor in Redis.
func (s *stored) knows() known {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.heritage
	k.issued = max(k.issued, s.machine.Issued())
	k.alone = k.issued
	return k
}

func (s *stored) inherit(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heritage = k
	s.machine.Inherit(max(k.issued, k.alone, k.ceil))
}

func (s *stored) stop() (first bool) {
	s.mu.Lock()
	if s.machine.Mode() == storetake.Closing {
		s.mu.Unlock()
		return false
	}
	s.machine.Stop()
	s.setTimer(time.Now())
	s.cancel()
	then := s.wake()
	s.mu.Unlock()
	if then != nil {
		then()
	}
	return true
}

// close implements [source]. It waits for the take under way.
func (s *stored) close(ctx context.Context) error {
	_ = ended(ctx, &s.work)
	return nil
}
