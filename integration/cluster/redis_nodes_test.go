package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

// Settings change one node after another while the service runs. Nodes with old and new settings
// work together.
func TestRollingChangeOfStepAndReserve(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b c", redisAt(r.Addr()))
		for _, change := range []struct{ step, most, reserve int }{{500, 500, 3}, {3000, 6000, 0}, {step, step, reserve}} {
			for _, m := range f.members {
				f.more(phase)
				m.stop()
				m.env = append(m.env, fmt.Sprint("SEQD_SEGMENT_STEP=", change.step), fmt.Sprint("SEQD_SEGMENT_MAXSTEP=", change.most),
					"SEQD_SEGMENT_RESERVESEGMENTS="+strconv.Itoa(change.reserve))
				m.start()
				m.awaitWell()
				m.load()
			}
			f.more(step)
		}
		f.noRefusals()
		// the standby range of every life, and an install without an answer
		f.finish(9 * 6000)
	})
}

// Nodes are killed under load and come back. The others continue in strict order. Only the numbers
// that the killed nodes had taken for their callers, and their standby ranges, are skipped.
func TestNodesAreKilled(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b c", redisAt(r.Addr()))
		const rounds = 2
		for range rounds {
			for _, m := range f.members {
				f.more(phase)
				m.kill()
				f.more(phase)
				m.start()
				m.awaitWell()
				m.load()
			}
		}
		f.more(phase)
		f.noRefusals()
		// for each life a standby range, and a range on its way to the cursor
		f.finish(rounds * 3 * 2 * step)
	})
}

// All nodes end under load and start again together. The cursor is still there, and order holds
// over all lives.
func TestAllNodesRestart(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(*node.Node){"killed": (*node.Node).Kill, "stopped": (*node.Node).Stop} {
		t.Run(how, func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				r := testenv.StartRedis(f.t)
				f.sail("a b c", redisAt(r.Addr()))
				const rounds = 3
				for range rounds {
					f.more(phase)
					for _, m := range f.members {
						end(m.Node)
					}
					for _, m := range f.members {
						m.unload()
						m.start()
					}
					f.awaitWell()
					f.load()
				}
				f.more(phase)
				f.finish(rounds * 3 * 2 * step)
			})
		})
	}
}

// A node returns its numbers to the store and the answer is lost. It does not try again, and the
// other nodes issue the numbers.
func TestGiveBackWithoutAnAnswer(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for _, ordering := range []string{"strict", "per-node"} {
		t.Run(ordering, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, degrade, "SEQD_SEGMENT_ORDERING="+ordering)
			settings := []string{}
			if ordering == "strict" {
				settings = append(settings, redisAt(testenv.StartRedis(t).Addr()))
			} else {
				f.suspendAlways()
			}
			link := testenv.NewLink(t, f.mongo.Addr())
			a := f.add("a", append(slices.Clone(settings), "SEQD_STORE_MONGO_TIMEOUT=2s", "SEQD_STORE_MONGO_URI=mongodb://"+link.Addr())...)
			b := f.add("b", settings...)
			for range 3 {
				a.start()
				a.awaitWell()
				a.burn(step / 4) // enough to start a refill
				f.awaitQuiet()
				link.DropReplies()
				if err := a.End(); err == nil {
					t.Log("the stop succeeded although the return of numbers was not answered")
				}
				link.Restore()
				b.start()
				b.awaitWell()
				b.burn(2 * step)
				b.stop()
			}
			f.check(3 * 2 * retreatOf)
		})
	}
}

// A node is paused in the middle of a refill until the others have long finished without it. Then
// it resumes.
func TestNodePausedInARefill(t *testing.T) {
	longtest.Only(t)
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		link := testenv.NewLink(f.t, f.mongo.Addr())
		a, b := f.add("a", redisAt(r.Addr()), "SEQD_STORE_MONGO_URI=mongodb://"+link.Addr()), f.add("b", redisAt(r.Addr()))
		a.start()
		b.start()
		f.awaitWell()
		a.load()
		a.traffic.More(f.t, step)
		link.Latency(time.Second)
		// Only a asks for numbers, so it has the claim, and its range is on the way for a second.
		await.Eventually(f.t, "a refill is under way", func() error { return f.claimed(r) })
		f.suspend()
		a.Pause()
		paused := time.Now()
		b.load()
		b.traffic.More(f.t, 5*step)
		link.Latency(0)
		for time.Since(paused) < 30*time.Second { // the fault itself
			b.traffic.More(f.t, phase)
		}
		if b.traffic.Failed() > 0 {
			f.t.Errorf("the other node rejected calls: %v", b.traffic.Failures())
		}
		a.Resume()
		f.more(phase)
		f.awaitWell()
		f.resume()
		f.more(step)
		f.finish(3 * retreatOf)
	})
}

// claimed returns an error until a node has claimed a refill of the cursor.
func (f *fleet) claimed(r *testenv.Redis) error {
	fields, err := r.Client().HMGet(f.t.Context(), key, "claim", "queued").Result()
	if err != nil {
		return err
	}
	text, _ := fields[0].(string)
	until, _ := strconv.ParseInt(text, 10, 64)
	if time.UnixMilli(until).Before(time.Now()) {
		return fmt.Errorf("claimed until %v, %v queued", fields[0], fields[1])
	}
	return nil
}

// A node with another store uses the Redis of a cluster by mistake. It issues nothing, and the
// cluster is not disturbed.
func TestRedisOfAnotherCluster(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b", redisAt(r.Addr()))
		f.more(phase)
		stray := f.stray("stray", redisAt(r.Addr()), "SEQD_STORE_MONGO_DATABASE="+testenv.Unique())
		for range 10 {
			if stray.Ended() {
				break
			}
			if numbers, err := stray.Take("order", 1); err == nil {
				f.t.Errorf("it issues %v", numbers)
			}
		}
		f.more(step)
		f.awaitWell()
		f.noRefusals()
		f.finish(retreatOf)
	})
}

// Back ends are away when nodes start. A node that cannot issue reports it, and recovers without a
// restart.
func TestStartWithoutBackEnds(t *testing.T) {
	t.Parallel()
	settings := []string{"SEQD_STORE_MONGO_TIMEOUT=1s", "SEQD_SEGMENT_ACQUIRETIMEOUT=300ms"}
	t.Run("Redis", func(t *testing.T) {
		underBoth(t, func(f *fleet) {
			r := testenv.StartRedis(f.t)
			r.Kill()
			f.add("a", redisAt(r.Addr())).start()
			f.add("b", redisAt(r.Addr())).start()
			f.suspend()
			f.load()
			f.awaitOutage()
			if f.policy == degrade {
				f.more(phase)
			} else {
				f.each(func(m *member) {
					m.traffic.Await(f.t, "refuses", func() bool { return m.traffic.Failed() > 0 })
				})
			}
			r.Restart()
			f.awaitWell()
			f.resume()
			f.more(step)
			f.finish(lossOf(2) + 2*retreatOf)
		}, settings...)
	})
	t.Run("Redis, without load", func(t *testing.T) {
		underBoth(t, func(f *fleet) {
			r := testenv.StartRedis(f.t)
			r.Kill()
			f.add("a", redisAt(r.Addr())).start()
			f.awaitOutage()
			r.Restart()
			f.awaitWell()
		}, settings...)
	})
	t.Run("store", func(t *testing.T) {
		underBoth(t, func(f *fleet) {
			const large = 20_000 // enough in hand while the store is away
			f.env = append(f.env, fmt.Sprint("SEQD_SEGMENT_STEP=", large), fmt.Sprint("SEQD_SEGMENT_MAXSTEP=", large), "SEQD_SEGMENT_ACQUIRETIMEOUT=1m")
			r := testenv.StartRedis(f.t)
			f.sail("old", redisAt(r.Addr()))
			f.members[0].burn(large / 2) // and wait for a refill
			f.awaitQuiet(r)
			f.mongo.Kill()
			fresh := f.add("fresh", redisAt(r.Addr()))
			fresh.start()
			fresh.AwaitReadiness(503, noStore)
			if _, err := fresh.take(1); err == nil {
				f.t.Error("a node that never saw the store issues")
			}
			f.members[0].traffic.More(f.t, phase) // numbers in hand
			f.restartStore()
			f.awaitWell()
			f.load()
			f.members[0].burn(2 * large) // from ranges allocated since
			if failed := f.members[0].traffic.Failed(); failed > 0 {
				f.t.Errorf("the old node refused: %v", f.members[0].traffic.Failures())
			}
			f.finish(4 * large)
		}, settings...)
	})
	for _, first := range []string{"Redis", "store"} {
		t.Run("both, "+first+" comes first", func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				r := testenv.StartRedis(f.t)
				r.Kill()
				f.mongo.Kill()
				f.add("a", redisAt(r.Addr())).start()
				f.add("b", redisAt(r.Addr())).start()
				f.each(func(m *member) { m.AwaitReadiness(503, noStore) })
				f.suspend()
				f.load()
				if first == "Redis" {
					r.Restart()
					f.each(func(m *member) { m.AwaitReadiness(503, noStore) })
					f.restartStore()
				} else {
					f.restartStore()
					f.awaitOutage()
					r.Restart()
				}
				f.awaitWell()
				f.resume()
				f.more(step)
				f.finish(lossOf(2) + 2*retreatOf)
			}, settings...)
		})
	}
}
