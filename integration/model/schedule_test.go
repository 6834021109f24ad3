package model

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// Some rules are needed only after several faults in one order, which random schedules hardly ever
// meet: here are the schedules.

// stage is a world of two nodes in which only that happens what a test says.
type stage struct {
	*testing.T
	*world
	n1, n2 *node
}

// quiet returns a stage with nothing on its way. Both nodes use Redis A, and know that no cursor
// counts yet. Ranges hold 3 numbers, and are asked for when there are none left.
func quiet(t *testing.T, out without) *stage {
	t.Helper()
	program, err := compile(out)
	if err != nil {
		t.Fatal(err)
	}
	var w *world
	for seed := uint64(0); w == nil || w.events["upgraded"] > 0; seed++ {
		w = newWorld(newInterpreter(program), out, seed)
	}
	w.nodes, w.inFlight, w.jitter = w.nodes[:2], nil, 0
	w.trace = func(line string) { t.Log(line) }
	s := &stage{t, w, w.nodes[0], w.nodes[1]}
	for _, n := range w.nodes {
		n.next = regime{}
		s.configure(n, regime{})
	}
	s.pass(nil)
	return s
}

// filter selects messages.
type filter func(m *message) bool

// or selects what any of some filters selects.
func or(filters ...filter) filter {
	return func(m *message) bool {
		return slices.ContainsFunc(filters, func(f filter) bool { return f != nil && f(m) })
	}
}

// of selects what a task of a node sends and gets.
func of(n *node, t cursor.Task) filter {
	return func(m *message) bool { return m.op.node == n && m.op.task == task(t) }
}

// installOf selects the installs of a node on their way to Redis.
func installOf(n *node) filter {
	return func(m *message) bool { return m.question == install && m.to == toRedis && m.op.node == n }
}

// standby selects what allocates standby ranges.
func standby(m *message) bool { return m.op.task == task(cursor.Standby) }

// pass lets everything arrive except what is held, and lets the time pass that nodes wait for until
// callers have their numbers.
func (s *stage) pass(held filter) { s.passFor(400*time.Millisecond, held) }

// passFor does that for some time, and no shorter if callers still wait at its end.
func (s *stage) passFor(d time.Duration, held filter) {
	s.Helper()
	for end, steps := s.now.Add(d), 0; ; steps++ {
		if steps > 5000 {
			s.Fatal("the schedule does not come to an end")
		}
		switch next := s.nextDeadline(); {
		case s.deliver(held):
		case !s.callersWait() || next.IsZero() || next.After(end):
			return
		default:
			s.advance(max(0, next.Sub(s.now)))
			s.tick()
		}
	}
}

// deliver lets the oldest message arrive that is not held, and reports whether there was one.
func (s *stage) deliver(held filter) bool {
	i := slices.IndexFunc(s.inFlight, func(m *message) bool { return held == nil || !held(m) })
	if i < 0 {
		return false
	}
	m := s.inFlight[i]
	s.remove(i)
	s.advance(time.Millisecond)
	switch n := m.op.node; {
	case !n.cut || m.op.question.atStore() || m.op.task == closing:
		s.arrive(m)
	case !m.op.over:
		n.fail(m.op)
	}
	s.refresh()
	s.step++
	return true
}

func (s *stage) callersWait() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool {
		return len(n.waiting) > 0 || n.m != nil && n.m.Mode() == cursor.Mending
	})
}

func (s *stage) nextDeadline() (next time.Time) {
	for _, n := range s.nodes {
		if due := n.due(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

func (s *stage) tick() {
	for _, n := range s.nodes {
		if n.st != nil {
			n.tickStored(s.now)
		} else if n.m != nil {
			n.m.Tick(s.now)
		}
		n.settle()
	}
	s.refresh()
}

// one lets the first message arrive that fits.
func (s *stage) one(fits filter) {
	s.Helper()
	if !s.deliver(func(m *message) bool { return !fits(m) }) {
		s.Fatal("no message fits")
	}
}

// cut cuts a node off from Redis and lets time pass until it issues on its own.
func (s *stage) cut(n *node, held filter) {
	s.Helper()
	n.cut = true
	s.until(held, func() bool { return n.m.Mode() == cursor.Alone })
	s.pass(held)
}

// reconnect lets a node reach Redis again and time pass until it goes back.
func (s *stage) reconnect(n *node, held filter) {
	s.Helper()
	n.cut = false
	s.until(held, func() bool { return n.m.Mode() == cursor.Mending && n.local == nil })
}

func (s *stage) until(held filter, come func() bool) {
	s.Helper()
	for steps := 0; !come(); steps++ {
		next := s.nextDeadline()
		switch {
		case steps > 1000:
			s.Fatal("it does not come to that")
		case s.deliver(held):
		case next.IsZero():
			s.Fatal("nothing happens any more")
		default:
			s.advance(max(0, next.Sub(s.now)))
			s.tick()
		}
	}
}

// configure begins another process of a node.
func (s *stage) configure(n *node, r regime) {
	s.advance(time.Millisecond)
	n.die("is configured anew")
	n.next = r
	n.start(settings{step: 3, reserve: 1, threshold: 1})
	if n.m != nil {
		n.target = s.servers[2*r.redis]
	}
	s.refresh()
}

// lose loses the hash in Redis A.
func (s *stage) lose() {
	s.say("A: the hash goes away")
	s.servers[0].remove(key)
}

// judge checks that a promise was broken if it should be, and nothing else.
func (s *stage) judge(promise string, broken bool) {
	s.Helper()
	if got := strings.HasPrefix(s.check.broken, promise); got != broken || !got && s.check.broken != "" {
		s.Errorf("rule taken out: %t, broken: %q", broken, s.check.broken)
	}
	if s.check.suspended && promise == everywhere {
		s.Error("order is still suspended: the schedule shows nothing")
	}
}

// everywhere is the promise that most of these schedules break.
const everywhere = "order over all nodes"

// both runs a schedule with a rule and without it.
func both(t *testing.T, r rule, schedule func(s *stage, broken bool)) {
	t.Run("kept", func(t *testing.T) { schedule(quiet(t, without{}), false) })
	t.Run("taken out", func(t *testing.T) { schedule(quiet(t, leaveOut(r)), true) })
}

// The store was restored without the documented step, and the cursor moved by more than restoreGap
// since a node took from it last. Its standby range, allocated from what it saw when it looked for
// that, lies among numbers that others have issued. It has seen the cursor since.
func TestStandbyBelowACeilThatWasSeen(t *testing.T) {
	both(t, standbyAboveCeil, func(s *stage, broken bool) {
		ofOthers := of(s.n2, cursor.Standby)
		reply := func(m *message) bool { return of(s.n1, cursor.Standby)(m) && m.to == toNode }
		s.n2.call(1)
		s.pass(ofOthers)
		s.n1.call(1)
		s.pass(or(ofOthers, reply)) // what it sees of the cursor comes late
		s.n2.call(1)
		s.pass(or(ofOthers, reply)) // of 1 to 3
		for range restoreGap {
			s.n2.call(3)
			s.pass(or(ofOthers, reply, installOf(s.n1)))
		}
		s.restore()
		s.pass(ofOthers) // it allocates its standby range
		refills := or(of(s.n1, cursor.Refill), of(s.n2, cursor.Refill))
		for range 2 { // until the cursor is used up
			s.n2.call(3)
			s.pass(or(ofOthers, refills))
		}
		s.n1.call(1)
		s.pass(or(ofOthers, refills)) // it gets none, but sees the ceil
		s.cut(s.n1, or(ofOthers, refills))
		s.judge("uniqueness", broken)
	})
}

// A seed comes late, into the stub of a cursor that was begun by another node since and then lost.
// Its sender has not learnt of the other yet.
func TestLateSeedAfterALoss(t *testing.T) {
	for _, out := range []without{{}, leaveOut(genCheck), leaveOut(seedNames)} {
		s := quiet(t, out)
		held := or(standby, installOf(s.n1))
		s.n1.call(1)
		s.pass(held) // it seeds 1 to 3, which comes late
		s.n2.call(1)
		s.passFor(time.Second, held) // it seeds 4 to 6, and issues 4
		s.n1.call(1)
		s.lose()
		s.n2.call(1)
		s.pass(or(held, of(s.n2, cursor.Mend))) // it finds nothing
		s.one(installOf(s.n1))
		s.pass(or(held, of(s.n2, cursor.Mend)))
		s.judge(everywhere, out != without{})
	}
}

// Two nodes use different Redis servers. The one whose cursor does not count any more gets a range
// for it all the same: its numbers are above those that wait in the cursor that counts.
func TestAppendToACursorThatDoesNotCount(t *testing.T) {
	both(t, appendRefused, func(s *stage, broken bool) {
		s.configure(s.n2, regime{redis: 1})
		s.n2.call(1)
		s.pass(standby) // of 1 to 3
		s.n1.call(1)
		s.passFor(time.Second, standby) // of 4 to 6
		s.n2.call(2)
		s.pass(standby)
		s.n2.call(1)
		s.pass(standby)
		s.configure(s.n2, regime{})
		s.advance(cursor.TrustEpoch + 1)
		s.n1.call(1)
		s.pass(standby) // it asks the store: from here on order holds over all nodes
		s.n1.call(1)
		s.pass(standby)
		s.judge(everywhere, broken)
	})
}

// drawnLate brings a node to where it has drawn an epoch, with a range for it, and another node in
// another Redis has drawn one after that, issued 7, and ended. What the node is to learn late is
// held. Then it learns of the second epoch: the store refuses it a range for an older cursor.
func drawnLate(s *stage, late filter) {
	refill := of(s.n1, cursor.Refill)
	s.n1.call(3)
	s.pass(or(standby, refill)) // 1 to 3, after which it asks for a range to append
	s.lose()
	s.n1.call(1)
	s.pass(or(standby, refill, late)) // it draws an epoch, for 4 to 6
	s.configure(s.n2, regime{redis: 1})
	s.n2.call(1)
	s.passFor(time.Second, or(standby, refill, late)) // it draws one for 7 to 9
	s.configure(s.n2, regime{})
	s.n1.call(1)
	s.advance(time.Millisecond)
	s.passFor(0, or(standby, late)) // the range to append is refused, and it asks why
	s.n1.call(1)
	s.passFor(time.Second, standby)
}

// A node's epoch is drawn and another node's after that. It learns of the second before the answer
// comes that tells it of its own.
func TestAnswersOvertakeEachOther(t *testing.T) {
	both(t, answersInOrder, func(s *stage, broken bool) {
		drawnLate(s, func(m *message) bool { return of(s.n1, cursor.Spare)(m) && m.to == toNode })
		s.judge(everywhere, broken)
	})
}

// A node has a range for the beginning of a cursor when it learns that another cursor has begun
// since, in another Redis. Whatever the present epoch, that range is too low.
func TestSpareOfAnOlderEpoch(t *testing.T) {
	both(t, spareEpoch, func(s *stage, broken bool) {
		drawnLate(s, func(m *message) bool { return of(s.n1, cursor.Mend)(m) && s.n1.spare.First > 0 })
		s.judge(everywhere, broken)
	})
}

// A node takes from a cursor now and then. Meanwhile another one was configured with per-node
// ordering, and is gone. The store is slow to answer what the node asks after its take.
func TestBeliefOfLongAgo(t *testing.T) {
	both(t, beliefsAge, func(s *stage, broken bool) {
		s.n1.call(1)
		s.pass(standby)
		s.configure(s.n2, regime{apart: true})
		s.n2.call(1)
		s.pass(standby)
		s.n2.die("is gone")
		s.refresh()
		s.advance(2 * cursor.TrustEpoch)
		late := filter(standby)
		if broken {
			late = or(standby, of(s.n1, cursor.Ask))
		}
		s.n1.call(1)
		s.pass(late)
		s.n1.call(1)
		s.pass(late)
		s.judge(everywhere, broken)
	})
}

// A node comes back with a range for the cursor it saw. Others issue higher numbers of that cursor,
// and then it is lost: the range must not begin it.
func TestSpareOfALostCursor(t *testing.T) {
	both(t, youngSpare, func(s *stage, broken bool) {
		held := or(standby, of(s.n1, cursor.Mend))
		s.n1.call(1)
		s.pass(standby) // of 1 to 3
		s.n1.call(1)
		s.cut(s.n1, standby) // of 4 to 6, on its own
		s.reconnect(s.n1, held)
		s.n2.call(3)
		s.pass(held) // of 2, 3, and what comes after 9
		s.lose()
		s.pass(standby)
		s.n1.call(1)
		s.pass(standby)
		s.judge(everywhere, broken)
	})
}

// A node comes back, and what it moves the cursor up with comes late: into the stub of a cursor
// that others took from since, and that was lost then. It is of another beginning, and of another
// epoch: either keeps it from counting.
func TestLateAdvanceAfterALoss(t *testing.T) {
	for _, out := range []without{{}, leaveOut(genCheck), leaveOut(installNames), leaveOut(genCheck, installNames)} {
		s := quiet(t, out)
		held := or(standby, installOf(s.n1))
		s.n1.call(1)
		s.pass(standby) // of 1 to 3
		s.n1.call(1)
		s.cut(s.n1, standby) // of 4 to 6, on its own
		s.reconnect(s.n1, held)
		s.pass(held) // it moves the cursor up to 7
		s.n2.call(3)
		s.pass(held) // of 2, 3, and what comes after 9
		s.lose()
		s.n2.call(1)
		s.pass(or(held, of(s.n2, cursor.Mend))) // it finds nothing
		s.one(installOf(s.n1))
		s.pass(or(standby, of(s.n2, cursor.Mend)))
		s.n1.call(1)
		s.pass(or(standby, of(s.n2, cursor.Mend)))
		s.judge(everywhere, out[genCheck] && out[installNames])
	}
}

// A node issued on its own, went back, failed, and issued nothing before it goes back again. It has
// the range that its return needs, so it returns although the store is away.
func TestReturnAfterAFailedReturn(t *testing.T) {
	both(t, aheadKept, func(s *stage, broken bool) {
		held := or(standby, of(s.n1, cursor.Refill))
		s.n1.call(3)
		s.pass(held) // 1 to 3, after which the cursor is used up
		s.n1.call(1)
		s.cut(s.n1, held) // it issues 4
		s.reconnect(s.n1, or(held, of(s.n1, cursor.Mend)))
		s.cut(s.n1, held) // its first look fails
		s.reconnect(s.n1, or(held, of(s.n1, cursor.Mend)))
		s.store.down = true
		s.n1.call(1)
		s.pass(standby)
		if mode := s.n1.m.Mode(); (mode != cursor.Online) != broken {
			s.Errorf("rule taken out: %t, mode: %v", broken, mode)
		}
	})
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
	longtest.Only(t)
	least := drawn(without{})
	for r := range rulesInAll {
		if !savesWork[r] {
			continue
		}
		sum := survey(t, leaveOut(r), r, rulesInAll, 300, 1, func(worlds.Failure) bool { return true })
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
