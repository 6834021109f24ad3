package main

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// invoice is a gapless biz type.
var invoice = definition{"name": "invoice", "strategy": "gapless"}

// benchGaplessIssue compares gapless numbers with a route that does one UPDATE.
func benchGaplessIssue(ctx context.Context, o options) ([]result, error) {
	const onBolt = "on bolt"
	return with(func(s *servers) ([]result, error) {
		if err := s.startPostgres(ctx); err != nil {
			return nil, err
		}
		c := contest{rounds: o.rounds}
		peer, url, err := s.startUpdate(ctx)
		if err != nil {
			return nil, err
		}
		c.add(updateRoute, o.loading(ctx, peer, url))
		n, err := s.startNode(ctx, o.binary, bizTypes(invoice))
		if err != nil {
			return nil, err
		}
		c.add(onBolt, o.loading(ctx, n.child, n.url+"/seq/invoice"))
		if err := s.addOnPostgres(ctx, o, &c, invoice); err != nil {
			return nil, err
		}
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what = "gapless on PostgreSQL, one number per request"
		return got.withOld([]result{
			got.against(updateRoute, what, rateOf, perSecond).atLeast(5),
			got.pair(updateRoute, onBolt, rateOf).report("gapless on bolt, one number per request", updateRoute, perSecond).atLeast(5),
		}, what), nil
	})
}

// benchGaplessReserve compares numbers that are reserved and confirmed, two requests each, with
// numbers that are issued at once. Both are asked for by the same callers of net/http.
func benchGaplessReserve(ctx context.Context, o options) ([]result, error) {
	const atOnce = "issued at once"
	return with(func(s *servers) ([]result, error) {
		n, err := s.startNode(ctx, o.binary, bizTypes(invoice))
		if err != nil {
			return nil, err
		}
		callers := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
		defer callers.CloseIdleConnections()
		seq := n.url + "/seq/invoice"
		c := contest{rounds: o.rounds}
		c.addValue(atOnce, func() (float64, error) {
			return callersRate(ctx, o.duration, func() error { return post(ctx, callers, seq, "", http.StatusOK, nil) })
		})
		c.addValue(newBinary, func() (float64, error) {
			return callersRate(ctx, o.duration, func() error { return reserveAndConfirm(ctx, callers, seq) })
		})
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{got.against(atOnce, "gapless on bolt, reserve and confirm, 64 callers", rateOf, perSecond).atLeast(0.33)}, nil
	})
}

// benchGaplessEvents compares a biz type with events with one without, of the same node.
func benchGaplessEvents(ctx context.Context, o options) ([]result, error) {
	const without = "without events"
	return with(func(s *servers) (results []result, err error) {
		if err := s.startPostgres(ctx); err != nil {
			return nil, err
		}
		onPostgres, err := s.onPostgres(ctx, "events", false)
		if err != nil {
			return nil, err
		}
		for _, store := range []struct {
			name string
			env  []string
		}{{"bolt", nil}, {"PostgreSQL", onPostgres}} {
			n, err := s.startNode(ctx, o.binary, append(store.env, bizTypes(invoice, definition{"name": "receipt", "strategy": "gapless", "events": true}))...)
			if err != nil {
				return nil, err
			}
			c := contest{rounds: o.rounds}
			c.add(without, o.loading(ctx, n.child, n.url+"/seq/invoice"))
			c.add(newBinary, o.loading(ctx, n.child, n.url+"/seq/receipt"))
			got, err := c.run(ctx)
			if err != nil {
				return nil, err
			}
			results = append(results, got.against(without, "gapless on "+store.name+" with events, one number per request", rateOf, perSecond).atLeast(0.9))
		}
		return results, nil
	})
}

// reserveAndConfirm is two requests.
func reserveAndConfirm(ctx context.Context, callers *http.Client, seq string) error {
	var r struct {
		Reservation string `json:"reservation"`
	}
	if err := post(ctx, callers, seq+"/reservations", "", http.StatusCreated, &r); err != nil {
		return err
	}
	return post(ctx, callers, seq+"/reservations/"+r.Reservation+"/confirm", "", http.StatusOK, nil)
}

// callersRate returns how often per second callers together do something.
func callersRate(ctx context.Context, duration time.Duration, do func() error) (float64, error) {
	counts, failed := make([]int, connections), make([]error, connections)
	began := time.Now()
	var all sync.WaitGroup
	for caller := range connections {
		all.Go(func() {
			for time.Since(began) < duration && ctx.Err() == nil && failed[caller] == nil {
				failed[caller] = do()
				counts[caller]++
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / time.Since(began).Seconds(), errors.Join(failed...)
}
