package segment

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// family issues the numbers of a biz type that has several counters: one for each period, each key,
// or both. Each is a [Counter] while it is open. It is safe for concurrent use.
type family struct {
	env      strategy.Env
	bizType  seqd.BizType
	settings *Settings
	open     opener
	calendar counters.Calendar
	set      *counters.Set[*Counter]
	memory   counters.Memory[known] // of counters that are not open, from closed ones and the previous strategy
	purger   counters.Purger

	view atomic.Pointer[view] // without keys: what the last caller who asked the calendar found
	keys *keys                // nil without keys

	mu     lockorder.Inner               // guards what follows
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
type opener func(env strategy.Env, bizType seqd.BizType, owner string, part *keyPart) (*Counter, error)

// newFamily makes the strategy of a biz type that has several counters. It does no I/O.
func newFamily(env strategy.Env, bizType seqd.BizType, settings *Settings, open opener) *family {
	f := &family{env: env, bizType: bizType, settings: settings, open: open}
	f.calendar.Calendar = settings.Traits().Calendar
	f.purger = counters.Purger{Env: &f.env, BizType: bizType.Name, Calendar: &f.calendar, Retention: settings.PeriodRetention, Keyed: settings.Keyed}
	f.memory.Least = knownPeriods
	o := counters.Options[*Counter]{
		Most: mostSpans, Wait: settings.AcquireTimeout, Timeout: fetchDeadline,
		Open: f.openPeriod, Close: f.closeCounter,
	}
	if settings.Keyed {
		f.memory.Least = max(counters.Remembered, settings.LiveKeys)
		f.keys = &keys{Reach: counters.Reach{Env: &f.env, BizType: bizType.Name, IsAway: isAway, Look: f.lookAtStore}}
		f.keys.New = f.newPart
		o.Most, o.MostEach, o.Idle, o.Open = settings.LiveKeys, settings.LiveKeysPerCaller, idleKey, f.openCounter
	}
	f.set = counters.NewSet(o)
	if f.keys != nil {
		f.keys.Running = f.set.Running
	}
	return f
}

// Init opens the present period, or, with keys, makes sure that the store can be read: counters are
// created when their keys are used. A period whose counter was lost does not affect other periods:
// it is refused when it is used.
func (f *family) Init(ctx context.Context, _ bool) error {
	if f.settings.Keyed {
		return storeError(f.keys.Of(f.present().Period).places.Look(ctx))
	}
	_, err := f.openPresent(ctx)
	if seqd.CodeOf(err) == seqd.CodeConflict {
		return nil
	}
	return err
}

// Generate adds n numbers of the key of seq, and of the period that is present when the call begins.
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
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s hands out no ranges: %s", f.bizType.Name, why)
}

// MostInCall implements [seqd.CountLimiter].
func (f *family) MostInCall() (most int, why string) { return f.settings.mostInCall(f.env.Store) }

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
	span := f.calendar.Present(f.env.Now())
	if f.purger.Due(span.Period) {
		f.set.Go(func() { f.purger.Run(f.set.Running, f.forget) })
	}
	return span
}

// resets reports whether there is a counter for each period.
func (f *family) resets() bool { return f.calendar.Reset != seqd.ResetNever }

// counter makes one counter. It does no I/O.
func (f *family) counter(name counters.Name, part *keyPart) (*Counter, error) {
	named := f.bizType
	named.Name = name.Counter(f.bizType.Name)
	c, err := f.open(f.env, named, f.bizType.Name, part)
	if p := name.Period; err == nil && p != 0 {
		c.watch(func(ctx context.Context) error { return storeError(f.purger.Check(ctx, p)) })
	}
	return c, err
}

// openCounter opens a counter, if its period was not removed. It creates a new one.
func (f *family) openCounter(ctx context.Context, name counters.Name, by string) (*Counter, error) {
	if err := name.Period.Check(); err != nil {
		return nil, err
	}
	// Also after the allocation; this avoids a counter that nobody uses.
	if err := f.purger.Check(ctx, name.Period); err != nil {
		return nil, storeError(err)
	}
	c, err := f.counter(name, f.partOf(name.Period, by))
	if err != nil {
		return nil, err
	}
	k := f.memory.Of(name)
	c.inherit(k)
	if f.settings.Keyed {
		err = c.Init(ctx, k == known{})
	} else {
		err = f.beginsClaimed(ctx, name, c)
	}
	if err != nil {
		if k != (known{}) && isHopeless(err) {
			k.refuses = true
			f.memory.Keep(name, k)
		}
		return nil, seqd.AsError(err)
	}
	return c, nil
}

// beginsClaimed opens the counter of a period, and creates it unless it existed before: then it must
// still exist. The claim of a period is recorded after its counter, as that of a biz type is.
func (f *family) beginsClaimed(ctx context.Context, name counters.Name, c *Counter) error {
	documents := f.env.Store.Documents()
	claim := persist.Document{
		Kind: persist.PeriodKind, Key: name.Counter(f.bizType.Name), Revision: 1, Body: Name, Timestamp: f.env.Now().UnixMilli(),
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

// closeCounter ends the use of a counter, and forgets it if its period is over. What is known of it
// is kept.
func (f *family) closeCounter(ctx context.Context, name counters.Name, c *Counter) error {
	defer func() { f.keep(name, c.knows()) }()
	err := c.Close(ctx) // an event says what is skipped
	if err == nil && name.Period != 0 && name.Period < f.calendar.Now(f.env.Now()) {
		err = c.forget(ctx)
	}
	return err
}

// forget removes what is kept of a counter outside the store. What is left does no harm.
func (f *family) forget(ctx context.Context, name counters.Name) {
	if c, err := f.counter(name, nil); err == nil {
		_ = c.forget(ctx)
	}
}

// skipped implements [takesSome].
func (f *family) skipped(n int64, why error) {
	if n > 0 {
		f.env.Observer.Event(seqd.Event{BizType: f.bizType.Name, Kind: seqd.EventAbandoned, Numbers: n, Err: why})
	}
}

// looks is how many open keys stand for all of them.
const looks = 16

// shown returns counters that stand for all: some of the open keys, or the one of the present
// period. If that is not open, it returns why; neither before the first request.
func (f *family) shown() ([]*Counter, *seqd.Error) {
	if f.settings.Keyed {
		return f.set.Some(looks), nil
	}
	p := f.calendar.Now(f.env.Now())
	if err := p.Check(); err != nil {
		return nil, seqd.AsError(err)
	}
	if c, ok := f.set.Peek(counters.Name{Period: p}); ok {
		return []*Counter{c}, nil
	}
	if v := f.view.Load(); v != nil && v.Period == p && f.set.Closed() {
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
	return cmp.Or(first, storeError(f.away()))
}

// Degraded returns why some get no numbers, or not as they should, as far as the counters that are
// open show.
func (f *family) Degraded() *seqd.Error {
	if away := f.away(); away != nil {
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
		details["period"] = f.calendar.Now(f.env.Now()).String()
	}
	if f.settings.Keyed {
		details["openKeys"], details["keys"], details["maxKeys"] = f.set.Len(), f.keys.Of(f.present().Period).places.Taken(), f.settings.MaxKeys
	}
	if shown, _ := f.shown(); len(shown) > 0 {
		maps.Copy(details, shown[0].Details())
	}
	return details
}

// Close ends issuing and gives back the numbers that only this node had, of every counter, and the
// places of keys.
func (f *family) Close(ctx context.Context) error {
	err := f.set.Close(ctx)
	if f.keys != nil {
		for _, part := range f.keys.All() {
			err = errors.Join(err, part.places.Close(ctx))
		}
	}
	return err
}
