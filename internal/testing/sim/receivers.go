package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

const (
	// receiverHost is where events are sent to.
	receiverHost = "127.0.0.40"
	receiverAddr = receiverHost + ":8090"
	// delivered is within what time after the last fault all events are received: an attempt that
	// fails is made again after 5 s, 5 min and 30 min. A node that does not reach the receiver fails
	// often in a short time.
	delivered = 45 * time.Minute
)

// receiver is where the events of subscriptions are sent to, by the path of the subscription.
type receiver struct {
	*World
	server *http.Server

	mu     sync.Mutex // guards what follows
	got    map[string]int
	sends  map[string]string // the host that waits for an answer to an event
	last   string            // the host that sent last
	both   int               // see atOnce
	tried  map[string]int    // how often an event was sent
	answer func(what string, tried int) (status int, after time.Duration)
}

// newReceiver starts a receiver that accepts everything.
func (w *World) newReceiver() (*receiver, error) {
	r := &receiver{World: w, got: make(map[string]int), tried: make(map[string]int), sends: make(map[string]string)}
	r.behaves(http.StatusNoContent, 0)
	listener, err := w.net.Listen(receiverAddr)
	if err != nil {
		return nil, err
	}
	r.server = &http.Server{Handler: r}
	w.serving.Go(func() { _ = r.server.Serve(listener) }) // its error is that it was closed
	return r, nil
}

// behaves sets how the receiver answers, and after what time.
func (r *receiver) behaves(status int, after time.Duration) {
	r.answers(func(string, int) (int, time.Duration) { return status, after })
}

func (r *receiver) answers(answer func(what string, tried int) (int, time.Duration)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var p struct{ Data struct{ ID string } }
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	if err != nil || p.Data.ID == "" || req.Header.Get("webhook-signature") == "" {
		return // it broke off
	}
	what := req.URL.Path + " " + p.Data.ID
	from, _, _ := net.SplitHostPort(req.RemoteAddr)
	r.mu.Lock()
	other := r.sends[what]
	r.sends[what], r.last = from, from
	status, after := r.answer(what, r.tried[what])
	r.tried[what]++
	r.mu.Unlock()
	if other != "" && other != from && !r.disturbed(other) {
		r.mu.Lock()
		r.both++
		r.mu.Unlock()
	}
	select {
	case <-time.After(after):
	case <-req.Context().Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sends, what)
	if status/100 == 2 {
		r.got[what]++
	}
	w.WriteHeader(status)
}

// disturbed reports whether something has happened to the node at a host, or may have, so that an attempt
// of it may wait here that the node has ended, or cannot end.
func (r *receiver) disturbed(host string) bool {
	r.entries.mu.Lock()
	defer r.entries.mu.Unlock()
	since := r.journal.Now() - int64(time.Minute)
	return slices.ContainsFunc(r.entries.all, func(e record.Entry) bool {
		if e.Fault == nil || e.Fault.End != 0 && e.Fault.End < since {
			return false
		}
		i := slices.IndexFunc(r.nodes, func(n *node) bool { return n.name == e.Fault.Target })
		return i < 0 || r.nodes[i].host == host
	})
}

// lastNode returns the name of the node that sent last.
func (r *receiver) lastNode() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if n.host == r.last {
			return n.name
		}
	}
	r.journal.Find("no node has sent anything")
	return r.nodes[0].name
}

// atOnce returns how often two hosts waited for an answer to the same event.
func (r *receiver) atOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.both
}

// subscribe makes a subscription from the first event on, or enables one.
func (w *World) subscribe(name string, bizTypes ...string) {
	body, _ := json.Marshal(map[string]any{"url": "http://" + receiverAddr + "/" + name, "bizTypes": bizTypes, "from": "oldest"}) // it is text
	text := ""
	for i, end := 0, time.Now().Add(settle); time.Now().Before(end); i++ {
		status := 0
		if status, text = w.send(context.Background(), w.load.Nodes[i%len(w.load.Nodes)], http.MethodPut, "/subscriptions/"+name, string(body)); status/100 == 2 {
			return
		}
		time.Sleep(time.Second)
	}
	w.journal.Find("the subscription %s cannot be made: %s", name, text)
}

// receive lets a receiver have all events while faults go on. Now and then it answers that it failed or
// is gone, or it answers too late.
func (w *World) receive() (err error) {
	if w.receiver, err = w.newReceiver(); err != nil {
		return err
	}
	w.receiver.answers(func(what string, tried int) (int, time.Duration) {
		d := w.dice("receiver", what, tried)
		switch {
		case w.over(), tried > 0: // the attempt after the next one would be 5 minutes later
			return http.StatusNoContent, 0
		case d.OneIn(10):
			return http.StatusInternalServerError, 0
		case d.OneIn(40):
			return http.StatusNoContent, 20 * time.Second // that is too late
		case d.OneIn(200):
			return http.StatusGone, 0
		}
		return http.StatusNoContent, time.Duration(d.Below(200)) * time.Millisecond
	})
	w.enable()
	return nil
}

// subscribers are the subscriptions of a world with random load. One has all biz types with events.
func (w *World) subscribers() map[string][]string {
	var all []string
	for _, s := range w.load.Shapes {
		if hasEvents(s) {
			all = append(all, s.Name)
		}
	}
	return map[string][]string{"all": all, "some": all[:2], "one": all[:1]}
}

// enable makes all subscriptions of the world, or enables them.
func (w *World) enable() {
	for name, bizTypes := range w.subscribers() {
		w.subscribe(name, bizTypes...)
	}
}

// checkReceiver checks what the receiver has (V2), and that no two nodes sent for a subscription at once
// (V3).
func (w *World) checkReceiver() {
	r := w.receiver
	if r == nil {
		return
	}
	w.enable()
	end := time.Now().Add(delivered)
	for name, bizTypes := range w.subscribers() {
		w.checkDeliveries(r, end, name, bizTypes...)
	}
	if n := r.atOnce(); n > 0 {
		w.journal.Find("%d times two nodes sent the same event at once", n)
	}
	_ = r.server.Close() // it is in memory
}

// checkDeliveries waits until a receiver has every event of the streams of biz types (V2), until end at
// most.
func (w *World) checkDeliveries(r *receiver, end time.Time, name string, bizTypes ...string) {
	if w.mayHaveLost() {
		return
	}
	var list []event
	for _, bizType := range bizTypes {
		more, _ := w.events(bizType)
		list = append(list, more...)
	}
	missing := 0
	for ; ; time.Sleep(5 * time.Second) {
		missing = 0
		r.mu.Lock()
		for _, e := range list {
			if r.got["/"+name+" "+e.ID] == 0 {
				missing++
			}
		}
		r.mu.Unlock()
		if missing == 0 || time.Now().After(end) {
			break
		}
	}
	if missing > 0 {
		_, state := w.send(context.Background(), w.load.Nodes[0], http.MethodGet, "/subscriptions/"+name, "")
		w.journal.Find("the receiver of %s lacks %d of %d events of %v: %s", name, missing, len(list), bizTypes, state)
	}
	twice := 0
	r.mu.Lock()
	defer r.mu.Unlock()
	for what, n := range r.got {
		if n > 1 && strings.HasPrefix(what, "/"+name+" ") {
			twice++
		}
	}
	fmt.Fprintf(w.options.Say, "the receiver of %s has %d events, %d of them more than once\n", name, len(list), twice)
}
