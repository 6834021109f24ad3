package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// incrRoute is a peer with go-redis' default settings and a connection for each caller.
const incrRoute = "gin route with one INCR"

// startRedisAndPostgres starts the servers that nodes with strict order over Redis need.
func (s *servers) startRedisAndPostgres(ctx context.Context) error {
	return errors.Join(s.startRedis(ctx), s.startPostgres(ctx))
}

// startStrict starts a node of each binary on Redis and PostgreSQL. Each has its own counters.
func (s *servers) startStrict(ctx context.Context, o options, env ...string) (list []node, err error) {
	for i, b := range o.binaries() {
		stores, err := s.onPostgres(ctx, fmt.Sprintf("strict%d", i), true)
		if err != nil {
			return nil, err
		}
		n, err := s.startNode(ctx, b.path, append(stores, env...)...)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// benchStrict compares strict order over Redis with a constant route and a route with one INCR.
func benchStrict(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		nodes, err := s.startStrict(ctx, o, bizTypes(order))
		if err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		for i, b := range o.binaries() {
			job := o.closed(nodes[i].url + "/seq/order")
			c.add(b.name, func() (sample, error) { return s.measured(ctx, nodes[i].child, job) })
		}
		constant, constantURL, err := s.startConstant(ctx, nodes[0].url+"/seq/order")
		if err != nil {
			return nil, err
		}
		c.add(constantRoute, o.loading(ctx, constant, constantURL+"0"))
		incr, incrURL, err := s.startPeer(ctx, peerJob{Redis: s.redisAddr})
		if err != nil {
			return nil, err
		}
		c.add(incrRoute, o.loading(ctx, incr, incrURL))
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "strict over Redis, one ID per request"
		return got.withOld([]result{
			got.against(constantRoute, what, rateOf, perSecond).atLeast(0.74),
			got.against(incrRoute, what, rateOf, perSecond).atLeast(1.7),
			got.against(incrRoute, what+": CPU for each request, without Redis", cpuOf, ofCPU),
			got.report(what+": scripts in Redis for each", func(s sample) float64 { return s.redis.scripts }, ratio).atMost(0.08),
		}, what), nil
	})
}

// benchLatency measures single requests on an idle system.
func benchLatency(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		nodes, err := s.startStrict(ctx, o, bizTypes(order))
		if err != nil {
			return nil, err
		}
		_, incrURL, err := s.startPeer(ctx, peerJob{Redis: s.redisAddr})
		if err != nil {
			return nil, err
		}
		names, urls := []string{incrRoute}, []string{incrURL}
		for i, b := range o.binaries() {
			names, urls = append(names, b.name), append(urls, nodes[i].url+"/seq/order")
		}
		var clients []*client
		for _, url := range urls {
			c, err := newClient(url)
			if err != nil {
				return nil, err
			}
			s.cleanUps = append(s.cleanUps, c.close)
			clients = append(clients, c)
		}
		got := make(scores)
		for round := range o.rounds + 1 {
			times, err := medians(ctx, clients)
			if err != nil {
				return nil, err
			}
			for i, name := range names {
				if round > 0 { // round 0 is the warm-up
					got[name] = append(got[name], sample{p50: times[i]})
				}
			}
		}
		const what = "strict over Redis, one connection, idle: p50"
		results := []result{got.against(incrRoute, what, p50Of, microseconds).atMost(1.2)}
		if o.oldBinary != "" {
			results = append(results, got.against(oldBinary, what, p50Of, microseconds))
		}
		return results, nil
	})
}

// medians sends single requests over each connection in turn, and returns the median time of each
// in microseconds.
func medians(ctx context.Context, clients []*client) (list []float64, err error) {
	const requests = 4000
	took := make([][]time.Duration, len(clients))
	for range requests {
		for i, c := range clients {
			d, err := c.timed()
			if err := errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
			took[i] = append(took[i], d)
		}
	}
	for _, times := range took {
		slices.Sort(times)
		list = append(list, permille(times, 500))
	}
	return list, nil
}

// benchIdempotent compares POST requests, each with a new Idempotency-Key, with a route with one
// INCR.
func benchIdempotent(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		nodes, err := s.startStrict(ctx, o, bizTypes(order))
		if err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		for i, b := range o.binaries() {
			c.add(b.name, func() (sample, error) {
				return s.measured(ctx, nodes[i].child, withKeys(o.closed(nodes[i].url+"/seq/order")))
			})
		}
		peer, url, err := s.startPeer(ctx, peerJob{Redis: s.redisAddr})
		if err != nil {
			return nil, err
		}
		c.add(incrRoute, func() (sample, error) { return measured(ctx, peer, withKeys(o.closed(url))) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "POST with an `Idempotency-Key` each, strict over Redis"
		return got.withOld([]result{
			got.against(incrRoute, what, rateOf, perSecond).atLeast(0.6),
			got.report(what+": CPU of Redis for each", func(s sample) float64 { return 1e6 * s.redis.cpu }, ofCPU),
		}, what), nil
	})
}

// withKeys returns a job whose requests are POST with keys that were never used.
func withKeys(job openloop.Job) openloop.Job {
	job.Method, job.Keys = "POST", fmt.Sprintf("%016x-", rand.Uint64())
	return job
}
