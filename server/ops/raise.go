package ops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// ErrRaise is returned by [Raise] and [Restored] when an argument or the configuration makes no
// sense. Nothing was changed.
var ErrRaise = errors.New("nothing to raise")

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
}

// String returns the result as one line.
func (r Raised) String() string {
	if r.Waiting > 0 {
		return fmt.Sprintf("%s; numbers up to %d wait in Redis", r.change(), r.Waiting)
	}
	return r.change()
}

func (r Raised) change() string {
	switch {
	case r.Created:
		return fmt.Sprintf("no counter → %d: the store had none, and has one now", r.After)
	case r.Before == r.After:
		return fmt.Sprintf("nothing changed, it is at %d already", r.Before)
	}
	return fmt.Sprintf("%d → %d", r.Before, r.After)
}

// Raise makes everything up to number count as issued for a biz type of the configuration or of the
// store, even if it was deleted. If its numbers reset, bizType names one of its periods, such as
// order@20261120. Raise is the step after restoring a backup of the store, which does not know what
// was issued since. It never lowers a counter, and calling it again changes nothing. number is 1 to
// 2^53 − 1.
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
// Every seqd must be stopped from before the backup is restored until Raise has returned. A seqd
// that runs, even if it cannot reach the store meanwhile, holds ranges above number and issues them
// later, and what it issues meanwhile could be issued again. After an error the counter may or may
// not have been raised; it is safe to call Raise again. The time-outs of the store and of Redis,
// and ctx, bound Raise.
func Raise(ctx context.Context, cfg *config.Config, bizType string, number int64) (r Raised, err error) {
	if number < 1 || number > seqd.MaxNumber {
		return r, fmt.Errorf("%w: %d is outside 1 to %d", ErrRaise, number, seqd.MaxNumber)
	}
	// its only biz types are those of the configuration, and it keeps no numbers
	if cfg.Store.Driver == "memory" {
		if _, err := configured(cfg, bizType); err != nil {
			return r, err
		}
	}
	if err := checkKept(cfg.Store); err != nil {
		return r, err
	}
	cfg = cfg.ForRepair()
	store, err := backends.NewStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	b, err := checkRaise(ctx, cfg, store, bizType)
	if err != nil {
		return r, err
	}
	waiting, err := inCursor(ctx, cfg, store, bizType)
	if err != nil {
		return r, err
	}
	if waiting <= number {
		waiting = 0
	}
	list := counters(store, b.Settings)
	r, err = raise(ctx, list, bizType, max(number, waiting), time.Now())
	r.Waiting = waiting
	if err == nil && r.Created {
		var made persist.Counter
		made, err = list.Read(ctx, bizType)
		r.After = made.Max // above a gap if the store failed over
	}
	return r, err
}

// inCursor returns the highest number that was ever in the cursor of a biz type in Redis, 0 if
// there is none.
func inCursor(ctx context.Context, cfg *config.Config, store persist.Store, counter string) (ceil int64, err error) {
	if !cfg.Redis.Configured() || !cfg.Store.Shared() {
		return 0, nil // a store of one node needs no cursor
	}
	cluster, err := persist.ClusterID(ctx, store, time.Now)
	if err != nil {
		return 0, err
	}
	client, err := backends.NewRedis(cfg.Redis)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	// Also if the restored record says that the store sequences the counter: a cursor may have
	// taken over since the backup.
	ceil, err = rediscursor.Ceil(ctx, rediscursor.Options{Client: client, Prefix: cfg.Redis.KeyPrefix, Cluster: cluster}, counter)
	if err != nil {
		return 0, fmt.Errorf("how far the cursor in Redis went cannot be asked, so nothing was changed: %w. "+
			"Start Redis; or run this command with a configuration without redis.addrs, and a number above all that callers got", err)
	}
	return ceil, nil
}

// checkRaise refuses a counter that the biz type cannot have.
func checkRaise(ctx context.Context, cfg *config.Config, store persist.Store, counter string) (b seqd.BizType, err error) {
	bizType, digits, period := strings.Cut(counter, "@")
	if b, err = defined(ctx, cfg, store, bizType); err != nil {
		return b, err
	}
	reset := seqd.CalendarOf(b).Reset
	switch _, ok := reset.Parse(digits); {
	case reset == seqd.ResetNever && period:
		return b, fmt.Errorf("%w: the numbers of %s never reset: it has no periods", ErrRaise, bizType)
	case reset != seqd.ResetNever && !ok:
		return b, fmt.Errorf("%w: the numbers of %s reset %s: name the period, such as %s", ErrRaise, bizType, reset, reset.Of(time.Now()).Counter(bizType))
	}
	if factory, err := strategy.Lookup(b.Strategy); err != nil || factory.Restored != nil {
		return b, fmt.Errorf("%w: %s has no counter: its strategy is %s; see seqd restored", ErrRaise, bizType, b.Strategy)
	}
	return b, nil
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

// configured returns the biz type of the configuration whose counter this is.
func configured(cfg *config.Config, counter string) (b seqd.BizType, err error) {
	name, _, _ := strings.Cut(counter, "@")
	i := slices.IndexFunc(cfg.BizTypes, func(b seqd.BizType) bool { return b.Name == name })
	if i < 0 {
		return b, fmt.Errorf("%w: there is no biz type %q, neither in the configuration nor in the store", ErrRaise, name)
	}
	return cfg.BizTypes[i], nil
}

// checkKept refuses a store that can hold no backup.
func checkKept(cfg config.Store) error {
	switch cfg.Driver {
	case "memory":
		return fmt.Errorf("%w: store.driver: memory keeps nothing", ErrRaise)
	case "bolt":
		// Creating a file because the path is wrong would look like success.
		if _, err := os.Stat(cfg.Bolt.Path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: store.bolt.path: there is no file %s; restore the backup first", ErrRaise, cfg.Bolt.Path)
		}
	}
	return nil
}

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
