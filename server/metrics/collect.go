package metrics

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seqd/seqd"
)

// Source is what is asked at a scrape. Everything may be nil, and nothing may wait for anybody.
type Source struct {
	// Issuer knows the biz types; nil while the service is starting.
	Issuer *seqd.Issuer
	// HTTP tells how things stand with requests.
	HTTP func() HTTP
	// Backends tells which back ends answered when they were last heard of.
	Backends func(tell func(name string, up bool))
	// Handlers tells what the rejection handlers measure, by the name of the handler.
	Handlers func(tell func(handler string, m seqd.Measurement))
	// Feed tells the number of the newest change that was announced, and how many looks at the
	// changes failed.
	Feed func() (number, failures int64)
	// LinesDropped and LinesSkipped are what the log has left out, SpansDropped what tracing has.
	LinesDropped, LinesSkipped, SpansDropped func() int64
}

// HTTP is how things stand with requests.
type HTTP struct {
	// InFlight and Connections are as it is now.
	InFlight, Connections int64
	// Shed, Refused, and the outcomes of requests with an Idempotency-Key only grow.
	Shed, Refused            int64
	Issued, Replayed, Failed int64
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.desc
	}
}

// Collect implements [prometheus.Collector]. What was counted comes first, so that it is told also
// where a strategy panics over the question how it is.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.scrape.Lock()
	defer m.scrape.Unlock()
	defer func() {
		if p := recover(); p != nil {
			m.opts.Log.Error("panic while collecting metrics", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
	}()
	s := *m.source.Load()
	m.collectRoutes(to)
	for _, h := range *m.latencies.Load() {
		to <- h
	}
	m.collectCounts(to)
	m.collectProcess(to, s)
	m.collectState(to, s)
}

// send sends one value. One that cannot be shown is left out.
func (f *family) send(to chan<- prometheus.Metric, v float64, labels ...string) {
	if metric, err := prometheus.NewConstMetric(f.desc, f.value, v, labels...); err == nil {
		to <- metric
	}
}

// collectCounts sends what observers were told. Events are shown from 0 on, so that the first is
// seen as an increase; of refusals each biz type meets few kinds, and those of the others are not
// shown.
func (m *Metrics) collectCounts(to chan<- prometheus.Metric) {
	for _, c := range append(m.bizTypes.all(), &m.other) {
		issuedTotal.send(to, float64(c.issued.Load()), c.bizType)
		for i, reason := range reasons {
			if n := c.rejected[i].Load(); n > 0 {
				rejectedTotal.send(to, float64(n), c.bizType, string(reason))
			}
		}
		for i, e := range events {
			if e.times != nil {
				e.times.send(to, float64(c.times[i].Load()), c.bizType)
			}
			if e.numbers != nil {
				e.numbers.send(to, float64(c.numbers[i].Load()), c.bizType)
			}
		}
	}
	machineIDsLost.send(to, float64(m.machineIDsLost.Load()))
	clockRollbacks.send(to, float64(m.clockRollbacks.Load()))
}

// collectProcess sends what is of the whole process.
func (m *Metrics) collectProcess(to chan<- prometheus.Metric, s Source) {
	buildInfo.send(to, 1, m.opts.Version, m.opts.Revision, runtime.Version())
	startTime.send(to, float64(m.started.UnixMilli())/1000)
	for f, count := range map[*family]func() int64{linesDropped: s.LinesDropped, linesSkipped: s.LinesSkipped, spansDropped: s.SpansDropped} {
		if count != nil {
			f.send(to, float64(count()))
		}
	}
	if s.HTTP != nil {
		h := s.HTTP()
		requestsInFlight.send(to, float64(h.InFlight))
		requestsShed.send(to, float64(h.Shed))
		connectionsOpen.send(to, float64(h.Connections))
		connectionsRefused.send(to, float64(h.Refused))
		idempotentTotal.send(to, float64(h.Issued), "issued")
		idempotentTotal.send(to, float64(h.Replayed), "replayed")
		idempotentTotal.send(to, float64(h.Failed), "failed")
	}
	if s.Backends != nil {
		s.Backends(func(name string, up bool) { backendUp.send(to, truth(up), name) })
	}
	if s.Feed != nil {
		number, failures := s.Feed()
		feedNumber.send(to, float64(number))
		feedFailures.send(to, float64(failures))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
