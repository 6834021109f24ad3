package metrics

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd"
)

// hot counts everything that is counted for one request.
func hot(m *Metrics, route func(string, int), bizType string) {
	m.Issued(bizType, 1)
	m.Took("segment", 1200)
	route("GET", 200)
}

// TestAllocations checks that counting does not allocate, even for biz types without a label of
// their own.
func TestAllocations(t *testing.T) {
	m := newMetrics(1)
	route := m.Route("/seq/{bizType}")
	for _, bizType := range []string{"order", "other"} {
		if allocated := testing.AllocsPerRun(1000, func() {
			hot(m, route, bizType)
			m.Rejected(bizType, seqd.CodeRateLimited)
		}); allocated != 0 {
			t.Errorf("counting for %s allocates %v times", bizType, allocated)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	m := newMetrics(1000)
	route := m.Route("/seq/{bizType}")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			hot(m, route, "order")
		}
	})
}

// benchmarkScrape collects and writes the metrics of 10,000 biz types, some of which have labels of
// their own.
func benchmarkScrape(b *testing.B, labels int) {
	m := newMetrics(labels)
	var definitions []seqd.Definition
	for i := range 10_000 {
		definitions = append(definitions, define(fmt.Sprint("type", i), measures(seqd.GaugeInHand, 500.0, seqd.GaugeFill, 0.25, seqd.GaugeStep, 1000.0, seqd.GaugeRate, 10.0,
			seqd.GaugeHighest, 1000.0, seqd.GaugeLimit, 2000.0)))
	}
	m.Watch(Source{Issuer: issuer(b, m, definitions...)})
	for i := range 10_000 {
		m.Issued(fmt.Sprint("type", i), 1)
	}
	b.ResetTimer()
	b.ReportAllocs()
	for b.Loop() {
		m.shown.until = m.started
		body, _, err := m.Exposition(false, true)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(body)), "bytes")
	}
}

func BenchmarkScrape(b *testing.B)    { benchmarkScrape(b, 1000) }
func BenchmarkScrapeAll(b *testing.B) { benchmarkScrape(b, 10_000) }
