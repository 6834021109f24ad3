package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd/bench/openloop"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// growBizTypes starts the real binary on stores with 1 to 1,000,000 biz types, none of them in the
// configuration.
func growBizTypes(ctx context.Context, o options) (out outcome, err error) {
	if o.binary == "" {
		return out, errors.New("-binary is needed")
	}
	c := chart{Name: "biztypes", Title: "From 1 to 1,000,000 biz types in the store", Axis: "biz types", X: upTo(1_000_000), LogX: true}
	if o.quick {
		c.X = upTo(10_000)
	}
	lines := []string{"one asked for", "up to 1,000 asked for at random"}
	most := newPanel("closed loop", perSecond, false, c.X, lines...)
	memory := newPanel("resident memory when all are ready", megabytes, true, c.X, "")
	start := newPanel("time from the start", seconds, true, c.X, "to the first ID", "until all are ready")
	for x, n := range c.X {
		dir, err := os.MkdirTemp("", "seqd-bench-")
		if err != nil {
			return out, err
		}
		err = fillStore(ctx, dir, int(n))
		for round := 0; err == nil && round < o.rounds; round++ {
			var m manyTypes
			m, err = loadMany(ctx, o, dir, int(n))
			most.note(0, x, m.one)
			most.note(1, x, m.spread)
			memory.note(0, x, m.resident)
			start.note(0, x, m.start)
			start.note(1, x, m.ready)
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return out, fmt.Errorf("%.0f biz types: %w", n, err)
		}
	}
	c.Panels = []panel{most, memory, start}
	return only(c, nil)
}

// manyTypes is what a process with very many biz types cost.
type manyTypes struct{ start, ready, resident, one, spread float64 }

func loadMany(ctx context.Context, o options, dir string, n int) (m manyTypes, err error) {
	p, err := startFirst(ctx, o.binary, dir, "/seq/type000000", "SEQD_BIZTYPESFROM=store", "SEQD_SERVER_STOPTIMEOUT=10m")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := p.awaitAll(ctx); err != nil {
		return m, err
	}
	m.start, m.ready = p.took, float64(time.Since(p.began).Microseconds())
	if m.resident, err = p.resident(); err != nil {
		return m, err
	}
	job := openloop.Job{URL: p.url + "/seq/type000000", Connections: openConnections}
	if m.one, err = saturated(ctx, job, o.duration); err != nil {
		return m, err
	}
	job.Spread = min(n, 1000)
	if err := warmAll(ctx, p.url, job.Spread); err != nil {
		return m, err
	}
	m.spread, err = saturated(ctx, job, o.duration)
	return m, err
}

// awaitAll waits until every biz type can issue. It asks less and less often, because the answer
// lists those that cannot, and building it costs the process time.
func (p process) awaitAll(ctx context.Context) error {
	for {
		_, err := get(p.url + "/readyz")
		if err == nil {
			return nil
		}
		if time.Since(p.began) > patient || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		time.Sleep(time.Since(p.began) / 20)
	}
}

// fillStore writes what seqd stores for biz types created through its API: definitions, counters
// and the shapes of their numbers.
func fillStore(ctx context.Context, dir string, n int) (err error) {
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		return err
	}
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "data", "seqd.db"), LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	body := fmt.Sprintf(`{"definition":{"strategy":"segment","start":%d},"enabled":true,"source":"api"}`, firstNumber)
	factory, err := strategy.Lookup(segment.Name)
	if err != nil {
		return err
	}
	return inParallel(n, 1000, func(i int) error { // as many writes share a transaction
		name, now := fmt.Sprintf("type%06d", i), time.Now().UnixMilli()
		return errors.Join(
			store.Counters().Create(ctx, persist.Counter{BizTag: name, Max: firstNumber - 1, Step: segment.DefaultSettings().Step, Timestamp: now}),
			persist.ShapesIn(store.Documents()).Create(ctx, name, factory.Shape(bizType(name)), time.UnixMilli(now)),
			store.Documents().Create(ctx, persist.Document{Kind: "definition", Key: name, Revision: 1, Body: body, Timestamp: now}))
	})
}
