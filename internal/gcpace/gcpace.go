// Package gcpace makes the garbage collector run less often than usual while the live heap is
// small. The live heap of seqd is usually small, and a busy node would collect 30 times a second. A
// collection stops the program twice, and a stop takes milliseconds while another program has one of
// the processors: so rare collections help the slowest requests even more than the throughput. If
// the live heap is large, the collector runs as usual, because rare collections would need up to
// nine times its memory.
package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// spare is the garbage that may always gather, in bytes, up to rare percent of the live heap.
	spare = 64 << 20
	rare  = 800 // percent of the live heap; Go takes it for 4 MiB at least, so it collects at 32 MiB
	usual = 100 // percent; Go's default
)

// Start starts pacing the collector, unless GOGC is set. GOMEMLIMIT still applies.
func Start() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(rare)
	p := &pacer{percent: rare, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	runtime.SetFinalizer(p, (*pacer).collected)
}

// pacer is always garbage, so each collection finalizes it.
type pacer struct {
	percent int
	live    []metrics.Sample
}

// collected sets how much garbage may gather before the next collection.
func (p *pacer) collected() {
	metrics.Read(p.live)
	if percent := percentFor(p.live[0].Value.Uint64()); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(p, (*pacer).collected)
}

// percentFor returns how much garbage may gather, in percent of live, the bytes of the live heap.
// It is a multiple of 20, because each change stops the program for a moment.
func percentFor(live uint64) int {
	percent := 100 * spare / max(live, 1) / 20 * 20
	return int(min(max(percent, usual), rare))
}
