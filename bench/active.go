package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// activeTypes is the number of biz types that the figure active asks.
const activeTypes = 10_000

// benchActive asks 10,000 strict biz types for numbers, at random, over Redis.
func benchActive(ctx context.Context, o options) ([]result, error) {
	// A node asks the store for the epoch of each counter in use every 3 s. Short loads would begin
	// with 10,000 such questions each, which a steady load spreads.
	o.duration *= 4
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		const one = "1 biz type"
		c := contest{rounds: o.rounds}
		for i, b := range o.binaries() {
			name := fmt.Sprintf("active%d", i)
			env, err := s.onPostgres(ctx, name, true)
			if err != nil {
				return nil, err
			}
			if err := s.fillPostgres(ctx, name, b.path, activeTypes, env); err != nil {
				return nil, err
			}
			n, err := s.startNode(ctx, b.path, append(env, fromStore)...)
			if err != nil {
				return nil, err
			}
			if err := warm(ctx, n, activeTypes); err != nil {
				return nil, err
			}
			spread := func(types int) func() (sample, error) {
				job := o.closed(n.url + "/seq/" + template)
				job.Spread = types
				return func() (sample, error) { return s.measured(ctx, n.child, job) }
			}
			if b.name == newBinary {
				c.add(one, spread(1))
			}
			c.add(b.name, spread(activeTypes))
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "strict over Redis, 10,000 biz types at random"
		return got.withOld([]result{
			got.against(one, what, rateOf, perSecond).atLeast(0.65),
			got.against(one, what+": p99 at saturation", p99Of, milliseconds),
			got.against(one, what+": CPU for each request", cpuOf, ofCPU),
			got.report(what+": Redis round trips for each number", func(s sample) float64 { return s.redis.reads }, ratio).atMost(0.25),
		}, what), nil
	})
}

// warm asks for the first biz types of a filled store once each, so that a load does not include
// opening them.
func warm(ctx context.Context, n node, types int) error {
	job := openloop.Job{URL: n.url + "/seq/" + template, Spread: types, InOrder: true, Most: types, Duration: 5 * time.Minute}
	_, err := mustGood(ctx, job)
	return err
}
