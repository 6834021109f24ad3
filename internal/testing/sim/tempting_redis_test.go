package sim

import (
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// allocates is what an allocation for order is called, for [World.meet].
const allocates = "allocate order"

// hundreds is a biz type whose ranges have 100 numbers each.
func hundreds(name string) map[string]load.Settings {
	return map[string]load.Settings{name: {"step": 100, "maxStep": 100}}
}

// redisTemptations are those of numbers that a cursor in Redis orders.
var redisTemptations = []schedule{
	{
		name: "a store and a Redis put back", was: "A node issues below what the cursor had, because store and Redis have forgotten it.",
		rules: []string{"floor"},
		world: Options{Redis: true, BizTypes: hundreds("fenced"), Script: func(w *World) {
			w.issue("b", "fenced", 50)
			time.Sleep(time.Second) // there are three ranges, up to 300
			w.while("put back", record.Fault{Store: true, StoreBack: true, Redis: true, LosesKeys: true}, func(*fault) {
				older := w.store.Backup()
				for range 23 {
					w.issue("b", "fenced", 10)
				}
				time.Sleep(time.Second)
				w.issue("a", "fenced", 1) // 281
				w.issue("b", "fenced", 100)
				w.named("b").kill(false)
				w.store.Restore(older, false)
				w.primaryRedis().Flush()
			})
			w.issue("a", "fenced", 1)
			w.named("b").start()
		}},
	},
	{
		name: "a standby range below the cursor", was: "A node on its own issues from a range that it took when the store had just been put back.",
		rules: []string{"standby-above-ceil"},
		world: Options{Redis: true, BizTypes: hundreds("order"), Script: func(w *World) {
			a := w.named("a")
			w.issue("b", "order", 10)
			time.Sleep(time.Second)
			w.while("put back", record.Fault{Store: true, StoreBack: true}, func(*fault) {
				atOnce := w.slow(redisHost(0), a.host, 200*time.Millisecond)
				w.issue("a", "order", 1) // it looks at the cursor to take a standby range
				older := w.store.Backup()
				for range 40 {
					w.issue("b", "order", 10)
				}
				w.store.Restore(older, false)
				atOnce()
				time.Sleep(2 * time.Second)
			})
			w.while("cut off", redisAway, func(*fault) {
				w.primaryRedis().LoseReplies(1)
				w.leave("a", load.Question{BizType: "order"}) // it looks again, and takes nothing
				time.Sleep(50 * time.Millisecond)
				mend := w.cutOff(a)
				w.issue("a", "order", 1)
				mend()
			})
			time.Sleep(10 * time.Second)
		}},
	},
	{
		name: "a replica that takes writes", was: "A node that was led to a replica takes numbers that others take from the primary.",
		rules: []string{"role"},
		world: Options{Redis: true, BizTypes: only("order"), Script: func(w *World) {
			w.issue("a", "order", 1)
			w.while("misled", redisAway, func(*fault) {
				w.redis.Server(1).Writable(true)
				w.lead(1, w.named("b"))
				for range 5 {
					w.issue("a", "order", 1)
					w.ask("b", load.Question{BizType: "order"})
				}
				w.redis.Server(1).Writable(false)
				w.lead(0, w.named("b"))
				w.resync()
			})
			time.Sleep(10 * time.Second)
		}},
	},
	{
		name: "a seed that comes late", was: "A range begins a cursor that another node has begun meanwhile, and lost.",
		rules: []string{"seed-gen", "gen"},
		world: Options{Redis: true, BizTypes: only("order"), Settings: slowRedis, Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "order", 1) })
			time.Sleep(5 * time.Second)
			w.begin("redis-flush", "", "", 0)()
			var under sync.WaitGroup
			arrives := w.installLate("a", func() { under.Go(func() { w.issue("a", "order", 1) }) })
			w.issue("b", "order", 1)
			w.loseAgain(arrives, &under)
		}},
	},
	{
		name: "a range that moves up what was lost", was: "A range is put into a cursor that was begun anew since, and belongs to none.",
		rules: []string{"gen,install-epoch"},
		world: Options{Redis: true, BizTypes: only("order"), Settings: slowRedis, Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "order", 1) })
			var under sync.WaitGroup
			arrives := w.installLate("a", w.alone("a"))
			for range 30 {
				w.issue("b", "order", 100)
			}
			w.loseAgain(arrives, &under)
		}},
	},
	{
		name: "a range for what was lost", was: "A range begins a cursor, and others have issued higher numbers of the one that it was for.",
		rules: []string{"young-spare"},
		world: Options{Redis: true, BizTypes: only("order"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "order", 1) })
			back := w.alone("a")
			w.meet("a", allocates, storesim.Fate{Reply: 1500 * time.Millisecond})
			back()
			w.met("a")
			for range 30 {
				w.issue("b", "order", 100)
			}
			w.begin("redis-flush", "", "", 0)()
			time.Sleep(2 * time.Second)
			w.issue("a", "order", 1)
		}},
	},
	{
		name: "a range that comes late", was: "A range comes into the cursor behind a higher one, which another node has allocated since.",
		rules: []string{"ceil"},
		world: Options{Redis: true, BizTypes: map[string]load.Settings{"order": {"step": 100, "maxStep": 100, "reserveSegments": 3}}, Settings: slowRedis, Script: func(w *World) {
			w.wantRange("a")
			atOnce := w.slow(w.named("a").host, redisHost(0), 4*time.Second)
			time.Sleep(100 * time.Millisecond)
			atOnce()
			for range 5 {
				w.issue("b", "order", 50) // the last ones are of a range that b has allocated
			}
			time.Sleep(3 * time.Second)
			w.meet("b", allocates, storesim.Fate{Send: 1500 * time.Millisecond})
			for range 3 {
				w.issue("b", "order", 100) // there is room for two ranges, the late one and a higher one
			}
			time.Sleep(2 * time.Second)
			for range 20 {
				w.issue("b", "order", 50)
			}
		}},
	},
	{
		name: "a range whose answer was lost", was: "A node issues on its own from a range that is in the cursor, too.",
		rules: []string{"abandon-unknown"},
		world: Options{Redis: true, BizTypes: hundreds("order"), Script: func(w *World) {
			w.wantRange("a")
			w.while("cut off", redisAway, func(*fault) {
				w.primaryRedis().LoseReplies(1)
				time.Sleep(60 * time.Millisecond)
				mend := w.cutOff(w.named("a"))
				w.issue("a", "order", 1)
				mend()
			})
			for range 10 {
				w.issue("b", "order", 50)
			}
		}},
	},
	{
		name: "answers that overtake each other", was: "A node learns of an epoch that it has drawn after one that another node has drawn later.",
		rules: []string{"spare-epoch", "answers-in-order,beliefs-age"},
		world: Options{Redis: true, BizTypes: hundreds("fenced"), Settings: map[string]string{"SEQD_STORE_POSTGRES_TIMEOUT": "10s"}, Script: func(w *World) {
			b := w.named("b")
			w.issue("a", "fenced", 1)
			time.Sleep(time.Second)
			w.meet("a", "allocate fenced", storesim.Fate{Send: 8500 * time.Millisecond})
			w.issue("a", "fenced", 30) // and it wants another range
			w.met("a")
			w.begin("redis-flush", "", "", 0)()
			w.meet("a", "allocate fenced", storesim.Fate{Reply: 9500 * time.Millisecond}) // of an epoch
			var under sync.WaitGroup
			under.Go(func() { w.issue("a", "fenced", 1) })
			w.met("a")
			w.while("two Redis servers", record.Fault{LosesKeys: true, Unordered: record.Every}, func(*fault) {
				misconfigure(w, &fault{planned: planned{target: "b", way: otherServer}})
				w.issue("b", "fenced", 1)
				b.stop()
				b.useRedis("")
				time.Sleep(5 * time.Second)
			})
			under.Wait()
			w.issue("a", "fenced", 1)
			b.start()
		}},
	},
	{
		name: "a seed that others wait for", was: "Nodes that lose the race for an epoch draw others at once, and what the winner has for the cursor is skipped.",
		rules: []string{"patience"},
		world: Options{Redis: true, BizTypes: hundreds("fenced"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "fenced", 1) })
			time.Sleep(time.Second)
			w.begin("redis-flush", "", "", 0)()
			w.meet("a", "allocate fenced", storesim.Fate{Reply: 400 * time.Millisecond})
			var under sync.WaitGroup
			under.Go(func() { w.issue("a", "fenced", 1) })
			w.met("a")
			if got := w.issue("b", "fenced", 1).Runs; got[0].First > 200 {
				w.journal.Find("%v is issued, and what node a has for the cursor is skipped", got)
			}
			under.Wait()
		}},
	},
	{
		name: "a belief of long ago", was: "A node that nobody asked for a while takes from a cursor that does not count any more.",
		rules: []string{"beliefs-age"},
		world: Options{Redis: true, BizTypes: only("order"), Script: func(w *World) {
			before := w.issue("a", "order", 1)
			time.Sleep(10 * time.Second)
			w.begin("raised", "order", "500", 0)()
			time.Sleep(6 * time.Second)
			if got := w.issue("a", "order", 1); got.Runs[0].First < before.Runs[0].First+500 {
				w.journal.Find("%v is issued after %v, although it was raised by 500", got.Runs, before.Runs)
			}
		}},
	},
	{
		name: "nodes that disagree about the sequencer", was: "Nodes with different definitions take a counter from each other for ever.",
		rules: []string{"take-over-once"},
		world: Options{Redis: true, BizTypes: only("order"), Settings: map[string]string{"SEQD_BIZTYPESFROM": "config"}, Script: func(w *World) {
			w.while("different definitions", record.Fault{Unordered: "order"}, func(*fault) {
				for node, sequencer := range map[string]string{"a": "store", "b": "redis"} {
					w.named(node).restartWith("SEQD_BIZTYPES", strings.Replace(w.bizTypes, `"name":"order"`, `"name":"order","sequencer":"`+sequencer+`"`, 1))
				}
				w.issue("a", "order", 1)
				w.issue("b", "order", 1)
				for range 5 {
					time.Sleep(2 * time.Second)
					if c := w.ask("a", load.Question{BizType: "order"}); len(c.Runs) > 0 {
						w.journal.Find("a has taken over again: %v", c.Runs)
					}
				}
				w.each(func(n string) { w.named(n).restartWith("SEQD_BIZTYPES", "") })
			})
		}},
	},
	{
		name: "a return after one that failed", was: "A node does not return to the cursor while the store is away, although it has the range for that.",
		rules: []string{"ahead-kept"},
		world: Options{Redis: true, BizTypes: hundreds("parcel"), Script: func(w *World) {
			a := w.named("a")
			w.issueOf("a", "parcel", "t1", 1)
			w.while("both away", record.Fault{Redis: true, Store: true}, func(*fault) {
				w.store.Set(storesim.Away)
				for {
					c := w.ask("a", load.Question{BizType: "parcel", Of: "t1"})
					if len(c.Runs) == 0 {
						break
					}
				}
				mend := w.cutOff(a)
				w.store.Set(storesim.Up)
				w.issueOf("a", "parcel", "t1", 1) // on its own
				time.Sleep(time.Second)
				w.returns("a", "parcel/t1", mend)
				mend = w.cutOff(a)
				time.Sleep(time.Second) // it leaves again
				w.returns("a", "parcel/t1", mend)
				atOnce := w.slow(redisHost(0), a.host, 200*time.Millisecond)
				time.Sleep(100 * time.Millisecond)
				w.store.Set(storesim.Away)
				atOnce()
				time.Sleep(time.Second)
				if c := w.ask("a", load.Question{BizType: "parcel", Of: "t1"}); len(c.Runs) == 0 {
					w.journal.Find("a has a range for the cursor, and refuses: %d %s", c.Status, c.Code)
				}
				w.store.Set(storesim.Up)
			})
		}},
	},
}

// slowRedis lets nodes wait long for Redis.
var slowRedis = map[string]string{"SEQD_REDIS_TIMEOUT": "5s"}

// shareMachineID gives the nodes a and b one machine ID, and returns what gives b any again.
func (w *World) shareMachineID() (end func()) {
	w.named("a").restartWith("SEQD_SNOWFLAKE_MACHINEID", "5")
	w.named("b").restartWith("SEQD_SNOWFLAKE_MACHINEID", "5")
	return func() { w.named("b").restartWith("SEQD_SNOWFLAKE_MACHINEID", "") }
}

// alone cuts a node off from Redis, and lets it issue on its own. The returned function ends that.
func (w *World) alone(node string) (back func()) {
	w.while("cut off", redisAway, func(*fault) {
		back = w.cutOff(w.named(node))
		w.issue(node, "order", 1)
		time.Sleep(2 * time.Second) // its buffer is filled
	})
	return back
}

// returns lets a node return to the cursor. It ends when the range for that is about to come.
func (w *World) returns(node, counter string, mend func()) {
	w.meet(node, "allocate "+counter, storesim.Fate{Reply: 500 * time.Millisecond})
	mend()
	w.met(node)
	time.Sleep(450 * time.Millisecond)
}

// wantRange lets a node take so many numbers for order that it allocates another range for the
// cursor. It ends when that range is about to come.
func (w *World) wantRange(node string) {
	w.issue(node, "order", 1)
	time.Sleep(time.Second) // there are three ranges, up to 300
	w.meet(node, allocates, storesim.Fate{Reply: 500 * time.Millisecond})
	w.issue(node, "order", 99)
	w.met(node)
	time.Sleep(450 * time.Millisecond)
}

// installLate does what lets a node put a range into the cursor. It returns when that is sent, and
// when it arrives.
func (w *World) installLate(node string, begin func()) (arrives time.Time) {
	host := w.named(node).host
	w.returns(node, "order", begin)
	atOnce := w.slow(redisHost(0), host, 200*time.Millisecond) // it looks once more
	time.Sleep(150 * time.Millisecond)
	atOnce()
	atOnce = w.slow(host, redisHost(0), 3*time.Second)
	arrives = time.Now().Add(3100 * time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	atOnce()
	return arrives
}

// loseAgain lets Redis lose the cursor just before a range of node a arrives there.
func (w *World) loseAgain(arrives time.Time, under *sync.WaitGroup) {
	time.Sleep(time.Until(arrives.Add(-100 * time.Millisecond)))
	w.begin("redis-flush", "", "", 0)()
	w.meet("b", allocates, storesim.Fate{Send: 1500 * time.Millisecond})
	under.Go(func() { w.issue("b", "order", 1) })
	time.Sleep(300 * time.Millisecond)
	w.issue("a", "order", 1)
	under.Wait()
}
