package backends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/timed"
	"github.com/seqd/seqd/server/config"
)

// closeTimeout bounds the closing of a store that was opened in vain.
const closeTimeout = 5 * time.Second

// NewStore opens a store, for commands that run beside the service.
func NewStore(ctx context.Context, cfg config.Store, now func() time.Time) (persist.Store, error) {
	return existing(ctx, cfg, driver.How{Now: now, Beside: true})
}

// ReadStore opens a store for commands that change nothing in it.
func ReadStore(ctx context.Context, cfg config.Store, now func() time.Time) (persist.Store, error) {
	return existing(ctx, cfg, driver.How{Now: now, ReadOnly: true})
}

// MovingStore opens a store for a command that moves it, also one that is shut.
func MovingStore(ctx context.Context, cfg config.Store, now func() time.Time) (persist.Store, error) {
	return newStore(ctx, cfg, driver.How{Now: now, Beside: true, PastShut: true})
}

// existing opens a store that a node has made, and that was not moved.
func existing(ctx context.Context, cfg config.Store, how driver.How) (persist.Store, error) {
	store, err := newStore(ctx, cfg, how)
	if err != nil {
		return nil, err
	}
	if err := mustExist(ctx, cfg, store); err != nil {
		return nil, errors.Join(err, discard(store))
	}
	return store, nil
}

// newStore opens a store.
func newStore(ctx context.Context, cfg config.Store, how driver.How) (persist.Store, error) {
	if open := seams.Of(ctx).OpenStore; open != nil {
		return open(ctx, how)
	}
	if err := fileMustExist(cfg); err != nil {
		return nil, err
	}
	if _, err := driver.Lookup(cfg.Driver); err != nil {
		return nil, fmt.Errorf("store.driver: %w", err)
	}
	return cfg.Chosen().Open(ctx, how)
}

// StoreOptions are how the store of the service is opened.
type StoreOptions struct {
	Now func() time.Time
	Log *slog.Logger
	// Trace sees the commands that are sent to a server; nil for none.
	Trace driver.Trace
	// Took is called after each operation of the store, and Synced as [driver.How] says; nil for none.
	Took   timed.Took
	Synced func(took time.Duration)
	// Remembered returns the biz types of this node that can issue without the store, and the
	// cluster that they remember. Nil if none can.
	Remembered func() (bizTypes []string, cluster string)
	// Prior returns the ID of the cluster that Redis serves, "" for none; nil if there is no Redis.
	Prior func(ctx context.Context) (cluster string, err error)
	// Waiting is called with the reason whenever the store could not be opened and is tried again;
	// nil for no call.
	Waiting func(*seqd.Error)
}

// Store is the store of the service, and the cluster that it belongs to.
type Store struct {
	// Store returns [persist.ErrUnavailable] for everything while Unreached is true.
	Store persist.Store
	// Cluster is its ID, which data outside the store carries too.
	Cluster string

	created      atomic.Int64 // see Created, in ms since the Unix epoch; 0 if it is not known
	gate         *Gate
	beganWithout bool // it could not be reached at the start
	fence        fence
	pooled       persist.Pooled // nil if the store has no pool
	log          *slog.Logger
}

// OpenStore opens the store. While it is out of reach or out of space, OpenStore tries again until
// ctx ends; other errors are returned. If biz types of this node can issue without the store,
// OpenStore does not wait for it: see [Store.Confirm].
func OpenStore(ctx context.Context, cfg config.Store, opts StoreOptions) (*Store, error) {
	if opts.Remembered != nil && cfg.Shared() {
		if bizTypes, cluster := opts.Remembered(); len(bizTypes) > 0 {
			return openOrBeginAlone(ctx, cfg, opts, bizTypes, cluster)
		}
	}
	return openReached(ctx, cfg, opts)
}

// openReached opens the store and reads its cluster.
func openReached(ctx context.Context, cfg config.Store, opts StoreOptions) (*Store, error) {
	var store persist.Store
	err := opts.Await(ctx, func(ctx context.Context) (err error) {
		store, err = newStore(ctx, cfg, opts.how())
		return err
	})
	if err != nil {
		return nil, err
	}
	opts.Log.Info("store open", "promise", store.Describe())
	var cluster persist.Cluster
	err = opts.Await(ctx, func(ctx context.Context) (err error) {
		cluster, err = opts.enter(ctx, cfg, store)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, discard(store))
	}
	return opts.opened(store, cluster), nil
}

// how returns how the driver opens the store.
func (o StoreOptions) how() driver.How {
	return driver.How{Now: o.Now, Trace: o.Trace, Synced: o.Synced}
}

// guard returns the store that the service uses: its operations are measured, and survive panics.
func (o StoreOptions) guard(store persist.Store) persist.Store {
	return persist.Guard(timed.Store(store, o.Took))
}

// opened returns a store that could be reached.
func (o StoreOptions) opened(store persist.Store, cluster persist.Cluster) *Store {
	s := &Store{Store: o.guard(store), Cluster: cluster.ID, log: o.Log}
	s.pooled, _ = store.(persist.Pooled)
	s.created.Store(cluster.Timestamp)
	return s
}

// openOrBeginAlone opens the store if it can be reached now, and otherwise returns one that is
// still to be confirmed to be that of cluster.
func openOrBeginAlone(ctx context.Context, cfg config.Store, opts StoreOptions, bizTypes []string, cluster string) (*Store, error) {
	gate := new(Gate)
	how := opts.how()
	how.Admit = gate.Admit
	store, err := newStore(ctx, cfg, how)
	if err == nil {
		var known persist.Cluster
		if known, err = opts.enter(ctx, cfg, store); err == nil {
			opts.Log.Info("store open", "promise", store.Describe())
			return opts.opened(store, known), nil
		}
	}
	if errors.Is(err, persist.ErrUnavailable) && store == nil {
		how.Unreached = true
		store, _ = newStore(ctx, cfg, how)
	}
	if errors.Is(err, persist.ErrUnavailable) && store != nil {
		opts.Log.Warn("the store cannot be reached: biz types with a reservation of their own begin without it",
			"bizTypes", bizTypes, "error", err)
		s := Unconfirmed(timed.Store(store, opts.Took), gate, cluster, opts.Log)
		s.pooled, _ = store.(persist.Pooled)
		return s, nil
	}
	if store != nil {
		if err := discard(store); err != nil {
			return nil, err
		}
	}
	return openReached(ctx, cfg, opts) // it returns the error, if there still is one
}

// discard closes a store that was opened in vain.
func discard(store persist.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return bounded.Do(ctx, func(context.Context) error { return store.Close() })
}

// LogWaiting returns a function that logs why a start waits: as a warning if the wait can end by
// itself, because the store is away, and as an error if only an operator can end it.
func LogWaiting(log *slog.Logger, msg string) func(error) {
	return func(err error) {
		level := slog.LevelError
		if errors.Is(err, persist.ErrUnavailable) {
			level = slog.LevelWarn
		}
		log.Log(context.Background(), level, msg, "error", err)
	}
}

// Await calls attempt, which needs the store, until it fails with something else than
// [persist.ErrUnavailable], or not at all. It logs a reason once, not at every attempt.
func (o StoreOptions) Await(ctx context.Context, attempt func(context.Context) error) error {
	logged := retry.OnChange(LogWaiting(o.Log, "the store cannot be opened yet"))
	failed := func(err error) {
		logged(err)
		if o.Waiting != nil {
			o.Waiting(&seqd.Error{
				Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be opened yet", RetryAfter: RetryPause, Err: err,
			})
		}
	}
	return retry.Do(ctx, retry.Policy{First: RetryPause, Failed: failed}, func(ctx context.Context) error {
		err := attempt(ctx)
		if errors.Is(err, persist.ErrUnavailable) {
			return err
		}
		return retry.Permanent(err)
	})
}

// Unconfirmed returns a store that could not be reached at the start. It shuts the gate, which the
// store asks, until [Store.Confirm] has found that the store is that of the cluster.
func Unconfirmed(store persist.Store, gate *Gate, cluster string, log *slog.Logger) *Store {
	gate.shut.Store(true)
	return &Store{Store: persist.Guard(store), Cluster: cluster, gate: gate, beganWithout: true, log: log}
}

// Pool returns the state of the store's pool of connections. ok is false if it has none.
func (s *Store) Pool() (pool persist.Pool, ok bool) {
	if s.pooled == nil {
		return pool, false
	}
	return s.pooled.Pool(), true
}

// BeganWithout reports whether the store could not be reached at the start.
func (s *Store) BeganWithout() bool { return s.beganWithout }

// Unreached reports whether the store could not be reached at the start, and has not been confirmed
// since.
func (s *Store) Unreached() bool { return s.beganWithout && s.gate.shut.Load() }

// Confirm returns nil as soon as the store can be reached, is that of the cluster, and check
// returns nil, whose context lets it use the store. It returns [seqd.CodeConflict] if the store is
// another one, or check says so; then the node must stop, because what it keeps elsewhere carries
// the wrong cluster. While the store is away it tries again, until ctx ends. It writes nothing
// before it knows that the store is that of the cluster.
func (s *Store) Confirm(ctx context.Context, check func(context.Context) error) error {
	if !s.Unreached() {
		return nil
	}
	failed := retry.OnChange(LogWaiting(s.log, "the store cannot be asked yet whether it is the same as before"))
	err := retry.Do(s.gate.pass(ctx), retry.Policy{First: RetryPause, Failed: failed}, func(ctx context.Context) error {
		err := s.compare(ctx)
		if err == nil {
			err = check(ctx)
		}
		if seqd.CodeOf(err) == seqd.CodeConflict {
			return retry.Permanent(err)
		}
		return err
	})
	if err == nil {
		s.gate.shut.Store(false)
		s.log.Info("store open", "promise", s.Store.Describe())
	}
	return err
}

// compare returns nil if the store is that of the cluster.
func (s *Store) compare(ctx context.Context) error {
	known, err := persist.ReadCluster(ctx, s.Store.Documents())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return seqd.Errorf(seqd.CodeConflict, "the store is new, the reservation on disk is of the cluster %s", s.Cluster)
	case err != nil:
		return err
	case known.ID != s.Cluster:
		return seqd.Errorf(seqd.CodeConflict, "the store is that of the cluster %s, the reservation on disk is of %s", known.ID, s.Cluster)
	}
	s.created.Store(known.Timestamp)
	return nil
}
