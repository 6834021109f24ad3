package server

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/logging"
	"github.com/seqd/seqd/server/metrics"
	"github.com/seqd/seqd/server/tracing"
	"github.com/seqd/seqd/server/workers"
)

// tracesPatience is how long a stop waits for the last spans to be sent, at most: no number depends
// on them.
const tracesPatience = 3 * time.Second

// telemetry is what the service tells of itself.
type telemetry struct {
	metrics *metrics.Metrics // nil if nothing is counted
	traces  *tracing.Tracing // nil if nothing is traced
	lines   *logging.Writer  // nil if the program made the log
}

// count counts what happens, unless the configuration does not want that. A scrape asks source.
func (b *base) count(source func() metrics.Source) {
	if !b.cfg.Metrics.Enabled {
		return
	}
	version, revision := b.opts.built()
	counted := metrics.New(metrics.Options{
		MaxBizTypes: b.cfg.Metrics.MaxBizTypes, Version: version, Revision: revision, Now: b.opts.now, Source: source, Log: b.log,
	})
	b.telemetry.metrics = counted
	if _, nobody := b.opts.observer.(seqd.NopObserver); nobody {
		b.opts.observer = counted
		return
	}
	latency, _ := b.opts.observer.(seqd.LatencyObserver)
	waits, _ := b.opts.observer.(seqd.WaitObserver)
	b.opts.observer = both{Metrics: counted, other: b.opts.observer, latency: latency, waits: waits}
}

// trace begins to trace requests, if the configuration says so.
func (b *base) trace(addr string) (err error) {
	cfg := b.cfg.Tracing
	if cfg.Endpoint == "" {
		return nil
	}
	version, _ := b.opts.built()
	traces, err := tracing.New(tracing.Options{
		Endpoint: cfg.Endpoint, Ratio: cfg.SampleRatio, Version: version, Instance: addr, Log: b.log,
	})
	if err != nil {
		return fmt.Errorf("tracing.endpoint: %w", err)
	}
	b.telemetry.traces = traces
	b.cleanups.add("the traces", min(tracesPatience, b.cfg.Server.StopTimeout), func(ctx context.Context) error {
		traces.Close(ctx)
		return nil
	})
	return nil
}

// commands sees the commands to the server of the store, nil if nothing is traced.
func (t *telemetry) commands() driver.Trace {
	if t.traces == nil {
		return nil
	}
	return t.traces.Command
}

// redisHook sees the commands of Redis, nil if nothing is traced.
func (t *telemetry) redisHook() redis.Hook {
	if t.traces == nil {
		return nil
	}
	return t.traces.RedisHook()
}

// source returns what metrics ask at a scrape. There is none before the port is open.
func (s *Server) source() metrics.Source {
	f, t := &s.front, &s.base.telemetry
	source := metrics.Source{
		Backends: notYet, HTTP: func() metrics.HTTP { return metrics.HTTP(f.api.Load()) },
		RESPConnections: f.resp.connections(), LinesSkipped: f.gate.AccessLog.Skipped,
		ReloadFailures: f.reloads.failures.Load, Configuration: f.reloads.measured,
	}
	if f.cert != nil {
		source.Certificate = f.cert.State
	}
	if t.lines != nil {
		source.LinesDropped = t.lines.Dropped
	}
	if t.traces != nil {
		source.SpansDropped = t.traces.Dropped
	}
	if _, err := f.gate.Running(); err == nil {
		s.back.tell(&source)
	}
	return source
}

// tell adds what the back ends tell metrics once they are open.
func (b *back) tell(s *metrics.Source) {
	s.Issuer, s.Backends, s.Handlers, s.FailedOver = b.issuer, b.tellBackends, b.handlers.Measure, b.store.FailedOver
	s.Feed = func() (number, failures, ignored int64) {
		return b.feed.Number(), b.feed.Failures(), b.feed.Ignored()
	}
	s.AnswerBytes, s.Leading = b.keptBytes, b.terms.Leading
	s.Workers = func(tell func(string, metrics.Pool)) {
		b.workers.Measure(func(pool string, f workers.Figures) { tell(pool, metrics.Pool(f)) })
	}
	s.Jobs = func() metrics.Jobs { return metrics.Jobs(b.jobs.Measure()) }
	s.Deliveries = func() metrics.Deliveries { return metrics.Deliveries(b.subscriptions.Figures()) }
	s.Pools, s.Snapshots = b.tellPools, b.tellSnapshots
	s.Disks, s.ClientCertificates = b.tellDisks, b.tellCertificates
	if b.store.Store.Shared() {
		s.Mixed = b.nodes.Mixed
	}
	if !b.base.cfg.Store.Forgets() { // which is new at every start
		s.StoreCreated = b.store.Created
	}
}

// notYet tells what is known of back ends before they are open.
func notYet(tell func(name string, up bool)) { tell("store", false) }

// both tells metrics and another observer.
type both struct {
	*metrics.Metrics
	other   seqd.Observer
	latency seqd.LatencyObserver // the other, nil if it does not count latencies
	waits   seqd.WaitObserver    // likewise
}

var _ interface {
	seqd.Observer
	seqd.LatencyObserver
} = both{}

func (b both) Issued(bizType string, n int) {
	b.Metrics.Issued(bizType, n)
	b.other.Issued(bizType, n)
}

func (b both) Rejected(bizType string, code seqd.Code) {
	b.Metrics.Rejected(bizType, code)
	b.other.Rejected(bizType, code)
}

func (b both) Event(e seqd.Event) {
	b.Metrics.Event(e)
	b.other.Event(e)
}

func (b both) Took(strategy string, ns int64) {
	b.Metrics.Took(strategy, ns)
	if b.latency != nil {
		b.latency.Took(strategy, ns)
	}
}

func (b both) Waited(sequencer string, ns int64) {
	b.Metrics.Waited(sequencer, ns)
	if b.waits != nil {
		b.waits.Waited(sequencer, ns)
	}
}
