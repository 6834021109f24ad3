package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// ErrRaise is returned by Raise for an argument that it cannot do anything with. Nothing was opened then.
var ErrRaise = errors.New("nothing to raise")

// Raised is what came of Raise.
type Raised struct {
	// Before and After are the highest number that counts as issued, before and after. They are equal when nothing changed.
	Before, After int64
	// Created is true when the store had no counter for the biz type and has one now; Before is 0 then.
	Created bool
}

// String says it in a line.
func (r Raised) String() string {
	switch {
	case r.Created:
		return fmt.Sprintf("no counter → %d: the store had none, and has one now", r.After)
	case r.Before == r.After:
		return fmt.Sprintf("nothing changed, it is at %d already", r.Before)
	}
	return fmt.Sprintf("%d → %d", r.Before, r.After)
}

// Raise makes everything up to number count as issued for a biz type of the configuration: the step after restoring a backup of the store, which
// does not know what was issued since. It never lowers a counter, and doing it twice changes nothing more. number is 1 to 2^53 − 1.
//
// No seqd may reach the store from before the backup is restored until Raise has returned: what one issues in between could be issued again. After an
// error the counter may have been raised or not; it is safe to call again. Raise is bounded by the time-outs of the store and by ctx.
func Raise(ctx context.Context, cfg *config.Config, bizType string, number int64) (r Raised, err error) {
	if err := checkRaise(cfg, bizType, number); err != nil {
		return r, err
	}
	store, err := newStore(ctx, cfg.Store, time.Now, false)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return raise(ctx, store.Counters(), bizType, number, time.Now())
}

// checkRaise refuses what cannot be meant.
func checkRaise(cfg *config.Config, bizType string, number int64) error {
	i := slices.IndexFunc(cfg.BizTypes, func(b seqd.BizType) bool { return b.Name == bizType })
	if i < 0 {
		return fmt.Errorf("%w: the configuration has no biz type %q", ErrRaise, bizType)
	}
	if factory, err := strategy.Lookup(cfg.BizTypes[i].Strategy); err != nil || factory.Restored != nil {
		return fmt.Errorf("%w: %s has no counter: its strategy is %s; see seqd restored", ErrRaise, bizType, cfg.BizTypes[i].Strategy)
	}
	if number < 1 || number > seqd.MaxNumber {
		return fmt.Errorf("%w: %d is outside 1 to %d", ErrRaise, number, seqd.MaxNumber)
	}
	return checkKept(cfg.Store)
}

// checkKept refuses a store that can hold no backup.
func checkKept(cfg config.Store) error {
	switch cfg.Driver {
	case "memory":
		return fmt.Errorf("%w: store.driver: memory keeps nothing", ErrRaise)
	case "bolt":
		// A new file here, by a wrong path or folder, would look like success.
		if _, err := os.Stat(cfg.Bolt.Path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: store.bolt.path: there is no file %s; restore the backup first", ErrRaise, cfg.Bolt.Path)
		}
	}
	return nil
}

// Restored does what the strategies that keep no counter need after a backup of the store, or of the Redis that holds their registry, was restored,
// and tells of each biz type what was done. Nodes may be running; it is safe to call again, also after an error.
func Restored(ctx context.Context, cfg *config.Config, tell func(bizType, done string)) (err error) {
	if err := checkKept(cfg.Store); err != nil {
		return err
	}
	r := &runtime{cfg: cfg, options: options{now: time.Now, log: slog.New(slog.DiscardHandler), observer: seqd.NopObserver{}}, addr: cfg.Server.Addr}
	if r.store, err = newStore(ctx, cfg.Store, r.now, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	if err := r.readCluster(ctx); err != nil {
		return err
	}
	if cfg.Redis.Configured() {
		if r.redis, err = newRedis(cfg.Redis); err != nil {
			return err
		}
		defer func() { _ = r.redis.Close() }()
	}
	for _, b := range cfg.BizTypes {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil {
			return err
		}
		if factory.Restored == nil {
			continue
		}
		done, err := factory.Restored(ctx, r.env(), b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		tell(b.Name, done)
	}
	return nil
}

func raise(ctx context.Context, counters persist.Counters, bizType string, number int64, now time.Time) (Raised, error) {
	known, err := counters.Read(ctx, bizType)
	if errors.Is(err, persist.ErrNotFound) {
		// The strategy finds the step that it wants from any.
		made := persist.Counter{BizTag: bizType, Max: number, Step: 1, Timestamp: now.UnixMilli()}
		err = counters.Create(ctx, made)
		if !errors.Is(err, persist.ErrExists) {
			return Raised{After: number, Created: true}, err
		}
		known, err = counters.Read(ctx, bizType)
	}
	if err != nil || known.Max >= number {
		return Raised{Before: known.Max, After: known.Max}, err
	}
	// One number above number − 1, which nobody gets. It is one atomic step on every store, and leaves the step and its time alone; where somebody
	// else took numbers since the look above, none of theirs are lost.
	taken, err := counters.Allocate(ctx, persist.Request{BizTag: bizType, Size: 1, Floor: number - 1})
	return Raised{Before: known.Max, After: taken.Last}, err
}
