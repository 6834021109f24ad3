// Package metrics counts what happens and serves the counts to Prometheus. Counting takes no lock
// and does not allocate. Gauges are read when Prometheus scrapes, without I/O.
//
// At most [Options].MaxBizTypes biz types have a label of their own: all, if there are no more than
// that, otherwise those with the first events. The others share the label [Other], which shows the
// sum of their counters and the worst of their gauges. Soon after a biz type was removed, its
// series are removed too, and another biz type can have its label. If it is created again, its
// counters start at 0. An idle biz type needs no memory here.
//
// [Metrics] is the main type; it implements [seqd.Observer]. To add a metric, declare its family in
// families.go, fill it in collect.go or state.go, and describe it in docs/METRICS.md.
package metrics

import (
	"cmp"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/seqd/seqd"
)

// Other is the label of all biz types that have none of their own. It is not a valid name of a biz
// type.
const Other = "_other"

// Options are the options of [New].
type Options struct {
	// MaxBizTypes is how many biz types have a label of their own; 0 means none.
	MaxBizTypes int
	// Version and Revision are the labels of seqd_build_info.
	Version, Revision string
	// Now is the clock; nil means the system's.
	Now func() time.Time
	// Source returns what is collected at a scrape; nil if there is nothing.
	Source func() Source
	Log    *slog.Logger
}

// Metrics counts events and is a [prometheus.Collector]. It is safe for concurrent use.
type Metrics struct {
	opts     Options
	registry *prometheus.Registry
	started  time.Time
	shown    shown

	bizTypes labelled
	other    counts
	// by strategy, operation of the store, kind of file, command of Redis, sequencer, and route
	latencies, stores, syncs, redis, waits, requests *timings

	machineIDsLost, clockRollbacks atomic.Int64
	// the biz type whose strategy last reported that the store is away; nil if the last report was
	// another
	storeAway atomic.Pointer[string]

	mu       sync.Mutex // guards additions to routes and commands
	routes   []*route
	commands []*command
	taking   sync.Mutex // held by Take
	scrape   sync.Mutex // held during a collection; guards what follows
	// sums are the values last shown for counters that share the label Other.
	sums map[series]float64
}

var _ interface {
	seqd.Observer
	seqd.LatencyObserver
	seqd.WaitObserver
	prometheus.Collector
} = (*Metrics)(nil)

// New returns metrics in a registry of their own.
func New(opts Options) *Metrics {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Source == nil {
		opts.Source = func() Source { return Source{} }
	}
	m := &Metrics{opts: opts, started: opts.Now(), registry: prometheus.NewRegistry(), shown: shown{pause: pause}, sums: make(map[series]float64)}
	m.bizTypes.begin(opts.MaxBizTypes)
	m.other.bizType = Other
	m.latencies, m.requests = timingsOf(issueSeconds, buckets), timingsOf(requestSeconds, coarse)
	m.stores, m.syncs = timingsOf(storeSeconds, coarse, native), timingsOf(syncSeconds, coarse, native)
	m.redis, m.waits = timingsOf(redisSeconds, coarse, native), timingsOf(waitSeconds, coarse, native)
	m.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Issued implements [seqd.Observer].
func (m *Metrics) Issued(bizType string, n int) { m.of(bizType).issued.Add(int64(n)) }

// Rejected implements [seqd.Observer].
func (m *Metrics) Rejected(bizType string, code seqd.Code) {
	m.of(bizType).rejected[code.Index()].Add(1)
}

// Event implements [seqd.Observer].
func (m *Metrics) Event(e seqd.Event) {
	switch e.Kind {
	case seqd.EventMachineIDLost:
		m.machineIDsLost.Add(1)
	case seqd.EventClockRollback:
		m.clockRollbacks.Add(1)
	case seqd.EventStoreAway:
		m.storeAway.Store(&e.BizType)
	case seqd.EventStoreBack, seqd.EventRefilled:
		m.storeAway.Store(nil)
	}
	for i := range events {
		if events[i].kind == e.Kind {
			c := m.of(e.BizType)
			c.times[i].Add(1)
			c.numbers[i].Add(e.Numbers)
		}
	}
}

// StoreAway reports whether the last report of a strategy about the store was that it gives no
// ranges. The report of a biz type that is gone or disabled at the next scrape does not count,
// because that biz type would not report when the store is back.
func (m *Metrics) StoreAway() bool { return m.storeAway.Load() != nil }

// of returns the counts of a biz type.
func (m *Metrics) of(bizType string) *counts {
	if c := m.bizTypes.find(bizType); c != nil {
		return c
	}
	return cmp.Or(m.bizTypes.add(bizType), &m.other)
}

// none is the label of calls for biz types without a strategy, such as disabled ones.
const none = "none"

// Took implements [seqd.LatencyObserver].
func (m *Metrics) Took(strategy string, ns int64) {
	m.latencies.of(strategy).Observe(float64(ns) / 1e9)
}
