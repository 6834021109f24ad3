package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// The figures of this file are about a segment biz type with many keys, on bolt.

// startKeyed starts a node with a keyed biz type, and asks for keys once each.
func (s *servers) startKeyed(ctx context.Context, path string, keys, liveKeys int) (n node, err error) {
	n, err = s.startNode(ctx, path, bizTypes(definition{"name": "order", "start": firstNumber, "keyed": true, "maxKeys": 2_000_000, "liveKeys": liveKeys}))
	if err != nil {
		return n, err
	}
	job := openloop.Job{URL: n.url + keyPath, Spread: keys, InOrder: true, Most: keys, Duration: 5 * time.Minute}
	_, err = mustGood(ctx, job)
	return n, err
}

const keyPath = "/seq/order?key=k000000"

// benchKeysMemory measures the memory of a process that was asked for far more keys than stay live.
func benchKeysMemory(ctx context.Context, o options) ([]result, error) {
	keys := 200_000
	if o.quick {
		keys = 20_000
	}
	return with(func(s *servers) ([]result, error) {
		n, err := s.startKeyed(ctx, o.binary, keys, 10_000)
		if err != nil {
			return nil, err
		}
		anonymous, err := n.anonymous()
		what := fmt.Sprintf("%s keys asked for, 10,000 of them live, bolt: anonymous memory", thousands(float64(keys)))
		return []result{report(what, []float64{anonymous}, mebibytes).atMost(200e6)}, err
	})
}

// benchKeysSpread compares 100,000 keys, asked for at random, with one.
func benchKeysSpread(ctx context.Context, o options) ([]result, error) {
	const many, one = 100_000, "one key"
	return with(func(s *servers) ([]result, error) {
		c := contest{rounds: o.rounds}
		for _, b := range o.binaries() {
			n, err := s.startKeyed(ctx, b.path, many, many)
			if err != nil {
				return nil, err
			}
			spread := func(keys int) func() (sample, error) {
				job := o.closed(n.url + keyPath)
				job.Spread = keys
				return loadingJob(ctx, n.child, job)
			}
			if b.name == newBinary {
				c.add(one, spread(1))
			}
			c.add(b.name, spread(many))
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "100,000 live keys at random, bolt"
		return got.withOld([]result{got.against(one, what, rateOf, perSecond).atLeast(0.7)}, what), nil
	})
}
