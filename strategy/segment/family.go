package segment

import (
	"cmp"
	"context"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// family issues the numbers of a biz type that has several counters: one for each period, each key,
// or both. Each is a [Counter] while it is open. It is safe for concurrent use.
type family struct {
	*counters.Family[*Counter, known]
	settings *Settings
	open     opener
	purger   counters.Purger

	view atomic.Pointer[view] // without keys: what the last caller who asked the calendar found

	mu     lockorder.Inner               // guards what follows
	looked time.Duration                 // when looks was last true, since paceEpoch
	again  bool                          // reopen runs
	failed map[seqd.Period]failedOpening // without keys: periods that could not be opened at the last attempt
}

var (
	_ seqd.Strategy     = (*family)(nil)
	_ seqd.CountLimiter = (*family)(nil)
	_ seqd.KeyLister    = (*family)(nil)
	_ seqd.Reporter     = (*family)(nil)
)

// opener is [count], or what a test has in its place.
type opener func(env strategy.Env, bizType seqd.BizType, owner string, part *part) (*Counter, error)

// newFamily makes the strategy of a biz type that has several counters. It does no I/O.
func newFamily(env strategy.Env, bizType seqd.BizType, settings *Settings, open opener) *family {
	f := &family{settings: settings, open: open}
	f.Family = counters.NewFamily(counters.Base{Env: &env, BizType: &bizType, Settings: &settings.Settings}, f, mostSpans, knownPeriods, fetchDeadline)
	f.purger = counters.Purger{Base: &f.Base, Calendar: &f.Calendar, Retention: settings.PeriodRetention}
	return f
}

// Init opens the present period, or, with keys, makes sure that the store can be read: counters are
// created when their keys are used. A period whose counter was lost does not affect other periods:
// it is refused when it is used.
func (f *family) Init(ctx context.Context, _ bool) error {
	if f.settings.Keyed {
		return storeError(f.Places(f.present().Period).Look(ctx))
	}
	_, err := f.openPresent(ctx)
	if seqd.CodeOf(err) == seqd.CodeConflict {
		return nil
	}
	return err
}

// Generate adds n numbers of the key of seq, and of the period that is present when the call
// begins.
func (f *family) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return f.ask(ctx, (*Counter).Generate, n, seq)
}

// GenerateSome implements [seqd.PartialGenerator].
func (f *family) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, f)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (f *family) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, f)
}

// GenerateRange refuses: a caller would issue the numbers of a period after its end, and each key
// that has ever handed out a range would need a floor.
func (f *family) GenerateRange(context.Context, int64, *seqd.Sequence) error {
	why := "its numbers reset"
	if f.settings.Keyed {
		why = "it counts for each key on its own"
	}
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s hands out no ranges: %s", f.BizType.Name, why)
}

// MostInCall implements [seqd.CountLimiter].
func (f *family) MostInCall() (most int, why string) { return f.settings.mostInCall(f.Env.Store) }

// some implements [takesSome].
func (f *family) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return f.ask(ctx, (*Counter).some, n, seq)
}

// ask gets numbers of a counter.
func (f *family) ask(ctx context.Context, get func(*Counter, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	if f.settings.Keyed {
		return f.askKey(ctx, get, n, seq)
	}
	return f.askPeriod(ctx, get, n, seq)
}

// never is the only period of numbers that do not reset.
var never = counters.Span{Until: math.MaxInt64}

// present returns the present period.
func (f *family) present() *counters.Span {
	if !f.resets() {
		return &never
	}
	span := f.Calendar.Present(f.Env.Now())
	if f.purger.Due(span.Period) {
		f.Go(func() { f.purger.Run(f.Running, f.forget) })
	}
	return span
}

// resets reports whether there is a counter for each period.
func (f *family) resets() bool { return f.Calendar.Reset != seqd.ResetNever }

// counter makes one counter, which a caller opens. It does no I/O.
func (f *family) counter(name counters.Name, by string) (*Counter, error) {
	named := *f.BizType
	named.Name = name.Counter(f.BizType.Name)
	return f.open(*f.Env, named, f.BizType.Name, &part{family: f, period: name.Period, by: by})
}

// OpenCounter implements [counters.Kind].
func (f *family) OpenCounter(ctx context.Context, name counters.Name, by string) (*Counter, error) {
	if !f.settings.Keyed {
		return f.openPeriod(ctx, name)
	}
	return f.openCounter(ctx, name, by)
}

// openCounter opens a counter, if its period was not removed. If the counter is missing and may be
// new, its source creates it: now, or, if the store is the sequencer, with the first take of a key.
func (f *family) openCounter(ctx context.Context, name counters.Name, by string) (*Counter, error) {
	if err := name.Period.Check(); err != nil {
		return nil, err
	}
	// Also after the allocation; this avoids a counter that nobody uses.
	if err := f.purger.Check(ctx, name.Period); err != nil {
		return nil, storeError(err)
	}
	c, err := f.counter(name, by)
	if err != nil {
		return nil, err
	}
	k := f.Memory.Of(name)
	c.inherit(k)
	if f.settings.Keyed {
		err = c.Init(ctx, k == known{})
	} else {
		err = f.beginsClaimed(ctx, name, c)
	}
	if err != nil {
		if k != (known{}) && isHopeless(err) {
			k.refuses = true
			f.Memory.Keep(name, k)
		}
		return nil, seqd.AsError(err)
	}
	return c, nil
}

// beginsClaimed opens the counter of a period, and creates it unless it existed before: then it
// must still exist. The claim of a period is recorded after its counter, as that of a biz type is.
func (f *family) beginsClaimed(ctx context.Context, name counters.Name, c *Counter) error {
	documents := f.Env.Store.Documents()
	claim := persist.Document{
		Kind: persist.PeriodKind, Key: name.Counter(f.BizType.Name), Revision: 1, Body: Name, Timestamp: f.Env.Now().UnixMilli(),
	}
	_, err := documents.Read(ctx, claim.Kind, claim.Key)
	fresh := isNotFound(err)
	if err != nil && !fresh {
		return storeError(err)
	}
	if err = c.Init(ctx, fresh); err != nil || !fresh {
		return err
	}
	// If the period was purged since the first look, it has left a tombstone, and the counter that
	// was just created begins a second time.
	if err = f.purger.CheckAnew(ctx, name.Period); err == nil {
		err = documents.Create(ctx, claim)
	}
	if isExists(err) {
		return nil
	}
	return storeError(err)
}

// CloseCounter implements [counters.Kind]. If the period of the counter is over, it also removes
// the cursor in Redis.
func (f *family) CloseCounter(ctx context.Context, name counters.Name, c *Counter) error {
	err := c.Close(ctx) // an event says what is skipped
	if err == nil && name.Period != 0 && name.Period < f.Calendar.Now(f.Env.Now()) {
		err = c.forget(ctx)
	}
	return err
}

// forget removes what is kept of a counter outside the store. What is left does no harm.
func (f *family) forget(ctx context.Context, name counters.Name) {
	if c, err := f.counter(name, ""); err == nil {
		_ = c.forget(ctx)
	}
}

// skipped implements [takesSome].
func (f *family) skipped(n int64, why error) {
	if n > 0 {
		f.Env.Observer.Event(seqd.Event{BizType: f.BizType.Name, Kind: seqd.EventAbandoned, Numbers: n, Err: why})
	}
}

// looks is how many open keys stand for all of them.
const looks = 16

// shown returns counters that stand for all: some of the open keys, or the one of the present
// period. If that is not open, it returns why; neither before the first request.
func (f *family) shown() ([]*Counter, *seqd.Error) {
	if f.settings.Keyed {
		return f.Some(looks), nil
	}
	p := f.Calendar.Now(f.Env.Now())
	if err := p.Check(); err != nil {
		return nil, seqd.AsError(err)
	}
	if c, ok := f.Peek(counters.Name{Period: p}); ok {
		return []*Counter{c}, nil
	}
	if v := f.view.Load(); v != nil && v.Period == p && f.Closed() {
		return []*Counter{v.Counter}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return nil, f.failed[p].err
}

// Health returns why the present period, or no key, can get a number, as far as the counters that
// are open show.
func (f *family) Health() error {
	shown, none := f.shown()
	if none != nil {
		return none
	}
	var first error
	for _, c := range shown {
		err := c.Health()
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return cmp.Or(first, storeError(f.Away()))
}

// Degraded returns why some get no numbers, or not as they should, as far as the counters that are
// open show.
func (f *family) Degraded() *seqd.Error {
	if away := f.Away(); away != nil {
		return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no ranges; the numbers in hand are still issued", Err: away}
	}
	shown, _ := f.shown()
	for _, c := range shown {
		if err := c.Degraded(); err != nil {
			return err
		}
	}
	return nil
}

// Details implements [seqd.Reporter].
func (f *family) Details() map[string]any {
	details := make(map[string]any)
	if f.resets() {
		details["period"] = f.Calendar.Now(f.Env.Now()).String()
	}
	if f.settings.Keyed {
		details["openKeys"], details["keys"], details["maxKeys"] = f.Len(), f.Places(f.present().Period).Taken(), f.settings.MaxKeys
	}
	if shown, _ := f.shown(); len(shown) > 0 {
		maps.Copy(details, shown[0].Details())
	}
	return details
}
