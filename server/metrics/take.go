package metrics

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/seqd/seqd"
)

// What follows is for those who look at the counts themselves, such as package figures.

// Take calls tell with how many numbers of each biz type were issued, and how many requests for
// them refused, since the last call of Take. It leaves out biz types without either. Those without
// a label of their own are told together as [Other]. Only one part of a program may call Take.
func (m *Metrics) Take(tell func(bizType string, issued, refused int64)) {
	m.taking.Lock()
	defer m.taking.Unlock()
	for _, c := range append(m.bizTypes.all(), &m.other) {
		issued, refused := c.issued.Load(), c.refused()
		if issued != c.takenIssued || refused != c.takenRejected {
			tell(c.bizType, issued-c.takenIssued, refused-c.takenRejected)
			c.takenIssued, c.takenRejected = issued, refused
		}
	}
}

// Refusals calls tell with how many requests were refused with each code since the start. It leaves
// out codes without any.
func (m *Metrics) Refusals(tell func(code seqd.Code, total int64)) {
	sums := m.bizTypes.refusals()
	for i := range reasons {
		if n := sums[i] + m.other.rejected[i].Load(); n > 0 {
			tell(reasons[i].Code, n)
		}
	}
}

// Calls returns how many calls took how long since the start, over all strategies. counts[i] are
// those above bounds[i-1] and up to bounds[i], in seconds; the last one has no upper bound. bounds
// must not be modified.
func (m *Metrics) Calls() (bounds []float64, counts []uint64) {
	counts = make([]uint64, len(buckets)+1)
	for _, h := range *m.latencies.known.Load() {
		var shown dto.Metric
		if h.Write(&shown) != nil {
			continue
		}
		before := uint64(0)
		for i, b := range shown.GetHistogram().GetBucket() {
			counts[i] += b.GetCumulativeCount() - before
			before = b.GetCumulativeCount()
		}
		counts[len(buckets)] += shown.GetHistogram().GetSampleCount() - before
	}
	return buckets, counts
}

// Load returns how many requests are being answered, and how many connections are open, over all
// protocols.
func (m *Metrics) Load() (inFlight, connections int64) {
	if http := m.opts.Source().HTTP; http != nil {
		state := http()
		return state.InFlight, state.Connections
	}
	return 0, 0
}

// unscraped is for how long nobody must have scraped for [Metrics.Tidy] to do so.
const unscraped = 2 * time.Minute

// Tidy takes the labels from biz types that are gone, as scrapes do, if nobody scrapes. Call it
// about once a minute.
func (m *Metrics) Tidy() {
	m.shown.mu.Lock()
	defer m.shown.mu.Unlock()
	if now := time.Now(); now.Sub(m.shown.at) >= unscraped {
		m.collectAll(now)
		m.shown.until = now // a scrape gets what is true then
	}
}
