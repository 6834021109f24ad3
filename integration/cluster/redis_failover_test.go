package cluster

import (
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// role waits until a server says that it is a master or a slave.
func (f *fleet) role(r *testenv.Redis, want string) {
	f.t.Helper()
	await.Eventually(f.t, r.Addr()+" is a "+want, func() error {
		if info := r.Info("replication"); info["role"] != want {
			return fmt.Errorf("it is a %s", info["role"])
		}
		return nil
	})
}

// Sentinels promote a replica that lacks the last numbers. The old master is dead, or comes back
// and still acts as the master.
func TestSentinelFailoverWithLostWrites(t *testing.T) {
	t.Parallel()
	for old, nodes := range map[string]string{"dies": "live", "is paused and resumed": "live", "dies with the nodes": "new"} {
		t.Run("the old master "+old, func(t *testing.T) {
			if old != "dies" {
				longtest.Only(t)
			}
			underBoth(t, func(f *fleet) {
				a := testenv.StartRedis(f.t)
				b := testenv.StartReplica(f.t, a)
				s := testenv.StartSentinels(f.t, a, b)
				f.sail("a b", redisAt(s.Addrs()...), "SEQD_REDIS_MASTERNAME="+s.Name)
				f.more(step)
				f.cutOff(b)             // Sentinel repairs that only after five seconds
				f.members[0].burn(5000) // these are never replicated to b
				f.suspend()
				if old == "is paused and resumed" {
					a.Pause()
				} else {
					a.Kill()
				}
				fail := func() {
					if heir := s.AwaitMaster(a); heir != b {
						f.t.Fatalf("the master is %s", heir.Addr())
					}
				}
				if nodes == "live" {
					fail()
				} else {
					f.renew(fail)
				}
				f.awaitOrder(b)
				f.resume()
				f.more(phase)
				if old == "is paused and resumed" {
					// it serves what was sent to it, and still acts as the master
					a.Resume()
					f.more(step)
					f.role(a, "slave")
				}
				f.more(step)
				f.finish(lossOf(2) + 4*retreatOf)
			})
		})
	}
}

// cutOff ends replication to a replica, which stays a replica of an address where nothing listens.
func (f *fleet) cutOff(replica *testenv.Redis) {
	f.t.Helper()
	nowhere := testenv.NewLink(f.t, "127.0.0.1:1")
	nowhere.Cut()
	host, port, err := net.SplitHostPort(nowhere.Addr())
	if err == nil {
		err = replica.Client().ReplicaOf(f.t.Context(), host, port).Err()
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Sentinels change the master twice while all servers are alive. For a moment there are two
// masters, and nodes may use either.
func TestSentinelFailoverByHand(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		a := testenv.StartRedis(f.t)
		f.guarded = true
		b := testenv.StartReplica(f.t, a)
		s := testenv.StartSentinels(f.t, a, b)
		f.sail("a b", redisAt(s.Addrs()...), "SEQD_REDIS_MASTERNAME="+s.Name)
		f.more(step)
		f.suspendAlways()
		for _, heir := range []*testenv.Redis{b, a} {
			if got := s.Failover(); got != heir {
				f.t.Fatalf("the master is %s", got.Addr())
			}
			f.awaitOrder(heir)
			await.Eventually(f.t, "the old master follows", func() error {
				for _, r := range []*testenv.Redis{a, b} {
					if info := r.Info("replication"); r != heir && info["master_link_status"] != "up" {
						return fmt.Errorf("%v", info)
					}
				}
				return nil
			})
		}
		f.resume()
		f.more(step)
		f.finish(2*lossOf(2) + 4*retreatOf)
	})
}

// awaitOrder waits until all nodes are well and issue from the given server, each above all that
// was issued before.
func (f *fleet) awaitOrder(r *testenv.Redis) {
	f.t.Helper()
	before := ""
	await.Eventually(f.t, "numbers are taken at "+r.Addr(), func() error {
		cur, err := r.Client().HGet(f.t.Context(), key, "cur").Result()
		if err == nil && (before == "" || before == cur) {
			before, err = cur, fmt.Errorf("%s was taken last", cur)
		}
		return err
	})
	f.awaitWell()
	f.more(phase)
	f.passes(f.history.Highest())
	f.awaitWell()
}

// Two servers alternate as master without a restart. The run ID that the cursor was written under
// returns; its replication ID never does.
func TestDoubleFailover(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		a := testenv.StartRedis(f.t)
		b := testenv.StartReplica(f.t, a)
		links := f.linked("a b", a)
		f.more(step)
		for _, turn := range [][2]*testenv.Redis{{a, b}, {b, a}, {a, b}, {b, a}} {
			from, to := turn[0], turn[1]
			f.outage(f.members, func() { cut(links) }, func() {
				f.inStep(from, to)
				to.Promote()
				from.Follow(to)
				lead(links, to)
			})
		}
		f.more(step)
		f.finish(4 * (lossOf(2) + 2*retreatOf))
	})
}

// A promoted replica lacks the last numbers. The old master, which never stopped, becomes its
// replica and then master again before any node has used the other. What is left is an old state of
// a cursor that the old master itself wrote.
func TestDoubleFailoverLosesWrites(t *testing.T) {
	t.Parallel()
	for _, nodes := range []string{"live", "new"} {
		t.Run(nodes+" nodes", func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				a := testenv.StartRedis(f.t)
				b := testenv.StartReplica(f.t, a)
				links := f.linked("a b", a)
				f.more(step)
				f.cutOff(b)
				f.members[0].burn(5000)
				back := func() {
					b.Promote()
					a.Follow(b)
					a.Promote()
					lead(links, a)
				}
				if nodes == "live" {
					f.outage(f.members, func() { cut(links) }, back)
				} else {
					f.renew(back)
				}
				f.more(step)
				f.finish(2 * (lossOf(2) + 2*retreatOf))
			})
		})
	}
}

// The nodes are led to a promoted replica and back to the old master. The cursor of the old master
// has not moved meanwhile.
func TestBackToAMasterThatStoodStill(t *testing.T) {
	underBoth(t, func(f *fleet) {
		a := testenv.StartRedis(f.t)
		b := testenv.StartReplica(f.t, a)
		f.guarded = true
		links := f.linked("a b", a)
		f.more(step)
		f.outage(f.members, func() { cut(links) }, func() {
			f.inStep(a, b)
			b.Promote()
			lead(links, b)
		})
		f.more(step) // each node has issued numbers above the cursor at a
		f.outage(f.members, func() { cut(links) }, func() { lead(links, a) })
		f.more(step)
		f.finish(2 * (lossOf(2) + 2*retreatOf))
	})
}

// Nodes are led back and forth between two masters, and the cursor of the unused one does not move.
// No call fails. When nodes return to a master, its cursor is not used, because the store has the
// epoch of the other.
func TestTwoMastersTakeTurns(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		a := testenv.StartRedis(f.t)
		b := testenv.StartReplica(f.t, a)
		f.guarded = true
		// usually no take is under way when a link is switched, so none fails
		f.pace.Callers, f.pace.Pause = 1, 20*time.Millisecond
		links := f.linked("a b", a)
		f.more(step)
		f.suspendAlways() // one node is led before the other
		b.Promote()
		const turns = 6
		for turn := range turns {
			to := []*testenv.Redis{b, a}[turn%2]
			for _, link := range links {
				link.Switch(to.Addr())
			}
			f.more(phase)
			f.passes(f.history.Highest())
			f.awaitWell()
		}
		f.resume()
		f.more(step)
		if f.logged("the cursor did not count any more") == 0 {
			f.t.Error("every cursor counted")
		}
		f.finish(turns * (lossOf(2) + 2*retreatOf))
	})
}

// linked starts nodes, each with its own link to a server, and puts load on them.
func (f *fleet) linked(names string, r *testenv.Redis) []*testenv.Link {
	f.t.Helper()
	var links []*testenv.Link
	for name := range strings.FieldsSeq(names) {
		link := testenv.NewLink(f.t, r.Addr())
		links = append(links, link)
		f.add(name, redisAt(link.Addr())).start()
	}
	f.awaitWell()
	f.load()
	return links
}

func cut(links []*testenv.Link) {
	for _, link := range links {
		link.Cut()
	}
}

// lead cuts all links and then points them to a server.
func lead(links []*testenv.Link, to *testenv.Redis) {
	cut(links)
	for _, link := range links {
		link.Switch(to.Addr())
	}
	for _, link := range links {
		link.Restore()
	}
}

// inStep waits until a replica has everything that its master has. Nobody may write meanwhile.
func (f *fleet) inStep(master, replica *testenv.Redis) {
	f.t.Helper()
	await.Eventually(f.t, "the replica is in step", func() error {
		of, at := master.Info("replication")["master_repl_offset"], replica.Info("replication")["master_repl_offset"]
		if of != at {
			return fmt.Errorf("it is at %s of %s", at, of)
		}
		return nil
	})
}

// Two servers act as the master, and each has a node. No number is issued twice, and order holds on
// each node. Over both nodes order is not possible until the surviving cursor has passed the
// numbers of the other.
func TestSplitBrain(t *testing.T) {
	t.Parallel()
	for _, survivor := range []string{"old", "new"} {
		t.Run("the "+survivor+" master survives", func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				a := testenv.StartRedis(f.t)
				b := testenv.StartReplica(f.t, a)
				f.guarded = true
				links := f.linked("a b", a)
				f.more(step)
				f.suspendAlways()
				b.Promote() // a stays a master too
				links[1].Switch(b.Addr())
				f.members[1].awaitWell()
				f.more(3 * step) // both refill meanwhile, from the same store
				winner, loser := a, b
				if survivor == "new" {
					winner, loser = b, a
				}
				cut(links)
				f.awaitOutage()
				loser.Follow(winner)
				lead(links, winner)
				f.awaitServed()
				f.more(phase)
				f.passes(f.history.Highest())
				f.awaitServed()
				f.resume()
				f.more(step)
				f.finish(2*lossOf(2) + 4*retreatOf)
			})
		})
	}
}

// A replica that accepts writes has the same replication ID and the same numbers as its master.
// Nothing may be issued from it, neither by a node that starts on it nor by one that is led to it.
func TestWritableReplica(t *testing.T) {
	underBoth(t, func(f *fleet) {
		master := testenv.StartRedis(f.t)
		replica := testenv.StartReplica(f.t, master, testenv.WritableReplica)
		links := f.linked("a b", master)
		f.more(phase)

		f.suspend() // the stray node may issue on its own, and the other one later
		stray := f.stray("stray", redisAt(replica.Addr()))
		if !stray.Ended() {
			for range 50 {
				_, _ = stray.take(10)
			}
			if err := stray.End(); err != nil {
				f.t.Errorf("a clean stop ended with %v", err)
			}
		}
		links[0].Switch(replica.Addr())
		f.members[0].awaitOutage()
		f.members[1].traffic.More(f.t, phase)
		if r := f.members[1].Readiness(); r.Status != 200 || r.Code != "" {
			f.t.Errorf("the node on the master says %s", r.Body)
		}
		links[0].Switch(master.Addr())
		f.awaitWell()
		f.passes(f.history.Highest()) // above what the stray node may have issued
		f.resume()
		f.more(phase)
		f.unload()
		f.awaitQuiet(master) // the last take may have asked for a range
		f.inStep(master, replica)
		await.Eventually(f.t, "the replica has what its master has", func() error {
			at, err := master.Client().HGetAll(f.t.Context(), key).Result()
			if err != nil {
				return err
			}
			if copied := replica.Client().HGetAll(f.t.Context(), key).Val(); !maps.Equal(at, copied) {
				return fmt.Errorf("it was written to: it has %v, and its master %v", copied, at)
			}
			return nil
		})
		f.finish(6 * retreatOf)
	})
}

// stray starts a node outside the fleet that never becomes ready, and waits until it has ended or
// reports what is wrong.
func (f *fleet) stray(name string, settings ...string) *member {
	f.t.Helper()
	m := f.add(name, settings...)
	f.members = f.members[:len(f.members)-1]
	m.start()
	await.Eventually(f.t, "a node that cannot use its Redis ends or says so", func() error {
		if m.Ended() {
			return nil
		}
		status, body, err := m.TryStatus("/readyz")
		if err != nil {
			return err // it is ending
		}
		if f.policy == degrade && status == 200 && strings.Contains(body, "degraded") || status == 503 && !strings.Contains(body, "starting") {
			return nil
		}
		return fmt.Errorf("it says %d: %s", status, body)
	})
	return m
}

// Under load, a Redis Cluster fails over with and without agreement of the old master, and moves
// the slot of the cursor step by step.
func TestRedisCluster(t *testing.T) {
	underBoth(t, func(f *fleet) {
		c := testenv.StartCluster(f.t)
		f.sail("a b", redisAt(c.Addrs()...))
		f.more(step)

		f.suspend()
		f.awaitOrder(c.Failover(key))
		f.resume()
		f.more(phase)

		for range 2 { // there, and then on or back from a server that has seen the key before
			f.suspend()
			m := c.BeginMigration(key)
			f.more(phase)
			m.MoveKeys()
			f.more(phase)
			m.Finish()
			f.awaitOrder(m.To)
			f.resume()
			f.more(phase)
		}

		f.suspend()
		master := c.Master(key)
		master.Kill()
		f.awaitOrder(c.AwaitMaster(key, master))
		f.resume()
		f.more(step)
		f.finish(5*lossOf(2) + 6*retreatOf)
	})
}

// The cursor is lost while its slot moves to another server.
func TestCursorLostDuringMigration(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		c := testenv.StartCluster(f.t)
		f.sail("a b", redisAt(c.Addrs()...))
		f.more(phase)
		f.suspend()
		m := c.BeginMigration(key)
		if err := m.From.Client().Del(f.t.Context(), key).Err(); err != nil {
			f.t.Fatal(err)
		}
		f.more(phase) // at the new owner, by ASK
		if err := m.To.Client().FlushAll(f.t.Context()).Err(); err != nil {
			f.t.Fatal(err)
		}
		f.more(phase)
		m.MoveKeys()
		m.Finish()
		f.awaitOrder(m.To)
		f.resume()
		f.more(step)
		f.finish(4*lossOf(2) + 4*retreatOf)
	})
}
