package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// fetchDeadline bounds one attempt to get a range.
const fetchDeadline = cursor.FetchDeadline

// gapSteps is how many steps the gap above a restored store is at least: others may hold that many
// ranges this process knows nothing of.
const gapSteps = 10

// ranges is where the ranges of one counter come from: the store, as many numbers at a time as the
// step rule says. It is safe for concurrent use.
type ranges struct {
	env      strategy.Env
	name     string // of the counter
	bizType  string // whose it is, for events
	settings *Settings
	// own is where ranges go that a buffer of this node fetches.
	own persist.Target
	// alive is asked after a range was taken whether the counter is still the one that it was
	// opened as; nil where counters are never removed. An error abandons the range.
	alive func(ctx context.Context) error
	// shared is set if the counter has a cursor: floors then also come from one that may not count.
	shared *Shared

	noteMu  sync.Mutex // guards what follows
	failure string     // what was last logged as wrong, "" when all is well
	away    error      // why the store gives no ranges now, nil when it does or never will
	pace    pace       // how fast numbers leave the store
}

// Init makes sure that the counter exists. No range is taken before the first request, so a biz
// type that nobody uses costs nothing.
func (s *ranges) Init(ctx context.Context, fresh bool) error {
	_, _, err := s.begin(ctx, fresh)
	return err
}

// begin is Init. It also returns the counter as it was found or made; known is false if it is there
// and could not be read yet.
func (s *ranges) begin(ctx context.Context, fresh bool) (counter persist.Counter, known bool, err error) {
	counters := s.env.Store.Counters()
	counter, err = counters.Read(ctx, s.name)
	if !errors.Is(err, persist.ErrNotFound) || !fresh {
		return counter, err == nil, refusal(err)
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
	return counter, err == nil, refusal(err)
}

// giveBack returns ranges to the store, the highest first. Each is offered once; what is refused or
// fails is skipped (invariant U2).
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
		// The ranges below could only be given back after this one.
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

// fetch implements [fetcher].
func (s *ranges) fetch(want, floor int64, why cursor.Reason) (persist.Range, error) {
	return s.fetchFor(s.own, want, floor, why)
}

// fetchFor is fetch for a range that goes to a target.
func (s *ranges) fetchFor(to persist.Target, want, floor int64, why cursor.Reason) (persist.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchDeadline)
	defer cancel()
	r, err := s.allocate(ctx, to, want, floor, why)
	if !errors.Is(err, persist.ErrEpoch) { // which says nothing about the store
		s.note(r, err)
	}
	return r, err
}

// allocate takes a range of the size that the step rule gives, of what waiting callers need when
// that is more, or of what is left at the end of all numbers. All its numbers are above floor, the
// highest number this process has seen.
//
// A counter whose maximum is below numbers that were seen was restored from an older copy. Others
// may have seen higher numbers still, so the range begins a gap further up. Only the allocation
// itself can tell: a read may say what the counter was a moment ago.
func (s *ranges) allocate(ctx context.Context, to persist.Target, want, floor int64, why cursor.Reason) (persist.Range, error) {
	counters := s.env.Store.Counters()
	for {
		counter, err := counters.Read(ctx, s.name)
		if err != nil {
			return persist.Range{}, err
		}
		req := persist.Request{BizTag: s.name, Floor: floor, To: to}
		if floor >= s.settings.Start { // below start nothing was ever seen
			req.Gap = min(max(s.settings.RestoreGap, gapSteps*counter.Step), (seqd.MaxNumber-floor)/2)
		}
		// Raise, a new record and a node per-node empty the epoch, and say where numbers go on.
		// What an old cursor had is skipped, but says nothing about the store.
		if epoch, ok := to.Cursor(); ok && epoch == "" && s.shared != nil && counter.Max >= s.shared.passed() {
			req.Gap = 0
		}
		base, behind := counter.Max, counter.Max < floor
		if behind {
			base = floor + req.Gap
		}
		left := seqd.MaxNumber - base
		if left <= 0 {
			return persist.Range{}, fmt.Errorf("%s: %w", s.name, persist.ErrExhausted)
		}
		step := s.settings.step(counter.Step, 0, 0)
		switch {
		case why == cursor.Retrying, why != cursor.Standing && s.storeAway() != nil:
			// A store that takes ranges but cannot say so would burn a segment an attempt. So would
			// a Redis that takes none.
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
			continue // another node took some of what was left: look again
		}
		if err == nil && why == cursor.Consumed {
			s.keepPace(counter.Max, base, r)
		}
		if err == nil {
			r, err = s.confirm(ctx, r)
		}
		if err == nil && behind && req.Gap > 0 && r.First == base+1 {
			s.env.Log.Error("the store was restored from an older copy: its maximum was below numbers that were issued; numbers go on above them",
				"bizType", s.name, "storeMax", counter.Max, "seen", floor, "next", r.First)
			s.report(seqd.Event{Kind: seqd.EventStoreBehind, Numbers: floor - counter.Max})
		}
		return r, err
	}
}

// confirm returns a range, or abandons it where the counter may not be the one that it was opened
// as. Then there is no range that anybody could use by mistake.
func (s *ranges) confirm(ctx context.Context, r persist.Range) (persist.Range, error) {
	if s.alive == nil {
		return r, nil
	}
	err := s.alive(ctx)
	if err == nil {
		return r, nil
	}
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: r.Size(), Err: err})
	return persist.Range{}, err
}

// keepPace notes a range that was allocated above base when the maximum had been seen to be most.
func (s *ranges) keepPace(most, base int64, r persist.Range) {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	s.pace.allocated(paceNow(), r.First-1, max(0, base-most))
}

// note logs a change between well and not well once, and reports what came of a refill.
func (s *ranges) note(r persist.Range, err error) {
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
	if s.shared != nil && (away != nil || wasAway != nil) {
		s.shared.storeChanged()
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
	if err != nil {
		s.report(seqd.Event{Kind: seqd.EventRefillFailed, Err: err})
		return
	}
	s.env.Log.Debug("segment", "bizType", s.name, "first", r.First, "last", r.Last)
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	if left := seqd.MaxNumber - r.Last; left < seqd.MaxNumber/100 {
		s.env.Log.Warn("nearly exhausted", "bizType", s.name, "left", left)
		s.report(seqd.Event{Kind: seqd.EventNearlyExhausted, Numbers: left})
	}
}

// storeAway returns why the store gives no ranges, nil while it does.
func (s *ranges) storeAway() *seqd.Error {
	away := s.whyAway()
	if away == nil {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no ranges; what is in hand carries on", Err: away}
}

func (s *ranges) whyAway() error {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	return s.away
}

// storeUnknown forgets that the store was away: another node got ranges from it, or it answers.
func (s *ranges) storeUnknown() {
	s.noteMu.Lock()
	was := s.away
	s.failure, s.away = "", nil
	s.noteMu.Unlock()
	if s.shared != nil {
		s.shared.storeChanged()
	}
	if was != nil {
		s.env.Log.Info("the store is no longer known to be away", "bizType", s.name)
		s.report(seqd.Event{Kind: seqd.EventStoreBack})
	}
}

// report implements [fetcher]. It survives an observer that panics: who reports may still have to
// see to others, such as the callers of the next take.
func (s *ranges) report(e seqd.Event) {
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
