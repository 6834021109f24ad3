package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// ErrRaise is returned by [Raise] and [Restored] when an argument or the configuration makes no
// sense. Nothing was changed.
var ErrRaise = errors.New("nothing to raise")

// ErrRefused is returned by [Raise] if the call looks like a slip, nodes run, or the store and
// Redis are not of one cluster. Nothing was changed.
var ErrRefused = errors.New("refused")

// Raised is the result of [Raise].
type Raised struct {
	// Before and After are the highest number that counts as issued, before and after the call.
	// They are equal if it was high enough.
	Before, After int64
	// Waiting is the highest number that was ever in the cursor in Redis, if that is above the
	// requested number; else 0. The numbers up to it count as issued.
	Waiting int64
	// Created is whether the store had no counter for the biz type, and has one now. Then Before
	// is 0.
	Created bool
	// Beside is whether nodes may run and have been refusing because the counter was lost.
	Beside bool
	// DryRun is whether nothing was changed: After is where the counter would be.
	DryRun bool
	// Ledger is set if the counter is gapless.
	Ledger *RaisedLedger
}

// Changed is whether the counter was not high enough, stood still or was closed.
func (r Raised) Changed() bool {
	return r.Before != r.After || r.Ledger != nil && (r.Ledger.Stood || r.Ledger.Opened || r.Ledger.Void > 0)
}

// String returns the result as one line.
func (r Raised) String() string {
	text := r.change()
	switch {
	case r.Ledger != nil:
		return text + r.Ledger.text(r.DryRun)
	case r.Waiting > 0:
		text += fmt.Sprintf("; numbers up to %d wait in Redis", r.Waiting)
	}
	if r.Beside && !r.DryRun {
		text += "; nodes that refuse for the lack of it issue within a second"
	}
	return text
}

func (r Raised) change() string {
	switch {
	case r.DryRun && r.Created:
		return fmt.Sprintf("the store has no counter; it would have one at %d", r.After)
	case r.DryRun && r.Before != r.After:
		return fmt.Sprintf("at %d, would be at %d", r.Before, r.After)
	case r.DryRun:
		return fmt.Sprintf("at %d, would stay there", r.Before)
	case r.Created:
		return fmt.Sprintf("no counter → %d: the store had none, and has one now", r.After)
	case r.Before != r.After:
		return fmt.Sprintf("%d → %d", r.Before, r.After)
	case r.Changed():
		return fmt.Sprintf("it stays at %d", r.Before)
	}
	return fmt.Sprintf("nothing changed, it is at %d already", r.Before)
}

// Raise makes everything up to number count as issued for a counter of a biz type of the
// configuration or of the store, even if it was deleted. The counter is named as the store names it:
// order, order@20261120 if its numbers reset, order/tenant-42 if the biz type is keyed, or
// order/tenant-42@2026. Raise is the step after restoring a backup of the store, which does not know
// what was issued since. It never lowers a counter, and calling it again changes nothing. number is
// 1 to 2^53 − 1.
//
// Afterwards no previous cursor in Redis counts (invariant U3b), whatever the store and Redis hold:
// nodes create another one, or the store sequences the counter if its record says so. If Redis is
// configured, everything that was ever in the cursor counts as issued too. So number may be the
// highest number that callers are known to have got, unless the store has sequenced the counter
// since the backup: what it issued is in no cursor. If Redis is configured and cannot be asked,
// Raise changes nothing and returns an error.
//
// While the store has failed over and [Failover] has not confirmed it, numbers continue a gap above
// number, nodes may be running, and number is above all that left the store: then the rest of this
// comment does not apply. A counter that is at number or above is left to continue above a gap by
// itself.
//
// Of a gapless counter nothing is skipped silently: the numbers up to number that the store does not
// know become void, with a reason that says so, and so do those that were released, because they may
// have been handed out since. Reservations can still be confirmed; if they are not, their numbers
// become void. A counter that stood still after a failover issues again. Nodes may be running then,
// and number is the highest number that anybody got.
//
// Otherwise every seqd must be stopped from before the backup is restored until Raise has returned.
// A seqd that runs, even if it cannot reach the store meanwhile, holds ranges above number and
// issues them later, and what it issues meanwhile could be issued again. Raise returns ErrRefused
// if it sees one, and for what looks like a slip: see [How]. After another error the counter may or
// may not have been raised; it is safe to call Raise again. The time-outs of the store and of
// Redis, 20 s for nodes that were killed, and ctx, bound Raise.
func Raise(ctx context.Context, cfg *config.Config, counter string, number int64, how How) (r Raised, err error) {
	m := Mark{counter, number}
	if err := m.check(); err != nil {
		return r, err
	}
	err = repairing(ctx, cfg, counter, how, func(f *repair) error {
		t, err := f.named(ctx, counter)
		if err != nil {
			return err
		}
		p, err := f.plan(ctx, job{t, m.atLeast})
		if r = p.Raised; err != nil || how.DryRun {
			return err
		}
		if number <= p.fresh && !how.Sure {
			return fmt.Errorf("%w: nothing was issued of %s, as far as the store knows, and nobody would get number %d. "+
				"seqd raise --dry-run shows where counters stand, and changes nothing; if somebody got the number, add --yes", ErrRefused, counter, number)
		}
		if err := f.permit(ctx, []plan{p}); err != nil {
			return err
		}
		r, err = f.raise(ctx, t, m.atLeast)
		return err
	})
	return r, err
}

// repair is one call of [Raise], [RaiseAll] or [RaiseBy].
type repair struct {
	cfg     *config.Config
	how     How
	store   persist.Store
	cursors *rediscursor.Options    // nil if no counter has a cursor
	known   map[string]seqd.BizType // that were looked for
	fence   presentFence
	// read are the names that namesOf has read; nil if it reads them anew each time.
	read map[namesRead]map[string][]string
}

// repairing opens the store and Redis, and calls f. counter is one of those to raise.
func repairing(ctx context.Context, cfg *config.Config, counter string, how How, f func(*repair) error) (err error) {
	// its only biz types are those of the configuration, and it keeps no numbers
	if cfg.Store.Forgets() {
		bizType, _, _, _ := seqd.SplitCounter(counter)
		if _, err := configured(cfg, bizType); err != nil {
			return err
		}
	}
	if err := checkKept(ErrRaise, cfg.Store); err != nil {
		return err
	}
	r := &repair{cfg: cfg.ForRepair(), how: how, known: make(map[string]seqd.BizType)}
	if r.store, err = backends.NewStore(ctx, r.cfg.Store, time.Now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	if r.fence, err = fenceOf(ctx, r.store); err != nil {
		return err
	}
	client, err := r.openCursors(ctx)
	if client != nil {
		defer func() { err = errors.Join(err, client.Close()) }()
	}
	if err != nil {
		return err
	}
	return f(r)
}

// openCursors returns the client of the Redis that has the cursors, nil if there is none. The error
// is ErrRefused if Redis serves another cluster than the store's.
func (f *repair) openCursors(ctx context.Context) (redis.UniversalClient, error) {
	if !f.cfg.Redis.Configured() || !f.cfg.Store.Shared() {
		return nil, nil // a store of one node needs no cursor
	}
	cluster, err := f.clusterID(ctx)
	if err != nil {
		return nil, err
	}
	client, err := backends.NewRedis(ctx, f.cfg.Redis)
	if err != nil {
		return nil, err
	}
	f.cursors = &rediscursor.Options{Client: client, Prefix: f.cfg.Redis.KeyPrefix, Cluster: cluster}
	// If Redis is away, those who need its cursor say so.
	if owner, err := rediscursor.Owner(ctx, *f.cursors); err == nil && owner != "" && owner != cluster {
		return client, fmt.Errorf("%w: Redis serves the cluster %s, and this store is of another one, %s: "+
			"it is not the store that the numbers came from, such as the backup of another cluster, or redis.keyPrefix is that of another cluster", ErrRefused, owner, cmp.Or(cluster, "which has never run"))
	}
	return client, nil
}

// clusterID returns the ID of the store's cluster. A dry run draws none.
func (f *repair) clusterID(ctx context.Context) (string, error) {
	if !f.how.DryRun {
		return persist.ClusterID(ctx, f.store, time.Now)
	}
	known, err := persist.ReadCluster(ctx, f.store.Documents())
	if errors.Is(err, persist.ErrNotFound) {
		return "", nil
	}
	return known.ID, err
}

// target is a counter that may be raised.
type target struct {
	seqd.BizType
	counter string
	key     string
	period  seqd.Period
	ledger  bool
	// unfit is why the biz type has no such counter, "" if it has. It may have had one before its
	// shape was forced, and may get one again.
	unfit string
}

// raise raises a counter. to returns the number that everything counts as issued up to, given the
// highest number that the store knows.
func (f *repair) raise(ctx context.Context, t target, to func(highest int64) int64) (r Raised, err error) {
	if t.ledger {
		r, err = f.raiseLedger(ctx, t, to)
	} else {
		r, err = f.raiseCounter(ctx, t, to)
	}
	if err == nil && r.Created && t.key != "" {
		err = f.takePlace(ctx, t)
	}
	return r, err
}

func (f *repair) raiseCounter(ctx context.Context, t target, to func(highest int64) int64) (r Raised, err error) {
	known, number, waiting, err := f.aim(ctx, t, to)
	if err != nil {
		return r, err
	}
	list := countersOf(f.store, t.Settings)
	r, err = raise(ctx, list, t.counter, max(number, waiting), time.Now())
	r.Waiting, r.Beside = waiting, f.isLost(known)
	if err == nil && r.Created {
		var made persist.Counter
		made, err = list.Read(ctx, t.counter)
		r.After = made.Max // above a gap if the store failed over
	}
	return r, err
}

// aim returns a counter, the zero value if there is none, the number to raise it to, and how far
// its cursor in Redis went if that is above the number, else 0.
func (f *repair) aim(ctx context.Context, t target, to func(highest int64) int64) (known persist.Counter, number, waiting int64, err error) {
	known, err = f.store.Counters().Read(ctx, t.counter)
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return known, 0, 0, err
	}
	number = to(known.Max)
	if waiting, err = f.inCursor(ctx, t); waiting <= number {
		waiting = 0
	}
	return known, number, waiting, err
}

// isLost reports whether a failover may have lost a counter that the store does not have.
func (f *repair) isLost(known persist.Counter) bool { return known.BizTag == "" && f.fence.failedOver }

// inCursor returns the highest number that was ever in the cursor of a counter in Redis, 0 if there
// is none.
func (f *repair) inCursor(ctx context.Context, t target) (ceil int64, err error) {
	if f.cursors == nil {
		return 0, nil
	}
	// Also if the restored record says that the store sequences the counter: a cursor may have
	// taken over since the backup.
	if f.how.DryRun { // which writes nothing
		var ceils []int64
		if ceils, err = rediscursor.Ceils(ctx, *f.cursors, []string{t.counter}); err == nil {
			ceil = ceils[0]
		}
	} else {
		ceil, err = rediscursor.Ceil(ctx, *f.cursors, t.counter)
	}
	switch {
	case errors.Is(err, rediscursor.ErrForeign):
		return 0, fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return 0, fmt.Errorf("how far the cursor in Redis went cannot be asked, so nothing was changed: %w. "+
			"Start Redis; or run this command with a configuration without redis.addrs, and a number above all that callers got", err)
	}
	return ceil, nil
}

// takePlace counts a key whose counter was created against the most keys of its biz type. The
// strategies count them in a counter of its own.
func (f *repair) takePlace(ctx context.Context, t target) error {
	name := counters.PlacesName(t.Name, t.period)
	places := countersOf(f.store, nil)
	take := func() error {
		_, err := places.Allocate(ctx, persist.Request{BizTag: name, Size: 1, To: persist.Beside})
		return err
	}
	err := take()
	if errors.Is(err, persist.ErrNotFound) {
		err = places.Create(ctx, persist.Counter{BizTag: name, Step: 1, Timestamp: time.Now().UnixMilli()})
		if err == nil || errors.Is(err, persist.ErrExists) {
			err = take()
		}
	}
	return err
}

// named returns the counter that an operator names. One that the biz type does not have as it is
// must be meant: a restore also undoes a forced change of its shape, and who makes that again needs
// the counters of both shapes.
func (f *repair) named(ctx context.Context, counter string) (t target, err error) {
	if t, err = f.find(ctx, counter); err == nil && t.unfit != "" && !f.how.Sure {
		err = fmt.Errorf("%w: %s. If a change of its definition will give it %s again, add --yes", ErrRaise, t.unfit, counter)
	}
	return t, err
}

// find returns a counter that a biz type has, had or may get.
func (f *repair) find(ctx context.Context, counter string) (t target, err error) {
	bizType, _, _, _ := seqd.SplitCounter(counter)
	if t, err = f.owner(ctx, bizType); err != nil {
		return t, err
	}
	name, whole := counters.ParseName(bizType, counter)
	t.counter, t.key, t.period = counter, name.Key, name.Period
	if t.unfit == "" {
		t.unfit = t.misfit()
	}
	if name.Key != "" {
		if err := seqd.CheckKey(name.Key); err != nil {
			return t, fmt.Errorf("%w: %w", ErrRaise, err)
		}
	}
	if !whole {
		return t, fmt.Errorf("%w: %s", ErrRaise, cmp.Or(t.unfit, fmt.Sprintf("no counter is named %q", counter)))
	}
	return t, nil
}

// misfit returns why a biz type has no counter of this key and period, "" if it has.
func (t *target) misfit() string {
	traits := seqd.TraitsOf(t.Settings)
	reset := traits.Calendar.Reset
	switch keyed := traits.Keyed; {
	case keyed && t.key == "":
		return fmt.Sprintf("%s counts for each key on its own: name one, such as %s", t.Name, seqd.CounterOf(t.Name, "tenant-42"))
	case !keyed && t.key != "":
		return t.Name + " has one counter for all callers: it has no keys"
	case reset == seqd.ResetNever && t.period != 0:
		return fmt.Sprintf("the numbers of %s never reset: it has no periods", t.Name)
	case !reset.Fits(t.period):
		return fmt.Sprintf("the numbers of %s reset %s: name the period, such as %s",
			t.Name, reset, reset.Of(time.Now()).Counter(seqd.CounterOf(t.Name, t.key)))
	}
	return ""
}

// owner returns a target of a biz type, without a counter.
func (f *repair) owner(ctx context.Context, bizType string) (t target, err error) {
	b, ok := f.known[bizType]
	if !ok {
		if b, err = defined(ctx, f.cfg, f.store, bizType); err != nil {
			return t, err
		}
		f.known[bizType] = b
	}
	factory, err := strategy.Lookup(b.Strategy)
	if err != nil {
		return t, err
	}
	t = target{BizType: b, ledger: factory.Ledger}
	if factory.Restored != nil {
		t.unfit = fmt.Sprintf("%s has no counter: its strategy is %s; see seqd restored", bizType, b.Strategy)
	}
	return t, nil
}

// defined returns a biz type as the nodes have it, also one that was disabled or deleted.
func defined(ctx context.Context, cfg *config.Config, store persist.Store, name string) (b seqd.BizType, err error) {
	if cfg.BizTypesFrom == config.FromStore {
		found, err := definitions.Find(ctx, cfg, store.Documents(), name)
		switch {
		case err == nil:
			return found.BizType, found.Err
		case !errors.Is(err, persist.ErrNotFound) && !errors.Is(err, persist.ErrInvalid):
			// a name that no biz type can have is invalid
			return b, err
		}
	}
	return configured(cfg, name)
}

// configured returns a biz type of the configuration.
func configured(cfg *config.Config, name string) (b seqd.BizType, err error) {
	i := slices.IndexFunc(cfg.BizTypes, func(b seqd.BizType) bool { return b.Name == name })
	if i < 0 {
		return b, fmt.Errorf("%w: there is no biz type %q, neither in the configuration nor in the store", ErrRaise, name)
	}
	return cfg.BizTypes[i], nil
}

// checkKept refuses a store that can hold no backup.
func checkKept(as error, cfg config.Store) error {
	if cfg.Forgets() {
		return fmt.Errorf("%w: store.driver: %s keeps nothing", as, cfg.Driver)
	}
	path, inFile := cfg.File()
	// Creating a file because the path is wrong would look like success.
	if _, err := os.Stat(path); inFile && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: there is no file %s: name the file of the store, or restore its backup first", as, cfg.Key(), path)
	}
	return nil
}

// raise raises a counter that is in persist.Counters.
func raise(ctx context.Context, counters persist.Counters, bizType string, number int64, now time.Time) (Raised, error) {
	known, err := counters.Read(ctx, bizType)
	if errors.Is(err, persist.ErrNotFound) {
		// The strategy adapts any step.
		made := persist.Counter{BizTag: bizType, Max: number, Step: 1, Timestamp: now.UnixMilli()}
		err = counters.Create(ctx, made)
		if !errors.Is(err, persist.ErrExists) {
			return Raised{After: number, Created: true}, err
		}
		known, err = counters.Read(ctx, bizType)
	}
	if err != nil {
		return Raised{}, err
	}
	if known.Max >= number && known.FailedOver {
		// Its epoch counts no more already, and the next range is to begin above a gap.
		return Raised{Before: known.Max, After: known.Max}, nil
	}
	var to persist.Target // empties the epoch
	if known.Epoch == persist.StoreEpoch {
		to = persist.Beside // the store sequences the counter: there is no cursor to retire
	}
	if known.Max >= number {
		// None are taken: this retires the cursor, which nodes notice within seconds.
		_, err := counters.Allocate(ctx, persist.Request{BizTag: bizType, To: to})
		return Raised{Before: known.Max, After: known.Max}, err
	}
	// One number above number − 1, which nobody gets. It is one atomic step on every store, and
	// leaves the step and its time alone; if another process has allocated since the look above,
	// none of theirs are lost.
	taken, err := counters.Allocate(ctx, persist.Request{BizTag: bizType, Size: 1, Floor: number - 1, To: to})
	return Raised{Before: known.Max, After: taken.Last}, err
}
