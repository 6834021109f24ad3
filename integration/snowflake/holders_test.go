package snowflake

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// Another holder is written into the record of a live node. The node stops at its next renewal,
// long before its lease ends, and registers again.
func TestRobbed(t *testing.T) {
	t.Parallel()
	onBoth(t, 10, func(s system) {
		a, b := s.start("a", ""), s.start("b", "")
		for range 2 {
			lost := a.machine()
			a.traffic.More(s.t, 100)
			s.rob(lost)
			await.True(s.t, "another machine ID", func() bool { h, ok := a.held(); return ok && h.machine != lost })
			a.traffic.More(s.t, 100)
			b.traffic.More(s.t, 100)
			noticed := a.logged(lostMessage, lost)
			if latest := a.latest(lost); latest > noticed.UnixMilli() {
				s.t.Errorf("the lost ID was used until %s, the loss was noticed at %s", time.UnixMilli(latest).UTC(), noticed)
			}
		}
		a.logs(lostMessage, 2)
		b.logs(lostMessage, 0)
		s.finish()
	}, long)
}

// A node is paused beyond its lease, and resumes.
func TestPaused(t *testing.T) {
	t.Parallel()
	onBoth(t, 10, func(s system) {
		a, b := s.start("a", ""), s.start("b", "")
		for range 2 {
			a.traffic.More(s.t, 100)
			a.Pause()
			s.over(a.machineKept())
			b.traffic.More(s.t, 100)
			a.Resume()
			a.AwaitReadiness(200, "")
			a.traffic.More(s.t, 100)
		}
		s.finish()
	})
}

// A node is paused beyond its lease, and another node takes its machine ID. When the first one
// resumes, it issues nothing with that ID.
func TestPausedAndSucceeded(t *testing.T) {
	t.Parallel()
	onBoth(t, 1, func(s system) { s.pauseAndSucceed(0) }, pausedHorizon)
}

// The same with a pause that ends a minute after the lease.
func TestPausedForAMinute(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := newOnMongo(t, 1, pausedHorizon)
	system{m.fleet, m}.pauseAndSucceed(time.Minute)
}

const pausedHorizon = "SEQD_SNOWFLAKE_HORIZON=3s"

// pauseAndSucceed pauses a node until another one has its machine ID, and a little longer.
func (s system) pauseAndSucceed(more time.Duration) {
	s.t.Helper()
	a, b := s.start("a", ""), s.start("b", "")
	c := s.launch("c", "")
	c.AwaitReadiness(503, "no_machine_id")
	c.load()
	a.traffic.More(s.t, 100)
	paused := a.machine()
	a.Pause()
	c.AwaitReadiness(200, "")
	if c.machine() != paused {
		s.t.Errorf("c has machine ID %d, want %d", c.machine(), paused)
	}
	c.traffic.More(s.t, 100)
	time.Sleep(more)
	a.Resume()
	a.AwaitReadiness(503, "no_machine_id")
	c.traffic.More(s.t, 100)
	b.leave()
	a.AwaitReadiness(200, "")
	a.traffic.More(s.t, 100)
	s.finish()
}

// machineKept is like machine, for a node that does not answer.
func (l *life) machineKept() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.spans[len(l.spans)-1].machine
}

// With four machine IDs the fifth node stands by. It takes over from a node that stops, and the
// next one from a node that dies.
func TestStandBy(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	const standByHorizon = 4 * time.Second
	onBoth(t, 2, func(s system) {
		var nodes []*life
		had := make(map[int64]bool)
		for i := range 4 {
			nodes = append(nodes, s.start(fmt.Sprint("n", i), ""))
			had[nodes[i].machine()] = true
		}
		if len(had) != 4 {
			s.t.Errorf("the nodes hold %v", had)
		}
		spare := func(name string) *life {
			l := s.launch(name, "")
			l.AwaitReadiness(503, "no_machine_id")
			if r := l.Readiness(); !strings.Contains(r.Body, "stands by") {
				s.t.Errorf("%s does not say that it stands by: %s", name, r.Body)
			}
			l.load()
			return l
		}
		e := spare("e")
		stopped := nodes[0].machine()
		nodes[0].leave()
		left := time.Now()
		e.AwaitReadiness(200, "")
		s.took("to take over from one that stopped", left, poll)
		if e.machine() != stopped {
			s.t.Errorf("e has %d, want %d", e.machine(), stopped)
		}
		f := spare("f")
		dead := nodes[1].machine()
		nodes[1].die()
		died := time.Now()
		ends := s.slots()[dead].Until
		f.AwaitReadiness(200, "")
		s.took("to take over from one that died", died, standByHorizon+poll+maxSkew)
		if h, _ := f.held(); h.machine != dead || h.from <= ends || h.from > died.Add(standByHorizon).UnixMilli()+1 {
			s.t.Errorf("f holds %+v, want %d, from after %d on, when the lease of the one that died at %d ends", h, dead, ends, died.UnixMilli())
		}
		e.traffic.More(s.t, 100)
		f.traffic.More(s.t, 100)
		s.finish()
	}, "SEQD_SNOWFLAKE_HORIZON="+standByHorizon.String())
}

// A node is killed and started again at once. It gets another machine ID, with the same key or
// another one.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	onBoth(t, 10, func(s system) {
		a := s.start("a0", "")
		for i := range 4 {
			a.traffic.More(s.t, 100)
			was := a.machine()
			a.die()
			next := s.start(fmt.Sprint("a", i+1), a.dir, a.again())
			if next.machine() == was {
				s.t.Errorf("life %d has the machine ID of the previous one, %d", i+1, was)
			}
			a = next
			a.traffic.More(s.t, 100)
		}
		s.finish()
	}, long)
}
