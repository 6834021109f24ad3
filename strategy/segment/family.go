package segment

import (
	"context"
	"errors"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// family is the counters of a biz type that has several: one for each period, each key, or both. It
// is what [Periodic] and [Keyed] have in common.
type family struct {
	env      strategy.Env
	bizType  seqd.BizType
	settings *Settings
	open     opener
	calendar counters.Calendar
	set      *counters.Set[counting]
	memory   counters.Memory[known] // of counters that are not open, from closed ones and the previous strategy
	purger   counters.Purger

	running context.Context // what runs in the background; until close
	end     context.CancelFunc

	mu     lockorder.Inner // guards what follows
	closed bool
	work   sync.WaitGroup // goroutines; added to under mu and before closed
}

// counting is the strategy of one counter.
type counting interface {
	seqd.Strategy
	seqd.Ranger
	seqd.HealthReporter
	seqd.DegradedReporter
	seqd.Measurer
	seqd.Idler
	takesSome
	knowing
	// inherit takes over what another strategy knew. It is called before the strategy is used.
	inherit(k known)
	// watch sets alive, which is called after every allocation. It is called before anything else.
	watch(alive func(ctx context.Context) error)
	// begins opens the counter of a key, instead of Init, and creates it if it is new. If fresh is
	// false, this process knows that it is not.
	begins(ctx context.Context, fresh bool) error
	// prepare fetches numbers before the first request.
	prepare()
	// forget removes what is kept outside the store after the end of the period.
	forget(ctx context.Context) error
}

// opener is [count], or what a test has in its place.
type opener func(env strategy.Env, bizType seqd.BizType, owner string, part *keyPart) (counting, error)

func (f *family) init(env strategy.Env, bizType seqd.BizType, settings *Settings, open opener) {
	f.env, f.bizType, f.settings, f.open = env, bizType, settings, open
	f.calendar.Calendar = settings.Calendar()
	f.running, f.end = context.WithCancel(context.Background())
	f.purger = counters.Purger{
		Env: &f.env, BizType: bizType.Name, Calendar: &f.calendar, Retention: settings.PeriodRetention, Keyed: settings.Keyed,
		Forget: f.forget, Running: f.running,
	}
}

// resets reports whether there is a counter for each period.
func (f *family) resets() bool { return f.calendar.Reset != seqd.ResetNever }

// counter makes the strategy of one counter. It does no I/O.
func (f *family) counter(name counters.Name, part *keyPart) (counting, error) {
	named := f.bizType
	named.Name = name.Counter(f.bizType.Name)
	c, err := f.open(f.env, named, f.bizType.Name, part)
	if p := name.Period; err == nil && p != 0 {
		c.watch(func(ctx context.Context) error { return storeError(f.purger.Check(ctx, p)) })
	}
	return c, err
}

// openCounter opens a counter, if its period was not removed. It creates a new one. part is nil
// without keys.
func (f *family) openCounter(ctx context.Context, name counters.Name, part *keyPart) (counting, error) {
	if err := name.Period.Check(); err != nil {
		return nil, err
	}
	// Also after the allocation; this avoids a counter that nobody uses.
	if err := f.purger.Check(ctx, name.Period); err != nil {
		return nil, storeError(err)
	}
	c, err := f.counter(name, part)
	if err != nil {
		return nil, err
	}
	k := f.memory.Of(name)
	c.inherit(k)
	if f.settings.Keyed {
		err = c.begins(ctx, k == known{})
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
func (f *family) beginsClaimed(ctx context.Context, name counters.Name, c counting) error {
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

// isHopeless reports whether a key has no counter, and gets none now.
func isHopeless(err error) bool {
	switch seqd.CodeOf(err) {
	case seqd.CodeTooManyKeys, seqd.CodeRateLimited, seqd.CodeStoreFailedOver, seqd.CodeConflict, seqd.CodeClockRollback:
		return true
	}
	return false
}

// closeCounter ends the use of a counter, and forgets it if its period is over. What is known of it
// is kept.
func (f *family) closeCounter(ctx context.Context, name counters.Name, c counting) error {
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

// start runs a function in the background unless the strategy is closing.
func (f *family) start(do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.startLocked(do)
}

// startLocked is start; mu is held.
func (f *family) startLocked(do func()) bool {
	if f.closed {
		return false
	}
	f.work.Go(do)
	return true
}

func (f *family) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// close ends issuing and closes every counter. Only the first call does anything.
func (f *family) close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.end()
	f.mu.Unlock()
	done := make(chan struct{})
	go func() { f.work.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return errors.Join(err, f.set.Close(ctx))
}
