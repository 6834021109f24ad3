package model

import (
	"slices"
	"strings"
	"testing"
)

// Some rules are needed only after several faults in one order, which random schedules hardly ever
// meet: here are the schedules.

// quiet returns a world of two nodes with nothing on its way.
func quiet(t *testing.T, out without) (w *world, n1, n2 *node) {
	program, err := compile(out)
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(0); w == nil || w.events["upgraded"] > 0; seed++ {
		w = newWorld(newInterpreter(program), out, seed)
	}
	w.nodes, w.inFlight = w.nodes[:2], nil
	for _, n := range w.nodes {
		n.start(settings{step: 3, reserveText: "1", threshold: "1"})
		n.target = w.servers[0]
	}
	pass(w, nil) // they ask the store
	return w, w.nodes[0], w.nodes[1]
}

// pass lets everything arrive but what is held.
func pass(w *world, held func(m *message) bool) {
	arrived := 0
	for i := 0; i < len(w.inFlight); {
		if arrived++; arrived > 1000 {
			panic("the schedule does not come to an end")
		}
		if m := w.inFlight[i]; held == nil || !held(m) {
			w.remove(i)
			w.arrive(m)
			i = 0
		} else {
			i++
		}
		w.refresh()
		w.step++
	}
}

// standby holds the fetching of standby ranges.
func standby(m *message) bool { return m.op.task == standingBy }

// or holds what any of them holds.
func or(held ...func(m *message) bool) func(m *message) bool {
	return func(m *message) bool {
		for _, h := range held {
			if h(m) {
				return true
			}
		}
		return false
	}
}

// one lets the first message arrive that fits.
func one(w *world, fits func(m *message) bool) {
	i := slices.IndexFunc(w.inFlight, fits)
	m := w.inFlight[i]
	w.remove(i)
	w.arrive(m)
	w.refresh()
}

// refillOf holds what a node's refill sends and gets.
func refillOf(n *node) func(m *message) bool {
	return func(m *message) bool { return m.op.task == refilling && m.op.node == n }
}

// installOf holds the installs of a node.
func installOf(n *node) func(m *message) bool {
	return func(m *message) bool { return m.install && m.to == toRedis && m.op.node == n }
}

// A node issued on its own, went back, failed, and left again without issuing. When it comes back
// the cursor is empty, and a range that is older than the node's own numbers is on its way there:
// the node's range must replace it, not go behind it.
func TestReturnAfterAFailedReturn(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[aheadKept] = broken
		w, n1, n2 := quiet(t, out)
		if broken {
			w.trace = func(text string) { t.Log(text) }
		}
		n1.call(2)
		pass(w, standby)
		n2.call(1)
		pass(w, or(standby, installOf(n2))) // it appends 4 to 6, which comes late
		n1.leave()
		n1.call(1)
		pass(w, or(standby, installOf(n2))) // it issues 7
		n1.goBack()
		n1.pump()
		n1.leave()
		n1.goBack()
		n1.pump()
		pass(w, or(standby, installOf(n1), installOf(n2))) // it has looked, and brings a range
		one(w, installOf(n2))                              // 4 to 6 arrive
		pass(w, or(standby, refillOf(n2)))                 // what it brings arrives
		n2.call(1)
		pass(w, or(standby, refillOf(n2)))
		if got := strings.HasPrefix(w.check.broken, "order over all nodes"); got != broken {
			t.Errorf("rule taken out: %t, broken: %q", broken, w.check.broken)
		}
	}
}

// The store was restored without the documented step, and the cursor went on by more than
// restoreGap since a node took from it last. Its standby range, allocated from what it saw when it
// looked for that, lies among numbers that others have issued. It has looked at the cursor since.
func TestStandbyBelowACeilThatWasSeen(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[standbyAboveCeil] = broken
		w, n1, n2 := quiet(t, out)
		reply := func(m *message) bool { return m.op.node == n1 && m.op.task == standingBy && m.to == toNode }
		others := func(m *message) bool { return m.op.node == n2 && m.op.task == standingBy }
		n2.call(1)
		pass(w, others)
		n1.call(1)
		pass(w, or(others, reply)) // what it sees of the cursor comes late
		for range restoreGap {
			n2.call(3)
			pass(w, or(others, reply))
		}
		w.restore()
		pass(w, others) // it allocates its standby range
		n1.mends = true
		n1.pump()
		pass(w, others) // it looks, but takes nothing
		n1.leave()
		n1.call(1)
		pass(w, others)
		if got := strings.HasPrefix(w.check.broken, "uniqueness"); got != broken {
			t.Errorf("rule taken out: %t, broken: %q", broken, w.check.broken)
		}
	}
}

// A seed comes late, into the stub of a cursor that was begun by another node since and then lost.
// Its sender has not learnt of the other yet.
func TestLateSeedAfterALoss(t *testing.T) {
	for _, out := range []without{{}, leaveOut(genCheck), leaveOut(seedNames)} {
		w, n1, n2 := quiet(t, out)
		mendsOf2 := func(m *message) bool { return m.op.node == n2 && m.op.task == mending }
		n1.call(1)
		pass(w, or(standby, installOf(n1))) // it seeds 1 to 3, which comes late
		n2.call(1)
		pass(w, or(standby, installOf(n1), refillOf(n2))) // it seeds 4 to 6, and issues 4
		n1.call(1)
		n1.belief.asked = w.step // all that took little time
		w.servers[0].remove(key)
		n2.call(1)
		pass(w, or(standby, installOf(n1), refillOf(n2), mendsOf2)) // it finds nothing
		one(w, installOf(n1))
		pass(w, or(standby, refillOf(n2), mendsOf2))
		broken := out != without{}
		if got := strings.HasPrefix(w.check.broken, "order over all nodes"); got != broken {
			t.Errorf("broken: %q, expected: %t", w.check.broken, broken)
		}
	}
}
