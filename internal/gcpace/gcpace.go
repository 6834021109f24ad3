// Package gcpace makes the garbage collector run less often than usual while little lives, and as
// often as usual otherwise. What seqd keeps is usually small, and collecting it each time it has
// doubled costs a twelfth of all requests. When it is large, five times as much would be.
package gcpace

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// spare is how much garbage may gather at least, unless that is more than rare times what
	// lives.
	spare = 64 << 20
	rare  = 400 // percent of what lives
	usual = 100 // percent; what Go does by itself
)

// Start paces the collector from now on, except if GOGC says how. GOMEMLIMIT holds beside it.
func Start() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(rare)
	p := &pacer{percent: rare, live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	runtime.SetFinalizer(p, (*pacer).collected)
}

// pacer is garbage at all times: each collection finalizes it.
type pacer struct {
	percent int
	live    []metrics.Sample
}

// collected sets how much may gather until the next collection.
func (p *pacer) collected() {
	metrics.Read(p.live)
	if percent := percentFor(p.live[0].Value.Uint64()); percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(p, (*pacer).collected)
}

// percentFor returns how much garbage may gather beside so many bytes that live, in percent of
// them. It moves in steps of 20, for each change stops the program for a moment.
func percentFor(live uint64) int {
	percent := 100 * spare / max(live, 1) / 20 * 20
	return int(min(max(percent, usual), rare))
}
