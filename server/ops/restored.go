package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/jobs"
	"github.com/seqd/seqd/server/workers"
	"github.com/seqd/seqd/strategy"
)

// Restored does what strategies without a counter and pools of worker IDs need after a backup of the
// store, or of the Redis or the coordinator that holds the registry of a strategy, was restored. It
// calls tell with each biz type or pool and what was done for it; for gapless biz types, that it has
// done nothing. Nodes may be running. It is safe to call again, also after an error.
func Restored(ctx context.Context, cfg *config.Config, tell func(what, done string)) (err error) {
	if err := checkKept(ErrRaise, cfg.Store); err != nil {
		return err
	}
	env := strategy.Env{
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{},
		RedisPrefix: cfg.Redis.KeyPrefix, Addr: cfg.Server.Addr,
	}
	if env.Store, err = backends.NewStore(ctx, cfg.Store, env.Now); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Store.Close()) }()
	if env.Cluster, err = persist.ClusterID(ctx, env.Store, env.Now); err != nil {
		return err
	}
	return leasesRestored(ctx, cfg, env, func(what, done string, _ bool) { tell(what, done) })
}

// leasesRestored is [Restored] for an open store. gapless is whether tell is called for a biz type
// without leases.
func leasesRestored(ctx context.Context, cfg *config.Config, env strategy.Env, tell func(what, done string, gapless bool)) (err error) {
	if cfg.Redis.Configured() {
		if env.Redis, err = backends.NewRedis(ctx, cfg.Redis); err != nil {
			return err
		}
		defer func() { _ = env.Redis.Close() }()
	}
	shut, err := coordinate(ctx, cfg, &env)
	if err != nil {
		return err
	}
	defer shut()
	list, deleted, err := allDefined(ctx, cfg.ForRepair(), env.Store)
	if err != nil {
		return err
	}
	for i, b := range list {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil {
			return err
		}
		if factory.Ledger {
			tell(b.Name, "it is gapless, and this did nothing for it: say how far each of its counters had come, by seqd raise", true)
		}
		if factory.Restored == nil {
			continue
		}
		traits := seqd.TraitsOf(b.Settings)
		if i < deleted && !cfg.Redis.Configured() && traits.Redis != "" {
			tell(b.Name, "it was deleted, and this did nothing for it, because it needs Redis and there is no redis.addrs", false)
			continue
		}
		if i < deleted && env.Coordinator == nil && traits.Coordinator != "" {
			tell(b.Name, "it was deleted, and this did nothing for it, because it needs a coordinator and coordination.driver is store", false)
			continue
		}
		done, err := factory.Restored(ctx, env, b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Name, err)
		}
		tell(b.Name, done, false)
	}
	err = workers.Restored(ctx, env.Store, env.Cluster, func(pool, done string) { tell("worker pool "+pool, done, false) })
	if err != nil {
		return fmt.Errorf("worker pools: %w", err)
	}
	return nil
}

// coordinate adds the coordinator of a cluster to what strategies are built from, if there is one.
// shut closes it.
func coordinate(ctx context.Context, cfg *config.Config, env *strategy.Env) (shut func(), err error) {
	coordinator, err := backends.NewCoordinator(ctx, cfg.Coordination, env.Cluster)
	if err != nil || coordinator == nil {
		return func() {}, err
	}
	env.Coordinator, env.CoordinatorPlace = coordinator, cfg.Coordination.Place(env.Cluster)
	return func() { _ = coordinator.Close() }, nil // nothing is under way
}

// ShutTokens disables the tokens of the store, and returns the names of those that were enabled:
// after a restore some are valid that should not be. Those of the configuration are not touched.
func ShutTokens(ctx context.Context, cfg *config.Config) (names []string, err error) {
	return undo(ctx, cfg, access.Shut)
}

// FailJobs lets the jobs of the store fail that have not ended, and returns their IDs: after a restore
// they would go on from where they were in the backup.
func FailJobs(ctx context.Context, cfg *config.Config) (ids []string, err error) {
	return undo(ctx, cfg, jobs.Restored)
}

// undo does something to the documents of the store that a restore may have brought back.
func undo(ctx context.Context, cfg *config.Config, do func(context.Context, persist.Documents, time.Time) ([]string, error)) (names []string, err error) {
	if err := checkKept(ErrRaise, cfg.Store); err != nil {
		return nil, err
	}
	store, err := backends.NewStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return do(ctx, store.Documents(), time.Now())
}

// allDefined returns every biz type as the nodes have it, also those that were disabled or deleted.
// The deleted ones come first, so that the others have the last word on what they share.
func allDefined(ctx context.Context, cfg *config.Config, store persist.Store) (list []seqd.BizType, deleted int, err error) {
	var gone []seqd.BizType
	seen := make(map[string]bool)
	if cfg.BizTypesFrom == config.FromStore {
		for d, err := range definitions.All(ctx, cfg, store.Documents()) {
			if err != nil {
				return nil, 0, err
			}
			if d.Err != nil {
				return nil, 0, d.Err
			}
			seen[d.Name] = true
			if d.Deleted {
				gone = append(gone, d.BizType)
			} else {
				list = append(list, d.BizType)
			}
		}
	}
	for _, b := range cfg.BizTypes {
		if !seen[b.Name] {
			list = append(list, b)
		}
	}
	return append(gone, list...), len(gone), nil
}
