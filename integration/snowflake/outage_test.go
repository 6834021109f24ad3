package snowflake

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// linked is a system whose registry is reached through a link.
type linked struct {
	system
	link   *testenv.Link
	direct []string // settings of a node that does not use the link
}

// onBothLinked is like onBoth, with a link between the nodes and the registry.
func onBothLinked(t *testing.T, bits int, test func(s linked), settings ...string) {
	t.Run("mongo", func(t *testing.T) {
		t.Parallel()
		m := newOnMongo(t, bits, settings...)
		link := testenv.NewLink(t, m.mongo.Addr())
		m.env = append(m.env, mongoAt(m.mongo, link.Addr())...)
		test(linked{system{m.fleet, m}, link, mongoAt(m.mongo, m.mongo.Addr())})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := newOnRedis(t, bits, testenv.StartRedis(t), settings...)
		r.found()
		link := testenv.NewLink(t, r.redis.Addr())
		r.env = append(r.env, "SEQD_REDIS_ADDRS="+link.Addr())
		test(linked{system{r.fleet, r}, link, []string{"SEQD_REDIS_ADDRS=" + r.redis.Addr()}})
	})
}

// The registry is down when a node starts. The node reports it, and becomes ready when the registry
// is there.
func TestStartsWithoutTheRegistry(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		s.link.Cut()
		a := s.launch("a", "")
		a.AwaitReadiness(503, "store_unavailable")
		if status, _ := a.Status("/healthz"); status != 200 {
			s.t.Errorf("healthz says %d", status)
		}
		a.load()
		s.link.Restore()
		a.AwaitReadiness(200, "")
		a.traffic.More(s.t, 100)
		s.finish()
	})
}

// The registry is away when a lease should be renewed, and comes back before the lease ends. No
// call is rejected.
func TestRegistryAwayForAMoment(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		a := s.start("a", "")
		machine := a.machine()
		for range 2 {
			a.traffic.More(s.t, 100)
			s.link.Cut()
			a.AwaitReadiness(200, "store_unavailable")
			a.traffic.More(s.t, 100)
			s.link.Restore()
			a.AwaitReadiness(200, "")
		}
		a.AwaitLog("the registry of machine IDs answers again")
		if a.traffic.Failed() > 0 || a.machine() != machine {
			s.t.Errorf("rejected: %v; it has machine ID %d, want %d", a.traffic.Failures(), a.machine(), machine)
		}
		s.finish()
	}, long)
}

// The registry goes away. The node issues until the lease ends, and then rejects calls. When the
// registry is back it resumes.
func TestRegistryAway(t *testing.T) {
	t.Parallel()
	faults := map[string]func(l *testenv.Link){"cut": (*testenv.Link).Cut, "hangs": (*testenv.Link).Hang}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothLinked(t, 10, func(s linked) {
				a := s.start("a", "")
				a.traffic.More(s.t, 100)
				fault(s.link)
				// TestRegistryAwayForAMoment shows that it issues meanwhile.
				a.AwaitReadiness(503, "no_machine_id")
				s.link.Restore()
				a.AwaitReadiness(200, "")
				a.traffic.More(s.t, 100)
				s.finish()
			}, "SEQD_SNOWFLAKE_HORIZON=4s")
		})
	}
}

// resumes waits until the node has issued a number with a time from now on.
func (l *life) resumes() {
	l.f.t.Helper()
	now := time.Now().UnixMilli()
	l.traffic.Await(l.f.t, "a number of the present", func() bool { ms, _ := l.f.parse(l.traffic.Highest()); return ms > now })
}

// Settings of nodes with a reservation: a short one, and one that does not end during a test.
const (
	reserved     = "SEQD_SNOWFLAKE_OFFLINESTART=4s"
	longReserved = "SEQD_SNOWFLAKE_OFFLINESTART=2m"
)

// With offlineStart a node that was killed gets its own machine ID back at once.
func TestOwnMachineIDBack(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		a := s.start("a0", "")
		machine := a.machine()
		for _, name := range []string{"a1", "a2"} {
			a.traffic.More(s.t, 100)
			a.die()
			a = s.start(name, a.dir, a.again())
			if got := a.machine(); got != machine {
				s.t.Errorf("%s has machine ID %d, want %d", name, got, machine)
			}
			a.traffic.More(s.t, 100)
		}
		s.finish()
	}, longReserved)
}

// The registry is away for longer than the horizon. A node with a reservation issues until the
// reservation ends. After that a restart does not help.
func TestGoesOnAlone(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		a := s.start("a0", "")
		a.traffic.More(s.t, 100)
		s.link.Cut()
		ends := s.slots()[a.machine()].Until
		a.traffic.Await(s.t, "a number behind the lease", func() bool { ms, _ := s.parse(a.traffic.Highest()); return ms > ends })
		a.AwaitReadiness(503, "no_machine_id")
		if latest, most := a.latest(a.machine()), s.slots()[a.machine()].Reserved; latest > most {
			s.t.Errorf("it issued at %d, after the end of its reservation, %d", latest, most)
		}
		a.die()
		a = s.launch("a1", a.dir, a.again())
		a.AwaitReadiness(503, "store_unavailable")
		a.load()
		s.link.Restore()
		a.AwaitReadiness(200, "")
		a.traffic.More(s.t, 100)
		s.finish()
	}, reserved)
}

// A node with a reservation starts twice while the registry is away, and continues above what it
// issued before. When the registry is back, it still has the same lease. If the registry is in
// MongoDB, which is also the store, the node starts without the store too.
func TestStartsAlone(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		a, b := s.start("a0", ""), s.start("b", "", s.direct...)
		machine := a.machine()
		token := s.slots()[machine].Token
		a.traffic.More(s.t, 100)
		s.link.Cut()
		for _, name := range []string{"a1", "a2"} {
			a.AwaitReadiness(200, "store_unavailable")
			highest := a.endAlone()
			a = s.startAlone(name, a)
			a.traffic.More(s.t, 100)
			if numbers, err := a.Take("order", 1); err != nil || numbers[0] <= highest {
				s.t.Errorf("%s issued %d, %v; the previous life %d", name, numbers, err, highest)
			}
		}
		ends := s.slots()[machine].Until
		s.link.Restore()
		a.AwaitReadiness(200, "")
		a.traffic.More(s.t, 100)
		if r := s.slots()[machine]; a.machine() != machine || r.Token != token || r.Until <= ends {
			s.t.Errorf("it holds machine ID %d; on record is %+v, before it was %s until %d", a.machine(), r, token, ends)
		}
		a.AwaitLog("the registry of machine IDs answers again")
		b.traffic.More(s.t, 100)
		s.finish()
	}, longReserved)
}

// endAlone waits until a node has issued without the registry, kills it, and returns its highest
// number.
func (l *life) endAlone() int64 {
	l.f.t.Helper()
	l.traffic.More(l.f.t, 100)
	l.die()
	return l.traffic.Highest()
}

// startAlone starts a later life of a node while the registry is away.
func (f *fleet) startAlone(name string, earlier *life) *life {
	f.t.Helper()
	l := f.launch(name, earlier.dir, earlier.again())
	l.AwaitReadiness(200, "store_unavailable")
	l.AwaitLog("this node issues on its reservation")
	l.load()
	return l
}

// While a node issues on its reservation, its lease ends and another node takes its machine ID. The
// other node begins above the reservation.
func TestSucceededWhileAlone(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 1, func(s linked) {
		a, b := s.start("a0", ""), s.start("b", "", s.direct...)
		machine := a.machine()
		a.traffic.More(s.t, 100)
		s.link.Cut()
		a.endAlone()
		a = s.startAlone("a1", a)
		reservedUntil := s.slots()[machine].Reserved
		c := s.launch("c", "", s.direct...)
		c.load()
		await.True(s.t, "c has a machine ID", func() bool { _, ok := c.held(); return ok })
		if h, _ := c.held(); h.machine != machine || h.from <= reservedUntil {
			s.t.Errorf("c holds %+v, want %d, from behind %d on", h, machine, reservedUntil)
		}
		a.resumes()
		b.resumes()
		s.link.Restore()
		a.AwaitLog(lostMessage)
		s.finish()
	}, longReserved)
}

// The registry loses everything while nodes run and another node starts. Holders stop and register
// again, and no node issues below the floor.
func TestWiped(t *testing.T) {
	t.Parallel()
	test := func(s system) {
		a, b := s.start("a", ""), s.start("b", "")
		a.traffic.More(s.t, 100)
		b.traffic.More(s.t, 100)
		wiped := time.Now()
		s.wipe()
		c := s.launch("c", "")
		c.load()
		for _, l := range []*life{a, b} {
			l.AwaitLog(lostMessage)
		}
		for _, l := range []*life{a, b, c} {
			l.AwaitReadiness(200, "")
			l.traffic.More(s.t, 100)
			if h, _ := l.held(); h.from < wiped.Add(horizon+2*maxSkew).UnixMilli() {
				s.t.Errorf("%s has a lease from %s, and the registry was wiped at %s", l.name, time.UnixMilli(h.from), wiped)
			}
		}
		s.took("to resume", wiped, horizon+2*maxSkew+poll)
		s.finish()
	}
	onBoth(t, 10, test)
	t.Run("redis that restarts", func(t *testing.T) {
		t.Parallel()
		r := newOnRedis(t, 10, testenv.StartRedis(t))
		test(system{r.fleet, forgetful{r}})
	})
}

// forgetful starts a Redis that keeps nothing on disk, and loses everything when it restarts.
type forgetful struct{ *onRedis }

func (r forgetful) wipe() { r.redis.RestartEmpty() }

// The registry loses everything while a node is cut off. The node issues until the end of its
// lease, and no other node issues with its machine ID before that.
func TestWipedWhileOneIsCutOff(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	onBothLinked(t, 1, func(s linked) {
		a := s.start("a", "")
		a.traffic.More(s.t, 100)
		s.link.Cut()
		s.wipe()
		b, c := s.launch("b", "", s.direct...), s.launch("c", "", s.direct...)
		for _, l := range []*life{b, c} {
			l.load()
			l.AwaitReadiness(200, "")
			l.traffic.More(s.t, 100)
		}
		a.AwaitReadiness(503, "no_machine_id")
		s.link.Restore()
		a.AwaitLog(lostMessage)
		b.leave()
		a.AwaitReadiness(200, "")
		a.traffic.More(s.t, 100)
		s.finish()
	}, "SEQD_SNOWFLAKE_HORIZON=4s")
}

// Redis fails over before it has replicated the last lease. The holder of that lease is cut off.
// The other nodes get all machine IDs, including its own.
func TestRedisFailsOver(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	const lag = "min-replicas-max-lag 1"
	primary := testenv.StartRedis(t, "min-replicas-to-write 0", lag)
	replication := testenv.NewLink(t, primary.Addr())
	replica := testenv.StartRedis(t, lag, "replicaof "+strings.Replace(replication.Addr(), ":", " ", 1))
	link := testenv.NewLink(t, primary.Addr())
	r := newOnRedis(t, 2, primary, "SEQD_REDIS_ADDRS="+link.Addr())
	await.True(r.t, "the replica follows", func() bool {
		return primary.Info("replication")["min_slaves_good_slaves"] == "1" || replica.Info("replication")["master_link_status"] == "up"
	})
	if err := primary.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	a, b := r.start("a", ""), r.start("b", "")
	a.traffic.More(t, 100)
	// The replica seems connected but receives nothing, so what the primary grants now is lost.
	replication.Latency(time.Minute)
	own := testenv.NewLink(t, primary.Addr())
	c := r.start("c", "", "SEQD_REDIS_ADDRS="+own.Addr())
	c.traffic.More(t, 20)
	a.traffic.More(t, 20)
	own.Cut()
	link.Cut()
	replica.Promote()
	replication.Cut()
	if n := len((&onRedis{fleet: r.fleet, redis: replica}).slots()); n != 2 {
		t.Fatalf("the replica knows %d leases: none was lost", n)
	}
	link.Switch(replica.Addr())
	link.Restore()
	over := time.Now()
	d, e := r.launch("d", ""), r.launch("e", "")
	d.load()
	e.load()
	for _, l := range []*life{a, b, d, e} {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 20)
	}
	r.took("to resume after a failover", over, horizon+2*maxSkew+3*time.Second+poll)
	own.Switch(replica.Addr())
	own.Restore()
	c.AwaitLog(lostMessage)
	d.leave()
	c.AwaitReadiness(200, "")
	c.traffic.More(t, 20)
	r.finish()
}

// The store is restored from an older copy by the documented steps while nodes that are cut off
// from it issue. New leases begin above all that the copy lacks.
func TestRestored(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := newOnMongo(t, 3, "SEQD_SNOWFLAKE_HORIZON=4s")
	link := testenv.NewLink(t, m.mongo.Addr())
	old := m.start("a", "", mongoAt(m.mongo, link.Addr())...)
	copied := m.backUp()
	young := m.start("b", "", mongoAt(m.mongo, link.Addr())...) // not in the copy
	old.traffic.More(t, 100)
	young.traffic.More(t, 100)
	link.Cut()
	m.restore(copied)
	m.restored()
	floor := time.Now().UnixMilli()
	list := m.crowd(7) // one for each machine ID that is free in the copy
	for _, l := range list {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 20)
		if h, _ := l.held(); h.from <= floor {
			t.Errorf("%s holds %+v, and the copy was restored before %d", l.name, h, floor)
		}
	}
	list[0].leave()
	link.Restore()
	young.AwaitLog(lostMessage)
	for _, l := range []*life{old, young} {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 20)
	}
	m.finish()
}

// crowd launches many nodes with requests.
func (f *fleet) crowd(size int) (list []*life) {
	f.t.Helper()
	for i := range size {
		l := f.launch(fmt.Sprint("new ", i), "")
		l.load()
		list = append(list, l)
	}
	return list
}

// backUp makes a copy of the store. The server is down meanwhile.
func (m *onMongo) backUp() testenv.MongoSnapshot {
	m.t.Helper()
	m.mongo.Kill()
	defer m.mongo.Restart()
	return m.mongo.Snapshot()
}

// restore puts the store back to a copy.
func (m *onMongo) restore(copied testenv.MongoSnapshot) {
	m.t.Helper()
	m.mongo.Kill()
	m.mongo.RestoreSnapshot(copied)
	m.mongo.Restart()
}

// The store is restored from an older copy without the documented steps. A holder notices it. Then
// nodes start, one for each machine ID that is free in the copy, and get nothing that was granted
// since.
func TestPutBackUntold(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := newOnMongo(t, 3, "SEQD_SNOWFLAKE_HORIZON=4s")
	a, b := m.start("a", ""), m.start("b", "")
	copied := m.backUp()
	link := testenv.NewLink(t, m.mongo.Addr())
	c := m.start("c", "", mongoAt(m.mongo, link.Addr())...) // not in the copy
	for _, l := range []*life{a, b, c} {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 100)
	}
	// A holder whose lease was not renewed since the copy cannot notice it.
	for _, l := range []*life{a, b} {
		was := m.slots()[l.machine()].Until
		await.True(m.t, "a renewal", func() bool { h, _ := l.held(); return h.until > was })
	}
	link.Cut()
	m.restore(copied)
	await.True(m.t, "a holder notices", func() bool { return strings.Contains(a.Log()+b.Log(), "was put back to an older copy") })
	list := m.crowd(6)
	for _, l := range append(list, a, b) {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 20)
	}
	list[0].leave()
	link.Restore()
	c.AwaitLog(lostMessage)
	c.AwaitReadiness(200, "")
	c.traffic.More(t, 20)
	m.finish()
}
