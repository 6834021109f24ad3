package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
)

// The store dies and comes back. Callers do not notice while numbers are in hand. Order is strict,
// and no node issues on its own.
func TestStoreAwayWhileNumbersAreInHand(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b", redisAt(r.Addr()))
		for range 3 {
			f.more(step)
			f.awaitFull(r)
			before := f.history.Numbers()
			f.mongo.Kill()
			await.Eventually(f.t, "numbers in hand are issued", func() error {
				if issued := f.history.Numbers() - before; issued < (1+reserve)*step-step/4 {
					return fmt.Errorf("%d were issued", issued)
				}
				return nil
			})
			f.restartStore()
			f.awaitWell()
		}
		f.noRefusals()
		f.finish(3 * 2 * step) // ranges whose answers were lost
	})
}

// The store stays away. Nodes issue all numbers in hand, then reject calls and report the reason.
// When the store is back they resume.
func TestStoreAwayPastTheReserve(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b", redisAt(r.Addr()))
		f.more(step)
		f.unload()
		f.awaitQuiet(r) // both buffers and the reserve are full
		f.mongo.Kill()
		before := f.history.Numbers()
		f.load()
		f.each(func(m *member) { m.AwaitReadiness(503, noStore) })
		inHand := f.history.Numbers() - before
		// At least the reserve and a buffer that has not reached the refill threshold; at most two
		// buffers, the reserve and a standby range for each node.
		least, most := int(0.7*step)+reserve*step, (2+reserve+len(f.members))*step
		if inHand < least || inHand > most {
			f.t.Errorf("%d numbers were issued without the store, want %d to %d", inHand, least, most)
		}
		f.each(func(m *member) {
			if _, err := m.take(1); err == nil {
				f.t.Errorf("%s issues numbers that were not allocated", m.name)
			}
		})
		f.restartStore()
		f.awaitWell()
		f.more(step)
		f.finish(2 * lossOf(2))
	}, "SEQD_SEGMENT_ACQUIRETIMEOUT=300ms", "SEQD_STORE_MONGO_TIMEOUT=1s")
}

const gap = 50_000 // restoreGap of the tests that restore a store

// The store is restored from an old copy and Redis keeps its data. Nodes notice it, log an alarm,
// and continue above all numbers issued.
func TestStoreRestoredFromAnOldCopy(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b", redisAt(r.Addr()))
		old := f.snapshot()
		f.awaitWell()
		f.members[0].burn(10 * step)
		f.more(phase)
		f.unload()
		// A fetch that begins before the restore and ends after it continues above it, but does not
		// notice it.
		f.awaitQuiet(r)

		f.mongo.Kill()
		known := f.history.Highest()
		f.mongo.RestoreSnapshot(old)
		f.restartStore()
		f.load()
		// first the numbers in hand, then numbers above all that any node has seen
		f.passes(known + gap)
		f.awaitWell()
		if f.logged(restoredAlarm) == 0 {
			f.t.Error("no node logged an alarm")
		}
		f.more(step)
		f.finish(gap + int64(len(f.members)-1)*gap + 3*lossOf(2))
	}, "SEQD_SEGMENT_RESTOREGAP="+strconv.Itoa(gap))
}

// restoredAlarm is part of the line that a node logs if the store is behind.
const restoredAlarm = `"level":"ERROR","msg":"the store was restored from an older copy`

// snapshot kills the store, copies it and starts it again.
func (f *fleet) snapshot() testenv.MongoSnapshot {
	f.mongo.Kill()
	s := f.mongo.Snapshot()
	f.restartStore()
	return s
}

// The store is restored and Redis is lost while all nodes are down, so nothing remembers the
// numbers issued. The documented step, raise, makes up for it.
func TestStoreRestoredAndRedisLost(t *testing.T) {
	underBoth(t, func(f *fleet) {
		r := testenv.StartRedis(f.t)
		f.sail("a b", redisAt(r.Addr()))
		f.more(phase)
		old := f.snapshot()
		f.awaitWell()
		f.members[0].burn(10 * step)
		f.more(phase)
		for _, m := range f.members {
			m.kill()
		}
		known := f.history.Highest()
		f.mongo.Kill()
		f.mongo.RestoreSnapshot(old)
		f.restartStore()
		r.RestartEmpty()
		if max := f.counter().Max; max >= known {
			f.t.Fatalf("the store has %d after a restore, although %d was issued: this tests nothing", max, known)
		}
		f.raise(known + gap)
		if max := f.counter().Max; max < known+gap {
			f.t.Fatalf("the store has %d after seqd raise order %d", max, known+gap)
		}
		for _, m := range f.members {
			m.start()
		}
		f.awaitWell()
		f.load()
		f.more(step)
		f.finish(gap + 2*lossOf(2))
	})
}

// raise runs seqd raise with the settings of the first node.
func (f *fleet) raise(to int64) {
	f.t.Helper()
	out, code := node.Command(f.t, f.t.TempDir(), append(slices.Clone(f.env), f.members[0].env...), "raise", "order", strconv.FormatInt(to, 10))
	if code != 0 {
		f.t.Fatalf("seqd raise ended with %d:\n%s", code, out)
	}
	f.t.Logf("seqd raise: %s", out)
}

// Redis and the store are away. Under degrade, every node issues its standby range and then rejects
// calls. When both are back, in either order, all nodes resume.
func TestRedisAndStoreAway(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"Redis", "store"} {
		t.Run(first+" returns first", func(t *testing.T) {
			underBoth(t, func(f *fleet) {
				r := testenv.StartRedis(f.t)
				f.sail("a b", redisAt(r.Addr()))
				f.more(step)
				f.unload()
				// the second round sees what the first has refilled, and replaces standby ranges
				for range 2 {
					f.awaitQuiet(r)
					f.each(func(m *member) { m.burn(1) })
				}
				f.awaitQuiet(r)
				f.suspend()
				r.Kill()
				f.mongo.Kill()
				f.each(func(m *member) {
					if _, err := m.take(1); (err == nil) != (f.policy == degrade) {
						f.t.Errorf("%s without back ends under %s: %v", m.name, f.policy, err)
					}
				})
				f.load()
				f.each(func(m *member) { m.AwaitReady("503", func(r node.Readiness) bool { return r.Status == 503 }) })
				if f.policy == degrade {
					f.each(func(m *member) {
						if m.traffic.Acked() == 0 {
							f.t.Errorf("%s had no standby range to issue from", m.name)
						}
					})
				}
				if first == "Redis" {
					r.RestartEmpty()
					f.each(func(m *member) { m.AwaitReadiness(503, noStore) })
					f.restartStore()
				} else {
					f.restartStore()
					f.awaitOutage()
					r.RestartEmpty()
				}
				f.awaitWell()
				f.resume()
				f.more(step)
				f.finish(lossOf(2) + 4*retreatOf)
			}, "SEQD_STORE_MONGO_TIMEOUT=1s", "SEQD_SEGMENT_ACQUIRETIMEOUT=3s")
		})
	}
}
