package ops

import (
	"context"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/doctor"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/openfiles"
)

// Doctor examines a configuration and everything that it names, and returns what it finds and
// recommends. It changes nothing, nodes may be running, and it takes about 11 s at most, also if
// nothing answers, and what it takes to read log. If log is not nil, it is the log of nodes since a
// backup that was restored, and Doctor names the changes in it that the store lacks.
func Doctor(ctx context.Context, cfg *config.Config, log io.Reader) []doctor.Section {
	d := &doctor.Doctor{
		Config: cfg, Redis: func(c config.Redis) (redis.UniversalClient, error) { return backends.NewRedis(ctx, c) }, Shape: definitions.Shape,
		Host: doctor.ThisHost(openfiles.Limit), Now: time.Now,
		Definitions: func(ctx context.Context, store persist.Store) ([]doctor.Definition, error) {
			return storedDefinitions(ctx, cfg, store)
		},
		Mixed: func(ctx context.Context, store persist.Store) (*seqd.Error, error) {
			return nodes.MixedIn(ctx, store, cfg.BizTypesFrom)
		},
		CounterOf: counterOf,
		Ask:       func(ctx context.Context) (string, error) { return Healthcheck(ctx, cfg) },
	}
	if log != nil {
		d.Lacking = lacking(log)
	}
	return d.Examine(ctx)
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
