package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// Redis goes away and comes back unchanged or with less data.
func TestRedisAwayAndBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		// fault breaks a fleet of two nodes under load. It returns how many numbers may be skipped
		// in addition to those of one loss of the cursor.
		fault func(f *fleet, r *testenv.Redis) (skips int64)
	}{
		{"killed, back empty", func(f *fleet, r *testenv.Redis) int64 {
			f.outage(f.members, r.Kill, r.RestartEmpty)
			return 0
		}},
		{"killed three times, back empty", func(f *fleet, r *testenv.Redis) int64 {
			for range 3 {
				f.outage(f.members, r.Kill, r.RestartEmpty)
			}
			return 2 * (lossOf(2) + 2*retreatOf)
		}},
		{"back on a snapshot from 10,000 numbers ago", func(f *fleet, r *testenv.Redis) int64 {
			snapshot := r.SaveSnapshot()
			f.members[0].burn(10_000)
			f.outage(f.members, r.Kill, func() { r.RestartFrom(snapshot) })
			return 0
		}},
		{"back on a snapshot from 10,000 numbers ago, with new nodes", func(f *fleet, r *testenv.Redis) int64 {
			snapshot := r.SaveSnapshot()
			f.members[0].burn(10_000)
			f.renew(func() { r.RestartFrom(snapshot) })
			return 0
		}},
		{"back on a snapshot of a previous life", func(f *fleet, r *testenv.Redis) int64 {
			snapshot := r.SaveSnapshot()
			f.outage(f.members, r.Kill, r.RestartEmpty)
			f.outage(f.members, r.Kill, func() { r.RestartFrom(snapshot) })
			return lossOf(2) + 2*retreatOf
		}},
		{"away and back with its data", func(f *fleet, r *testenv.Redis) int64 {
			f.outage(f.members, r.Kill, func() {
				if err := r.Client().Ping(f.t.Context()).Err(); err == nil {
					f.t.Error("a killed server answers")
				}
				r.Restart()
			})
			return 0
		}},
		{"lacks replicas to write", func(f *fleet, r *testenv.Redis) int64 { return refuseWrites(f, r, "min-replicas-to-write", "1", "0") }},
		{"out of memory", func(f *fleet, r *testenv.Redis) int64 { return refuseWrites(f, r, "maxmemory", "1", "0") }},
		{"becomes a replica and a primary again", func(f *fleet, r *testenv.Redis) int64 {
			other := testenv.StartRedis(f.t)
			f.outage(f.members, func() { r.Follow(other) }, r.Promote)
			return 0
		}},
		{"paused for 10 seconds", func(f *fleet, r *testenv.Redis) int64 {
			f.suspend()
			r.Pause()
			paused := time.Now()
			f.awaitOutage()
			if f.policy == degrade {
				f.more(phase)
			}
			time.Sleep(time.Until(paused.Add(10 * time.Second))) // the fault itself
			r.Resume()
			f.awaitWell()
			f.resume()
			f.more(phase)
			return 2 * retreatOf // nodes retry meanwhile
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "paused for 10 seconds" {
				longtest.Only(t)
			}
			underBoth(t, func(f *fleet) {
				settings := []string{"save \"\""}
				if strings.Contains(test.name, "with its data") {
					settings = []string{"appendonly yes", "appendfsync always"}
				}
				r := testenv.StartRedis(f.t, settings...)
				f.sail("a b", redisAt(r.Addr()))
				f.more(step) // beyond the first segments
				skips := test.fault(f, r)
				f.more(step)
				f.finish(skips + lossOf(2) + 2*retreatOf)
			})
		})
	}
}

// refuseWrites makes Redis reject writes for a while.
func refuseWrites(f *fleet, r *testenv.Redis, setting, no, yes string) int64 {
	set := func(value string) {
		if err := r.Client().ConfigSet(f.t.Context(), setting, value).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
	f.outage(f.members, func() { set(no) }, func() { set(yes) })
	return 0
}

// Redis loses only the cursor. No node is degraded, and order holds all the time under either
// policy.
func TestCursorLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		lose   func(f *fleet, r *testenv.Redis) error
		losses int64 // of the cursor
	}{
		{"FLUSHALL", func(f *fleet, r *testenv.Redis) error { return r.Client().FlushAll(f.t.Context()).Err() }, 1},
		{"evicted", func(f *fleet, r *testenv.Redis) error { return r.Client().Unlink(f.t.Context(), key).Err() }, 1},
		{"evicted repeatedly", func(f *fleet, r *testenv.Redis) error {
			for range 10 {
				if err := r.Client().Del(f.t.Context(), key).Err(); err != nil {
					return err
				}
				f.more(20)
			}
			return nil
		}, 10},
		{"another replication ID", func(f *fleet, r *testenv.Redis) error {
			was := r.ReplicationID()
			testenv.StartReplica(f.t, r) // the first one
			if r.ReplicationID() == was {
				f.t.Error("the replication ID stayed")
			}
			return nil
		}, 1},
		{"SCRIPT FLUSH", func(f *fleet, r *testenv.Redis) error { return r.Client().ScriptFlush(f.t.Context()).Err() }, 0},
		{"connections killed", func(f *fleet, r *testenv.Redis) error {
			return r.Client().Do(f.t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				r := testenv.StartRedis(f.t)
				f.sail("a b c", redisAt(r.Addr()))
				f.more(step)
				if test.name == "connections killed" {
					f.suspend() // to a client, this looks as if Redis went away
				}
				if err := test.lose(f, r); err != nil {
					f.t.Fatal(err)
				}
				f.more(phase)
				f.awaitWell()
				f.resume()
				f.more(step)
				skips := test.losses * lossOf(3)
				if test.losses == 0 {
					skips = 3 * retreatOf
				}
				f.finish(skips)
			})
		})
	}
}

// A node whose link to Redis breaks issues on its own and then returns. The others continue and are
// not degraded.
func TestLinkToRedisBreaksForOneNode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		fault func(l *testenv.Link)
	}{
		{"cut", (*testenv.Link).Cut},
		{"hangs", (*testenv.Link).Hang},
		// Numbers are taken and their replies are lost. They are skipped.
		{"replies lost", (*testenv.Link).DropReplies},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				r := testenv.StartRedis(f.t)
				link := testenv.NewLink(f.t, r.Addr())
				a, b := f.add("a", redisAt(link.Addr())), f.add("b", redisAt(r.Addr()))
				a.start()
				b.start()
				f.awaitWell()
				f.load()
				for range 2 {
					f.more(phase)
					refused := b.traffic.Failed()
					f.outage([]*member{a}, func() { test.fault(link) }, func() {
						b.traffic.More(f.t, phase)
						if r := b.Readiness(); r.Status != 200 || r.Code != "" {
							f.t.Errorf("the other node says %s", r.Body)
						}
						link.Restore()
					})
					if now := b.traffic.Failed(); now > refused {
						f.t.Errorf("the other node refused %d calls: %v", now-refused, b.traffic.Failures())
					}
				}
				f.more(step)
				// one unanswered take per outage
				f.finish(4*retreatOf + int64(2*f.pace.Callers*f.pace.Largest))
			})
		})
	}
}

// A node that issues on its own dies. Its numbers are skipped, its next life is in order, and order
// over all nodes holds again once the cursor has passed its numbers.
func TestNodeDiesWhileOnItsOwn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, degrade)
	r := testenv.StartRedis(t)
	link := testenv.NewLink(t, r.Addr())
	a, b := f.add("a", redisAt(link.Addr())), f.add("b", redisAt(r.Addr()))
	a.start()
	b.start()
	f.awaitWell()
	f.load()
	f.more(phase)
	f.suspend()
	link.Cut()
	a.awaitOutage()
	a.traffic.More(t, 2*step)
	a.kill()
	own := f.history.Highest()
	link.Restore()
	a.start()
	f.awaitWell()
	f.load()
	b.burn(int(max(0, own-b.traffic.Highest())) + step)
	f.passes(max(own, a.traffic.Highest(), b.traffic.Highest()))
	f.resume()
	f.more(step)
	f.finish(2*retreatOf + lossOf(2))
}

// All nodes lose their links at different times and get them back at different times.
func TestLinksFlap(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		links := make([]*testenv.Link, 3)
		for i := range links {
			links[i] = testenv.NewLink(f.t, r.Addr())
			f.add(fmt.Sprint("n", i), redisAt(links[i].Addr())).start()
		}
		f.awaitWell()
		f.load()
		f.more(phase)
		f.suspend()
		const flaps = 2
		for range flaps {
			for i, link := range links {
				link.Cut()
				f.members[i].awaitOutage()
				links[(i+1)%3].Cut()
				link.Restore()
				f.members[i].awaitWell()
				links[(i+1)%3].Restore()
			}
		}
		f.awaitWell()
		f.resume()
		f.more(step)
		f.finish(3 * flaps * 2 * retreatOf)
	})
}
