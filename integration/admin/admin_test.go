// Package admin tests changes of biz types while several nodes issue them.
package admin

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// system is a store, a Redis and three nodes. The last node has its own link to Redis.
type system struct {
	*testing.T
	mongo *testenv.Mongo
	redis *testenv.Redis
	link  *testenv.Link
	env   []string
	nodes []*node.Node
}

func newSystem(t *testing.T) *system {
	t.Parallel()
	s := &system{T: t, mongo: testenv.StartMongo(t), redis: testenv.StartRedis(t)}
	s.link = testenv.NewLink(t, s.redis.Addr())
	s.env = []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + s.mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + s.mongo.Database(), `SEQD_BIZTYPES=[{"name":"order","step":100}]`,
	}
	for _, addr := range []string{s.redis.Addr(), s.redis.Addr(), s.link.Addr()} {
		s.nodes = append(s.nodes, node.StartReady(t, t.TempDir(), append(slices.Clone(s.env), "SEQD_REDIS_ADDRS="+addr)...))
	}
	t.Cleanup(func() {
		for i, n := range s.nodes {
			if t.Failed() {
				log := n.Log()
				t.Logf("node %d:\n%s", i, log[max(0, len(log)-6000):])
			}
		}
	})
	return s
}

// do sends a request to a node and fails unless the answer has this status.
func (s *system) do(n *node.Node, want int, method, path, body string, headers ...string) node.Answer {
	s.Helper()
	a, err := n.Do(method, path, body, headers...)
	if err != nil || a.Status != want {
		s.Fatalf("%s %s %s: %d, %v, want %d: %s", method, path, body, a.Status, err, want, a.Body)
	}
	return a
}

// client returns a client of one node. It asks once and does not wait.
func (s *system) client(n *node.Node) *client.Client {
	s.Helper()
	c, err := client.New(client.Config{Addrs: []string{n.URL}, Wait: -1})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.CloseIdleConnections)
	return c
}

// issues reports whether a node issues numbers of a biz type.
func (s *system) issues(c *client.Client, name string) bool {
	_, err := c.Next(s.Context(), name)
	return err == nil
}

// rejects reports whether a node rejects requests for numbers of a biz type with this code.
func (s *system) rejects(c *client.Client, name string, code client.Code) bool {
	_, err := c.Next(s.Context(), name)
	return errors.Is(err, code)
}

// A change on one node reaches all nodes. The test logs how long that takes, from before the
// request until the last node obeys.
func TestChangesReachEveryNode(t *testing.T) {
	s := newSystem(t)
	var clients []*client.Client
	for _, n := range s.nodes {
		clients = append(clients, s.client(n))
	}
	var took []time.Duration
	for i := range 50 {
		change := func(action string, seen func(*client.Client) bool) {
			began := time.Now()
			s.do(s.nodes[i%3], http.StatusOK, "POST", "/biz-types/order/"+action, "")
			for _, c := range clients {
				await.True(s, action+" is everywhere", func() bool { return seen(c) })
			}
			took = append(took, time.Since(began))
		}
		change("disable", func(c *client.Client) bool { return s.rejects(c, "order", client.ErrDisabled) })
		change("enable", func(c *client.Client) bool { return s.issues(c, "order") })
	}
	slices.Sort(took)
	t.Logf("%d changes on 3 nodes by Redis: median %s, slowest %s", len(took), took[len(took)/2], took[len(took)-1])
	// A new biz type exists on all nodes, and every number of it is issued once.
	s.do(s.nodes[1], http.StatusCreated, "PUT", "/biz-types/new", `{"start":7}`)
	seen := map[string]bool{}
	for _, c := range clients {
		await.True(s, "new is everywhere", func() bool { return s.issues(c, "new") })
		for range 5 {
			id, err := c.Next(t.Context(), "new")
			if err != nil || seen[id] {
				t.Errorf("%s twice, or %v", id, err)
			}
			seen[id] = true
		}
	}
}

// A node that is cut off from Redis during a change finds the change in the store.
func TestChangeWithoutRedis(t *testing.T) {
	s := newSystem(t)
	s.link.Cut()
	s.do(s.nodes[0], http.StatusCreated, "PUT", "/biz-types/late", `{"ordering":"per-node"}`)
	began := time.Now()
	first, last := s.client(s.nodes[0]), s.client(s.nodes[2])
	await.True(s, "the change is seen", func() bool { return s.issues(last, "late") })
	t.Logf("seen after %s", time.Since(began))
	s.do(s.nodes[2], http.StatusOK, "POST", "/biz-types/late/disable", "")
	await.True(s, "the change is seen", func() bool { return s.rejects(first, "late", client.ErrDisabled) })
}

// If all nodes change one version at once, exactly one change succeeds.
func TestConcurrentChanges(t *testing.T) {
	s := newSystem(t)
	s.do(s.nodes[0], http.StatusCreated, "PUT", "/biz-types/fought", `{}`)
	const rounds, callers = 10, 4
	for round := range rounds {
		version := strconv.Itoa(round + 1)
		var wg sync.WaitGroup
		var mu sync.Mutex
		answers := map[int]int{}
		for i := range callers * len(s.nodes) {
			wg.Go(func() {
				a, err := s.nodes[i%len(s.nodes)].Do("PUT", "/biz-types/fought", fmt.Sprintf(`{"step":%d}`, 1+round*100+i), "If-Match", `"`+version+`"`)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				answers[a.Status]++
			})
		}
		wg.Wait()
		if answers[http.StatusOK] != 1 || answers[http.StatusOK]+answers[http.StatusPreconditionFailed] != callers*len(s.nodes) {
			t.Fatalf("version %s: %v, want one 200 and 412 for all others", version, answers)
		}
	}
}

// While the store is away, nodes issue numbers and changes get 503. Afterwards everything works.
func TestStoreAway(t *testing.T) {
	longtest.Only(t)
	s := newSystem(t)
	for _, n := range s.nodes[:2] { // a node that has never issued does not know the current epoch
		s.do(n, http.StatusOK, "GET", "/seq/order", "")
	}
	s.mongo.Kill()
	for _, request := range []struct{ method, path, body string }{
		{"GET", "/biz-types", ""}, {"GET", "/biz-types/order", ""}, {"PUT", "/biz-types/order", "{}"}, {"PATCH", "/biz-types/order", "{}"},
		{"DELETE", "/biz-types/order", ""}, {"POST", "/biz-types/order/disable", ""},
	} {
		a := s.do(s.nodes[0], http.StatusServiceUnavailable, request.method, request.path, request.body)
		if !strings.Contains(a.Body, `"store_unavailable"`) || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %s, %v", request.method, request.path, a.Body, a.Header)
		}
		s.do(s.nodes[1], http.StatusOK, "GET", "/seq/order", "")
	}
	if a := s.do(s.nodes[0], http.StatusOK, "GET", "/nodes", ""); !strings.Contains(a.Body, `"complete":false`) || !strings.Contains(a.Body, `"away"`) {
		t.Errorf("nodes: %s", a.Body)
	}
	s.mongo.Restart()
	await.True(s, "the store is back", func() bool {
		a, err := s.nodes[0].Do("PUT", "/biz-types/back", "{}")
		return err == nil && a.Status == http.StatusCreated
	})
	last := s.client(s.nodes[2])
	await.True(s, "the change is seen", func() bool { return s.issues(last, "back") })
}

// All nodes are in the list with their details. A node that ended is not.
func TestNodes(t *testing.T) {
	s := newSystem(t)
	first := admin.New(s.client(s.nodes[0]))
	list := func() (ids []string, self int) {
		nodes, complete, err := first.Nodes(t.Context())
		if err != nil || !complete {
			t.Logf("nodes: %+v, %v, %v", nodes, complete, err) // a look may have taken too long
			return nil, 0
		}
		for _, n := range nodes {
			if n.BizTypes != 1 || n.Backends["store"].State != "ok" || n.Backends["redis"].State != "ok" {
				t.Logf("nodes: %+v", nodes)
				return nil, 0
			}
			if n.Self {
				self++
			}
			ids = append(ids, n.ID)
		}
		return ids, self
	}
	await.True(s, "three nodes", func() bool { ids, self := list(); return len(ids) == 3 && self == 1 })
	if err := s.nodes[1].End(); err != nil {
		t.Error(err)
	}
	await.True(s, "two nodes", func() bool { ids, _ := list(); return len(ids) == 2 })
}

// Each node shows what all of them issue. What a node issued that was killed stays.
func TestOverview(t *testing.T) {
	s := newSystem(t)
	var clients []*client.Client
	for _, n := range s.nodes {
		clients = append(clients, s.client(n))
	}
	issued := func(o admin.Overview) (sum float64) {
		for _, v := range o.Numbers {
			if v != nil {
				sum += *v * float64(o.Interval)
			}
		}
		return sum
	}
	overview := func(i int) (o admin.Overview) {
		await.True(s, "a whole overview", func() (whole bool) {
			var err error
			o, err = admin.New(clients[i]).Overview(t.Context())
			return err == nil && o.Complete && o.Metrics
		})
		return o
	}
	reported := func(n admin.OverviewNode) bool { return n.Figures != nil && n.State == "ready" }
	await.True(s, "all nodes have figures", func() bool {
		return !slices.ContainsFunc(s.nodes, func(n *node.Node) bool {
			list := overview(slices.Index(s.nodes, n)).Nodes
			return len(list) != 3 || slices.ContainsFunc(list, func(n admin.OverviewNode) bool { return !reported(n) })
		})
	})
	const each = 700
	taken, shown := 0.0, 0.0 // shown by all nodes
	// A node that gets no processor for longer than a slot shows less than it has issued: then again.
	for end := time.Now().Add(await.Patience); shown < 3*each*0.9 && time.Now().Before(end); {
		before := issued(overview(0))
		for _, n := range s.nodes {
			if _, err := n.Take("order", each); err != nil {
				t.Fatal(err)
			}
		}
		taken += 3 * each
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && shown < 3*each*0.9; time.Sleep(100 * time.Millisecond) {
			shown = math.Inf(1)
			for i := range s.nodes {
				now := issued(overview(i))
				shown = min(shown, now-before)
				if now > taken*1.1 {
					t.Fatalf("node %d shows %v numbers, and %v were taken", i, now, taken)
				}
			}
		}
	}
	if shown < 3*each*0.9 {
		t.Fatalf("all nodes show %v of the last %d numbers", shown, 3*each)
	}
	if !longtest.Tests() {
		return
	}
	s.nodes[2].Kill()
	await.True(s, "a node is gone", func() bool {
		return slices.ContainsFunc(overview(0).Nodes, func(n admin.OverviewNode) bool { return n.State == "gone" })
	})
	if o := overview(1); len(o.Nodes) != 3 || issued(o) < 3*each*0.9 {
		t.Errorf("after a node was killed: %v numbers, %+v", issued(o), o.Nodes)
	}
}

// Definitions are changed, disabled, deleted and created again under load on all nodes. No number
// is issued twice, strict order holds over all nodes, and calls fail only for the expected reason.
func TestChangesUnderLoad(t *testing.T) {
	s := newSystem(t)
	h := ordercheck.New()
	var traffic []*node.Traffic
	for i, n := range s.nodes {
		traffic = append(traffic, node.StartTraffic(n, "order", h, fmt.Sprint("node-", i), node.Pace{Callers: 3, Pause: 2 * time.Millisecond, Largest: 40}))
	}
	more := func(tr *node.Traffic) { tr.More(t, 200) }
	for round := range 6 {
		s.do(s.nodes[round%3], http.StatusOK, "PATCH", "/biz-types/order", fmt.Sprintf(`{"step":%d}`, 50+round))
		more(traffic[0])
		s.do(s.nodes[(round+1)%3], http.StatusNoContent, "DELETE", "/biz-types/order", "")
		s.do(s.nodes[(round+2)%3], http.StatusCreated, "PUT", "/biz-types/order", `{"start":1,"step":100}`)
		more(traffic[1])
		s.do(s.nodes[round%3], http.StatusOK, "POST", "/biz-types/order/disable", "")
		s.do(s.nodes[(round+1)%3], http.StatusOK, "POST", "/biz-types/order/enable", "")
		more(traffic[2])
	}
	highest := h.Highest()
	raised := highest + 100_000
	s.do(s.nodes[0], http.StatusOK, "PATCH", "/biz-types/order", fmt.Sprintf(`{"start":%d}`, raised))
	for i, n := range s.nodes {
		await.True(s, fmt.Sprintf("node %d is above %d", i, raised), func() bool {
			numbers, err := n.Take("order", 1)
			return err == nil && numbers[0] >= raised
		})
	}
	for _, tr := range traffic {
		more(tr)
		tr.Stop()
	}
	if err := errors.Join(h.Duplicates(), h.Order()); err != nil {
		t.Error(err)
	}
	for i, tr := range traffic {
		for code, n := range tr.Failures() {
			// starting and timeout: a change took longer than callers wait
			if !slices.Contains([]string{"unknown_biz_type", "disabled", "starting", "timeout"}, code) {
				t.Errorf("node %d: %d times %s", i, n, code)
			}
		}
	}
	// Skipped numbers do not matter, but the highest number must be near what was issued and
	// requested.
	if end := h.Highest(); end > raised+200_000 {
		t.Errorf("the numbers end at %d, far above %d", end, raised)
	}
}

// The ordering, the step and the reserve change under load, also while one node is cut off from
// Redis. No number is issued twice, and the numbers of each node increase.
func TestOrderingChangesUnderLoad(t *testing.T) {
	longtest.Only(t)
	s := newSystem(t)
	h := ordercheck.New()
	var traffic []*node.Traffic
	for i, n := range s.nodes {
		traffic = append(traffic, node.StartTraffic(n, "order", h, fmt.Sprint("node-", i), node.Pace{Callers: 3, Pause: 2 * time.Millisecond, Largest: 40}))
	}
	change := func(round int, patch string) {
		s.do(s.nodes[round%2], http.StatusOK, "PATCH", "/biz-types/order", patch)
		for _, tr := range traffic {
			tr.More(t, 150)
		}
	}
	for round := range 4 {
		change(round, `{"ordering":"per-node"}`)
		s.link.Cut()
		change(round, `{"ordering":"strict","step":50}`)
		change(round, `{"reserveSegments":2}`)
		s.link.Restore()
		change(round+1, `{"reserveSegments":null,"step":100}`)
		change(round, `{"plugins":[{"name":"stats"}]}`)
		change(round, `{"plugins":null}`)
	}
	for _, tr := range traffic {
		tr.Stop()
	}
	if err := h.Duplicates(); err != nil {
		t.Error(err)
	}
	for who, own := range h.Split(func(c ordercheck.Call) string { return strings.Fields(c.Who)[0] }) {
		if err := own.Order(); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	for i, tr := range traffic {
		t.Logf("node %d: %d issued, failures %v", i, tr.Acked(), tr.Failures())
	}
}
