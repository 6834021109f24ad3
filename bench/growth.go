package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/bench/openloop"
	"github.com/seqd/seqd/strategy/segment"
)

// The units of charts, short enough for an axis.
var (
	idsPerSecond = unit{"IDs/s", func(n float64) string { return siUnit(n) + "/s" }}
	megabytes    = unit{"bytes", formatted("%.0f MB", 1e6)} // decimal, so that the ticks of the axis are round
	seconds      = unit{"µs", formatted("%.2f s", 1e6)}
	percent      = unit{"%", formatted("%.1f %%", 1)}
)

// siUnit formats a large number in few characters.
func siUnit(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3gk", n/1e3)
	}
	return fmt.Sprintf("%.3g", n)
}

// only is an outcome of one chart.
func only(c chart, err error) (outcome, error) { return outcome{charts: []chart{c}}, err }

// upTo returns the powers of ten from 1.
func upTo(most float64) (list []float64) {
	for n := 1.0; n <= most; n *= 10 {
		list = append(list, n)
	}
	return list
}

// steadyRate is the rate at which charts measure p99. It is far below the capacity of every
// service, even over one connection.
const steadyRate = 2000

// growConnections loads from 1 to 1,000 connections.
func growConnections(ctx context.Context, o options) (out outcome, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	ways, err := b.ways(ctx)
	if err != nil {
		return out, err
	}
	urls := []string{ways[0].job.URL, ways[1].job.URL, ways[0].baselines[0].url}
	lines := []string{ways[0].name, ways[1].name, ways[0].baselines[0].name}
	c := chart{Name: "connections", Title: "From 1 to 1,000 connections", Axis: "connections", X: upTo(1000), LogX: true}
	if o.quick {
		c.X = upTo(100)
	}
	most := newPanel("closed loop", perSecond, false, c.X, lines...)
	slowest := newPanel(fmt.Sprintf("p99 at %s requests/s", thousands(steadyRate)), milliseconds, true, c.X, lines...)
	err = inTurn(o.rounds, len(urls)*len(c.X), func(_, i int) error {
		line, x := i%len(urls), i/len(urls)
		job := openloop.Job{URL: urls[line], Connections: int(c.X[x])}
		rate, err := saturated(ctx, job, o.duration)
		if err != nil {
			return err
		}
		job.Rate, job.Warm, job.Duration = steadyRate, o.duration/5, o.duration
		r, err := mustGood(ctx, job)
		most.note(line, x, rate)
		slowest.note(line, x, r.Took.P99)
		return err
	})
	c.Panels = []panel{most, slowest}
	return only(c, err)
}

// growNodes loads one counter on 1 to 4 nodes.
func growNodes(ctx context.Context, o options) (out outcome, err error) {
	b, err := startBackends(ctx, o, false)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	c := chart{Name: "nodes", Title: "From 1 to 4 nodes on one counter", Axis: "nodes", X: []float64{1, 2, 3, 4}}
	urls, err := b.startNodes(ctx, o, len(c.X))
	if err != nil {
		return out, err
	}
	most := newPanel("closed loop, all together", perSecond, false, c.X, "")
	cpu, calls := newPanel("CPU of Redis per ID", hundredths, false, c.X, ""), newPanel("Redis calls per ID", ratio, false, c.X, "")
	err = inTurn(o.rounds+1, len(c.X), func(round, i int) error {
		l, perID, err := b.during(ctx, func() (load, error) { return saturateAll(ctx, urls[:i+1], o.duration) })
		if round > 0 { // round 0 is the warm-up
			most.note(0, i, l.rate)
			cpu.note(0, i, perID.cpu*1e6)
			calls.note(0, i, perID.scripts)
		}
		return err
	})
	c.Panels = []panel{most, cpu, calls}
	return only(c, err)
}

// saturateAll loads all URLs at the same time, and returns the sum.
func saturateAll(ctx context.Context, urls []string, duration time.Duration) (sum load, err error) {
	reports, err := saturateReports(ctx, urls, duration)
	for _, r := range reports {
		sum.rate += r.Rate
		sum.requests += float64(r.Sent)
	}
	return sum, err
}

// saturateReports loads all URLs at the same time, each over its own connections.
func saturateReports(ctx context.Context, urls []string, duration time.Duration) ([]openloop.Report, error) {
	reports, failed := make([]openloop.Report, len(urls)), make([]error, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			reports[i], failed[i] = mustGood(ctx, openloop.Job{URL: url, Connections: openConnections, Duration: duration})
		})
	}
	all.Wait()
	return reports, errors.Join(failed...)
}

// growBatch asks for 1 to 10,000 numbers at once.
func growBatch(ctx context.Context, o options) (out outcome, err error) {
	url, stop, err := startWith(ctx, []seqd.BizType{bizType("order")})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	kinds := []string{"text/plain", "application/json"}
	c := chart{Name: "batch", Title: "From 1 to 10,000 numbers in a request", Axis: "numbers in a request", X: upTo(10_000), LogX: true}
	most := newPanel("numbers a second, closed loop", idsPerSecond, true, c.X, "text", "JSON")
	took := newPanel("time of a request, one connection", microseconds, true, c.X, "text", "JSON")
	err = inTurn(o.rounds, len(kinds)*len(c.X), func(_, i int) error {
		line, x := i%len(kinds), i/len(kinds)
		job := openloop.Job{URL: fmt.Sprintf("%s/seq/order?count=%.0f", url, c.X[x]), Headers: []string{"Accept: " + kinds[line]}, Connections: openConnections}
		rate, err := saturated(ctx, job, o.duration)
		if err != nil {
			return err
		}
		job.Connections, job.Duration = 1, o.duration/2
		one, err := mustGood(ctx, job)
		most.note(line, x, rate*c.X[x])
		took.note(line, x, one.Took.P50)
		return err
	})
	c.Panels = []panel{most, took}
	return only(c, err)
}

// growStoreLatency delays the replies of the store more and more, while counters fetch ranges all
// the time.
func growStoreLatency(ctx context.Context, o options) (out outcome, err error) {
	b, err := startBackends(ctx, o, true) // with a replica set the driver would bypass the proxy
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	slow, err := delayed(strings.TrimPrefix(b.mongoURI, "mongodb://"), 0)
	if err != nil {
		return out, err
	}
	b.cleanUps = append(b.cleanUps, slow.stop)
	b.mongoURI = "mongodb://" + slow.addr
	c := chart{Name: "store-latency", Title: "A store that answers after 0 to 200 ms", Axis: "ms for each reply of the store", X: []float64{0, 10, 50, 100, 200}}
	url, err := b.seqd(ctx, b.config("growth", slowTypes(o.rounds*len(c.X))))
	if err != nil {
		return out, err
	}
	lines := []string{
		fmt.Sprintf("strict, a range lasts %s", joinEvery), fmt.Sprintf("per-node, a range lasts %s", joinEvery), "strict, a new counter",
	}
	answered := newPanel(fmt.Sprintf("answered, of %s a second", thousands(steadyRate)), perSecond, false, c.X, lines...)
	slowest, refused := newPanel("p99", milliseconds, false, c.X, lines...), newPanel("refused", percent, false, c.X, lines...)
	for _, name := range []string{"strict", "local"} {
		if _, err := get(url + "/seq/" + name); err != nil {
			return out, err
		}
	}
	fresh := 0
	err = inTurn(o.rounds, len(c.X), func(_, x int) error {
		slow.by.Store(int64(c.X[x] * float64(time.Millisecond)))
		reports, err := together(ctx, o, url+"/seq/strict", url+"/seq/local", fmt.Sprintf("%s/seq/new%d", url, fresh))
		fresh++
		for line, r := range reports {
			answered.note(line, x, r.Rate*float64(r.Good())/float64(max(r.Sent-r.Unanswered, 1)))
			slowest.note(line, x, r.Took.P99)
			refused.note(line, x, 100*float64(r.Sent-r.Good())/float64(max(r.Sent, 1)))
		}
		return err
	})
	c.Panels = []panel{answered, slowest, refused}
	return only(c, err)
}

// slowTypes returns a strict and a per-node biz type whose ranges last joinEvery at the steady
// rate, and the given number of unused biz types with default settings.
func slowTypes(fresh int) (list []seqd.BizType) {
	const step = steadyRate * int64(joinEvery) / int64(time.Second)
	strict := fixedStep(step)
	strict.Name = "strict"
	local := fixedStep(step)
	local.Name = "local"
	local.Settings.(*segment.Settings).Ordering = segment.PerNode
	list = append(list, strict, local)
	for i := range fresh {
		list = append(list, bizType(fmt.Sprintf("new%d", i)))
	}
	return list
}

// together loads several URLs at once at the steady rate. It uses enough connections that callers
// wait in seqd and not for a connection.
func together(ctx context.Context, o options, urls ...string) ([]openloop.Report, error) {
	reports, failed := make([]openloop.Report, len(urls)), make([]error, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			reports[i], failed[i] = runLoad(ctx, openloop.Job{URL: url, Rate: steadyRate, Connections: 1000, Duration: 3 * o.duration})
		})
	}
	all.Wait()
	return reports, errors.Join(failed...)
}
