package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// fetchDeadline bounds one attempt to get a range.
const fetchDeadline = cursor.FetchDeadline

// ranges allocates the ranges of one counter from the store, in the sizes that the step rule gives.
// It is safe for concurrent use.
type ranges struct {
	origin
	// redisSource is the source if that is a cursor in Redis, else nil. ranges tells it whether the
	// store gives ranges, and asks it for the highest number that the process issued from the cursor.
	redisSource atomic.Pointer[shared]

	noteMu  lockorder.Inner // guards what follows
	failure string          // the failure that was logged last, "" after a success
	away    error           // why the store gives no ranges now, nil if it does or never will
	pace    pace            // how fast numbers leave the store
	beside  beside          // ranges that callers issue from later
}

// origin is the counter that numbers come from, and what its sources use of the node. Its store and
// settings are in ordinals: see ordinals.go.
type origin struct {
	env      env
	name     string // of the counter
	bizType  string // that the counter belongs to, for events
	settings *Settings
	// part is nil if the counter is the only one of its biz type.
	part *part
}

// part is what a counter has that belongs to a biz type with several.
type part struct {
	family *family
	period seqd.Period // 0 if numbers never reset
	by     string      // who has opened the counter
}

// keyed reports whether the counter is that of a key.
func (o *origin) keyed() bool { return o.part != nil && o.part.family.settings.Keyed }

// env is the part of [strategy.Env] that every counter keeps. There may be very many of them.
type env struct {
	Store     persist.Store
	Now       func() time.Time
	Log       *slog.Logger
	Observer  seqd.Observer
	RedisAway func() (since time.Time, cause error)
}

// originOf returns the counter that has the name of bizType and belongs to the biz type owner. The
// Settings must be of type *Settings.
func originOf(e strategy.Env, bizType seqd.BizType, owner string) (origin, error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return origin{}, fmt.Errorf("biz type %s: settings of type %T are not *segment.Settings", bizType.Name, bizType.Settings)
	}
	return origin{
		env:  env{Store: settings.ordinals().store(followed(e)), Now: e.Now, Log: e.Log, Observer: e.Observer, RedisAway: e.RedisAway},
		name: bizType.Name, bizType: owner, settings: settings.inOrdinals(),
	}, nil
}

// exists returns why the counter may no longer be the one that was opened: its period was removed.
func (o *origin) exists(ctx context.Context) error {
	if o.part == nil {
		return nil
	}
	return storeError(o.part.family.purger.Check(ctx, o.part.period))
}

// begin makes sure that the counter exists, and returns it. known is false if the counter exists
// but could not be read yet.
func (s *ranges) begin(ctx context.Context, fresh bool) (counter persist.Counter, known bool, err error) {
	counters := s.env.Store.Counters()
	counter, err = counters.Read(ctx, s.name)
	if !errors.Is(err, persist.ErrNotFound) || !fresh {
		return counter, err == nil, storeError(err)
	}
	if s.keyed() {
		_, err = s.create(ctx, "", 0)
		if isExists(err) {
			return persist.Counter{}, false, nil
		}
		return persist.Counter{BizTag: s.name, Max: s.settings.Start - 1, Step: s.settings.Step}, err == nil, storeError(err)
	}
	counter = persist.Counter{
		BizTag:    s.name,
		Max:       s.settings.Start - 1,
		Step:      s.settings.Step,
		Timestamp: s.env.Now().UnixMilli(),
	}
	err = counters.Create(ctx, counter)
	if errors.Is(err, persist.ErrExists) {
		return persist.Counter{}, false, nil
	}
	return counter, err == nil, storeError(err)
}

// giveBack returns ranges to the store, the highest first. Each is offered once, and skipped if the
// store refuses it or the call fails (invariant U2).
func (s *ranges) giveBack(ctx context.Context, rest []persist.Range) error {
	slices.SortFunc(rest, func(a, b persist.Range) int { return cmp.Compare(b.First, a.First) })
	for i := 0; i+1 < len(rest); {
		if rest[i+1].Last+1 != rest[i].First {
			i++
			continue
		}
		rest[i].First = rest[i+1].First
		rest = slices.Delete(rest, i+1, i+2)
	}
	for i, r := range rest {
		given, err := s.env.Store.Counters().GiveBack(ctx, s.name, r)
		if err == nil && given {
			s.report(seqd.Event{Kind: seqd.EventGivenBack, Numbers: r.Size()})
			continue
		}
		// The ranges below this one could be given back only after it.
		var skipped int64
		for _, lost := range rest[i:] {
			skipped += lost.Size()
		}
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: skipped, Err: cmp.Or(err, errTaken)})
		if err != nil {
			return fmt.Errorf("give back %d numbers, which are skipped: %w", skipped, err)
		}
		return nil
	}
	return nil
}

// fetchFor takes a range that goes to a target; see [fetcher].
func (s *ranges) fetchFor(to persist.Target, want, floor int64, why cursor.Reason) (persist.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchDeadline)
	defer cancel()
	r, err := s.allocate(ctx, to, want, floor, why)
	if !errors.Is(err, persist.ErrEpoch) { // says nothing about the health of the store
		s.note(r, err)
	}
	return r, err
}

// allocate takes a range from the store. Its size is what the step rule gives, or what waiting
// callers need if that is more, or what is left at the end of all numbers. All its numbers are
// above floor, the highest number that this process has seen (invariant U1).
//
// A counter whose maximum is below floor was restored from an older copy. Other nodes may have seen
// higher numbers still, so the range begins a gap above floor. If the store failed over since the
// counter was written, there is a gap too, even if this process has seen nothing yet. Only the
// allocation itself can decide that: a read may return an older state.
func (s *ranges) allocate(ctx context.Context, to persist.Target, want, floor int64, why cursor.Reason) (persist.Range, error) {
	counters := s.env.Store.Counters()
	for {
		counter, besides, err := s.read(ctx)
		if err != nil {
			return persist.Range{}, err
		}
		floor = max(floor, besides)
		req := s.settings.withGaps(persist.Request{BizTag: s.name, Floor: floor, To: to}, counter.Step)
		// An empty epoch is left by raise, by a new record and by per-node ordering. Each of them
		// says where numbers continue. What an old cursor held is skipped, but it is no evidence
		// that the store was restored.
		if epoch, ok := to.Cursor(); ok && epoch == "" {
			if over := s.redisSource.Load(); over != nil && counter.Max >= max(over.passed(), besides) {
				req.Gap = 0
			}
		}
		base := s.beginsAt(counter, req)
		left := s.last() - base
		if left <= 0 {
			return persist.Range{}, fmt.Errorf("%s: %w", s.name, persist.ErrExhausted)
		}
		step := s.settings.step(counter.Step, 0, 0)
		switch {
		case why == cursor.Retrying, why != cursor.Standing && s.storeAway() != nil:
			// If the store allocates but its answers are lost, every attempt burns a range. So it
			// does if Redis takes none.
			step = s.settings.Step
		case why == cursor.Consumed:
			step = s.settings.step(counter.Step, counter.Timestamp, s.env.Now().UnixMilli())
			req.Step = step
		case why == cursor.Standing:
			step = 1
		}
		req.Size = min(max(step, want), left)
		r, err := counters.Allocate(ctx, req)
		if errors.Is(err, persist.ErrExhausted) && ctx.Err() == nil {
			continue // another node took some of what was left: read again
		}
		if err == nil && why == cursor.Consumed {
			s.keepPace(counter.Max, base, r)
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

// beginsAt returns the number above which the store would allocate the range of a request now.
func (o *origin) beginsAt(counter persist.Counter, req persist.Request) int64 {
	return o.settings.ordinals().begins(counter, req)
}

// last returns the highest number, as an ordinal.
func (o *origin) last() int64 { return o.settings.ordinals().last() }

// shown returns the number of an ordinal, for a log.
func (o *origin) shown(ordinal int64) int64 { return max(0, o.settings.ordinals().number(ordinal)) }

// tellGap logs and reports why the range of a request, which begins with next, is above a gap. The
// counter is as it was before.
func (s *ranges) tellGap(counter persist.Counter, req persist.Request, next int64) {
	switch {
	case counter.FailedOver:
		s.env.Log.Error("the store failed over and may have lost ranges of this counter; numbers continue above a gap",
			"bizType", s.name, "storeMax", s.shown(counter.Max), "seen", s.shown(req.Floor), "next", s.shown(next))
		s.report(seqd.Event{Kind: seqd.EventStoreFailedOver, Numbers: next - 1 - counter.Max})
	case counter.Max < req.Floor && req.Gap > 0:
		s.env.Log.Error("the store was restored from an older copy: its maximum was below numbers that were issued; numbers continue above them",
			"bizType", s.name, "storeMax", s.shown(counter.Max), "seen", s.shown(req.Floor), "next", s.shown(next))
		s.report(seqd.Event{Kind: seqd.EventStoreBehind, Numbers: req.Floor - counter.Max})
	}
}

// confirm returns a range, or abandons it if the counter may no longer be the one that was opened.
// Then it returns no range that could be used by mistake.
func (s *ranges) confirm(ctx context.Context, r persist.Range) (persist.Range, error) {
	err := s.exists(ctx)
	if err == nil {
		return r, nil
	}
	s.abandon(r, err)
	return persist.Range{}, err
}

// abandon reports a range that left the store and goes nowhere.
func (s *ranges) abandon(r persist.Range, why error) {
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: why})
}

// keepPace notes a range that was allocated above base, when the maximum had been read as most.
func (s *ranges) keepPace(most, base int64, r persist.Range) {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	s.pace.allocated(paceNow(), r.First-1, max(0, base-most))
}

// note logs when the store begins or ceases to give ranges, and reports the result of a refill.
func (s *ranges) note(r persist.Range, err error) {
	s.noteStore(err)
	if err != nil {
		s.report(seqd.Event{Kind: seqd.EventRefillFailed, Err: err})
		return
	}
	s.env.Log.Debug("segment", "bizType", s.name, "first", s.shown(r.First), "last", s.shown(r.Last))
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	s.tellLeft(r.Last)
}

// tellLeft warns if few numbers are left above one.
func (s *ranges) tellLeft(highest int64) {
	if left := s.last() - highest; left < s.last()/100 {
		s.env.Log.Warn("nearly exhausted", "bizType", s.name, "left", left)
		s.report(seqd.Event{Kind: seqd.EventNearlyExhausted, Numbers: left})
	}
}

// noteStore logs and reports when the store begins or ceases to give ranges.
func (s *ranges) noteStore(err error) {
	now, away := "", err
	if err != nil {
		now = err.Error()
	}
	if cursor.IsFinal(err) {
		away = nil
	}
	s.noteMu.Lock()
	before, wasAway := s.failure, s.away
	s.failure, s.away = now, away
	s.noteMu.Unlock()
	if over := s.redisSource.Load(); over != nil && (away != nil || wasAway != nil) {
		over.storeChanged()
	}
	if s.keyed() {
		s.part.family.Note(err)
		return
	}
	switch {
	case err != nil && now != before:
		s.env.Log.Error("no range from the store", "bizType", s.name, "error", err)
	case err == nil && before != "":
		s.env.Log.Info("the store gives ranges again", "bizType", s.name)
	}
	switch {
	case away != nil && wasAway == nil:
		s.report(seqd.Event{Kind: seqd.EventStoreAway, Err: err})
	case away == nil && wasAway != nil:
		s.report(seqd.Event{Kind: seqd.EventStoreBack})
	}
}

// storeAway returns why the store gives no ranges, in the form for readiness; nil if it does.
func (s *ranges) storeAway() *seqd.Error {
	away := s.whyAway()
	if away == nil {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no ranges; the numbers in hand are still issued", Err: away}
}

// whyAway returns why the store gives no ranges, nil if it does or never will.
func (s *ranges) whyAway() error {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	return s.away
}

// storeUnknown forgets that the store was away: another node got ranges from it, or it was read.
func (s *ranges) storeUnknown() {
	s.noteMu.Lock()
	was := s.away
	s.failure, s.away = "", nil
	s.noteMu.Unlock()
	if over := s.redisSource.Load(); over != nil {
		over.storeChanged()
	}
	if s.keyed() {
		s.part.family.Note(nil)
		return
	}
	if was != nil {
		s.env.Log.Info("the store is no longer known to be away", "bizType", s.name)
		s.report(seqd.Event{Kind: seqd.EventStoreBack})
	}
}

// skipped reports numbers that were taken and that nobody gets.
func (s *ranges) skipped(n int64, why error) {
	if n > 0 {
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: n, Err: why})
	}
}

// tellWait tells an observer that wants to know how long callers waited for a take.
func (s *ranges) tellWait(sequencer string, d time.Duration) {
	if o, ok := s.env.Observer.(seqd.WaitObserver); ok {
		lockorder.Free("an observer is called")
		defer func() {
			if p := recover(); p != nil {
				s.env.Log.Error("the observer panicked", "bizType", s.name, "panic", p)
			}
		}()
		o.Waited(sequencer, int64(d))
	}
}

// report implements [fetcher]. It recovers from an observer that panics, because its caller may
// still have to serve others, such as the callers of the next take.
func (s *ranges) report(e seqd.Event) {
	lockorder.Free("an observer is called")
	defer func() {
		if p := recover(); p != nil {
			s.env.Log.Error("the observer panicked", "bizType", s.name, "event", e.Kind, "panic", p)
		}
	}()
	e.BizType = s.bizType
	if e.Kind == seqd.EventOutOfOrder {
		s.env.Log.Error("the store gave a range below numbers already seen; it is refused", "bizType", s.name, "numbers", e.Numbers)
	}
	s.env.Observer.Event(e)
}
