package snowflake

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
)

// linked is a system whose registry is reached through a link.
type linked struct {
	system
	link *testenv.Link
}

// onBothLinked is onBoth with a link that the nodes reach the registry by.
func onBothLinked(t *testing.T, bits int, test func(s linked), settings ...string) {
	t.Run("mongo", func(t *testing.T) {
		t.Parallel()
		m := newOnMongo(t, bits, settings...)
		link := testenv.NewLink(t, m.mongo.Addr())
		m.env = append(m.env, mongoAt(m.mongo, link.Addr())...)
		test(linked{system{m.fleet, m}, link})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		r := newOnRedis(t, bits, testenv.StartRedis(t), settings...)
		link := testenv.NewLink(t, r.redis.Addr())
		r.env = append(r.env, "SEQD_REDIS_ADDRS="+link.Addr())
		test(linked{system{r.fleet, r}, link})
	})
}

// The registry is down when a node starts: it says so, and becomes ready when the registry comes.
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

// The registry goes away: issuing goes on until the lease ends, then it is refused; when the registry is back, it goes on by itself.
func TestRegistryAway(t *testing.T) {
	t.Parallel()
	const longHorizon = 2 * time.Second
	faults := map[string]func(l *testenv.Link){"cut": (*testenv.Link).Cut, "hangs": (*testenv.Link).Hang}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBothLinked(t, 10, func(s linked) {
				a := s.start("a", "")
				a.traffic.More(s.t, 100)
				fault(s.link)
				away := time.Now()
				machine := a.machine()
				a.AwaitReadiness(200, "store_unavailable")
				a.AwaitReadiness(503, "no_machine_id")
				s.within("to stop", away, longHorizon)
				if went := a.latest(machine) - away.UnixMilli(); went < (longHorizon - renew - margin).Milliseconds() {
					s.t.Errorf("it went on for %d ms", went)
				}
				s.link.Restore()
				a.AwaitReadiness(200, "")
				a.traffic.More(s.t, 100)
				s.finish()
			}, "SEQD_SNOWFLAKE_HORIZON="+longHorizon.String())
		})
	}
}

// offline is how far nodes with a reservation go on.
const offline = 3 * time.Second

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
	}, "SEQD_SNOWFLAKE_OFFLINESTART="+offline.String())
}

// The registry is away for longer than the horizon: a node with a reservation goes on, and stops when that ends.
func TestGoesOnAlone(t *testing.T) {
	t.Parallel()
	onBothLinked(t, 10, func(s linked) {
		a := s.start("a", "")
		a.traffic.More(s.t, 100)
		machine := a.machine()
		s.link.Cut()
		away := time.Now()
		a.AwaitReadiness(200, "store_unavailable")
		a.AwaitReadiness(503, "no_machine_id")
		s.within("to stop", away, horizon+offline)
		if went := a.latest(machine) - away.UnixMilli(); went < (offline - margin).Milliseconds() {
			s.t.Errorf("it went on for %d ms", went)
		}
		s.link.Restore()
		a.AwaitReadiness(200, "")
		a.traffic.More(s.t, 100)
		s.finish()
	}, "SEQD_SNOWFLAKE_OFFLINESTART="+offline.String())
}

// A node with a reservation starts while the registry is away, twice, and goes on above what it issued before; others keep off its machine ID.
func TestStartsAlone(t *testing.T) {
	t.Parallel()
	r := newOnRedis(t, 10, testenv.StartRedis(t), "SEQD_SNOWFLAKE_OFFLINESTART="+offline.String())
	link := testenv.NewLink(t, r.redis.Addr())
	a := r.start("a0", "", "SEQD_REDIS_ADDRS="+link.Addr())
	b := r.start("b", "")
	a.traffic.More(t, 100)
	machine := a.machine()
	link.Cut()
	for _, name := range []string{"a1", "a2"} {
		a.traffic.More(t, 100)
		highest := a.traffic.Highest()
		a.die()
		a = r.launch(name, a.dir, a.again(), "SEQD_REDIS_ADDRS="+link.Addr())
		a.AwaitReadiness(200, "store_unavailable")
		a.load()
		a.traffic.More(t, 100)
		if got := a.machine(); got != machine {
			t.Errorf("%s has machine ID %d, want %d", name, got, machine)
		}
		numbers, err := a.Take("order", 1)
		if err != nil || numbers[0] <= highest {
			t.Errorf("%s issued %d, %v; the life before %d", name, numbers, err, highest)
		}
	}
	b.traffic.More(t, 100)
	a.AwaitReadiness(503, "no_machine_id")
	link.Restore()
	a.AwaitReadiness(200, "")
	a.traffic.More(t, 100)
	r.finish()
}

// The registry loses everything while nodes run and another one comes: whoever held an ID stops and registers anew, and nobody issues below the
// floor.
func TestWiped(t *testing.T) {
	t.Parallel()
	onBoth(t, 10, func(s system) {
		a, b := s.start("a", ""), s.start("b", "")
		a.traffic.More(s.t, 100)
		b.traffic.More(s.t, 100)
		wiped := time.Now()
		s.wipe()
		c := s.launch("c", "")
		c.load()
		for _, l := range []*life{a, b} {
			l.says(`"msg":"the machine ID was lost`)
		}
		for _, l := range []*life{a, b, c} {
			l.AwaitReadiness(200, "")
			l.traffic.More(s.t, 100)
			if h, _ := l.held(); h.from < wiped.Add(horizon+2*maxSkew).UnixMilli() {
				s.t.Errorf("%s has a lease from %s, and the registry was wiped at %s", l.name, time.UnixMilli(h.from), wiped)
			}
		}
		s.within("to go on", wiped, horizon+2*maxSkew+poll)
		s.finish()
	})
}

// Redis fails over and has not replicated what it granted last.
func TestRedisFailsOver(t *testing.T) {
	t.Parallel()
	const lag = "min-replicas-max-lag 1"
	primary := testenv.StartRedis(t, "min-replicas-to-write 0", lag)
	replication := testenv.NewLink(t, primary.Addr())
	replica := testenv.StartRedis(t, lag, "replicaof "+strings.Replace(replication.Addr(), ":", " ", 1))
	link := testenv.NewLink(t, primary.Addr())
	r := newOnRedis(t, 2, primary, "SEQD_REDIS_ADDRS="+link.Addr())
	r.await("the replica follows", func() bool {
		return primary.Info("replication")["min_slaves_good_slaves"] == "1" || replica.Info("replication")["master_link_status"] == "up"
	})
	if err := primary.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
		t.Fatal(err)
	}
	a, b := r.start("a", ""), r.start("b", "")
	a.traffic.More(t, 100)
	replication.Hang()
	// The primary goes on for a second and more: what it grants now is lost.
	c := r.launch("c", "")
	c.load()
	c.traffic.More(t, 20)
	a.traffic.More(t, 20)
	link.Cut()
	replica.Promote()
	replication.Resume()
	if n := len((&onRedis{fleet: r.fleet, redis: replica}).slots()); n != 2 {
		t.Fatalf("the replica knows %d leases: none was lost", n)
	}
	link.Switch(replica.Addr())
	link.Restore()
	over := time.Now()
	d := r.launch("d", "")
	d.load()
	for _, l := range []*life{a, b, c, d} {
		l.AwaitReadiness(200, "")
		l.traffic.More(t, 20)
	}
	r.within("to go on after a failover", over, horizon+2*maxSkew+3*time.Second+poll)
	r.finish()
}

// The store is restored from an older copy while nodes run. With the documented step, or when a node has noticed: nodes that come take nothing that
// the copy does not know of.
func TestRestoredFromACopy(t *testing.T) {
	t.Parallel()
	for name, told := range map[string]bool{"told": true, "noticed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newOnMongo(t, 3, "SEQD_SNOWFLAKE_HORIZON=3s")
			a, b := m.start("a", ""), m.start("b", "")
			m.mongo.Kill()
			copied := m.mongo.Snapshot()
			m.mongo.Restart()
			c := m.start("c", "") // the copy does not know it
			for _, l := range []*life{a, b, c} {
				l.AwaitReadiness(200, "")
				l.traffic.More(t, 100)
			}
			// A holder that was not granted more since has nothing to notice by.
			for _, l := range []*life{a, b} {
				was := m.slots()[l.machine()].Until
				m.await("a renewal", func() bool { h, _ := l.held(); return h.until > was })
			}
			m.mongo.Kill()
			m.mongo.RestoreSnapshot(copied)
			m.mongo.Restart()
			if told {
				m.restored()
			} else {
				m.await("a holder notices", func() bool { return strings.Contains(a.Log()+b.Log(), "was put back to an older copy") })
			}
			d, e := m.launch("d", ""), m.launch("e", "")
			d.load()
			e.load()
			for _, l := range []*life{a, b, c, d, e} {
				l.AwaitReadiness(200, "")
				l.traffic.More(t, 100)
			}
			if !strings.Contains(c.Log(), `"msg":"the machine ID was lost`) {
				t.Error("the node that the copy does not know did not lose its machine ID")
			}
			m.finish()
		})
	}
}
