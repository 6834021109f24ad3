package sim

import (
	"fmt"
	"net/http"
	"time"

	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// receives starts a receiver, and lets it have the events of bill.
func (w *World) receives(names ...string) *receiver {
	r, err := w.newReceiver()
	if err != nil {
		w.journal.Find("no receiver: %v", err)
	}
	for _, name := range names {
		w.subscribe(name, "bill")
	}
	return r
}

// allReceived checks what the receiver has, and ends it.
func (r *receiver) allReceived(names ...string) {
	time.Sleep(10 * time.Second) // until everything is published
	for _, name := range names {
		r.checkDeliveries(r, time.Now().Add(delivered), name, "bill")
	}
	_ = r.server.Close() // it is in memory
}

// receiverTemptations are those of subscriptions.
var receiverTemptations = []schedule{
	{
		name: "the reply to the write of a position is lost", was: "The events up to there were never sent.",
		rules: []string{"delivery-first"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			time.Sleep(10 * time.Second)
			r := w.receives("shop")
			for range 3 {
				w.issue("a", "bill", 1)
				time.Sleep(20 * time.Second)
				w.meet(r.lastNode(), "update document subscription/shop", storesim.Fate{End: storesim.ReplyLost})
				w.issue("b", "bill", 1)
				w.met(r.lastNode())
				time.Sleep(20 * time.Second)
			}
			r.allReceived("shop")
		}},
	},
	{
		name: "a receiver fails, hangs and is gone", was: "It never got what was sent meanwhile.",
		rules: []string{"delivery-kept"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			time.Sleep(10 * time.Second)
			r := w.receives("shop")
			for i, status := range []int{http.StatusInternalServerError, http.StatusFound, http.StatusOK, http.StatusGone} {
				r.behaves(status, time.Duration(i)*10*time.Second)
				w.issue("a", "bill", 2)
				time.Sleep(20 * time.Second)
			}
			r.behaves(http.StatusOK, 0)
			w.subscribe("shop", "bill") // it was disabled
			r.allReceived("shop")
		}},
	},
	{
		name: "the node that sends is killed before the answer", was: "Nobody sent again what it was sending.",
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			time.Sleep(10 * time.Second)
			r := w.receives("shop")
			w.issue("a", "bill", 1)
			time.Sleep(20 * time.Second)
			for range 3 {
				r.behaves(http.StatusOK, 5*time.Second)
				sender := r.lastNode()
				other := w.withoutNode(sender)[0]
				w.issue(other, "bill", 3)
				time.Sleep(4 * time.Second)
				w.named(sender).kill(false)
				r.behaves(http.StatusOK, 0)
				w.issue(other, "bill", 3)
				time.Sleep(20 * time.Second)
				w.named(sender).start()
				w.awaitReady("after the kill")
			}
			r.allReceived("shop")
		}},
	},
	{
		name: "subscriptions move while events are sent", was: "Two nodes sent the same event at once.",
		rules: []string{"one-sender"},
		world: Options{BizTypes: withEvents("bill"), Script: func(w *World) {
			time.Sleep(10 * time.Second)
			var names []string
			for i := range 6 {
				names = append(names, fmt.Sprint("s", i))
			}
			r := w.receives(names...)
			w.named("c").stop()
			time.Sleep(10 * time.Second)
			r.behaves(http.StatusOK, 12*time.Second)
			w.issue("a", "bill", 20)
			for range 10 { // one after the other, because they are of one counter
				w.issue("a", "bill", 1)
			}
			time.Sleep(10 * time.Second)
			w.named("c").start()
			w.awaitReady("after the stop")
			time.Sleep(time.Minute)
			if n := r.atOnce(); n > 0 {
				w.journal.Find("%d times two nodes sent the same event at once", n)
			}
			r.behaves(http.StatusOK, 0)
			r.allReceived(names...)
		}},
	},
}
