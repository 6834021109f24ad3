package snowflake

import (
	"time"

	"github.com/seqd/seqd"
)

var _ seqd.Measurer = (*Strategy)(nil)

// seen is what a holder last saw in its registry. No decision depends on it.
type seen struct {
	offset     float64 // how far this node's clock was ahead of the registry's, in ms
	hasOffset  bool
	used, free int // of the machine IDs that this node may hold
	hasUsed    bool
}

// surveyPause is how often a node with a machine ID reads the whole registry. Renewals read its own
// slot only.
const surveyPause = time.Minute

// Measure implements [seqd.Measurer]. Biz types with the same settings share a registry and report
// the same.
func (s *Strategy) Measure(tell func(seqd.Measurement)) { s.held().measure(tell) }

// measure reports what is known of the registry. Only machine IDs that this node may hold count as
// free or used: with racks, those of its rack.
func (h *holder) measure(tell func(seqd.Measurement)) {
	now, saw, runs := h.env.ms(), h.registry.lastSeen(), h.worker.runs()
	s, l, bound := h.tenure.now()
	to := func(g seqd.Gauge, value float64) {
		tell(seqd.Measurement{Gauge: g, Of: h.registry.title, Value: value})
	}
	if runs && s == holding {
		to(seqd.GaugeMachineID, float64(l.ID))
	}
	if runs {
		to(seqd.GaugeLeaseLeft, max(0, seconds(bound-now)))
	}
	if saw.hasUsed {
		to(seqd.GaugeMachineIDsUsed, float64(saw.used))
		to(seqd.GaugeMachineIDsFree, float64(saw.free))
	}
	if saw.hasOffset {
		to(seqd.GaugeClockOffset, saw.offset/1000)
	}
	to(seqd.GaugeTimeLeft, max(0, seconds(h.tenure.gen.layout.last()+1-now)))
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }
