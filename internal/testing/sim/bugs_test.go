package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// bugs are defects that were found once, with what shows each: a number twice or out of order, or a
// key with two numbers. docs/TESTING.md lists them, and those that are shown elsewhere.
var bugs = []schedule{
	{
		name: "restored per node", was: "After a restore the cursor of before in Redis counted again, although the store had gone on without it.",
		rules: []string{"fresh-asks", "ask-to-adopt"},
		world: Options{Redis: true, BizTypes: only(load.SwitchedName, load.LateName), Script: func(w *World) {
			restored := w.begin("restore", "a", killed, 5*time.Second) // the copy has it per node
			w.at(2 * time.Second)
			for range 20 {
				w.each(func(n string) { w.issue(n, load.SwitchedName, 50) })
			}
			w.at(12 * time.Second)
			for range 20 { // per node at first
				w.issue("a", load.SwitchedName, 50)
				time.Sleep(100 * time.Millisecond)
			}
			restored()
			for range 40 {
				w.issue("b", load.SwitchedName, 50)
			}
		}},
	},
	{
		name: "remade after a restore", was: "A node that was cut off from Redis issued from the restored store what others issued from the cursor of before.",
		rules: []string{"fresh-asks", "ask-to-adopt"},
		world: Options{Redis: true, BizTypes: only(load.SwitchedName, load.LateName), Script: func(w *World) {
			w.issue("a", load.SwitchedName, 1)
			restored := w.begin("restore", "a", killed+cutOffAtStart, 5*time.Second)
			w.at(2 * time.Second)
			stop := w.busy(100*time.Millisecond, load.LateName, 10)
			restored()
			time.Sleep(10 * time.Second)
			stop()
		}},
	},
	{
		name: "ordering to and fro", was: "Strict, per node and strict again: the cursor went on below what nodes had issued on their own.",
		rules: []string{"fresh-asks", "ask-to-adopt"},
		world: Options{Redis: true, BizTypes: only(load.SwitchedName), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, load.SwitchedName, 50) })
			changed := w.begin("ordering-changed", "", "", 20*time.Second)
			w.at(10 * time.Second) // all know
			for range 20 {
				w.issue("a", load.SwitchedName, 50)
			}
			w.named("c").stop()
			w.named("c").start() // and does not know what a has issued
			changed()
			for range 20 {
				w.issue("c", load.SwitchedName, 50)
			}
			w.each(func(n string) { w.issue(n, load.SwitchedName, 50) })
		}},
	},
	{
		name: "Redis moved and back", was: "Nodes were moved to another Redis and back, and the cursor of before went on where it had stopped.",
		rules: []string{"fresh-asks", "ask-to-adopt", "drawn-anew"},
		world: Options{Redis: true, BizTypes: only("order"), Script: onOtherRedis("redis-moved", "")},
	},
	{
		name: "two Redis servers", was: "Nodes that were configured with different Redis servers broke the order, also after that was corrected.",
		rules: []string{"ask-to-adopt", "drawn-anew"},
		world: Options{Redis: true, BizTypes: only("order"), Script: onOtherRedis("two-redises", "b")},
	},
	{
		name: "the address of Redis moves", was: "While nodes ran, the address of Redis led one of them to an empty one, where it began the registry of machine IDs anew. The others went on with the former one for up to a minute, and numbers repeated.",
		rules: []string{"registry-named"},
		world: Options{Redis: true, Registry: true, BizTypes: only("user"), Script: func(w *World) {
			defer w.shareMachineID()()
			w.at(20 * time.Second)
			stop := w.busy(50*time.Millisecond, "user", 10)
			w.issue("a", "user", 1)
			w.while("address moved", record.Fault{Redis: true, LosesKeys: true}, func(*fault) {
				w.lead(otherNumber, w.named("b"))
				time.Sleep(20 * time.Second)
				w.issue("b", "user", 1)
				w.lead(0, w.named("b"))
				time.Sleep(20 * time.Second)
			})
			stop()
		}},
	},
	{
		name: "clock ahead of answers", was: "A node whose clock was days ahead removed the answers that all nodes keep for keys.",
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			w.once("a", "order", "key")
			ahead := w.begin("clock-step", "b", "", 5*time.Minute, 72*time.Hour)
			w.at(30 * time.Second)
			w.once("b", "order", "another")
			ahead()
			w.once("c", "order", "key")
		}},
	},
	{
		name: "a period that comes again", was: "A node forgot with an ended period what it had issued on its own in it; its clock went back, and it issued lower numbers.",
		world: Options{Redis: true, BizTypes: map[string]load.Settings{"invoice": {"step": 10, "maxStep": 100}}, Script: func(w *World) {
			w.issue("a", "invoice", 4)
			away := w.begin("redis-hangs", "", "", 30*time.Second)
			w.at(10 * time.Second)
			for range 5 {
				w.issue("a", "invoice", 30) // on its own
			}
			ahead := w.begin("clock-step", "a", "", 40*time.Second, 72*time.Hour)
			w.at(15 * time.Second)
			w.issue("a", "invoice", 4)
			away()
			w.at(40 * time.Second)
			w.issue("a", "invoice", 4)
			ahead()
			for range 5 {
				w.issue("a", "invoice", 4)
			}
		}},
	},
	{
		name: "two failovers", was: "A second failover lost the gap that the first one had made.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("order", "local"), Script: func(w *World) {
			issue := func(n string) {
				w.issue(n, "order", 100)
				w.issue(n, "local", 500)
			}
			w.each(issue)
			w.store.SetLag(mayLack)
			issue("a")
			for _, next := range []string{"b", "c"} { // which has seen nothing of what is lost
				w.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) { w.store.Failover(false) })
				issue(next)
			}
			w.store.SetLag(0)
			w.confirm(byHand())
			w.each(issue)
		}},
	},
	{
		name: "a range above the gap", was: "A failover lost a range that was larger than restoreGap: the gap above it ended within it.",
		world: Options{Mode: storesim.Lossy, BizTypes: smallGap(load.CosIDName), Script: func(w *World) {
			loseThen(w, load.CosIDName, func() { w.load.Take(context.Background(), w.named("a"), load.CosIDName, 9000) })
		}},
	},
	{
		name: "a lower gap", was: "restoreGap was lowered, and a failover lost what a node that did not know it yet had issued above the failover before.",
		world: Options{Mode: storesim.Lossy, BizTypes: map[string]load.Settings{"local": {"restoreGap": 30_000, "step": 10, "maxStep": 100}}, Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "local", 10) })
			if status, _, answer := w.request(context.Background(), w.named("c"), http.MethodPatch, "/biz-types/local", `{"restoreGap":2000}`); status != http.StatusConflict {
				w.journal.Find("the gap was lowered: %d %s", status, answer)
			}
			w.store.SetLag(mayLack)
			for i, next := range []string{"a", "c"} {
				w.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) { w.store.Failover(false) })
				for range 20 * (i + 1) { // less than the gap is lost
					w.issue(next, "local", 1000)
				}
				w.named("a").kill(false) // it would go on above what it knows
			}
			w.store.SetLag(0)
			w.confirm(byHand())
			w.named("a").start()
		}},
	},
	{
		name: "a lower step", was: "step was lowered, and with it the gap, and a failover lost what a node that did not know it yet had issued in one call.",
		world: Options{Mode: storesim.Lossy, BizTypes: map[string]load.Settings{"local": {"restoreGap": "auto", "step": 10, "maxStep": 10_000, "targetDuration": "30m"}}, Script: func(w *World) {
			patch := func(n, step string, want int) {
				if status, _, answer := w.request(context.Background(), w.named(n), http.MethodPatch, "/biz-types/local", `{"step":`+step+`}`); status != want {
					w.journal.Find("step %s: %d %s", step, status, answer)
				}
			}
			w.each(func(n string) { w.issue(n, "local", 5) })
			patch("a", "1000", http.StatusOK)
			time.Sleep(10 * time.Second) // until all nodes know
			patch("c", "10", http.StatusConflict)
			w.store.SetLag(mayLack)
			w.issue("a", "local", 9000)
			w.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) { w.store.Failover(false) })
			w.named("a").kill(false) // it would go on above what it knows
			for range 20 {
				w.issue("c", "local", 400)
			}
			w.store.SetLag(0)
			w.confirm(byHand())
			w.named("a").start()
		}},
	},
	{
		name: "a cold key after a failover", was: "The gap above a key that a node met for the first time went by the configured step, not by the larger one that was recorded.",
		rules: []string{"failover-gap"},
		world: Options{Mode: storesim.Lossy, BizTypes: map[string]load.Settings{"shelf": {"restoreGap": "auto", "step": 5, "liveKeys": 20, "targetDuration": "30m"}}, Script: func(w *World) {
			for range 100 {
				w.issueOf("a", "shelf", "t1", 60)
			}
			over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
			time.Sleep(200 * time.Millisecond)
			for range 100 {
				w.issueOf("a", "shelf", "t1", 60)
			}
			over()
			for range 100 {
				w.issueOf("b", "shelf", "t1", 60)
			}
		}},
	},
	{
		name: "gapless from 1", was: "A biz type that became gapless began at 1 again.",
		rules: []string{"above-others"},
		world: Options{BizTypes: only("bulk"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "bulk", 100) })
			w.makeGapless("bulk", func() { w.each(func(n string) { w.issue(n, "bulk", 100) }) })
		}},
	},
	{
		name: "gapless while others issue", was: "A biz type was made gapless while a node that did not know yet issued the numbers that it had in hand.",
		world: Options{BizTypes: only("bulk"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "bulk", 100) })
			w.while("strategy changed", record.Fault{Unordered: "bulk"}, func(f *fault) {
				w.insist(f, "bulk", http.MethodPost, "/disable", "")
				w.try("a", "bulk", http.MethodPut, "?force=true", `{"strategy":"gapless"}`)
				w.try("a", "bulk", http.MethodPost, "/enable", "")
				for range 30 { // the others know within 5 s
					w.each(func(n string) { w.ask(n, load.Question{BizType: "bulk", Count: 100}) })
					time.Sleep(100 * time.Millisecond)
				}
				w.insist(f, "bulk", http.MethodPost, "/enable", "")
			})
		}},
	},
	{
		name: "held up while the strategy changes", was: "A node was suspended, or its store was away, while a biz type got another strategy, as the documents say. It went on with the old one for seconds, and gave keys a second number.",
		rules: []string{"follows"},
		world: Options{Redis: true, BizTypes: map[string]load.Settings{"bulk": {"ordering": "per-node", "step": 5, "maxStep": 5}}, Script: func(w *World) {
			const segment, gapless = `{"strategy":"segment","ordering":"per-node","step":5,"maxStep":5}`, `{"strategy":"gapless"}`
			w.while("per node", record.Fault{Unordered: "bulk"}, func(*fault) {
				for round, held := range []string{"store-away", "pause", "pause"} {
					becomes := []string{gapless, segment}[round%2]
					w.each(func(n string) { w.issue(n, "bulk", 1) })
					resumed := w.begin(held, "c", "", time.Minute)
					resumes := time.Now().Add(time.Minute)
					time.Sleep(time.Second)
					w.reshape("bulk", becomes, func() {
						key := func(i int) string { return fmt.Sprint("key-", round, "-", i%10) }
						for i := range 10 {
							w.issue("a", "bulk", 1)
							w.once("a", "bulk", key(i))
						}
						time.Sleep(time.Until(resumes) - 100*time.Millisecond)
						var under sync.WaitGroup
						for i := range 100 { // some come before the node knows
							q := load.Question{BizType: "bulk"}
							if i < 50 {
								q.Key = key(i)
							}
							under.Go(func() { w.ask("c", q) })
							time.Sleep(2 * time.Millisecond)
							w.issue("b", "bulk", 1)
						}
						under.Wait()
						resumed()
					})
				}
			})
		}},
	},
	{
		name: "held up with definitions of its own", was: "A node with definitions of its own was held up until it no longer counted among the nodes. Its biz type got another strategy meanwhile, and it went on with the old one.",
		rules: []string{"counted"},
		world: Options{BizTypes: map[string]load.Settings{"bulk": {"ordering": "per-node", "step": 5, "maxStep": 5}}, Script: func(w *World) {
			w.while("per node", record.Fault{Unordered: "bulk"}, func(*fault) {
				for _, held := range []string{"store-away", "pause"} {
					w.named("c").restartWith("SEQD_BIZTYPESFROM", "config")
					w.each(func(n string) { w.issue(n, "bulk", 1) })
					resumed := w.begin(held, "c", "", time.Minute)
					resumes := time.Now().Add(time.Minute)
					time.Sleep(25 * time.Second)
					w.reshape("bulk", `{"strategy":"gapless"}`, func() {
						time.Sleep(time.Until(resumes) - 100*time.Millisecond)
						ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
						defer cancel() // then c knows, and refuses
						var under sync.WaitGroup
						for range 100 {
							under.Go(func() { w.load.Ask(ctx, w.named("c"), load.Question{BizType: "bulk"}) })
							time.Sleep(2 * time.Millisecond)
							w.issue("a", "bulk", 1)
						}
						under.Wait()
						resumed()
					})
					w.named("c").restartWith("SEQD_BIZTYPESFROM", "")
					w.reshape("bulk", `{"strategy":"segment","ordering":"per-node","step":5,"maxStep":5}`, func() {})
				}
			})
		}},
	},
	{
		name: "a late first write of a key", was: "The first write of a gapless key came after the biz type had become segment, and a repeated request was told its number, which segment had issued too.",
		rules: []string{"empty-first"},
		world: Options{BizTypes: only("parcel"), Script: func(w *World) {
			w.reshape("parcel", `{"strategy":"gapless","keyed":true}`, func() {
				w.each(func(n string) { w.issueOf(n, "parcel", "k0", 1) })
				w.meet("c", "create document ledger/parcel/k1", storesim.Fate{Send: time.Minute, Left: true})
				q := load.Question{BizType: "parcel", Of: "k1", Key: "key"}
				go w.ask("c", q)
				w.met("c")
				w.named("c").kill(false) // otherwise it would try again in time
				w.named("c").start()
				w.reshape("parcel", `{"strategy":"segment","keyed":true}`, func() {
					for range 5 {
						w.issueOf("b", "parcel", "k1", 1)
					}
					time.Sleep(2 * time.Minute)
					w.each(func(n string) { w.ask(n, q) })
				})
			})
		}},
	},
	{
		name: "gapless after a loss", was: "A biz type became gapless after a failover that had lost ranges, and began without a gap.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("bulk"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "bulk", 100) })
			over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
			for range 10 {
				w.each(func(n string) { w.ask(n, load.Question{BizType: "bulk", Count: 1000}) })
			}
			over()
			w.makeGapless("bulk", func() {
				for range 10 {
					w.each(func(n string) { w.ask(n, load.Question{BizType: "bulk", Count: 1000}) })
				}
			})
		}},
	},
	{
		name: "lossless after a loss", was: "A failover lost numbers, and then nodes were told that failovers lose nothing, or had been told so before: counters that nobody had used since went on as if nothing was lost.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("order", "bill"), Script: func(w *World) {
			w.restartAs(storesim.Lossless, (*node).stop)
			w.each(func(n string) { w.issue(n, "order", 10); w.issue(n, "bill", 1) })
			w.restartAs(storesim.Lossy, (*node).stop)
			for _, next := range []storesim.Mode{storesim.Lossy, storesim.Lossless, storesim.Lossless} {
				w.while("failover", record.Fault{Store: true, StoreLost: true}, func(f *fault) {
					w.store.SetLag(mayLack)
					for range 5 {
						w.each(func(n string) { w.issue(n, "order", 10); w.issue(n, "bill", 1) })
					}
					lost := len(w.store.Failover(false))
					w.restartAs(next, func(n *node) { n.kill(false) })
					if next == storesim.Lossless { // nobody has confirmed the one before
						w.each(func(n string) { w.issue(n, "order", 10) })
						w.store.Failover(true)
					}
					w.each(func(n string) { w.issue(n, "order", 10) })
					if got := w.ask("a", load.Question{BizType: "bill"}); lost > 0 && got.Code != string(seqd.CodeStoreFailedOver) {
						w.journal.Find("a gapless counter that may have lost numbers answers %d %s", got.Status, got.Code)
					}
					w.raiseAll(f, map[string]int64{"bill": w.journal.Highest()["bill"]})
					w.confirm(f)
				})
				w.each(func(n string) { w.issue(n, "order", 10); w.issue(n, "bill", 1) })
			}
		}},
	},
	{
		name: "given back under another increment", was: "Increments were changed by force, and a node gave back numbers that belong to others by the new one.",
		world: Options{BizTypes: only("local"), Script: func(w *World) {
			for _, space := range spaces {
				w.each(func(n string) { w.issue(n, "local", 7) })
				w.while("increment changed", record.Fault{Unordered: "local"}, func(f *fault) {
					w.insist(f, "local", http.MethodPatch, "?force=true", space)
					w.onAll((*node).stop)
					w.onAll((*node).start)
					w.each(func(n string) { w.issue(n, "local", 7) })
				})
			}
		}},
	},
	{
		name: "lost releases", was: "What a reservation gave back after a failover had been issued to somebody in what the failover lost.",
		rules: []string{"suspect"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			r := w.reserve("a", "bill", "20s")
			over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
			time.Sleep(500 * time.Millisecond)
			w.settle("a", r, record.Release)
			w.issue("a", "bill", 1)
			over()
			time.Sleep(30 * time.Second)
			w.each(func(n string) { w.issue(n, "bill", 3) })
		}},
	},
	{
		name: "a key over midnight", was: "A request that was repeated after midnight under its key got a number of each period.",
		world: Options{BizTypes: only("voucher", "invoice", "receipt"), Script: func(w *World) {
			w.at(88 * time.Second)
			names := []string{"voucher", "invoice", "receipt"}
			for _, name := range names {
				w.once("a", name, "key")
			}
			hung := w.begin("store-hangs", "a", "", 4*time.Second)
			var under sync.WaitGroup
			for _, name := range names {
				under.Go(func() { w.ask("a", load.Question{BizType: name, Key: "under-way"}) })
			}
			w.at(91 * time.Second)
			for _, name := range names {
				w.once("b", name, "key")
				w.once("b", name, "under-way")
			}
			hung()
			under.Wait()
			for _, name := range names {
				w.once("c", name, "key")
				w.once("a", name, "under-way")
			}
		}},
	},
	{
		name: "a key over a raise", was: "A key got a second number after its counter had been raised.",
		world: Options{BizTypes: only("bill", "order"), Script: func(w *World) {
			for _, name := range []string{"bill", "order"} {
				w.once("a", name, "key")
				w.begin("raised", name, "500", 0)()
				w.once("b", name, "key")
				w.each(func(n string) { w.issue(n, name, 3) })
			}
		}},
	},
	{
		name: "a key over a slow change", was: "A key got two numbers while a change of the definition took more than 2 s.",
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			slow := w.begin("store-hangs", "a", "", 5*time.Second)
			var under sync.WaitGroup
			under.Go(func() { w.try("a", "bill", http.MethodPatch, "", `{"maxReserved":10}`) })
			under.Go(func() { w.ask("a", load.Question{BizType: "bill", Key: "key"}) })
			w.at(1 * time.Second)
			under.Go(func() { w.try("b", "bill", http.MethodPatch, "", `{"maxReserved":20}`) })
			w.once("b", "bill", "key")
			slow()
			under.Wait()
			w.once("a", "bill", "key")
			w.once("c", "bill", "key")
		}},
	},
	{
		name: "raised before it began", was: "A counter that had been raised before its first number began lower.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
			time.Sleep(500 * time.Millisecond)
			w.issue("a", "bill", 10) // all that there is gets lost
			over()                   // and it is raised
			w.each(func(n string) { w.issue(n, "bill", 3) })
		}},
	},
	{
		name: "refused after a raise", was: "After seqd raise said that a gapless counter issues again, nodes refused for a second.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "bill", 1) })
			w.losing(func() { w.issue("a", "bill", 3) })
			refused := func(n string) bool { return w.ask(n, load.Question{BizType: "bill"}).Status != http.StatusOK }
			w.each(func(n string) {
				if !refused(n) {
					w.journal.Find("%s issues before an operator has said how far the counter had come", n)
				}
			})
			w.raiseTo("bill", 9)
			w.each(func(n string) {
				if refused(n) {
					w.journal.Find("%s refuses after the counter was raised", n)
				}
			})
		}},
	},
	{
		name: "a raise beside callers", was: "seqd raise changed counters while nodes issued, and a slip used numbers up for good.",
		world: Options{Redis: true, BizTypes: only("bill", "order"), Script: raiseBesideCallers},
	},
	{
		name: "void twice", was: "A number was counted twice that two nodes made void.",
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			got := w.issue("a", "bill", 1)
			var both sync.WaitGroup
			w.each(func(n string) {
				both.Go(func() { w.load.Void(context.Background(), w.named(n), got) })
			})
			both.Wait()
			w.each(func(n string) { w.issue(n, "bill", 3) })
		}},
	},
	{
		name: "reclaimed early", was: "A node whose clock was ahead reclaimed reservations before they were due.",
		rules: []string{"not-early"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			ahead := w.begin("clock-step", "b", "", 10*time.Second, 900*time.Millisecond)
			time.Sleep(time.Second)
			for range 3 {
				w.reserve("a", "bill", "1s")
				r := w.reserve("a", "bill", "3s")
				time.Sleep(2500 * time.Millisecond) // and the first is due
				w.issue("b", "bill", 3)
				w.settle("b", r, record.Confirm)
			}
			ahead()
		}},
	},
	{
		name: "what a failover lost is told again", was: "A node repeated the answer for a key that a failover had lost, and somebody else had the number.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
			time.Sleep(500 * time.Millisecond)
			w.once("a", "bill", "key")
			over()
			w.begin("raised", "bill", "0", 0)()
			w.each(func(n string) { w.issue(n, "bill", 3) })
			time.Sleep(10 * time.Second)
			w.each(func(n string) { w.once(n, "bill", "key") })
		}},
	},
	{
		name: "a year with two digits", was: "A template with a two-digit year showed the same ID again on a node whose clock was 100 years ahead.",
		world: Options{BizTypes: map[string]load.Settings{"invite": {"reset": record.Daily, "plugins": []load.Settings{{"name": "format", "template": "C{date:060102}{seq:06}-0"}}}}, Script: func(w *World) {
			w.issue("a", "invite", 3)
			w.begin("clock-step", "b", "", 10*time.Second, time.Date(2126, 11, 27, 12, 0, 0, 0, time.UTC).Sub(begins))
			time.Sleep(5 * time.Second)
			for range 3 {
				w.ask("b", load.Question{BizType: "invite"})
			}
			time.Sleep(10 * time.Second)
		}},
	},
	{
		name: "a clock set back while nobody asks", was: "A node that had dropped a biz type forgot the last time that it had used, and issued a lower number after its clock was set back.",
		world: Options{BizTypes: only("user", "order", "tiny", "huge", "local"), Script: func(w *World) {
			w.variant.live = "1"
			c := w.named("c")
			c.stop()
			c.start()
			first := w.issue("c", "user", 1)
			for range 5 {
				time.Sleep(50 * time.Millisecond)
				for _, other := range []string{"order", "tiny", "huge"} {
					w.issue("c", other, 1)
				}
			}
			c.setClock(-1200 * time.Millisecond)
			if then := w.issue("c", "user", 1); len(then.Runs) > 0 && then.Runs[0].First < first.Runs[0].First {
				w.journal.Find("%v was issued after %v", then.Runs, first.Runs)
			}
			c.setClock(0)
		}},
	},
	{
		name: "a clock set back before a change", was: "A snowflake biz type got the settings of another one after the clock was set back, and issued a lower number.",
		world: Options{BizTypes: only("user", "guest"), Script: func(w *World) {
			longer := func(bizType string) { w.try("c", bizType, http.MethodPatch, "", `{"horizon":"10s"}`) }
			longer("guest")
			w.issue("c", "guest", 1)
			time.Sleep(2 * time.Second)
			w.issue("c", "user", 1)
			c := w.named("c")
			c.setClock(-1200 * time.Millisecond)
			longer("user")
			w.issue("c", "user", 1)
			c.setClock(0)
		}},
	},
	{
		name: "a clock ahead that is put right", was: "After a clock was far ahead for a moment, nothing was issued until it came there again, days later.",
		world: Options{Bolt: true, BizTypes: only("user", "guest"), Script: func(w *World) {
			a := w.named("a")
			for _, ahead := range []time.Duration{400 * 24 * time.Hour, time.Hour} {
				w.issue("a", "user", 10)
				a.setClock(ahead)
				time.Sleep(3 * time.Second) // a renewal
				w.issue("a", "user", 10)
				w.issue("a", "guest", 10)
				a.setClock(0)
				time.Sleep(10 * time.Second)
				w.issue("a", "user", 10)
				w.issue("a", "guest", 10)
			}
		}},
	},
	{
		name: "a clock before the epoch at the start", was: "A snowflake biz type was refused for good although the clock was right by then.",
		world: Options{Bolt: true, BizTypes: only("user", "guest"), Script: func(w *World) {
			a := w.named("a")
			a.stop()
			a.setClock(-50 * 365 * 24 * time.Hour)
			a.start()
			time.Sleep(5 * time.Second)
			if c := w.ask("a", load.Question{BizType: "user"}); c.Code != "clock_rollback" {
				w.journal.Find("before the epoch: %d %s", c.Status, c.Code)
			}
			a.setClock(0)
			time.Sleep(10 * time.Second)
			w.issue("a", "user", 1)
		}},
	},
	{
		name: "months ahead at the start", was: "A machine that started with a clock months ahead removed answers and closed periods that had not ended.",
		world: Options{Bolt: true, BizTypes: only("bill", "voucher", "receipt"), Script: func(w *World) {
			a := w.named("a")
			turned := func(by time.Duration) {
				a.stop()
				a.setClock(by)
				a.start()
			}
			ask := func() string {
				w.issue("a", "receipt", 1)
				bill, voucher := w.once("a", "bill", "cart"), w.once("a", "voucher", "cart")
				return fmt.Sprint(bill.Runs, bill.Texts, voucher.Runs, voucher.Texts)
			}
			first := ask()
			for _, ahead := range []time.Duration{100 * 24 * time.Hour, 400 * 24 * time.Hour} {
				turned(ahead)
				w.issue("a", "receipt", 1)
				time.Sleep(2 * time.Hour)
				turned(0)
				time.Sleep(10 * time.Second)
				if again := ask(); again != first {
					w.journal.Find("%s again, after a clock was %s ahead: want %s", again, ahead, first)
				}
			}
		}},
	},
	{
		name: "a key over a change of strategy", was: "A key got a second number after the strategy was changed.",
		rules: []string{"recall"},
		world: Options{BizTypes: only("bulk"), Script: func(w *World) {
			w.once("a", "bulk", "key")
			w.redefine("bulk", `{"strategy":"gapless"}`)
			w.once("b", "bulk", "key")
			w.once("b", "bulk", "another")
			w.redefine("bulk", w.load.Definition("bulk", nil))
			w.once("a", "bulk", "another")
			w.once("a", "bulk", "key")
		}},
	},
	{
		name: "a key over a change of the zone", was: "A key got a second number after a forced change of timeZone to the west. What was found there once was then told from a copy: a void number too, and a reservation was 422.",
		rules: []string{"recall"},
		world: Options{BizTypes: map[string]load.Settings{"voucher": {"timeZone": "Asia/Tokyo"}}, Script: func(w *World) {
			book := func() *record.Call {
				return w.load.Reserve(context.Background(), w.named("b"), load.Question{BizType: "voucher", Key: "booked"}, "1h")
			}
			void := w.once("a", "voucher", "key")
			book()
			w.redefine("voucher", w.load.Definition("voucher", load.Settings{"timeZone": "America/Los_Angeles"}))
			w.each(func(n string) { w.once(n, "voucher", "key") })
			for range 2 {
				if again := book(); again.Status != http.StatusCreated {
					w.journal.Find("a reservation is repeated: %d %s", again.Status, again.Code)
				}
			}
			w.load.Void(context.Background(), w.named("c"), void)
			if again := w.ask("c", load.Question{BizType: "voucher", Key: "key"}); again.Code != "number_void" {
				w.journal.Find("a request is repeated whose number is void: %d %s %v", again.Status, again.Code, again.Runs)
			}
		}},
	},
	{
		name: "a late first write of a period", was: "A key got two numbers, because the first write of a period came after the key had been given a number of the next one.",
		rules: []string{"late-write"},
		world: Options{BizTypes: patient("voucher"), Script: func(w *World) {
			w.meet("a", "create document ledger/voucher@20261127", storesim.Fate{Send: 1500 * time.Millisecond})
			w.at(89500 * time.Millisecond)
			var under sync.WaitGroup
			under.Go(func() { w.ask("a", load.Question{BizType: "voucher", Key: "key"}) })
			w.at(90200 * time.Millisecond)
			w.once("b", "voucher", "key")
			under.Wait()
			w.each(func(n string) { w.once(n, "voucher", "key") })
		}},
	},
	{
		name: "reopened after a zone", was: "After timeZone was forced to the east and back, each request with a new key was 503 until the period ended.",
		rules: []string{"reopen"},
		world: Options{BizTypes: map[string]load.Settings{"voucher": {"timeZone": "Pacific/Niue"}}, Script: func(w *World) {
			force := func(zone string) {
				w.redefine("voucher", w.load.Definition("voucher", load.Settings{"timeZone": zone}))
			}
			w.once("a", "voucher", "before")
			// There it is tomorrow.
			force("Pacific/Kiritimati")
			time.Sleep(5 * time.Second)
			w.meet("b", "create document ledger/voucher@20261128", storesim.Fate{Reply: time.Second})
			ctx, leave := context.WithTimeout(context.Background(), 500*time.Millisecond)
			w.load.Ask(ctx, w.named("b"), load.Question{BizType: "voucher", Key: "there"})
			leave()
			force("Pacific/Niue")
			w.each(func(n string) { w.once(n, "voucher", "before") })
			w.once("c", "voucher", "after")
		}},
	},
	{
		name: "a clock that was told late", was: "A reservation was reclaimed before its ttl was over, because the node that made it had been told the store's time late.",
		rules: []string{"clock-doubt"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.each(func(n string) { w.issue(n, "bill", 1) })
			w.meet("a", "read clock", storesim.Fate{Reply: 1900 * time.Millisecond})
			w.met("a")
			time.Sleep(2 * time.Second)
			r, made := w.reserve("a", "bill", "2s"), time.Now()
			for time.Since(made) < 1800*time.Millisecond {
				if got := w.issue("b", "bill", 1); slices.Equal(got.Runs, r.Runs) {
					w.journal.Find("%v is issued %s after it was reserved for 2s", got.Runs, time.Since(made))
				}
				time.Sleep(100 * time.Millisecond)
			}
			w.settle("b", r, record.Confirm)
		}},
	},
	{
		name: "the only clock is set forward", was: "A reservation was reclaimed early, because the clock of the only node was set forward by a few seconds.",
		rules: []string{"clock-forward"},
		world: Options{Bolt: true, BizTypes: only("bill"), Script: func(w *World) {
			r := w.reserve("a", "bill", "10s")
			defer w.begin("clock-step", "a", "", 12*time.Second, 8*time.Second)()
			w.at(9 * time.Second)
			w.issue("a", "bill", 1)
			w.settle("a", r, record.Confirm)
			w.issue("a", "bill", 1)
		}},
	},
	{
		name:  "the end of a reservation that a new node tells",
		was:   "A node that did not know since when others were there told a later end than the one that others went by.",
		rules: []string{"told-end"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			a := w.reserve("a", "bill", "10s")
			time.Sleep(5 * time.Second)
			w.named("b").kill(false)
			w.meet("b", "read document beat/nodes", storesim.Fate{Send: 1900 * time.Millisecond})
			w.named("b").start()
			w.met("b")
			w.until(func() *record.Call { return w.settle("b", a, record.Find) })
			w.at(15 * time.Second)
			w.issue("c", "bill", 1)
		}},
	},
	{
		name: "an ended reservation is told again", was: "A repeated reservation was answered with the number that somebody else had been issued since, and a repeated request with a void number.",
		rules: []string{"still-so"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			book := func() *record.Call {
				return w.load.Reserve(context.Background(), w.named("a"), load.Question{BizType: "bill", Key: "key"}, "1s")
			}
			void := w.once("a", "bill", "another")
			book()
			time.Sleep(3 * time.Second)
			w.issue("b", "bill", 1)
			if again := book(); again.Code != "reservation_expired" {
				w.journal.Find("a reservation that has expired is repeated: %d %s %v", again.Status, again.Code, again.Runs)
			}
			w.load.Void(context.Background(), w.named("b"), void)
			if again := w.ask("c", load.Question{BizType: "bill", Key: "another"}); again.Code != "number_void" {
				w.journal.Find("a request is repeated whose number is void: %d %s %v", again.Status, again.Code, again.Runs)
			}
		}},
	},
	{
		name: "two sources of definitions", was: "Numbers repeated while one node had its definitions from the configuration, and the others from the store.",
		world: Options{BizTypes: only("bulk"), Script: func(w *World) {
			w.named("a").restartWith("SEQD_BIZTYPESFROM", "config")
			w.while("strategy changed", record.Fault{Unordered: "bulk"}, func(f *fault) {
				w.each(func(n string) { w.issue(n, "bulk", 100) })
				w.try("b", "bulk", http.MethodPost, "/disable", "")
				time.Sleep(25 * time.Second)
				w.try("b", "bulk", http.MethodPut, "?force=true", `{"strategy":"gapless"}`)
				w.try("b", "bulk", http.MethodPost, "/enable", "")
				for range 10 {
					w.each(func(n string) { w.ask(n, load.Question{BizType: "bulk", Count: 100}) })
				}
			})
			w.named("a").restartWith("SEQD_BIZTYPESFROM", "")
		}},
	},
	{
		name: "an older copy and many keys", was: "A node that runs while its store is put back forgets the keys that it has closed, and issues their numbers again.",
		world: Options{BizTypes: only("rent", "order", "tiny", "huge", "local"), Script: func(w *World) {
			w.variant.live = "1"
			c := w.named("c")
			c.stop()
			c.start()
			all := func() {
				for i := range 40 {
					n := []string{"a", "c"}[i%2]
					w.ask(n, load.Question{BizType: "rent", Of: fmt.Sprint("k", i), Count: 5})
				}
				for range 5 { // then c drops rent
					time.Sleep(50 * time.Millisecond)
					for _, other := range []string{"order", "tiny", "huge"} {
						w.issue("c", other, 1)
					}
				}
			}
			all()
			w.while("put back", record.Fault{Store: true, StoreBack: true}, func(f *fault) {
				older := w.store.Backup()
				all()
				time.Sleep(time.Second)
				w.store.Restore(older, false)
				all()
				all()
				w.endNodes(false)
				w.raiseAll(f, load.Enough(w.load.Shapes, w.journal.Highest(), w.counters(f)))
				w.onAll((*node).start)
			})
			all()
		}},
	},
	{
		name: "swallowed connections", was: "After a network swallowed the connections to Redis, one request for each of them waited and failed.",
		world: Options{Redis: true, BizTypes: only("fenced", "order", "huge", "invite", "audit"), Script: func(w *World) {
			a, server := w.named("a"), redisHost(w.primaryNumber())
			atOnce := w.slow(server, a.host, 150*time.Millisecond)
			var under sync.WaitGroup
			for _, name := range []string{"fenced", "order", "huge", "invite", "audit"} {
				under.Go(func() { w.issue("a", name, 1) })
				time.Sleep(20 * time.Millisecond) // so long that no two share a connection
			}
			under.Wait()
			atOnce()
			time.Sleep(time.Second)
			w.while("swallowed", redisAway, func(*fault) {
				w.net.Swallow(a.host, server)
				began, failed := time.Now(), 0
				for w.ask("a", load.Question{BizType: "fenced"}).Status != http.StatusOK {
					failed++
				}
				if took := time.Since(began); failed > 1 || took > 5*time.Second {
					w.journal.Find("%d requests failed, the next one was answered after %v", failed, took)
				}
			})
		}},
	},
	{
		name: "places of keys", was: "A gapless key took a place of maxKeys for each caller while it was new, and a crash lost the places of a node for good.",
		world: Options{BizTypes: map[string]load.Settings{"rent": {"maxKeys": 8}, "parcel": {"maxKeys": 8}}, Script: func(w *World) {
			var under sync.WaitGroup
			for name, creates := range map[string]string{"rent": "create document ledger/rent/k1", "parcel": "create counter parcel/k1"} {
				w.issueOf("a", name, "k0", 1)
				w.meet("b", creates, storesim.Fate{Send: 10 * time.Second})
				under.Go(func() { w.ask("b", load.Question{BizType: name, Of: "k1"}) })
			}
			w.met("b")
			w.named("b").kill(false)
			w.named("b").start()
			for key, callers := range []int{30, 30, 30, 30, 1, 1, 1} {
				for _, name := range []string{"rent", "parcel"} {
					for i := range callers {
						under.Go(func() { w.issueOf(nodeNames[i%3], name, fmt.Sprint("k", 1+key), 1) })
					}
				}
				under.Wait()
				time.Sleep(2 * time.Second) // nodes that did not create the key have given their places back
				if key >= 5 {               // all places are taken: one by the node that was killed
					time.Sleep(5 * time.Minute)
				}
			}
			for _, name := range []string{"rent", "parcel"} {
				if places, keys := w.placesOf(name); places != 8 || keys != 8 {
					w.journal.Find("%s has %d places and %d keys", name, places, keys)
				}
			}
		}},
	},
}

// placesOf returns how many places of a keyed biz type are taken, and how many keys it has.
func (w *World) placesOf(bizType string) (places, keys int64) {
	w.operate(byHand(), "count keys", func(ctx context.Context, _ *config.Config) error {
		store, err := w.openStore(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		counters, err := store.Counters().List(ctx, "", 1000)
		if err != nil {
			return err
		}
		ledgers, err := store.Documents().List(ctx, persist.LedgerKind, "", 1000)
		places, keys = 0, 0
		for _, c := range counters {
			if c.BizTag == bizType+"/" {
				places = c.Max
			} else if strings.HasPrefix(c.BizTag, bizType+"/") {
				keys++
			}
		}
		for _, d := range ledgers {
			if strings.HasPrefix(d.Key, bizType+"/") {
				keys++
			}
		}
		return err
	})
	return places, keys
}

// onOtherRedis lets a fault happen in which nodes have another Redis, while all of them issue.
func onOtherRedis(kind, target string) Script {
	return func(w *World) {
		stop := w.busy(100*time.Millisecond, "order", 50)
		w.at(3 * time.Second)
		w.begin(kind, target, otherServer, 15*time.Second)()
		time.Sleep(5 * time.Second)
		stop()
	}
}

// makeGapless makes a biz type gapless, as the documents say, and then does something.
func (w *World) makeGapless(bizType string, then func()) {
	w.reshape(bizType, `{"strategy":"gapless"}`, then)
}

// raiseBesideCallers tries to raise counters while callers get numbers from them, and by a slip.
// Nothing comes of it. When all nodes are gone, the counters are raised, as a dry run has said.
func raiseBesideCallers(w *World) {
	f := byHand()
	raise := func(what string, want error, how ops.How, marks ...ops.Mark) (told []string) {
		w.operate(f, what, func(ctx context.Context, cfg *config.Config) error {
			told = nil
			err := ops.RaiseAll(ctx, cfg, marks, how, func(counter string, r ops.Raised) { told = append(told, fmt.Sprint(counter, " ", r.After)) })
			if !errors.Is(err, want) {
				return fmt.Errorf("it was not %v: %w", want, err)
			}
			return nil
		})
		return told
	}
	order, bill, slip := ops.Mark{Counter: "order", Number: 500_000}, ops.Mark{Counter: "bill", Number: 900}, ops.Mark{Counter: "bill", Number: 90_000}
	var under sync.WaitGroup
	w.each(func(n string) {
		under.Go(func() {
			for range 100 {
				w.issue(n, "order", 3)
				w.issue(n, "bill", 1)
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
	raise("refuse to raise while nodes run", ops.ErrRefused, ops.How{}, order)
	raise("refuse to raise while nodes run", ops.ErrRefused, ops.How{Sure: true}, bill)
	raise("raise nothing", nil, ops.How{DryRun: true}, order, bill, slip)
	under.Wait()
	if got := w.issue("a", "bill", 1).Runs; got[0].First != 301 {
		w.journal.Find("%v is issued after 300 numbers: something was raised", got)
	}
	w.endNodes(true)
	before := w.counters(f)
	raise("refuse a slip", ops.ErrRefused, ops.How{}, order, slip)
	would := raise("raise nothing", nil, ops.How{DryRun: true}, order, bill)
	if after := w.counters(f); !maps.Equal(before, after) {
		w.journal.Find("what was refused has made %v of %v", after, before)
	}
	if did := raise("raise", nil, ops.How{}, order, bill); !slices.Equal(slices.Sorted(slices.Values(did)), slices.Sorted(slices.Values(would))) {
		w.journal.Find("a dry run said %v, and it became %v", would, did)
	}
	w.onAll((*node).start)
	w.each(func(n string) {
		if got := w.issue(n, "order", 1).Runs; got[0].First <= order.Number {
			w.journal.Find("%v is issued after a raise to %d", got, order.Number)
		}
	})
}

// redefine forces another definition upon a biz type, as the documents say.
func (w *World) redefine(bizType, body string) { w.reshape(bizType, body, func() {}) }

// reshape forces another definition upon a biz type, as the documents say, and then does something.
func (w *World) reshape(bizType, body string, then func()) {
	w.while("strategy changed", record.Fault{Unordered: bizType}, func(f *fault) {
		f.planned.target = bizType
		w.changeStrategy(f, body)
		then()
	})
}

// restartAs ends all nodes, and starts them on a store whose failovers lose something, or nothing.
func (w *World) restartAs(m storesim.Mode, end func(*node)) {
	w.onAll(end)
	w.store.SetMode(m)
	w.onAll((*node).start)
}

// smallGap is a biz type of small ranges, with a small gap above a failover.
func smallGap(name string) map[string]load.Settings {
	return map[string]load.Settings{name: {"restoreGap": 2000, "step": 10, "maxStep": 100}}
}

// loseThen lets a failover lose what a node takes, and asks a node that has not seen it.
func loseThen(w *World, bizType string, take func()) {
	w.each(func(n string) { w.issue(n, bizType, 10) })
	over := w.begin("store-failover-lossy", "", standbyLacks, 5*time.Second)
	time.Sleep(500 * time.Millisecond)
	take()
	over()
	for range 10 {
		w.issue("c", bizType, 1000)
	}
}
