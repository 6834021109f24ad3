package server

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/server/metrics"
)

// redisTimes tells how long commands of Redis take. A pipeline counts as the command pipeline.
type redisTimes func(command string, took time.Duration)

var _ redis.Hook = redisTimes(nil)

// DialHook implements [redis.Hook].
func (redisTimes) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (t redisTimes) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		defer func() { t(cmd.Name(), time.Since(began)) }()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (t redisTimes) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		began := time.Now()
		defer func() { t("pipeline", time.Since(began)) }()
		return next(ctx, cmds)
	}
}

// tellPools tells the state of the pools of connections.
func (b *back) tellPools(tell func(backend string, p metrics.ConnPool)) {
	if p, ok := b.store.Pool(); ok {
		tell("store", metrics.ConnPool(p))
	}
	if b.redis == nil {
		return
	}
	s := b.redis.Client.PoolStats()
	tell("redis", metrics.ConnPool{
		InUse: int(s.TotalConns) - int(s.IdleConns), Most: b.redis.Most(), Waits: int64(s.WaitCount), Waited: time.Duration(s.WaitDurationNs),
	})
}
