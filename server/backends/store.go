package backends

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/server/config"
)

// closeTimeout bounds the closing of a store that was opened in vain.
const closeTimeout = 5 * time.Second

// NewStore opens a store, for commands that run beside the service.
func NewStore(ctx context.Context, cfg config.Store, now func() time.Time) (persist.Store, error) {
	return newStore(ctx, cfg, StoreOptions{Now: now}, false)
}

// newStore opens a store. With unreached it does so without reaching it, if the driver can.
func newStore(ctx context.Context, cfg config.Store, opts StoreOptions, unreached bool) (persist.Store, error) {
	switch cfg.Driver {
	case "memory":
		return memory.New(opts.Now), nil
	case "mongo":
		return mongo.Open(ctx, mongo.Options{
			URI: cfg.Mongo.URI, Database: cfg.Mongo.Database, Timeout: cfg.Mongo.Timeout, Now: opts.Now,
			Unreached: unreached, Monitor: opts.Monitor,
		})
	case "bolt":
		return bolt.Open(bolt.Options{Path: cfg.Bolt.Path, LockTimeout: cfg.Bolt.LockTimeout, Now: opts.Now})
	}
	return nil, fmt.Errorf("store.driver: %q is unknown", cfg.Driver)
}

// StoreOptions are how the store of the service is opened.
type StoreOptions struct {
	Now func() time.Time
	Log *slog.Logger
	// Monitor sees the commands of MongoDB; nil for none.
	Monitor *event.CommandMonitor
	// Remembered returns the biz types of this node that can issue without the store, and the
	// cluster that they remember. Nil if none can.
	Remembered func() (bizTypes []string, cluster string)
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

	gate *gate // nil if the store was reached at the start
	log  *slog.Logger
}

// OpenStore opens the store. While it is out of reach or out of space, OpenStore tries again until
// ctx ends; other errors are returned. If biz types of this node can issue without the store,
// OpenStore does not wait for it: see [Store.Confirm].
func OpenStore(ctx context.Context, cfg config.Store, opts StoreOptions) (*Store, error) {
	if opts.Remembered != nil && cfg.Driver == "mongo" {
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
		store, err = newStore(ctx, cfg, opts, false)
		return err
	})
	if err != nil {
		return nil, err
	}
	opts.Log.Info("store open", "promise", store.Describe())
	s := &Store{Store: store, log: opts.Log}
	err = opts.Await(ctx, func(ctx context.Context) (err error) {
		s.Cluster, err = persist.ClusterID(ctx, store, opts.Now)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, discard(store))
	}
	return s, nil
}

// openOrBeginAlone opens the store if it can be reached now, and otherwise returns one that is still
// to be confirmed to be that of cluster.
func openOrBeginAlone(ctx context.Context, cfg config.Store, opts StoreOptions, bizTypes []string, cluster string) (*Store, error) {
	store, err := newStore(ctx, cfg, opts, false)
	if err == nil {
		var id string
		if id, err = persist.ClusterID(ctx, store, opts.Now); err == nil {
			opts.Log.Info("store open", "promise", store.Describe())
			return &Store{Store: store, Cluster: id, log: opts.Log}, nil
		}
	}
	if errors.Is(err, persist.ErrUnavailable) && store == nil {
		store, _ = newStore(ctx, cfg, opts, true)
	}
	if errors.Is(err, persist.ErrUnavailable) && store != nil {
		opts.Log.Warn("the store cannot be reached: biz types with a reservation of their own begin without it",
			"bizTypes", bizTypes, "error", err)
		return Unconfirmed(store, cluster, opts.Log), nil
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

// Await calls attempt, which needs the store, until it fails with something else than
// [persist.ErrUnavailable], or not at all. It logs a reason once, not at every attempt.
func (o StoreOptions) Await(ctx context.Context, attempt func(context.Context) error) error {
	logged := retry.OnChange(func(err error) { o.Log.Error("the store cannot be opened yet", "error", err) })
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

// Unconfirmed returns a store that could not be reached at the start, and must not be used before
// [Store.Confirm] has found that it is that of a cluster: the one that answers later may be another
// store.
func Unconfirmed(store persist.Store, cluster string, log *slog.Logger) *Store {
	g := &gate{Store: store}
	return &Store{Store: g, Cluster: cluster, gate: g, log: log}
}

// BeganWithout reports whether the store could not be reached at the start.
func (s *Store) BeganWithout() bool { return s.gate != nil }

// Unreached reports whether the store could not be reached at the start, and has not been confirmed
// since.
func (s *Store) Unreached() bool { return s.gate != nil && s.gate.shut() != nil }

// Confirm returns nil as soon as the store can be reached, is that of the cluster, and check, which
// is given the store itself, returns nil. It returns [seqd.CodeConflict] if the store is another
// one, or check says so; then the node must stop, because what it keeps elsewhere carries the wrong
// cluster. While the store is away it tries again, until ctx ends. It writes nothing before it knows
// that the store is that of the cluster.
func (s *Store) Confirm(ctx context.Context, check func(context.Context, persist.Store) error) error {
	if s.gate == nil {
		return nil
	}
	failed := retry.OnChange(func(err error) {
		s.log.Error("the store cannot be asked yet whether it is the same as before", "error", err)
	})
	err := retry.Do(ctx, retry.Policy{First: RetryPause, Failed: failed}, func(ctx context.Context) error {
		err := s.compare(ctx)
		if err == nil {
			err = check(ctx, s.gate.Store)
		}
		if seqd.CodeOf(err) == seqd.CodeConflict {
			return retry.Permanent(err)
		}
		return err
	})
	if err == nil {
		s.gate.open.Store(true)
		s.log.Info("store open", "promise", s.Store.Describe())
	}
	return err
}

// compare returns nil if the store behind the gate is that of the cluster.
func (s *Store) compare(ctx context.Context) error {
	known, err := s.gate.Store.Clusters().Read(ctx, persist.Cluster{}.PersistID())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return seqd.Errorf(seqd.CodeConflict, "the store is new, the reservation on disk is of the cluster %s", s.Cluster)
	case err != nil:
		return err
	case known.ID != s.Cluster:
		return seqd.Errorf(seqd.CodeConflict, "the store is that of the cluster %s, the reservation on disk is of %s", known.ID, s.Cluster)
	}
	return nil
}
