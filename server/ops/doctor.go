package ops

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/doctor"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/openfiles"
	"github.com/seqd/seqd/strategy"
)

// Doctor examines a configuration and everything that it names, and returns what it finds and
// recommends. It changes nothing, nodes may be running, and it takes about 11 s at most, also if
// nothing answers, and what it takes to read log. If log is not nil, it is the log of nodes since a
// backup that was restored, and Doctor names the changes in it that the store lacks.
func Doctor(ctx context.Context, cfg *config.Config, log io.Reader) []doctor.Section {
	d := &doctor.Doctor{
		Config: cfg, Redis: func(c config.Redis) (redis.UniversalClient, error) { return backends.NewRedis(ctx, c) }, Shape: definitions.Shape,
		Coordinator: func(c config.Coordination, cluster string) (coordination.Coordinator, error) {
			return backends.NewCoordinator(ctx, c, cluster)
		},
		Host: doctor.ThisHost(openfiles.Limit), Now: time.Now,
		Definitions: func(ctx context.Context, store persist.Store) ([]doctor.Definition, error) {
			return storedDefinitions(ctx, cfg, store)
		},
		Mixed: func(ctx context.Context, store persist.Store) (*seqd.Error, error) {
			return nodes.MixedIn(ctx, store, cfg.BizTypesFrom)
		},
		Elsewhere: func(ctx context.Context, store persist.Store, client redis.UniversalClient) ([]doctor.Finding, error) {
			return elsewhere(ctx, cfg, store, client)
		},
		CounterOf: counterOf,
		Ask:       func(ctx context.Context) (string, error) { return Healthcheck(ctx, cfg) },
	}
	if log != nil {
		d.Lacking = lacking(log, time.Now().UTC())
	}
	return d.Examine(ctx)
}

// elsewhere returns for what a store names another Redis than that of a client, or another coordinator
// than that of the configuration, and which nodes have another configuration where all need the same.
func elsewhere(ctx context.Context, cfg *config.Config, store persist.Store, client redis.UniversalClient) (found []doctor.Finding, err error) {
	const key, change = "redis.addrs", "compare redis.addrs, redis.db, redis.keyPrefix, coordination and snowflake.registry of all nodes"
	cause, err := idempotency.Elsewhere(ctx, store.Documents(), client, cfg.Redis.KeyPrefix)
	if cause != nil {
		found = append(found, doctor.Finding{Level: doctor.Warn, Subject: key, Change: change,
			Found: "requests with an Idempotency-Key are refused until no other node has been seen for 20 s: " + cause.Error()})
	}
	_, alike := cfg.Version()
	names, unknown := nodes.Unlike(ctx, store, alike)
	if len(names) > 0 {
		found = append(found, doctor.Finding{
			Level: doctor.Warn, Subject: "nodes", Change: "give all nodes the same configuration, and restart or reload them: see “reload” in CONFIGURATION.md",
			Found: "what all nodes need alike is not as in this configuration at " + nodes.Few(names),
		})
	}
	err = errors.Join(err, unknown)
	cluster, failed := persist.ReadCluster(ctx, store.Documents())
	list, deleted, undefined := allDefined(ctx, cfg, store)
	if err = errors.Join(err, undefined); err != nil || failed != nil {
		return found, err // an unknown cluster is said elsewhere
	}
	env := strategy.Env{
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{},
		Store: store, Cluster: cluster.ID, Redis: client, RedisPrefix: cfg.Redis.KeyPrefix, Addr: cfg.Server.Addr,
	}
	shut, err := coordinate(ctx, cfg, &env)
	if err != nil {
		return found, err
	}
	defer shut()
	for _, b := range list[deleted:] {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil || factory.Elsewhere == nil {
			continue
		}
		cause, err := factory.Elsewhere(ctx, env, b)
		if err != nil {
			return found, err
		}
		if cause != nil {
			found = append(found, doctor.Finding{Level: doctor.Fail, Subject: b.Name, Change: change, Found: "it issues nothing: " + cause.Error()})
		}
	}
	return found, nil
}

// storedDefinitions returns the biz types that the store has.
func storedDefinitions(ctx context.Context, cfg *config.Config, store persist.Store) (list []doctor.Definition, err error) {
	for of, err := range definitions.All(ctx, cfg, store.Documents()) {
		if err != nil {
			return nil, err
		}
		list = append(list, storedDefinition(cfg, of))
	}
	return list, nil
}

func storedDefinition(cfg *config.Config, of definitions.Stored) doctor.Definition {
	d := doctor.Definition{BizType: of.BizType, Err: of.Err, Deleted: of.Deleted}
	d.BizType.Name = of.Name
	text, ok := cfg.Definition(of.Name)
	d.Configured = ok && of.SameAs(text)
	d.Differs = ok && !d.Configured
	return d
}
