package model

import (
	"strings"
	"testing"
)

// The rules of the epochs that are needed only after several things in one order.

// configure begins another process of a node.
func configure(n *node, r regime) {
	n.die("is configured anew")
	n.next = r
	n.start(n.settings)
	n.w.refresh()
}

// settle brings a node back to the Redis of all, and lets the other one ask the store: from here on
// order holds over all nodes.
func settle(w *world, n1, n2 *node, held func(m *message) bool) {
	configure(n2, regime{})
	n1.ask()
	pass(w, held)
}

// soon makes a belief as young as if all before had taken no time.
func soon(n *node) { n.belief.asked = n.w.step }

// judge checks that order over all nodes was broken if it should be, and nothing else.
func judge(t *testing.T, w *world, broken bool) {
	t.Helper()
	if got := strings.HasPrefix(w.check.broken, "order over all nodes"); got != broken || !got && w.check.broken != "" {
		t.Errorf("rule taken out: %t, broken: %q", broken, w.check.broken)
	}
	if w.check.suspended {
		t.Error("order is still suspended: the schedule shows nothing")
	}
}

// Two nodes use different Redis servers. The one whose cursor does not count any more gets a range
// for it all the same: its numbers are above those that wait in the cursor that counts.
func TestAppendToACursorThatDoesNotCount(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[appendRefused] = broken
		w, n1, n2 := quiet(t, out)
		configure(n2, regime{redis: 1})
		n2.call(1)
		pass(w, standby) // of 1 to 3
		n1.call(1)
		pass(w, standby) // of 4 to 6
		soon(n2)
		n2.call(2)
		pass(w, standby)
		n2.call(1)
		pass(w, standby)
		settle(w, n1, n2, standby)
		n1.call(1)
		pass(w, standby)
		judge(t, w, broken)
	}
}

// A node's epoch is drawn and another node's after that. It learns of the second before the answer
// comes that tells it of its own.
func TestAnswersOvertakeEachOther(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[answersInOrder] = broken
		w, n1, n2 := quiet(t, out)
		late := func(m *message) bool {
			return m.op.node == n1 && m.question == allocate && m.to == toNode && m.op.task == mending
		}
		configure(n2, regime{redis: 1})
		n1.call(1)
		pass(w, or(standby, late))
		n2.call(1)
		pass(w, or(standby, late))
		settle(w, n1, n2, or(standby, late))
		n1.call(1)
		one(w, late)
		pass(w, standby)
		judge(t, w, broken)
	}
}

// A node has a range for the beginning of a cursor when it learns that another cursor has begun
// since, in another Redis. Whatever the present epoch, that range is too low.
func TestSpareOfAnOlderEpoch(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[spareEpoch] = broken
		w, n1, n2 := quiet(t, out)
		late := func(m *message) bool { return m.op.node == n1 && m.op.task == mending && n1.spare.r.First > 0 }
		configure(n2, regime{redis: 1})
		n1.call(1)
		pass(w, or(standby, late))
		n2.call(1)
		pass(w, or(standby, late))
		settle(w, n1, n2, or(standby, late))
		n1.call(1)
		pass(w, standby)
		judge(t, w, broken)
	}
}

// A node takes from a cursor now and then. Meanwhile another one was configured with per-node
// ordering, and is gone.
func TestBeliefOfLongAgo(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[beliefsAge] = broken
		w, n1, n2 := quiet(t, out)
		n1.call(1)
		pass(w, standby)
		configure(n2, regime{apart: true})
		n2.call(1)
		pass(w, standby)
		n2.die("is gone")
		w.refresh()
		w.step += trust + 1
		n1.call(1)
		pass(w, standby)
		n1.call(1)
		pass(w, standby)
		judge(t, w, broken)
	}
}

// A node comes back with a range for the cursor it saw. Others issue higher numbers of that cursor,
// and then it is lost: the range must not begin it.
func TestSpareOfALostCursor(t *testing.T) {
	for _, broken := range []bool{false, true} {
		var out without
		out[youngSpare] = broken
		w, n1, n2 := quiet(t, out)
		mends := func(m *message) bool { return m.op.node == n1 && m.op.task == mending }
		n1.call(1)
		pass(w, standby) // of 1 to 3
		n1.leave()
		n1.call(1)
		pass(w, standby) // of 4 to 6, on its own
		n1.probe()
		pass(w, or(standby, mends)) // it has 7 to 9, and is about to look
		n2.call(3)
		pass(w, or(standby, mends)) // of 2, 3, and what comes after 9
		w.servers[0].remove(key)
		pass(w, standby)
		n1.call(1)
		pass(w, standby)
		judge(t, w, broken)
	}
}

// A node comes back, and what it moves the cursor up with comes late: into the stub of a cursor
// that others took from since, and that was lost then. It is of another beginning, and of another
// epoch: either keeps it from counting.
func TestLateAdvanceAfterALoss(t *testing.T) {
	for _, out := range []without{{}, leaveOut(genCheck), leaveOut(installNames), leaveOut(genCheck, installNames)} {
		w, n1, n2 := quiet(t, out)
		mendsOf2 := func(m *message) bool { return m.op.node == n2 && m.op.task == mending }
		n1.call(1)
		pass(w, standby) // of 1 to 3
		n1.leave()
		n1.call(1)
		pass(w, standby) // of 4 to 6, on its own
		n1.probe()
		pass(w, or(standby, installOf(n1))) // it moves the cursor up to 7
		n2.call(3)
		pass(w, or(standby, installOf(n1))) // of 2, 3, and what comes after 9
		w.servers[0].remove(key)
		n2.call(1)
		pass(w, or(standby, installOf(n1), mendsOf2)) // it finds nothing
		one(w, installOf(n1))
		pass(w, or(standby, mendsOf2))
		soon(n1)
		n1.call(1)
		pass(w, or(standby, mendsOf2))
		judge(t, w, out[genCheck] && out[installNames])
	}
}

// Some rules keep no promise, but nodes from seeding in turn: without them nothing breaks, but more
// ranges are allocated after the cursor has lost its epoch.
func TestWhatSavesWork(t *testing.T) {
	drawn := func(out without) (n int) {
		program, err := compile(out)
		if err != nil {
			t.Fatal(err)
		}
		l := newInterpreter(program)
		for seed := range uint64(300) {
			w := newWorld(l, out, seed)
			for a := firstFault; a < actionsInAll; a++ {
				w.weights[a] = w.weights[firstFault-1]
			}
			w.run(200, nil)
			before := w.events["epoch drawn"]
			w.raise(0)
			for range 400 {
				w.turn()
			}
			if w.check.broken != "" {
				t.Errorf("seed %d: %s", seed, w.check.broken)
			}
			n += w.events["epoch drawn"] - before
		}
		return n
	}
	least := drawn(without{})
	for r := range rulesInAll {
		if !savesWork[r] {
			continue
		}
		sum := survey(t, leaveOut(r), r, rulesInAll, 300, 1)
		for _, f := range sum.failures {
			t.Errorf("without %q seed %d breaks at step %d: %s: it is more than work that it saves", r, f.Seed, f.Step, f.Broken)
		}
		if more := drawn(leaveOut(r)); more <= least {
			t.Errorf("without %q %d epochs are drawn, with all rules %d", r, more, least)
		} else {
			t.Logf("without %q %d epochs are drawn, with all rules %d", r, more, least)
		}
	}
}
