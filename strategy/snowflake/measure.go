package snowflake

import (
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
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
	h.mu.Lock()
	now, saw, id, bound := h.ms(), h.seen, h.lease.id, h.bound
	runs := h.stop != nil && !h.over
	holds := runs && h.state == holding
	h.mu.Unlock()
	to := func(g seqd.Gauge, value float64) { tell(seqd.Measurement{Gauge: g, Of: h.title, Value: value}) }
	if holds {
		to(seqd.GaugeMachineID, float64(id))
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
	to(seqd.GaugeTimeLeft, max(0, seconds(h.gen.layout.last()+1-now)))
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// compared notes the difference between the clocks. The registry was read between before and after;
// half-way is the best estimate.
func (h *holder) compared(before, after int64, t persist.SlotTable) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen.offset, h.seen.hasOffset = float64(before-t.Now+after-t.Now)/2, true
}

// counted notes how many machine IDs are leased. t has all slots.
func (h *holder) counted(t persist.SlotTable) {
	used := h.used(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen.used, h.seen.free, h.seen.hasUsed = used, int(h.last-h.member.first+1)-used, true
}

// survey reads the whole registry from time to time, in the background and only to count. Renewals
// do not wait for it, and its errors do not matter.
func (h *holder) survey(ctx context.Context) {
	if time.Since(h.surveyed) < surveyPause {
		return
	}
	h.surveyed = time.Now()
	h.surveys.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		if t, err := h.registry.Look(ctx, h.name); err == nil {
			h.counted(t)
		}
	})
}
