package server

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
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

// spaceEvery is how often a node looks how much space the store takes. A scrape does not look itself: a
// disk can hang.
const spaceEvery = 15 * time.Second

// space is what a store that is a file takes, and what its disk has.
type space struct{ seen atomic.Pointer[[3]int64] }

// watch looks until ctx ends.
func (s *space) watch(ctx context.Context, path string) {
	for ticker := time.NewTicker(spaceEvery); ; {
		s.look(path)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return
		}
	}
}

// look reads the sizes. If that fails, they are not known.
func (s *space) look(path string) {
	var file int64
	for _, name := range []string{path, path + "-history"} {
		if info, err := os.Stat(name); err == nil {
			file += info.Size()
		}
	}
	free, disk, ok := diskSpace(filepath.Dir(path))
	if !ok || file == 0 {
		s.seen.Store(nil)
		return
	}
	s.seen.Store(&[3]int64{file, free, disk})
}

func (s *space) get() (file, free, disk int64, ok bool) {
	if seen := s.seen.Load(); seen != nil {
		return seen[0], seen[1], seen[2], true
	}
	return 0, 0, 0, false
}
