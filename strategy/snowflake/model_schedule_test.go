package snowflake

import (
	"strings"
	"testing"
)

// deliver delivers all messages and those that follow from them.
func deliver(w *world) {
	for len(w.inFlight) > 0 {
		m := w.inFlight[0]
		w.remove(0)
		w.arrive(m)
		w.step++
	}
	w.step += 20 // no pauses
}

// TestClockSetBackInAFailover runs a schedule that random ones hardly ever contain. A lease ends,
// and another node takes the machine ID over. A failover loses that, and the new server's clock is
// behind by maxSkew: by that clock the lease has not ended yet.
func TestClockSetBackInAFailover(t *testing.T) {
	for _, broken := range []bool{false, true} {
		out := without{}
		out.rules[standMargin], out.rules[splitStand] = broken, true // Lag would be enough of a margin
		w := newWorld(out, 0)
		if broken {
			w.trace = func(text string) { t.Log(text) }
		}
		r := &w.registry
		*r = simulated{source: "s1", lag: 30}
		r.remember(w.now)
		w.nodes, w.mixed, w.skew = w.nodes[:2], false, 8
		a, b := w.nodes[0], w.nodes[1]
		for _, n := range w.nodes {
			n.offset = 0
			n.member = member{layout: "layout", key: n.name, horizon: 100, maxSkew: 8, floored: true}
		}
		a.begin()
		deliver(w)
		w.now += 200
		a.begin() // its lease begins
		deliver(w)
		before := r.contents
		w.now = a.bound - 3
		r.wobble = 8
		b.begin() // takes the machine ID over
		deliver(w)
		if taken := b.mode == having; taken != broken {
			t.Fatalf("rule taken out: %t, taken over: %t", broken, taken)
		}
		r.contents, r.source, r.wobble = before, "s2", 0
		a.begin()
		deliver(w)
		if got := strings.HasPrefix(w.check.broken, overlap); got != broken {
			t.Errorf("rule taken out: %t, broken: %q", broken, w.check.broken)
		}
	}
}
