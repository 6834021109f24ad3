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
)

// growBizTypes starts the real binary on stores with 1 to 1,000,000 biz types, none of which is in the configuration.
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
	memory, start := newPanel("resident memory at the start", mebibytes, true, c.X, ""), newPanel("start to first ID", seconds, true, c.X, "")
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
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return out, fmt.Errorf("%.0f biz types: %w", n, err)
		}
	}
	c.Panels = []panel{most, memory, start}
	return only(c, nil)
}

// manyTypes is what a process with very many biz types came to.
type manyTypes struct{ start, resident, one, spread float64 }

func loadMany(ctx context.Context, o options, dir string, n int) (m manyTypes, err error) {
	p, err := startFirst(ctx, o.binary, dir, "/seq/type000000", "SEQD_BIZTYPESFROM=store")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	if err := awaitReady(ctx, p.url); err != nil {
		return m, err
	}
	m.start = p.took
	if m.resident, err = p.resident(); err != nil {
		return m, err
	}
	job := openloop.Job{URL: p.url + "/seq/type000000", Connections: openConnections}
	if m.one, err = saturated(ctx, job, o.slice()); err != nil {
		return m, err
	}
	job.Spread = min(n, 1000)
	if err := warmAll(ctx, p.url, job.Spread); err != nil {
		return m, err
	}
	m.spread, err = saturated(ctx, job, o.slice())
	return m, err
}

// fillStore writes the definitions as seqd does, without asking a seqd for each.
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
	return inParallel(n, 1000, func(i int) error { // as many writes share a transaction
		return store.Documents().Create(ctx, persist.Document{
			Kind: "definition", Key: fmt.Sprintf("type%06d", i), Revision: 1, Body: body, Timestamp: time.Now().UnixMilli(),
		})
	})
}
