package sim

import (
	"fmt"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// withEvents is a biz type with events and what else is given.
func withEvents(bizType string) map[string]load.Settings {
	return map[string]load.Settings{bizType: {"events": true}}
}

const writesStream = "update document stream/bill"

// eventTemptations are those of events. What is wrong, the comparison with the ledgers finds at the end.
var eventTemptations = []schedule{
	{
		name: "a reservation that expires", was: "No event told of it.",
		rules: []string{"event-written"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			w.reserve("a", "bill", "1s")
			time.Sleep(10 * time.Second)
			w.issue("b", "bill", 3)
		}},
	},
	{
		name: "the reply to what was published is lost", was: "An event was in the stream twice.",
		rules: []string{"event-once"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			leader := w.follows("a")
			w.issue("a", "bill", 1)
			time.Sleep(10 * time.Second)
			w.meet(leader, writesStream, storesim.Fate{End: storesim.ReplyLost}, storesim.Fate{}, storesim.Fate{End: storesim.ReplyLost})
			for range 3 {
				w.issue("b", "bill", 2)
				time.Sleep(10 * time.Second)
			}
		}},
	},
	{
		name: "a copy that comes late", was: "Events of a counter were in another order, and some were missing.",
		rules: []string{"event-hole"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			w.follows("a")
			w.issue("c", "bill", 1)
			time.Sleep(10 * time.Second)
			w.meet("a", copies, storesim.Fate{Send: 6 * time.Second, Left: true})
			w.issue("a", "bill", 1)
			w.issue("b", "bill", 1)
			time.Sleep(30 * time.Second)
		}},
	},
	{
		name: "the leader is killed while it publishes", was: "An event was in no stream.",
		rules: []string{"event-deleted"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			for i := range 4 {
				leader := w.follows("a")
				w.issue(leader, "bill", 1)
				time.Sleep(10 * time.Second)
				w.meet(leader, writesStream, storesim.Fate{Send: 8 * time.Second, Left: i%2 == 0})
				w.issue(leader, "bill", 1)
				w.met(leader)
				w.issue(leader, "bill", 1) // this write drops what is published now
				w.named(leader).kill(false)
				time.Sleep(10 * time.Second)
				w.named(leader).start()
				w.awaitReady("after the kill")
			}
		}},
	},
	{
		name: "more events than a page has", was: "The first page was nowhere.",
		rules: []string{"event-page"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			for range 300 {
				w.issue("a", "bill", 1)
			}
		}},
	},
	{
		name: "more counters than a stream remembers", was: "It was not known any more how far a counter was, and it waited for ever.",
		rules: []string{"event-source"},
		world: Options{BizTypes: withEvents("rent"), Script: func(w *World) {
			for i := range 450 {
				w.issueOf("a", "rent", fmt.Sprintf("k%d", i), 1)
			}
			time.Sleep(20 * time.Second)
			for i := range 20 {
				w.issueOf("b", "rent", fmt.Sprintf("k%d", i), 1)
			}
		}},
	},
	{
		name: "a leader that is cut off publishes", was: "What it published was in the stream beside what the next one had published.",
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			leader := w.follows("a")
			others := w.withoutNode(leader)
			for range 3 {
				w.issue(others[0], "bill", 1)
			}
			w.cutOffStore(leader, 20*time.Second, func() {
				for range 10 {
					w.issue(others[0], "bill", 1)
					w.issue(others[1], "bill", 1)
					time.Sleep(time.Second)
				}
			})
			w.issue(leader, "bill", 1)
		}},
	},
}

// withoutNode returns the names of the nodes except one.
func (w *World) withoutNode(name string) (others []string) {
	for _, n := range nodeNames {
		if n != name {
			others = append(others, n)
		}
	}
	return others
}
