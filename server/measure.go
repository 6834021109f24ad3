package server

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/metrics"
)

// measure has everything counted, unless the configuration does not want that.
func (r *runtime) measure() {
	if r.observer == nil {
		r.observer = seqd.NopObserver{} // everything below tells it without asking
	}
	if !r.cfg.Metrics.Enabled {
		return
	}
	version, revision := r.built()
	r.metrics = metrics.New(metrics.Options{MaxBizTypes: r.cfg.Metrics.MaxBizTypes, Version: version, Revision: revision, Now: r.now, Log: r.log})
	if _, nobody := r.observer.(seqd.NopObserver); nobody {
		r.observer = r.metrics
		return
	}
	latency, _ := r.observer.(seqd.LatencyObserver)
	r.observer = both{Metrics: r.metrics, other: r.observer, latency: latency}
}

// both tells metrics and another observer.
type both struct {
	*metrics.Metrics
	other   seqd.Observer
	latency seqd.LatencyObserver // the other, nil where it does not want to know
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

// shownMetrics is what /metrics shows; nil, and not a nil pointer in an interface, for nothing.
func (r *runtime) shownMetrics() httpapi.Metrics {
	if r.metrics == nil {
		return nil
	}
	return r.metrics
}

// watch has metrics ask what is there by now.
func (r *runtime) watch(s metrics.Source) {
	if r.metrics == nil {
		return
	}
	s.HTTP = func() metrics.HTTP { return metrics.HTTP(r.api.Load()) }
	s.LinesSkipped = r.api.AccessLogSkipped
	if r.logLines != nil {
		s.LinesDropped = r.logLines.Dropped
	}
	if r.traces != nil {
		s.SpansDropped = r.traces.Dropped
	}
	r.metrics.Watch(s)
}

// notYet tells what is known of back ends before they are open.
func notYet(tell func(name string, up bool)) { tell("store", false) }

// backends tells which back ends answered when they were last heard of. The store is heard of by
// every look at the changes of other nodes, which comes every few seconds, and by strategies that
// fetch numbers; so one that no other node uses counts as well until fetching fails.
func (r *runtime) backends(tell func(name string, up bool)) {
	tell("store", !r.feed.failed.Load() && !r.metrics.StoreAway() && (r.gate == nil || r.gate.open.Load()))
	if r.redisAway != nil {
		_, cause := r.redisAway()
		tell("redis", cause == nil)
	}
}
