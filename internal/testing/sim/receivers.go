package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// receiverHost is where events are sent to.
	receiverHost = "127.0.0.40"
	receiverAddr = receiverHost + ":8090"
	// delivered is within what time after the last fault all events are received: an attempt that
	// fails is made again after 5 s, 5 min and 30 min.
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
	answer func() (status int, after time.Duration)
}

// newReceiver starts a receiver that accepts everything.
func (w *World) newReceiver() (*receiver, error) {
	r := &receiver{World: w, got: make(map[string]int), sends: make(map[string]string)}
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
	r.answers(func() (int, time.Duration) { return status, after })
}

func (r *receiver) answers(answer func() (int, time.Duration)) {
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
	if other, sends := r.sends[what]; sends && other != from {
		r.both++
	}
	r.sends[what], r.last = from, from
	status, after := r.answer()
	r.mu.Unlock()
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

// subscribe makes a subscription, or enables one.
func (w *World) subscribe(name, bizType string) {
	body := fmt.Sprintf(`{"url":"http://%s/%s","bizTypes":[%q],"from":"oldest"}`, receiverAddr, name, bizType)
	text := ""
	for end := time.Now().Add(settle); time.Now().Before(end); time.Sleep(time.Second) {
		status := 0
		if status, text = w.send(context.Background(), w.load.Nodes[0], http.MethodPut, "/subscriptions/"+name, body); status/100 == 2 {
			return
		}
	}
	w.journal.Find("the subscription %s cannot be made: %s", name, text)
}

// checkDeliveries waits until a receiver has every event of the stream of a biz type (V2).
func (w *World) checkDeliveries(r *receiver, name, bizType string) {
	if w.mayHaveLost() {
		return
	}
	list, _ := w.events(bizType)
	missing := 0
	for end := time.Now().Add(delivered); time.Now().Before(end); time.Sleep(5 * time.Second) {
		missing = 0
		r.mu.Lock()
		for _, e := range list {
			if r.got["/"+name+" "+e.ID] == 0 {
				missing++
			}
		}
		r.mu.Unlock()
		if missing == 0 {
			break
		}
	}
	if missing > 0 {
		w.journal.Find("the receiver of %s lacks %d of %d events of %s", name, missing, len(list), bizType)
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
