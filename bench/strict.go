package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
)

// startINCR serves a simple counter for comparison: one INCR per request, with the client's default
// settings.
func (b *backends) startINCR(ctx context.Context) (url string, err error) {
	const key = "incr"
	client := redis.NewClient(&redis.Options{Addr: b.redisAddr, PoolSize: 64})
	b.cleanUps = append(b.cleanUps, client.Close)
	if err := client.Set(ctx, key, firstNumber, 0).Err(); err != nil {
		return "", err
	}
	engine := newEngine()
	handler := func(c *gin.Context) {
		n, err := client.Incr(c.Request.Context(), key).Result()
		if err != nil {
			c.Status(http.StatusServiceUnavailable)
			return
		}
		body := strconv.AppendInt([]byte(`{"bizType":"order","id":"`), n, 10)
		c.Data(http.StatusOK, "application/json", append(body, `"}`...))
	}
	engine.GET("/incr", handler)
	engine.POST("/incr", handler)
	url, stop, err := serve(engine)
	if err != nil {
		return "", err
	}
	b.cleanUps = append(b.cleanUps, stop)
	return url + "/incr", nil
}

// benchStrict compares strict ordering over Redis and MongoDB with a constant route and a route
// that does one INCR.
func benchStrict(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	url, err := b.seqd(ctx, b.config("strict", []seqd.BizType{bizType("order")}))
	if err != nil {
		return nil, err
	}
	url += "/seq/order"
	body, err := get(url)
	if err != nil {
		return nil, err
	}
	constant, stop, err := startConstant(map[string][]byte{"/json": body})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	incr, err := b.startINCR(ctx)
	if err != nil {
		return nil, err
	}
	var calls []float64
	lists, err := turns(o.rounds,
		func() (float64, error) { return wrk(ctx, o, constant+"/json") },
		func() (float64, error) { return wrk(ctx, o, incr) },
		func() (float64, error) {
			l, perID, err := b.during(ctx, func() (load, error) { return runWrk(ctx, o, url) })
			calls = append(calls, perID.scripts)
			return l.rate, err
		})
	if err != nil {
		return nil, err
	}
	const what = "strict over Redis, one ID per request, 64 connections"
	// the first value is from the warm-up round
	perID := report("strict: Redis calls per ID at that load", calls[1:], ratio)
	perID.target, perID.reached = "≤ 0.08", median(calls[1:]) <= 0.08
	return []result{
		pairs{base: lists[0], value: lists[2]}.result(what, "constant gin route", perSecond, true, 0.65),
		pairs{base: lists[1], value: lists[2]}.result(what, "gin route with one INCR per request", perSecond, true, 1.5),
		perID,
	}, nil
}

// benchLatency measures the latency of single requests on an idle system.
func benchLatency(ctx context.Context, o options) (results []result, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	url, err := b.seqd(ctx, b.config("latency", []seqd.BizType{bizType("order")}))
	if err != nil {
		return nil, err
	}
	incrURL, err := b.startINCR(ctx)
	if err != nil {
		return nil, err
	}
	order, err := newClient(url + "/seq/order")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, order.close()) }()
	incr, err := newClient(incrURL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, incr.close()) }()
	var p pairs
	for round := range o.rounds + 1 {
		base, value, err := alternate(ctx, incr, order)
		if err != nil {
			return nil, err
		}
		if round > 0 { // round 0 is the warm-up
			p.base, p.value = append(p.base, base), append(p.value, value)
		}
	}
	return []result{p.result("strict over Redis, latency of one connection, idle", "gin route with one INCR per request", microseconds, false, 1.35)}, nil
}

// alternate sends single requests to both in turn and returns the median latency of each in
// microseconds.
func alternate(ctx context.Context, base, value *client) (b, v float64, err error) {
	const requests = 5000
	var took [2][]time.Duration
	for range requests {
		for i, c := range []*client{base, value} {
			d, err := c.timed()
			if err := errors.Join(err, ctx.Err()); err != nil {
				return 0, 0, err
			}
			took[i] = append(took[i], d)
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	return permille(took[0], 500), permille(took[1], 500), nil
}
