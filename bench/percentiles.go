package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/bench/openloop"
	"github.com/seqd/seqd/strategy/segment"
)

// The loads of the figure percentiles, as shares of the rate in a closed loop in the same run.
var shares = []float64{0.25, 0.50, 0.75, 0.90}

// openConnections is the number of connections of these loads.
const openConnections = 64

// way is one kind of request, and the baselines that get the same rate.
type way struct {
	name      string
	job       openloop.Job
	baselines []contender
}

// contender is a service under load.
type contender struct{ name, url string }

// latency is the result of a way or a baseline under one load.
type latency struct {
	way    string
	who    string
	share  float64 // of the way's rate in a closed loop
	rate   float64 // requests due a second
	rounds []openloop.Report
}

// benchPercentiles measures the percentiles of every kind of request and its baselines at fixed
// rates.
func benchPercentiles(ctx context.Context, o options) (out outcome, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	ways, err := b.ways(ctx)
	if err != nil {
		return out, err
	}
	for _, w := range ways {
		rows, most, err := w.measure(ctx, o)
		if err != nil {
			return out, fmt.Errorf("%s: %w", w.name, err)
		}
		out.latencies = append(out.latencies, rows...)
		out.results = append(out.results, report(fmt.Sprintf("%s: closed loop, %d connections", w.name, openConnections), most, perSecond))
	}
	return out, nil
}

// ways starts all services of the figure.
func (b *backends) ways(ctx context.Context) (ways []way, err error) {
	embedded, stop, err := startWith(ctx, []seqd.BizType{bizType("order"), flake("user")})
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, stop)
	perNode := segment.DefaultSettings()
	perNode.Start, perNode.Ordering = firstNumber, segment.PerNode
	shared, err := b.seqd(ctx, b.config("percentiles", []seqd.BizType{bizType("order"), {Name: "local", Strategy: segment.Name, Settings: &perNode}}))
	if err != nil {
		return nil, err
	}
	incrURL, err := b.startINCR(ctx)
	if err != nil {
		return nil, err
	}
	ways = []way{
		{name: "strict on bolt", job: openloop.Job{URL: embedded + "/seq/order"}},
		{name: "strict over Redis", job: openloop.Job{URL: shared + "/seq/order"}, baselines: []contender{{"gin route with one INCR", incrURL}}},
		{name: "snowflake", job: openloop.Job{URL: embedded + "/seq/user"}},
		{name: "per-node", job: openloop.Job{URL: shared + "/seq/local"}},
		{name: "batch of 100 as text on bolt", job: openloop.Job{URL: embedded + "/seq/order?count=100", Headers: []string{"Accept: text/plain"}}},
		{name: "POST with a key each, strict over Redis", job: openloop.Job{URL: shared + "/seq/order", Method: "POST", Keys: "-"}, baselines: []contender{{"gin route with one INCR", incrURL}}},
	}
	bodies := make(map[string][]byte)
	for i, w := range ways {
		if bodies[fmt.Sprintf("/%d", i)], err = get(w.job.URL); err != nil {
			return nil, err
		}
	}
	constant, stop, err := startConstant(bodies)
	if err != nil {
		return nil, err
	}
	b.cleanUps = append(b.cleanUps, stop)
	for i := range ways {
		route := contender{"constant gin route", fmt.Sprintf("%s/%d", constant, i)}
		ways[i].baselines = append([]contender{route}, ways[i].baselines...)
	}
	return ways, nil
}

// measure measures the rate of a way in a closed loop, and then loads the way and its baselines in
// turn at shares of that rate.
func (w way) measure(ctx context.Context, o options) (rows []latency, most []float64, err error) {
	for range o.rounds {
		rate, err := saturated(ctx, w.on(w.job.URL), o.duration)
		if err != nil {
			return nil, nil, err
		}
		most = append(most, rate)
	}
	all := append([]contender{{"seqd", w.job.URL}}, w.baselines...)
	for _, share := range shares {
		for _, c := range all {
			rows = append(rows, latency{way: w.name, who: c.name, share: share, rate: share * median(most)})
		}
	}
	err = inTurn(o.rounds, len(rows), func(_, i int) error {
		job := w.on(all[i%len(all)].url)
		job.Rate, job.Warm, job.Duration = rows[i].rate, o.duration/5, o.duration
		r, err := runLoad(ctx, job)
		rows[i].rounds = append(rows[i].rounds, r)
		return err
	})
	return rows, most, err
}

// on returns a job that sends the way's request to a URL, with keys that were never used.
func (w way) on(url string) openloop.Job {
	job := w.job
	job.URL, job.Connections = url, openConnections
	if job.Keys != "" {
		job.Keys = fmt.Sprintf("%016x-", rand.Uint64())
	}
	return job
}

// column returns one of the percentiles for all rounds.
func (l latency) column(of func(openloop.Report) float64) (values []float64) {
	for _, r := range l.rounds {
		values = append(values, of(r))
	}
	return values
}
