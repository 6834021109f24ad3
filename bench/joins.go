package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/seqd/seqd/bench/openloop"
)

// The load of the figure joins: a range lasts joinEvery, and every reply of the store takes
// storeDelay.
const (
	joinEvery  = 150 * time.Millisecond
	storeDelay = 50 * time.Millisecond
	joinRate   = 2000
	joinLoad   = 2 * time.Second
)

// benchJoins compares the slowest requests of two strict counters on a slow store: one begins a new
// range all the time, the other never.
func benchJoins(ctx context.Context, o options) ([]result, error) {
	const without = "ranges that never end"
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		if err := errors.Join(s.createDatabase(ctx, "small"), s.createDatabase(ctx, "huge")); err != nil {
			return nil, err
		}
		slow, err := delayed(s.postgresAddr, storeDelay)
		if err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, slow.stop)
		s.postgresAddr = slow.addr
		const step = joinRate * int64(joinEvery) / int64(time.Second)
		small, err := s.startStepped(ctx, o, "small", step)
		if err != nil {
			return nil, err
		}
		huge, err := s.startStepped(ctx, o, "huge", firstNumber)
		if err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		c.addValue(without, func() (float64, error) { return slowest(ctx, huge) })
		c.addValue(newBinary, func() (float64, error) {
			before, err := refills(small)
			if err != nil {
				return 0, err
			}
			took, err := slowest(ctx, small)
			if err != nil {
				return 0, err
			}
			after, err := refills(small)
			const needed = joinRate * int64(joinLoad/time.Second) / step
			if err == nil && after-before < float64(needed)*0.9 { // the last ones are still under way
				err = fmt.Errorf("the store gave %.0f ranges, and the load needs %d", after-before, needed)
			}
			return took, err
		})
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("strict over Redis, a new range every %s from a store that answers after %s: p99.9", joinEvery, storeDelay)
		return []result{got.against(without, what, rateOf, milliseconds).atMost(1.2)}, nil
	})
}

// startStepped starts a node whose ranges all have the same size.
func (s *servers) startStepped(ctx context.Context, o options, database string, step int64) (node, error) {
	return s.startNode(ctx, o.binary,
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL="+s.database(database), "SEQD_REDIS_ADDRS="+s.redisAddr, "SEQD_REDIS_KEYPREFIX="+database+":",
		bizTypes(definition{"name": "order", "start": firstNumber, "step": step, "maxStep": step}))
}

// slowest returns the p99.9 of a steady load, in µs.
func slowest(ctx context.Context, n node) (float64, error) {
	r, err := mustGood(ctx, openloop.Job{URL: n.url + "/seq/order", Connections: 32, Rate: joinRate, Warm: joinLoad / 10, Duration: joinLoad})
	return r.Took.P999, err
}

var refillLine = regexp.MustCompile(`(?m)^seqd_refills_total\{[^}]*\} (\S+)`)

// refills returns how many ranges a node got from the store.
func refills(n node) (sum float64, err error) {
	body, err := get(n.url + "/metrics")
	if err != nil {
		return 0, err
	}
	for _, match := range refillLine.FindAllSubmatch(body, -1) {
		value, err := strconv.ParseFloat(string(match[1]), 64)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}
