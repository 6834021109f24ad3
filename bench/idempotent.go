package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/seqd/seqd"
)

// benchIdempotent compares POST requests, each with a new Idempotency-Key, with a route that does
// one INCR. The biz type is strict, over Redis and MongoDB.
func benchIdempotent(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	url, err := b.seqd(ctx, b.config("idempotent", []seqd.BizType{bizType("order")}))
	if err != nil {
		return nil, err
	}
	incr, err := b.startINCR(ctx)
	if err != nil {
		return nil, err
	}
	var calls []float64
	p, err := measure(o.rounds,
		func() (float64, error) { l, err := runWrkKeys(ctx, o, incr); return l.rate, err },
		func() (float64, error) {
			l, perID, err := b.during(ctx, func() (load, error) { return runWrkKeys(ctx, o, url+"/seq/order") })
			calls = append(calls, perID.cpu*1e6)
			return l.rate, err
		})
	if err != nil {
		return nil, err
	}
	return []result{
		p.result("POST with an `Idempotency-Key` each, strict over Redis, 64 connections", "gin route with one INCR per request", perSecond, true, 0.6),
		report("POST with an `Idempotency-Key`: Redis CPU per request at that load", calls[1:], microseconds),
	}, nil
}

// runWrkKeys is like runWrk, with POST requests that each carry a new key.
func runWrkKeys(ctx context.Context, o options, url string) (l load, err error) {
	script, err := os.CreateTemp("", "seqd-bench-*.lua")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.Remove(script.Name())) }()
	_, err = fmt.Fprintf(script, `
local n = 0
request = function()
  n = n + 1
  wrk.headers["Idempotency-Key"] = "%016x-" .. n
  return wrk.format("POST")
end
`, rand.Uint64())
	if err := errors.Join(err, script.Close()); err != nil {
		return l, err
	}
	return runWrk(ctx, o, url, "-s", script.Name())
}
