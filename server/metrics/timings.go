package metrics

import (
	"cmp"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// buckets are the upper bounds of the duration of calls, in seconds: from numbers in memory to
// requests that wait for a store.
var buckets = []float64{
	1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
}

// coarse are those of what has many labels. Who wants more asks for native histograms.
var coarse = []float64{1e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1, 5}

// native makes histograms also native, with buckets that are a tenth apart. It costs about as much again
// as observing without it, so it is for what a back end or a disk answers, and not for each request.
func native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = 1.1, 100, time.Hour
	return o
}

// timings are the histograms of a family, by the value of its label if it has one. A histogram is made
// when its label is first observed, and observing takes no lock. The values of the label are bounded by
// the program.
type timings struct {
	opts  prometheus.HistogramOpts
	label string
	mu    sync.Mutex // guards additions to known
	// replaced by a new map when a histogram is added
	known atomic.Pointer[map[string]prometheus.Histogram]
}

// timingsOf returns the histograms of a family.
func timingsOf(f *family, buckets []float64, change ...func(prometheus.HistogramOpts) prometheus.HistogramOpts) *timings {
	t := &timings{opts: prometheus.HistogramOpts{Name: f.Name, Help: f.Help, Buckets: buckets}}
	if len(f.Labels) > 0 {
		t.label = f.Labels[0]
	}
	for _, c := range change {
		t.opts = c(t.opts)
	}
	t.known.Store(&map[string]prometheus.Histogram{})
	return t
}

// observe notes how long something took.
func (t *timings) observe(label string, took time.Duration) { t.of(label).Observe(took.Seconds()) }

// of returns the histogram of a label. It creates it if necessary.
func (t *timings) of(label string) prometheus.Histogram {
	if h := (*t.known.Load())[label]; h != nil {
		return h
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := *t.known.Load()
	if h := known[label]; h != nil {
		return h
	}
	opts := t.opts
	if t.label != "" {
		opts.ConstLabels = prometheus.Labels{t.label: cmp.Or(label, none)}
	}
	h, more := prometheus.NewHistogram(opts), maps.Clone(known)
	more[label] = h
	t.known.Store(&more)
	return h
}

func (t *timings) collect(to chan<- prometheus.Metric) {
	for _, h := range *t.known.Load() {
		to <- h
	}
}

// StoreTook notes how long an operation of the store took, Synced a transaction of a store that is a
// file, and RedisTook a command or a pipeline of Redis.
func (m *Metrics) StoreTook(operation string, took time.Duration) { m.stores.observe(operation, took) }

// Synced is for [driver.How].
func (m *Metrics) Synced(took time.Duration) { m.syncs.observe("", took) }

// RedisTook notes how long a command of Redis took. The program has few commands.
func (m *Metrics) RedisTook(command string, took time.Duration) { m.redis.observe(command, took) }

// Waited implements [seqd.WaitObserver].
func (m *Metrics) Waited(sequencer string, ns int64) { m.waits.observe(sequencer, time.Duration(ns)) }
