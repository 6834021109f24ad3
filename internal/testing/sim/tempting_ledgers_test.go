package sim

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// Operations on the ledger of bill, for [World.meet].
const (
	writesBill  = "update document ledger/bill"
	looksForKey = "read document ledgeranswer/"
	copies      = "keep documents"
)

// ledgerTemptations are those of gapless numbers.
var ledgerTemptations = []schedule{
	{
		name: "confirmed late", was: "A reservation is confirmed after its time.",
		rules: []string{"due"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.at(10*time.Second + 300*time.Millisecond) // the timers of nodes run at other times
			all := make([]*record.Call, 700)            // more than a node reclaims at once
			var under sync.WaitGroup
			for i := range all {
				under.Go(func() { all[i] = w.reserve("a", "bill", "3s") })
			}
			under.Wait()
			time.Sleep(time.Until(time.UnixMilli(all[0].Expires - 10)))
			w.meet("a", writesBill, storesim.Fate{Reply: 50 * time.Millisecond})
			under.Go(func() { w.issue("a", "bill", 1) }) // while that is written, others wait
			time.Sleep(20 * time.Millisecond)
			for _, r := range all[:100] {
				under.Go(func() {
					if c := w.settle("a", r, record.Confirm); c.Status == http.StatusOK {
						w.journal.Find("a reservation is confirmed that has expired: %v", c.Runs)
					}
				})
			}
			under.Wait()
		}},
	},
	{
		name: "nobody was there to confirm", was: "A reservation is reclaimed that could not be confirmed, because all nodes were away.",
		rules: []string{"awake"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			r := w.reserve("a", "bill", "10s")
			w.endNodes(true)
			time.Sleep(20 * time.Second)
			w.onAll((*node).start)
			w.awaitReady("after all were away")
			if c := w.settle("b", r, record.Confirm); c.Status != http.StatusOK {
				w.journal.Find("a reservation cannot be confirmed after all nodes were away: %d %s", c.Status, c.Code)
			}
		}},
	},
	{
		name: "void before it came back", was: "A number that a caller did not wait for comes back, although somebody has made it void meanwhile.",
		rules: []string{"return-issued"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			w.meet("a", writesBill, storesim.Fate{Reply: 1500 * time.Millisecond})
			w.leave("a", load.Question{BizType: "bill"})
			w.load.Void(context.Background(), w.named("b"), &record.Call{BizType: "bill", Runs: record.Runs{{First: 2, Count: 1, Step: 1}}})
			time.Sleep(2 * time.Second)
			w.issue("c", "bill", 1)
		}},
	},
	{
		name: "an answer that left the ledger meanwhile", was: "A key gets a second number, because its answer was added and left the ledger while a node looked for it.",
		rules: []string{"dropped"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			w.meet("a", looksForKey, storesim.Fate{Reply: 1500 * time.Millisecond})
			var under sync.WaitGroup
			under.Go(func() { w.once("a", "bill", "key") })
			time.Sleep(100 * time.Millisecond)
			w.once("b", "bill", "key")
			time.Sleep(500 * time.Millisecond) // it is copied
			w.issue("b", "bill", 1)
			under.Wait()
		}},
	},
	{
		name: "a write whose answer is lost", was: "Numbers are issued, and nobody is told.",
		rules: []string{"writers"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			w.meet("a", writesBill, storesim.Fate{End: storesim.ReplyLost})
			w.issue("a", "bill", 1)
		}},
	},
	{
		name: "a write that comes late", was: "Numbers are issued, and nobody is told.",
		rules: []string{"same-bytes"},
		world: Options{BizTypes: patient("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			w.meet("a", writesBill, storesim.Fate{Send: 2500 * time.Millisecond, Left: true}, storesim.Fate{Send: time.Second})
			w.issue("a", "bill", 1)
		}},
	},
	{
		name: "more writers than a ledger remembers", was: "Numbers are issued, and nobody is told.",
		rules: []string{"evicted"},
		world: Options{BizTypes: map[string]load.Settings{"rent": {"liveKeys": 1, "acquireTimeout": "10s"}}, Script: func(w *World) {
			const counter = "document ledger/rent/t1"
			w.issueOf("a", "rent", "t1", 1)
			w.meet("a", "update "+counter, storesim.Fate{End: storesim.ReplyLost})
			w.meet("a", "read "+counter, storesim.Fate{Send: 1900 * time.Millisecond})
			var under sync.WaitGroup
			under.Go(func() { w.ask("a", load.Question{BizType: "rent", Of: "t1"}) })
			time.Sleep(50 * time.Millisecond)
			for _, n := range []string{"b", "c"} {
				under.Go(func() {
					for range 50 { // it opens the counter each time, and is another writer
						w.issueOf(n, "rent", "t1", 1)
						w.issueOf(n, "rent", "t2", 1)
					}
				})
			}
			under.Wait()
		}},
	},
	{
		name: "killed before it copied an answer", was: "A key gets a second number, because its answer left the ledger before it was in the records.",
		rules: []string{"copied-first"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.meet("a", copies, storesim.Fate{Send: 1900 * time.Millisecond})
			w.once("a", "bill", "key")
			time.Sleep(500 * time.Millisecond)
			w.issue("a", "bill", 1)
			w.named("a").kill(false)
			w.once("b", "bill", "key")
			w.named("a").start()
		}},
	},
	{
		name: "a caller who left", was: "The number of a caller who did not wait does not come back.",
		rules: []string{"undo"},
		world: Options{BizTypes: only("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			w.meet("a", writesBill, storesim.Fate{Reply: 100 * time.Millisecond})
			w.leave("a", load.Question{BizType: "bill"})
			time.Sleep(time.Second)
			if got := w.issue("b", "bill", 1).Runs; got[0].First != 2 {
				w.journal.Find("%v was issued, and 2 was told nobody", got)
			}
		}},
	},
	{
		name: "copied after a failover", was: "A number of what a failover lost is told to a key, and somebody else has it.",
		rules: []string{"history"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.loseAnswer("a", "bill", "", func() {})
			w.raiseTo("bill", 1)
			w.issue("b", "bill", 1)
			time.Sleep(time.Second) // a copies what was lost
			w.once("c", "bill", "key")
		}},
	},
	{
		name: "remembered after a failover", was: "A number of what a failover lost is told to a key, and somebody else has it.",
		rules: []string{"known"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.loseAnswer("a", "bill", "", func() {})
			w.raiseTo("bill", 1)
			w.issue("b", "bill", 1)
			w.once("a", "bill", "key")
		}},
	},
	{
		name: "found before a failover", was: "A number of what a failover lost is told to a key, and somebody else has it.",
		rules: []string{"look-era"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("rent"), Script: func(w *World) {
			w.issueOf("c", "rent", "t1", 1)
			var under sync.WaitGroup
			w.loseAnswer("a", "rent", "t1", func() {
				time.Sleep(500 * time.Millisecond) // it is copied
				w.meet("c", looksForKey, storesim.Fate{Reply: 1500 * time.Millisecond})
				under.Go(func() { w.ask("c", load.Question{BizType: "rent", Of: "t1", Key: "key"}) })
				time.Sleep(10 * time.Millisecond)
			})
			w.raiseTo("rent/t1", 2)
			w.issueOf("b", "rent", "t1", 1)
			w.issueOf("c", "rent", "t2", 1) // which shows it the failover
			under.Wait()
		}},
	},
	{
		name: "a write of what a failover lost", was: "A write that was under way in a failover replaces what an operator has raised.",
		rules: []string{"ledger-fence,lineage"},
		world: Options{Mode: storesim.Lossy, BizTypes: patient("bill"), Script: func(w *World) {
			w.issue("a", "bill", 1)
			var under sync.WaitGroup
			w.losing(func() {
				w.issue("a", "bill", 1)
				w.meet("a", writesBill, storesim.Fate{End: storesim.QuestionLost})
				w.meet("a", "read document ledger/bill", storesim.Fate{End: storesim.QuestionLost, Reply: time.Second})
				under.Go(func() { w.issue("a", "bill", 1) })
				time.Sleep(100 * time.Millisecond)
				w.issue("b", "bill", 3)
			})
			w.raiseTo("bill", 5)
			under.Wait()
			w.issue("c", "bill", 1)
		}},
	},
	{
		name: "a record above the ledger", was: "A node that does not know of a failover yet tells a number that was lost.",
		rules: []string{"ahead"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("bill"), Script: func(w *World) {
			w.issue("c", "bill", 1)
			w.loseAnswer("a", "bill", "", func() {})
			time.Sleep(time.Second) // a copies what was lost
			w.ask("c", load.Question{BizType: "bill", Key: "key"})
			w.raiseTo("bill", 2)
			w.issue("b", "bill", 1)
		}},
	},
}

// patient is a gapless biz type whose callers wait long.
func patient(name string) map[string]load.Settings {
	return map[string]load.Settings{name: {"acquireTimeout": "10s"}}
}

// loseAnswer lets a failover lose the answer to a key, which its caller did not wait for. Before that,
// it does something else.
func (w *World) loseAnswer(node, bizType, of string, also func()) {
	w.issueOf(node, bizType, of, 1)
	w.losing(func() {
		w.meet(node, "update document ledger/"+bizType, storesim.Fate{Reply: 50 * time.Millisecond})
		w.leave(node, load.Question{BizType: bizType, Of: of, Key: "key"})
		time.Sleep(50 * time.Millisecond)
		also()
	})
}

// losing does something that a failover of the store then loses.
func (w *World) losing(do func()) {
	w.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) {
		w.store.SetLag(mayLack)
		do()
		w.store.Failover(false)
		w.store.SetLag(0)
	})
}

// raiseTo is what an operator does after a failover that lost something.
func (w *World) raiseTo(counter string, number int64) {
	f := byHand()
	w.raiseAll(f, map[string]int64{counter: number})
	w.confirm(f)
}
