package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A store without a cluster ID is new: no seqd has run on it, and all numbers begin at their start.
// That is right once in the life of an installation. Later it means that a volume is not mounted, that
// a path or a name is mistyped, or that a database was lost.

// enter returns the cluster that a store belongs to. If the store is new, enter refuses it
// (store.mustExist, or Redis has cursors), or makes it that of a cluster and says so in the log.
func (o StoreOptions) enter(ctx context.Context, cfg config.Store, store persist.Store) (persist.Cluster, error) {
	known, err := persist.ReadCluster(ctx, store.Documents())
	if !errors.Is(err, persist.ErrNotFound) {
		if r, _, failed := persist.ReadRestored(ctx, store.Documents()); failed == nil {
			o.Log.Warn("the store was restored from a snapshot: a counter that it does not have begins above a gap, and a gapless one refuses, until seqd snapshot confirm",
				"since", time.UnixMilli(r.Began).UTC(), "at", time.UnixMilli(r.At).UTC())
		}
		return known, err
	}
	if cfg.MustExist {
		return known, missing(cfg)
	}
	if err := o.checkPrior(ctx, cfg); err != nil {
		// Another node may have begun the store, and told Redis, since this one looked.
		if known, began := persist.ReadCluster(ctx, store.Documents()); began == nil {
			return known, nil
		}
		return known, err
	}
	if _, err := persist.ClusterID(ctx, store, o.Now); err != nil {
		return known, err
	}
	known, err = persist.ReadCluster(ctx, store.Documents())
	if err == nil && !cfg.Forgets() { // which is new at every start
		o.Log.Warn("the store is new, and all numbers begin at their start: if numbers were issued before, stop seqd and look which store it has",
			"driver", cfg.Driver, "place", cfg.Place(), "cluster", known.ID)
	}
	return known, err
}

// missing is why a new store is refused.
func missing(cfg config.Store) error {
	return seqd.Errorf(seqd.CodeConflict, "store.mustExist: no seqd has run on this store before: %s, %s. Look whether the volume is mounted, "+
		"and whether the path or the address and the name of the database are right. If the store was lost, restore a backup and raise its numbers. "+
		"If it shall be new, start once without store.mustExist", cfg.Driver, cfg.Place())
}

// mustExist returns why a store must not be used by a command that runs beside the service.
func mustExist(ctx context.Context, cfg config.Store, store persist.Store) error {
	_, err := persist.ReadCluster(ctx, store.Documents())
	switch {
	case errors.Is(err, persist.ErrMoved):
		return err
	case !cfg.MustExist:
		return nil
	case errors.Is(err, persist.ErrNotFound):
		return missing(cfg)
	}
	return err
}

// fileMustExist returns why the file of a store must not be made.
func fileMustExist(cfg config.Store) error {
	path, inFile := cfg.File()
	if _, err := os.Stat(path); inFile && cfg.MustExist && errors.Is(err, fs.ErrNotExist) {
		return missing(cfg)
	}
	return nil
}

// checkPrior returns why a new store must not be used beside Redis: Redis has cursors of a cluster
// with another store, whose numbers would repeat. If Redis cannot be asked, it returns
// [persist.ErrUnavailable] for a store that nodes share. A store in a file has no cursors in Redis,
// so it does not wait for it.
func (o StoreOptions) checkPrior(ctx context.Context, cfg config.Store) error {
	if o.Prior == nil || cfg.Forgets() {
		return nil
	}
	cluster, err := o.Prior(ctx)
	switch {
	case cluster != "":
		return seqd.Errorf(seqd.CodeConflict, "the store is new (%s, %s), and Redis serves a cluster with another store, %s, whose numbers would repeat: "+
			"give seqd the store that it had, or restore a backup and raise its numbers. If this is another installation, "+
			"give it a Redis or a redis.keyPrefix of its own", cfg.Driver, cfg.Place(), cluster)
	case err == nil, !cfg.Shared(), unfit(err): // OpenRedis says what is unfit
		return nil
	}
	return fmt.Errorf("the store is new, and Redis cannot be asked whether it has cursors: %w: %w", persist.ErrUnavailable, err)
}

// Prior returns a function that asks Redis for the ID of the cluster that it serves, "" for none. It
// returns nil if the configuration has no Redis.
func Prior(cfg config.Redis) func(context.Context) (string, error) {
	if !cfg.Configured() {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		client, err := NewRedis(ctx, cfg)
		if err != nil {
			return "", err
		}
		defer client.Close()
		return rediscursor.Owner(ctx, rediscursor.Options{Client: client, Prefix: cfg.KeyPrefix})
	}
}

// Created returns when the store became that of its cluster. ok is false if that is not known yet.
func (s *Store) Created() (at time.Time, ok bool) {
	ms := s.created.Load()
	return time.UnixMilli(ms), ms != 0
}
