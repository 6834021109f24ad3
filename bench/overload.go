package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/config"
)

const (
	places       = 64                   // server.maxInFlight
	crowd        = 4 * places           // connections under overload
	backEndTakes = 5 * time.Millisecond // how long a call of the slow strategy takes
	retryAfter   = time.Second          // as in the answer's Retry-After
)

// waiting is a strategy that sleeps in every call, as if it waited for a back end.
type waiting struct{ next int64 }

func (*waiting) Init(context.Context, bool) error { return nil }

func (w *waiting) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	select {
	case <-time.After(backEndTakes):
	case <-ctx.Done():
		return ctx.Err()
	}
	seq.Add(w.next, n, 1) // always the same numbers; only the time matters
	return nil
}

func (*waiting) Close(context.Context) error { return nil }

var _ seqd.Strategy = (*waiting)(nil)

// served is the result of a load.
type served struct {
	rate    float64 // good answers a second
	p99     float64 // of the good ones, in microseconds
	refused float64 // answers without a number a second
}

// press loads a URL over the given number of connections. A rejected client retries after pause.
func press(ctx context.Context, url string, connections int, pause, duration time.Duration) (served, error) {
	took := make([][]time.Duration, connections)
	refused := make([]int, connections)
	failed := make([]error, connections)
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			c, err := newClient(url)
			if err != nil {
				failed[i] = err
				return
			}
			for failed[i] == nil && ctx.Err() == nil {
				began := time.Now()
				good, err := c.try()
				switch {
				case err != nil:
					failed[i] = err
				case good:
					took[i] = append(took[i], time.Since(began))
				default:
					refused[i]++
					select {
					case <-ctx.Done():
					case <-time.After(pause):
					}
				}
			}
			failed[i] = errors.Join(failed[i], c.close())
		})
	}
	all.Wait()
	sorted := slices.Sorted(slices.Values(slices.Concat(took...)))
	if err := errors.Join(failed...); err != nil || len(sorted) == 0 {
		return served{}, errors.Join(err, fmt.Errorf("%d good answers", len(sorted)))
	}
	s := served{rate: float64(len(sorted)) / duration.Seconds(), p99: permille(sorted, 990)}
	for _, n := range refused {
		s.refused += float64(n) / duration.Seconds()
	}
	return s, nil
}

// benchOverload compares a load at the limit of requests in flight with four times as many clients.
// It does so for a slow back end, for Redis, and for requests that need only the processor.
func benchOverload(ctx context.Context, o options) (results []result, err error) {
	b := &backends{}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.startRedis(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(dir) })
	order := []seqd.BizType{bizType("order")}
	slow, err := b.issue(ctx, []seqd.Definition{{BizType: seqd.BizType{Name: "order", Strategy: "waiting"}, Strategy: &waiting{next: firstNumber}}}, places)
	if err != nil {
		return nil, err
	}
	strict, err := b.withoutStore(ctx, "overload", order, places)
	if err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.Store.Bolt.Path, cfg.BizTypes, cfg.Server.MaxInFlight = dir+"/seqd.db", order, places
	embedded, err := b.seqd(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	for _, load := range []struct {
		what, url string
		promised  bool // false if nothing waits: then nothing is rejected, and there is no target
	}{
		{fmt.Sprintf("a back end that takes %s", backEndTakes), slow, true},
		{"strict over Redis", strict, true},
		{"bolt", embedded, false},
	} {
		rows, err := benchCrowd(ctx, o, load.what, load.url+"/seq/order", load.promised)
		if err != nil {
			return nil, err
		}
		results = append(results, rows...)
	}
	return results, nil
}

// benchCrowd measures three loads: clients at the limit, four times as many that obey Retry-After,
// and four times as many that retry at once.
func benchCrowd(ctx context.Context, o options, what, url string, promised bool) (results []result, err error) {
	duration := max(o.duration, 2*retryAfter) // long enough for clients to retry
	kinds := []struct {
		how         string
		connections int
		pause       time.Duration
	}{{"", places, 0}, {"that obey Retry-After", crowd, retryAfter}, {"that retry at once", crowd, 0}}
	measured := make([][]served, len(kinds))
	for round := range o.rounds + 1 {
		for i := range kinds {
			n := (i + round) % len(kinds)
			s, err := press(ctx, url, kinds[n].connections, kinds[n].pause, duration)
			if err != nil {
				return nil, err
			}
			if round > 0 { // round 0 is the warm-up
				measured[n] = append(measured[n], s)
			}
		}
	}
	column := func(n int, of func(served) float64) (values []float64) {
		for _, s := range measured[n] {
			values = append(values, of(s))
		}
		return values
	}
	rate, p99, refused := func(s served) float64 { return s.rate }, func(s served) float64 { return s.p99 }, func(s served) float64 { return s.refused }
	for n, kind := range kinds[1:] {
		line := fmt.Sprintf("%s, %d places, %d clients %s: ", what, places, kind.connections, kind.how)
		base := fmt.Sprintf("%d clients", places)
		rates, latencies := pairs{column(0, rate), column(n+1, rate)}, pairs{column(0, p99), column(n+1, p99)}
		served, slowest := rates.report(line+"served", base, perSecond), latencies.report(line+"p99 of the served", base, milliseconds)
		if promised {
			served, slowest = rates.result(line+"served", base, perSecond, true, 0.80), latencies.result(line+"p99 of the served", base, milliseconds, false, 2)
		}
		results = append(results, served, slowest, report(line+"refused", column(n+1, refused), perSecond))
	}
	return results, nil
}
