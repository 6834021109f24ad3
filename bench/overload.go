package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	places     = 64          // server.maxInFlight
	crowd      = 4 * places  // connections under overload
	retryAfter = time.Second // as in the answer's Retry-After
)

// press loads a URL over the given number of connections. A rejected client retries after pause. The
// rate and p99 are those of good answers.
func press(ctx context.Context, url string, clients int, pause, duration time.Duration) (s sample, err error) {
	took, failed := make([][]time.Duration, clients), make([]error, clients)
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { took[i], failed[i] = pressOne(ctx, url, pause) })
	}
	all.Wait()
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if err := errors.Join(failed...); err != nil || len(sorted) == 0 {
		return s, errors.Join(err, fmt.Errorf("%d good answers", len(sorted)))
	}
	return sample{rate: float64(len(sorted)) / duration.Seconds(), p99: permille(sorted, 990)}, nil
}

// pressOne is one client. It returns the times of good answers.
func pressOne(ctx context.Context, url string, pause time.Duration) (took []time.Duration, err error) {
	c, err := newClient(url)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for ctx.Err() == nil {
		began := time.Now()
		good, err := c.try()
		switch {
		case err != nil:
			return nil, err
		case good:
			took = append(took, time.Since(began))
		default:
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}
	return took, nil
}

// benchOverload compares a load at the limit of requests in flight with four times as many clients,
// under strict order over Redis.
func benchOverload(ctx context.Context, o options) ([]result, error) {
	const atLimit, obey = "64 clients", "obey"
	duration := max(o.duration, 2*retryAfter) // long enough for clients to retry
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		o.oldBinary = ""
		nodes, err := s.startStrict(ctx, o, bizTypes(order), fmt.Sprint("SEQD_SERVER_MAXINFLIGHT=", places))
		if err != nil {
			return nil, err
		}
		url := nodes[0].url + "/seq/order"
		c := contest{rounds: o.rounds}
		c.add(atLimit, func() (sample, error) { return press(ctx, url, places, 0, duration) })
		c.add(obey, func() (sample, error) { return press(ctx, url, crowd, retryAfter, duration) })
		c.add(newBinary, func() (sample, error) { return press(ctx, url, crowd, 0, duration) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const what, patient = "overload: 64 places, 256 clients that retry at once", "overload: 64 places, 256 clients that obey Retry-After"
		return []result{
			got.against(atLimit, what, rateOf, perSecond).atLeast(0.80),
			got.against(atLimit, what+": p99 of good answers", p99Of, milliseconds).atMost(2),
			got.pair(atLimit, obey, rateOf).report(patient, atLimit, perSecond).atLeast(0.80),
			got.pair(atLimit, obey, p99Of).report(patient+": p99 of good answers", atLimit, milliseconds).atMost(2),
		}, nil
	})
}
