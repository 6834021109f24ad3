//go:build drill

package year

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/seqd/seqd/internal/testing/await"
)

// receiver is where the events of the subscription are sent to.
type receiver struct {
	*httptest.Server

	mu  sync.Mutex // guards got
	got map[string]int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var p struct{ Data struct{ ID string } }
	if json.NewDecoder(req.Body).Decode(&p) != nil || p.Data.ID == "" || req.Header.Get("webhook-signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[p.Data.ID]++
}

// has reports whether an event was received.
func (r *receiver) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[id] > 0
}

// subscribe lets another program have the events of a biz type from now on.
func (y *year) subscribe() string {
	y.receiver = &receiver{got: make(map[string]int)}
	y.receiver.Server = httptest.NewServer(y.receiver)
	y.t.Cleanup(y.receiver.Close)
	y.do(nil, "subscriptions", "put", "books", y.receiver.URL+"/books", "--biz-type", "bill", "--from", "oldest")
	return "signed, to another program"
}

// delivered waits until the receiver has all events so far, whose positions have no hole.
func (y *year) delivered() string {
	type page struct {
		Events []struct {
			Position int64
			ID       string
		}
		Last int64
	}
	read := func(after int64) (p page) {
		status, body := y.ask(fmt.Sprintf("%s/events?bizType=bill&after=%d", y.nodes[0].URL(), after), operatorSecret)
		if err := json.Unmarshal([]byte(body), &p); status != http.StatusOK || err != nil {
			y.t.Fatalf("the events after %d cannot be read: %d %s", after, status, body)
		}
		return p
	}
	after, last := int64(0), read(0).Last
	for after < last {
		before := after
		for _, e := range read(after).Events {
			if after++; e.Position != after {
				y.t.Fatalf("the event at position %d follows the one at %d", e.Position, after-1)
			}
			await.True(y.t, "the receiver has event "+e.ID, func() bool { return y.receiver.has(e.ID) })
		}
		if after == before {
			y.t.Fatalf("no event follows the one at %d, and the last is at %d", after, last)
		}
	}
	return fmt.Sprintf("all of %d were received", after)
}
