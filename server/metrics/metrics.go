// Package metrics counts what happens and shows it to Prometheus. Counting takes no lock and
// allocates nothing; what can be asked for is asked for at a scrape, without any I/O.
//
// At most [Options].MaxBizTypes biz types have a label of their own: all, while there are no more
// than that, else those that anything was heard of first. The others are together in [Other]: their
// counters as sums, of their gauges the worst. A biz type that is gone loses its series soon after,
// and its place goes to the next that anything is heard of; one that comes back begins at 0. An
// idle biz type costs no memory here.
package metrics

import (
	"cmp"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/seqd/seqd"
)

// Other is the label of all biz types that have none of their own. No biz type can be called so.
const Other = "_other"

// Options are how things are counted.
type Options struct {
	// MaxBizTypes is how many biz types have a label of their own, 0 for none.
	MaxBizTypes int
	// Version and Revision are what seqd_build_info says.
	Version, Revision string
	// Now is the clock; nil for that of the system.
	Now func() time.Time
	Log *slog.Logger
}

// Metrics counts, and is asked by Prometheus. It is safe for concurrent use.
type Metrics struct {
	opts     Options
	registry *prometheus.Registry
	started  time.Time
	source   atomic.Pointer[Source]
	shown    shown

	bizTypes labelled
	other    counts
	// by strategy; a new map for each strategy that is new
	latencies atomic.Pointer[map[string]prometheus.Histogram]

	machineIDsLost, clockRollbacks atomic.Int64
	// the biz type whose strategy said so, nil where the last word was another
	storeAway atomic.Pointer[string]

	mu     sync.Mutex // guards adding to latencies and routes
	routes []*route
	scrape sync.Mutex // held by the one who collects; guards what follows
	// sums are what was last shown of counters that several share under Other.
	sums map[series]float64
}

var _ interface {
	seqd.Observer
	seqd.LatencyObserver
	prometheus.Collector
} = (*Metrics)(nil)

// New returns metrics in a registry of their own.
func New(opts Options) *Metrics {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	m := &Metrics{opts: opts, started: opts.Now(), registry: prometheus.NewRegistry(), shown: shown{pause: pause}, sums: make(map[series]float64)}
	m.bizTypes.begin(opts.MaxBizTypes)
	m.other.bizType = Other
	m.latencies.Store(&map[string]prometheus.Histogram{})
	m.source.Store(&Source{})
	m.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch says what is asked at a scrape from now on.
func (m *Metrics) Watch(s Source) { m.source.Store(&s) }

// Issued implements [seqd.Observer].
func (m *Metrics) Issued(bizType string, n int) { m.of(bizType).issued.Add(int64(n)) }

// Rejected implements [seqd.Observer].
func (m *Metrics) Rejected(bizType string, code seqd.Code) {
	i, known := reasonIndex[code]
	if !known {
		i = len(reasons) - 1
	}
	m.of(bizType).rejected[i].Add(1)
}

var reasonIndex = func() map[seqd.Code]int {
	index := make(map[seqd.Code]int, len(reasons))
	for i, code := range reasons {
		index[code] = i
	}
	return index
}()

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

// StoreAway reports whether the last that a strategy said of the store is that it gives no ranges.
// One whose biz type is gone, or disabled, by the next scrape said nothing: it would not tell when
// the store is back.
func (m *Metrics) StoreAway() bool { return m.storeAway.Load() != nil }

// of returns the counts of a biz type.
func (m *Metrics) of(bizType string) *counts {
	if c := m.bizTypes.find(bizType); c != nil {
		return c
	}
	return cmp.Or(m.bizTypes.add(bizType), &m.other)
}

// buckets are the upper bounds of how long calls take, in seconds: from numbers that are in hand to
// requests that wait for a store.
var buckets = []float64{
	1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// noStrategy is the label of calls for biz types that have none, such as disabled ones.
const noStrategy = "none"

// Took implements [seqd.LatencyObserver].
func (m *Metrics) Took(strategy string, ns int64) {
	h := (*m.latencies.Load())[strategy]
	if h == nil {
		h = m.latency(strategy)
	}
	h.Observe(float64(ns) / 1e9)
}

// latency returns the histogram of a strategy, which is made where there is none. There are as many
// as the program has strategies.
func (m *Metrics) latency(strategy string) prometheus.Histogram {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.latencies.Load()
	if h := known[strategy]; h != nil {
		return h
	}
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: issueSeconds.Name, Help: issueSeconds.Help, Buckets: buckets, ConstLabels: prometheus.Labels{"strategy": cmp.Or(strategy, noStrategy)},
	})
	more := maps.Clone(known)
	more[strategy] = h
	m.latencies.Store(&more)
	return h
}
