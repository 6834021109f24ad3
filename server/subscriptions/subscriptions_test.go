package subscriptions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/terms"
)

// streams are streams in memory.
type streams struct {
	mu     sync.Mutex // guards what follows
	of     map[string][]events.Event
	oldest map[string]int64
}

func (s *streams) Read(_ context.Context, bizType string, after int64, limit int) ([]events.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := max(1, s.oldest[bizType])
	if after == events.Oldest {
		after = oldest - 1
	}
	if after < oldest-1 {
		return nil, &events.GoneError{Oldest: oldest}
	}
	all := s.of[bizType]
	after = min(after, int64(len(all)))
	return all[after:min(int64(len(all)), after+int64(limit))], nil
}

func (s *streams) Last(_ context.Context, bizType string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.of[bizType])), nil
}

// happen adds events of some sources.
func (s *streams) happen(bizType string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		at := int64(len(s.of[bizType])) + 1
		s.of[bizType] = append(s.of[bizType], events.Event{
			Position: at, ID: fmt.Sprintf("%s-%d@1/%d", bizType, at%3, at), Type: []string{"range.issued", "number.void"}[at%2], BizType: bizType,
			At: time.Now().UnixMilli(), Data: json.RawMessage(`{"runs":[[1,2]]}`),
		})
	}
}

// forgets removes the events before a position.
func (s *streams) forgets(bizType string, oldest int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest[bizType] = oldest
}

// receiver is where events are sent to.
type receiver struct {
	mu     sync.Mutex          // guards what follows
	got    map[string][]string // the webhook-ids that an event was received under, by ID of the event
	order  []string            // the IDs of events, as they were received first
	nodes  map[string]bool     // that have sent
	answer func(r *http.Request) (status int, retryAfter string)
	hang   time.Duration
	now    map[string]string // the node that waits for an answer to an event
	both   int               // how often two nodes waited for an answer to the same event
}

func (r *receiver) receive(node string, req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var p struct{ Data events.Event }
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	r.mu.Lock()
	status, after := r.answer(req)
	hang := r.hang
	if other, sends := r.now[req.URL.Host+p.Data.ID]; sends && other != node {
		r.both++
	}
	r.now[req.URL.Host+p.Data.ID], r.nodes[node] = node, true
	if status/100 == 2 {
		if req.URL.Host == "receiver.example" && r.got[p.Data.ID] == nil {
			r.order = append(r.order, p.Data.ID)
		}
		r.got[p.Data.ID] = append(r.got[p.Data.ID], req.Header.Get("webhook-id"))
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.now, req.URL.Host+p.Data.ID)
		r.mu.Unlock()
	}()
	select {
	case <-req.Context().Done():
		return nil, req.Context().Err()
	case <-time.After(hang):
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

func (r *receiver) behaves(hang time.Duration, answer func(r *http.Request) (int, string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang, r.answer = hang, answer
}

func (r *receiver) counts() (received, twice, both int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ids := range r.got {
		if len(ids) > 1 {
			twice++
		}
	}
	return len(r.got), twice, r.both
}

// received returns how often an event was received.
func (r *receiver) received(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got[id])
}

func status(n int) func(*http.Request) (int, string) {
	return func(*http.Request) (int, string) { return n, "" }
}

// cluster is nodes that share a store, and a receiver.
type cluster struct {
	*testing.T
	store *memory.Store
	*streams
	*receiver
	nodes []*node
	// jumped is whether nodes think that a clock has jumped
	jumped atomic.Bool
}

// node is a node, which can be killed.
type node struct {
	*Subscriptions
	cut    atomic.Bool // the store does not answer
	killed atomic.Bool
	loses  atomic.Int64
	work   atomic.Bool // loses the reply to the next write of a work
	slow   atomic.Bool // each update takes 10 ms
	kill   func()
}

// way is the way of a node to the store.
type way struct {
	persist.Documents
	n *node
}

func (w way) do(f func() error) error {
	if w.n.cut.Load() {
		return persist.ErrUnavailable
	}
	err := f()
	if n := w.n.loses.Load(); err == nil && n > 0 && rand.Int64N(n) == 0 {
		return persist.ErrUnavailable // it was written
	}
	return err
}

func (w way) Create(ctx context.Context, d persist.Document) error {
	return w.do(func() error { return w.Documents.Create(ctx, d) })
}

func (w way) Update(ctx context.Context, d persist.Document) error {
	if w.n.slow.Load() {
		time.Sleep(10 * time.Millisecond)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	err := w.do(func() error { return w.Documents.Update(ctx, d) })
	if d.Kind == workKind && w.n.work.CompareAndSwap(true, false) {
		return persist.ErrUnavailable
	}
	return err
}

func (w way) Delete(ctx context.Context, kind, key string, revision int64) error {
	return w.do(func() error { return w.Documents.Delete(ctx, kind, key, revision) })
}

func (w way) Keep(ctx context.Context, list []persist.Document) error {
	return w.do(func() error { return w.Documents.Keep(ctx, list) })
}

func (w way) Read(ctx context.Context, kind, key string) (d persist.Document, err error) {
	err = w.do(func() error { d, err = w.Documents.Read(ctx, kind, key); return err })
	return d, err
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{
		T: t, store: memory.New(time.Now), streams: &streams{of: make(map[string][]events.Event), oldest: make(map[string]int64)},
		receiver: &receiver{got: make(map[string][]string), nodes: make(map[string]bool), now: make(map[string]string), answer: status(204)},
	}
	for range nodes {
		c.node()
	}
	time.Sleep(2 * terms.Life) // until they may take anything
	return c
}

func (c *cluster) node() *node {
	n := new(node)
	name := fmt.Sprint("node", len(c.nodes))
	log := slog.New(slog.DiscardHandler)
	docs := way{c.store.Documents(), n}
	t := terms.New(terms.Options{
		Documents: docs, Shared: true, Node: name, Now: time.Now, Log: log,
		Wanted: func(ctx context.Context) (map[string]string, error) { return n.Wanted(ctx) },
	})
	ctx, cancel := context.WithCancel(c.Context())
	n.Subscriptions = New(Options{
		Documents: docs, Terms: t, Streams: c.streams, Now: time.Now, Log: log, KeepDead: 7 * 24 * time.Hour,
		Past: func(context.Context) (int64, bool, error) { return time.Now().UnixMilli(), !c.jumped.Load(), nil },
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return c.receive(name, r)
		}),
		Publish: func(_ context.Context, _, key string) {
			for _, n := range c.nodes {
				_ = n.Changed(c.Context(), key) // a node that is cut off does not learn of it
			}
		},
	})
	n.kill = func() { n.killed.Store(true); n.cut.Store(true); cancel() }
	c.nodes = append(c.nodes, n)
	var all sync.WaitGroup
	all.Go(func() { t.Run(ctx) })
	all.Go(func() { n.Run(ctx) })
	c.Cleanup(func() { cancel(); all.Wait() })
	return n
}

func any0(int64) error { return nil }

func (c *cluster) put(name string, want admin.SubscriptionRequest) admin.Subscription {
	c.Helper()
	if want.URL == "" {
		want.URL = "https://receiver.example/hook"
	}
	if want.BizTypes == nil {
		want.BizTypes = []string{"invoice"}
	}
	want.Enabled = true
	return must.Get(c.nodes[0].Put(c.Context(), name, want, any0))(c)
}

func (c *cluster) get(name string) admin.Subscription {
	c.Helper()
	return must.Get(c.nodes[0].Get(c.Context(), name))(c)
}

// await waits until so many events were received and none is pending.
func (c *cluster) await(name string, received int) {
	c.Helper()
	for range 2 * 3600 {
		n, _, _ := c.counts()
		if n >= received && c.get(name).State.Pending == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	n, _, _ := c.counts()
	c.Fatalf("%d of %d events are received: %+v", n, received, c.get(name).State)
}

// inOrder finds events of a source that were received before an earlier one.
func (c *cluster) inOrder() {
	c.Helper()
	c.receiver.mu.Lock()
	defer c.receiver.mu.Unlock()
	last := make(map[string]int)
	for _, id := range c.order {
		source, number, _ := strings.Cut(id, "/")
		n := 0
		_, _ = fmt.Sscan(number, &n)
		if n < last[source] {
			c.Errorf("%s is received after %d", id, last[source])
		}
		last[source] = n
	}
}

func TestDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.happen("invoice", 5) // before there is a subscription
		made := c.put("shop", admin.SubscriptionRequest{})
		must.Equal(t, keyOf(made.Secret) != nil, true, "there is a secret")
		c.put("all", admin.SubscriptionRequest{From: "oldest", Types: []string{"number.void"}, URL: "http://other/"})
		c.behaves(100*time.Millisecond, status(200))
		for range 20 {
			c.happen("invoice", 50)
			time.Sleep(300 * time.Millisecond)
		}
		c.await("shop", 1002) // three of the former five are number.void
		c.await("all", 1003)
		c.inOrder()
		ids := 0
		c.receiver.mu.Lock()
		for _, got := range c.got {
			ids += len(got)
		}
		c.receiver.mu.Unlock()
		must.Equal(t, ids, 1000+503, "deliveries") // number.void to both
		s := c.get("shop")
		must.Equal(t, s.Secret, "", "the secret is shown once")
		must.Equal(t, s.State.Positions["invoice"], 1005, "position")
		if _, _, both := c.counts(); both != 0 || s.State.Missed != 0 {
			t.Errorf("%d at once, %+v", both, s.State)
		}
	})
}

// Nodes are killed, cut off and lose replies, and the receiver fails and hangs: every event arrives.
func TestFaults(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				c := newCluster(t, 3)
				c.put("shop", admin.SubscriptionRequest{})
				total := 0
				for range 60 {
					n := r.IntN(30)
					c.happen("invoice", n)
					total += n
					one := c.nodes[1+r.IntN(len(c.nodes)-1)]
					switch r.IntN(7) {
					case 0:
						one.kill()
						c.node()
					case 1:
						one.loses.Store(1 + r.Int64N(4))
					case 2:
						one.cut.Store(!one.cut.Load() || one.killed.Load())
					case 3:
						c.behaves(time.Duration(r.IntN(20))*time.Second, status(500))
					case 4:
						c.behaves(time.Duration(r.IntN(20))*time.Second, status(200))
					case 5:
						c.behaves(0, status(204))
					case 6:
						for _, n := range c.nodes {
							n.loses.Store(0)
						}
					}
					time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				}
				c.behaves(0, status(200))
				for _, n := range c.nodes {
					n.loses.Store(0)
					if !n.killed.Load() {
						n.cut.Store(false)
					}
				}
				c.await("shop", total)
				received, twice, _ := c.counts()
				must.Equal(t, received, total, "received")
				t.Logf("%d of %d events were received more than once", twice, total)
				c.receiver.mu.Lock()
				defer c.receiver.mu.Unlock()
				for id, got := range c.got {
					for _, other := range got {
						must.Equal(t, other, got[0], "webhook-id of "+id)
					}
				}
			})
		})
	}
}

// The reply to the write of a position is lost.
func TestReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{})
		time.Sleep(5 * time.Second)
		c.nodes[0].work.Store(true)
		c.happen("invoice", 10)
		c.await("shop", 10)
		must.Equal(t, c.nodes[0].work.Load(), false, "it is still to be lost")
	})
}

// While a subscription moves, the node that has it waits for its answers, and the other one for the
// work.
func TestOneSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		for i := range 6 {
			c.put(fmt.Sprint("s", i), admin.SubscriptionRequest{BizTypes: []string{fmt.Sprint("b", i)}})
		}
		time.Sleep(5 * time.Second)
		c.behaves(10*time.Second, status(200))
		for i := range 6 {
			c.happen(fmt.Sprint("b", i), 30)
		}
		time.Sleep(5 * time.Second)
		c.node()
		for i := range 6 {
			c.await(fmt.Sprint("s", i), 180)
		}
		received, twice, both := c.counts()
		if len(c.receiver.nodes) != 2 || received != 180 || twice != 0 || both != 0 {
			t.Errorf("%v have sent %d events, %d twice, %d at once", c.receiver.nodes, received, twice, both)
		}
		// Each node has three of them.
		for _, n := range c.nodes {
			must.Equal(t, n.Figures().Subscriptions, 3, "subscriptions")
		}
	})
}

// A node that is killed is replaced within seconds.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3)
		c.put("shop", admin.SubscriptionRequest{})
		c.happen("invoice", 1)
		c.await("shop", 1)
		time.Sleep(2 * pause)
		for i, n := range c.nodes {
			if n.Figures().Subscriptions == 1 {
				n.kill()
				c.nodes = append(c.nodes[:i:i], c.nodes[i+1:]...)
			}
		}
		must.Equal(t, len(c.nodes), 2, "nodes")
		killed := time.Now()
		c.happen("invoice", 1)
		c.await("shop", 2)
		t.Logf("after %s", time.Since(killed))
	})
}

// A node whose session could not be renewed for a moment sends on, whether another session began or the
// same one went on.
func TestInterruptedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{})
		for i := range 40 {
			c.happen("invoice", 1)
			c.await("shop", i+1)
			c.nodes[0].cut.Store(true)
			time.Sleep(time.Second + time.Duration(i)*100*time.Millisecond)
			c.nodes[0].cut.Store(false)
		}
	})
}

// While the session of a node is interrupted, the leader moves works of it to a node that has just
// started. If the same session goes on, its node still owns them, so it must release them.
func TestMovedWhileInterrupted(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2)
			names := []string{"a", "b", "c", "d"}
			for _, name := range names {
				c.put(name, admin.SubscriptionRequest{URL: "https://" + name + ".example/hook"})
			}
			c.happen("invoice", 1)
			time.Sleep(5 * pause)
			for _, n := range c.nodes[1:] {
				n.cut.Store(true)
			}
			c.node()
			time.Sleep(time.Second + time.Duration(i)*100*time.Millisecond)
			c.nodes[1].cut.Store(false)
			time.Sleep(time.Minute)
			c.happen("invoice", 1)
			time.Sleep(time.Minute)
			last := c.received("invoice-2@1/2")
			must.Equal(t, last, len(names), "subscriptions that go on")
		})
	}
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{})
		c.behaves(time.Second, status(302))
		c.happen("invoice", 2)
		time.Sleep(10*time.Second + pause/2) // no answer comes at this instant
		s := c.get("shop").State
		if s.Pending != 2 || s.Dead != 0 || s.Error != "the answer is 302" {
			t.Errorf("%+v", s)
		}
		for doc, err := range persist.EveryDocument(t.Context(), c.store.Documents(), persist.DeliveryKind) { // three days later
			v := must.Get(deliveryIn(doc))(t)
			must.Do(t, err)
			v.Attempts = len(pauses)
			doc.Revision, doc.Body, doc.Expires = doc.Revision+1, text(v), time.Now().Add(time.Second).UnixMilli()
			must.Do(t, c.store.Documents().Update(t.Context(), doc))
		}
		time.Sleep(10 * time.Minute)
		if s = c.get("shop").State; s.Pending != 0 || s.Dead != 2 {
			t.Errorf("%+v", s)
		}
		list, more, err := c.nodes[0].Deliveries(t.Context(), "shop", "dead", "", 1)
		if err != nil || !more || len(list) != 1 || list[0].Attempts != len(pauses)+1 || list[0].Key != "invoice/00000000000000000001" {
			t.Errorf("%+v, %t, %v", list, more, err)
		}
		list, more, err = c.nodes[0].Deliveries(t.Context(), "shop", "", list[0].Key, 1)
		if err != nil || more || len(list) != 1 {
			t.Errorf("%+v, %t, %v", list, more, err)
		}
		c.behaves(0, status(200))
		must.Get(c.nodes[0].Replay(t.Context(), "shop", admin.Replay{Dead: true}))(t)
		c.await("shop", 2)
		must.Equal(t, c.get("shop").State.Dead, 0, "dead")
		// From a position on, all are sent again.
		must.Get(c.nodes[0].Replay(t.Context(), "shop", admin.Replay{BizType: "invoice", From: 2}))(t)
		time.Sleep(10 * time.Second)
		must.Equal(t, c.received("invoice-1@1/1"), 1, "the first one")
		must.Equal(t, c.received("invoice-2@1/2"), 2, "the second one")
		c.forgets("invoice", 2)
		_, err = c.nodes[0].Replay(t.Context(), "shop", admin.Replay{BizType: "invoice", From: 1})
		must.Code(t, err, seqd.CodeEventsGone)
		for _, r := range []admin.Replay{{}, {BizType: "invoice"}, {BizType: "other", From: 1}, {BizType: "invoice", From: 3}} {
			_, err = c.nodes[0].Replay(t.Context(), "shop", r)
			must.Code(t, err, seqd.CodeInvalidRequest)
		}
		// What is dead is removed after its time.
		v := delivery{Version: format, Made: must.Get(c.nodes[0].find(t.Context(), "shop"))(t).Made, Dead: true}
		doc := persist.Document{Kind: persist.DeliveryKind, Key: "shop/invoice/x", Revision: 1, Body: text(v), Expires: time.Now().Add(time.Hour).UnixMilli()}
		must.Do(t, c.store.Documents().Create(t.Context(), doc))
		time.Sleep(50 * time.Minute)
		must.Equal(t, c.get("shop").State.Dead, 1, "dead")
		c.jumped.Store(true)
		time.Sleep(20 * time.Minute)
		must.Equal(t, c.get("shop").State.Dead, 1, "dead")
		c.jumped.Store(false)
		time.Sleep(time.Minute)
		must.Equal(t, c.get("shop").State.Dead, 0, "dead")
	})
}

func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.put("shop", admin.SubscriptionRequest{})
		c.behaves(0, status(410))
		c.happen("invoice", 1)
		time.Sleep(10 * time.Second)
		s := c.get("shop")
		if s.Enabled || s.Reason != whyGone || s.State.Pending != 1 {
			t.Errorf("%+v", s)
		}
		c.happen("invoice", 1)
		c.behaves(0, status(200))
		time.Sleep(time.Hour)
		if n, _, _ := c.counts(); n != 0 {
			t.Errorf("%d are sent", n)
		}
		must.Equal(t, c.put("shop", admin.SubscriptionRequest{}).Reason, "", "reason")
		c.await("shop", 2)
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{})
		c.behaves(0, func(*http.Request) (int, string) { return 503, "100" })
		c.happen("invoice", 1)
		time.Sleep(90 * time.Second)
		c.behaves(0, status(200))
		must.Equal(t, c.get("shop").State.Pending, 1, "pending")
		time.Sleep(15 * time.Second)
		must.Equal(t, c.get("shop").State.Pending, 0, "pending")
	})
}

// A replay of so many that are pending that the store takes longer than a node waits for it.
func TestLongReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{})
		c.behaves(0, status(500))
		c.happen("invoice", mostPending)
		time.Sleep(2 * time.Minute)
		c.behaves(0, status(200))
		c.nodes[0].slow.Store(true)
		must.Get(c.nodes[0].Replay(t.Context(), "shop", admin.Replay{BizType: "invoice", From: 1}))(t)
		time.Sleep(2 * time.Minute)
		n, _, _ := c.counts()
		must.Equal(t, n, mostPending, "received")
	})
}

// A delivery that was written while a clock was ahead does not wait until then.
func TestClockWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		d := must.Get(c.nodes[0].Put(t.Context(), "shop", admin.SubscriptionRequest{URL: "https://receiver.example/", BizTypes: []string{"invoice"}}, any0))(t)
		doc := documentOf(must.Get(c.nodes[0].find(t.Context(), d.Name))(t), events.Event{Position: 1, ID: "invoice@b/1", BizType: "invoice"}, time.Now().AddDate(0, 3, 0))
		must.Do(t, c.store.Documents().Create(t.Context(), doc))
		c.put("shop", admin.SubscriptionRequest{})
		time.Sleep(2 * listPause)
		must.Equal(t, c.received("invoice@b/1"), 1)
	})
}

// A subscription that is made again under the name of another one begins anew.
func TestMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2)
		c.put("shop", admin.SubscriptionRequest{})
		c.behaves(0, status(500))
		c.happen("invoice", 1500)
		time.Sleep(time.Minute)
		must.Equal(t, c.get("shop").State.Pending, mostPending, "pending")
		for again := range 2 {
			refuse := errors.New("another version")
			_, err := c.nodes[1].Delete(t.Context(), "shop", func(int64) error { return refuse })
			must.Equal(t, err != nil, true)
			must.Get(c.nodes[1].Delete(t.Context(), "shop", any0))(t)
			_, err = c.nodes[0].Get(t.Context(), "shop")
			must.Code(t, err, seqd.CodeUnknownSubscription)
			if again == 0 {
				time.Sleep(time.Minute)
			}
			c.put("shop", admin.SubscriptionRequest{})
			c.happen("invoice", 1)
			time.Sleep(time.Minute)
			must.Equal(t, c.get("shop").State.Pending, 1, "pending")
		}
		must.Get(c.nodes[1].Delete(t.Context(), "shop", any0))(t)
		time.Sleep(time.Minute)
		for _, kind := range []string{Kind, workKind, persist.DeliveryKind} {
			must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), kind, "", 10))(t)), 0, kind)
		}
	})
}

// A subscription is made again under the name of another one while that waits for an answer. The
// answer removes nothing of the new one, also if the node learns of both changes at once.
func TestMadeAgainWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.put("shop", admin.SubscriptionRequest{URL: "https://old.example/"})
		got := make(chan string, 100)
		c.behaves(10*time.Second, func(r *http.Request) (int, string) { got <- r.URL.Host; return 200, "" })
		c.happen("invoice", 2)
		time.Sleep(3 * time.Second)
		docs := c.store.Documents()
		other := New(Options{
			Documents: docs, Streams: c.streams, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Terms: terms.New(terms.Options{Documents: docs, Shared: true, Node: "other", Now: time.Now, Log: slog.New(slog.DiscardHandler)}),
		})
		must.Get(other.Delete(t.Context(), "shop", any0))(t)
		want := admin.SubscriptionRequest{URL: "https://new.example/", BizTypes: []string{"invoice"}, From: fromOldest, Enabled: true}
		must.Get(other.Put(t.Context(), "shop", want, any0))(t)
		must.Do(t, c.nodes[0].Changed(t.Context(), "shop"))
		time.Sleep(5 * time.Minute)
		close(got)
		hosts := make(map[string]int)
		for host := range got {
			hosts[host]++
		}
		must.Equal(t, hosts["new.example"], 2, "what the new URL got")
	})
}

func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1)
		c.happen("invoice", 9)
		c.forgets("invoice", 5)
		c.put("old", admin.SubscriptionRequest{From: "oldest"})
		c.await("old", 5)
		must.Equal(t, c.get("old").State.Missed, 0, "missed")
		d := must.Get(c.nodes[0].find(t.Context(), "old"))(t)
		_, err := c.nodes[0].Put(t.Context(), "old", admin.SubscriptionRequest{URL: d.URL, BizTypes: d.BizTypes}, any0) // disabled
		must.Do(t, err)
		c.happen("invoice", 5)
		time.Sleep(time.Minute)
		c.forgets("invoice", 12)
		c.put("old", admin.SubscriptionRequest{})
		c.await("old", 8)
		must.Equal(t, c.get("old").State.Missed, 2, "missed")
	})
}
