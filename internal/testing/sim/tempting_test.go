package sim

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// someTemptations are those of numbers that the store orders, of machine IDs, and of gapless
// numbers that callers see at once.
var someTemptations = []schedule{
	{
		name: "the lowest number first", was: "A free number above another free one is issued first.",
		rules: []string{"lowest-first"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			var all []*record.Call
			for range 4 {
				all = append(all, w.reserve("a", "bill", "30s"))
			}
			for _, i := range []int{2, 0, 1} {
				w.settle("b", all[i], record.Release)
			}
			for want := range int64(3) {
				if got := w.issue("c", "bill", 1).Runs; got[0].First != want+1 {
					w.journal.Find("the lowest free number is %d, and %v was issued", want+1, got)
				}
			}
		}},
	},
	{
		name: "what becomes of a released number", was: "A released number is issued again although it is to become void, or the other way round.",
		rules: []string{"on-release"},
		world: Options{BizTypes: only("bill", "credit"), Script: func(w *World) {
			for name, again := range map[string]bool{"bill": true, "credit": false} {
				r := w.reserve("a", name, "30s")
				w.settle("b", r, record.Release)
				if got := w.issue("c", name, 1).Runs; slices.Equal(got, r.Runs) != again {
					w.journal.Find("%v of %s was released, and then %v was issued", r.Runs, name, got)
				}
			}
		}},
	},
	{
		name: "released after its day", was: "A number that is released after its day stays free, and nobody can ever use it.",
		rules: []string{"period-end"},
		world: Options{BizTypes: only("voucher"), Script: func(w *World) {
			w.at(80 * time.Second)
			r, late := w.reserve("a", "voucher", "30s"), w.reserve("a", "voucher", "30s")
			w.issue("b", "voucher", 1)
			w.settle("b", r, record.Release)
			w.at(95 * time.Second) // another day
			w.settle("c", late, record.Release)
			w.issue("c", "voucher", 1)
			w.at(100 * time.Second)
			w.load.CloseBooks(context.Background())
			for _, a := range w.accounts() {
				if a.Period == begins.Format("20060102") && slices.ContainsFunc(a.Gaps, func(g record.Gap) bool { return g.State == record.Released }) {
					w.journal.Find("numbers of a day that has ended are free: %v", a.Gaps)
				}
			}
		}},
	},
	{
		name: "the sequencer changes under load", was: "Some nodes issue from the store while others still issue from the cursor.",
		rules: []string{"epoch-held", "names-epoch", "retire-first"},
		world: Options{Redis: true, BizTypes: only(load.MovingName), Script: func(w *World) {
			var stops []func()
			for _, distance := range []time.Duration{11, 13, 17} {
				stops = append(stops, w.busy(distance*time.Millisecond, load.MovingName, 10))
			}
			w.begin("sequencer-changed", "", "", 2*time.Second)()
			w.begin("sequencer-changed", "", "", 2*time.Second)()
			for _, stop := range stops {
				stop()
			}
		}},
	},
	{
		name: "a machine ID that was freed", was: "The next holder of a machine ID, whose clock is behind, issues times of the last one.",
		rules: []string{"lease-begin"},
		world: Options{BizTypes: only("user"), Script: func(w *World) {
			const ahead = 1400 * time.Millisecond
			a := w.named("a")
			a.restartWith("SEQD_SNOWFLAKE_MACHINEID", "5") // also the next life has it
			a.setClock(ahead)
			w.at(20 * time.Second)
			for range 8 {
				w.issue("a", "user", 10_000)
			}
			a.stop()
			if dir := filepath.Join(w.dir, "a"); os.RemoveAll(dir) != nil || os.Mkdir(dir, 0o700) != nil {
				w.journal.Find("the disk of a cannot be emptied")
			}
			a.setClock(-ahead)
			a.start()
			w.at(20*time.Second + 2*ahead - 10*time.Millisecond)
			for range 16 {
				w.issue("a", "user", 10_000)
			}
			a.setClock(0)
		}},
	},
	{
		name: "two registries", was: "Nodes that lease one machine ID, each in a Redis of its own, issue the same numbers.",
		rules: []string{"registry-named"},
		world: Options{Redis: true, Registry: true, BizTypes: only("user"), Script: func(w *World) {
			defer w.shareMachineID()()
			w.at(20 * time.Second)
			stop := w.busy(50*time.Millisecond, "user", 2000)
			for _, way := range otherRedises {
				w.begin("two-redises", "b", way, 15*time.Second)()
			}
			stop()
		}},
	},
	{
		name: "the registry is changed by force", was: "Nodes went on with leases of the former registry of machine IDs, and issued what others issued under leases of the new one.",
		rules: []string{"registry-named"},
		world: Options{Redis: true, Registry: true, BizTypes: only("user"), Script: func(w *World) {
			defer w.shareMachineID()()
			w.at(20 * time.Second)
			stop := w.busy(50*time.Millisecond, "user", 2000)
			w.issue("a", "user", 1)
			holds, standsBy := "a", "b"
			for _, registry := range []string{"store", "redis", "store", "redis"} {
				resumed := func() {}
				if registry == "redis" { // a node that is suspended renews its lease before it learns of the change
					resumed = w.begin("pause", holds, "", 40*time.Second)
					time.Sleep(time.Second)
					w.meet(holds, "read document feed/", slices.Repeat([]storesim.Fate{{End: storesim.QuestionLost}}, 5)...)
				}
				for !w.try(standsBy, "user", http.MethodPatch, "?force=true", fmt.Sprintf(`{"registry":%q}`, registry)) {
					time.Sleep(time.Second)
				}
				time.Sleep(20 * time.Second)
				w.sayRestored(byHand())
				w.issue(standsBy, "user", 1)
				resumed()
				time.Sleep(10 * time.Second)
				holds, standsBy = standsBy, holds
			}
			stop()
		}},
	},
	{
		name: "a key with two Redis servers", was: "Nodes that keep answers, each in a Redis of its own or one in the store, answer a repeated request twice.",
		rules: []string{"answers-home"},
		world: Options{Redis: true, BizTypes: only("local"), Script: func(w *World) {
			for _, way := range slices.Concat(otherRedises, []string{notAny}) {
				key := "key-" + strings.ReplaceAll(way, " ", "-")
				w.while("another Redis", record.Fault{Redis: true, Unordered: record.Every}, func(f *fault) {
					b := w.named("b")
					b.stop()
					b.useRedis(way)
					b.start()
					w.once("a", "local", key)
					time.Sleep(time.Minute)
					w.ask("b", load.Question{BizType: "local", Key: key})
					b.stop()
					b.useRedis("")
					b.start()
					w.once("b", "local", key)
					time.Sleep(allSettle)
				})
			}
		}},
	},
	{
		name: "an older copy under a sequencer", was: "A node issues below what it has issued, because its store was put back.",
		rules: []string{"take-floor,take-guard"},
		world: Options{BizTypes: only("order"), Script: putBack("order")},
	},
	{
		name: "an older copy of an account", was: "A node issues again what an older copy of its store does not know.",
		rules: []string{"went-back"},
		world: Options{BizTypes: only("bill"), Script: putBack("bill")},
	},
}

// putBack puts the store back to an older copy while nodes run, of which one knows better.
func putBack(bizType string) Script {
	return func(w *World) {
		w.issue("a", bizType, 10)
		w.while("put back", record.Fault{Store: true, StoreBack: true}, func(f *fault) {
			older := w.store.Backup()
			for range 200 {
				w.issue("a", bizType, 10)
			}
			time.Sleep(time.Second)
			w.store.Restore(older, false)
			for range 200 {
				w.ask("a", load.Question{BizType: bizType, Count: 10})
			}
			time.Sleep(time.Minute)
			for range 200 {
				w.ask("a", load.Question{BizType: bizType, Count: 10})
			}
			w.endNodes(false)
			w.raiseAll(f, load.Enough(w.load.Shapes, w.journal.Highest(), w.counters(f)))
			w.onAll((*node).start)
		})
		w.each(func(n string) { w.issue(n, bizType, 10) })
	}
}
