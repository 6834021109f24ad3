package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// sequencedStores are the stores that keep strict order themselves, each with the environment of a
// node that uses it.
var sequencedStores = map[string]func(t *testing.T) []string{
	"mongo": func(t *testing.T) []string {
		m := testenv.StartMongo(t)
		return []string{"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + m.URI(), "SEQD_STORE_MONGO_DATABASE=" + m.Database()}
	},
	"postgres": func(t *testing.T) []string {
		return []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL()}
	},
	"mysql": func(t *testing.T) []string {
		return []string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + testenv.StartMariaDB(t).DSN()}
	},
}

// Three nodes have nothing but a store. They are killed and stopped under load, in turn. Numbers
// are in strict order over all nodes throughout, and what is skipped was in flight when a node was
// killed.
func TestStrictFromTheStore(t *testing.T) {
	for name, start := range sequencedStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(start(t), `SEQD_BIZTYPES=[{"name":"order"}]`)
			h := ordercheck.New()
			nodes, loads := make([]*node.Node, 3), make([]*node.Load, 3)
			begin := func(i, life int) {
				nodes[i] = node.StartReady(t, t.TempDir(), env...)
				loads[i] = node.StartLoad(nodes[i], "order", h, fmt.Sprintf("%d.%d", i, life))
			}
			for i := range nodes {
				begin(i, 0)
			}
			kills := 0
			for life := 1; life <= longtest.Or(2, 6); life++ {
				for i := range nodes {
					loads[i].Await(t, 500)
					if (life+i)%3 == 0 {
						nodes[i].Stop()
					} else {
						nodes[i].Kill()
						kills++
					}
					loads[i].Wait()
					begin(i, life)
				}
			}
			for i := range nodes {
				loads[i].Await(t, 100)
				nodes[i].Stop()
				loads[i].Wait()
			}
			if err := h.Check(); err != nil {
				t.Error(err)
			}
			// A node has one take in flight, and callers who joined the next one; a stop refuses
			// none of them, but a caller may not get the answer.
			skipped := h.Highest() - int64(h.Numbers())
			if most := int64((kills + 3) * 2 * node.Callers * 50); skipped < 0 || skipped > most {
				t.Errorf("%d numbers were skipped, more than were in flight at %d kills", skipped, kills)
			}
			t.Logf("%d numbers, %d skipped by %d kills", h.Numbers(), skipped, kills)
		})
	}
}

// The store is killed under load. Callers are refused, nodes are not ready, and both are back by
// themselves, with the next numbers.
func TestStoreAwayWhileItSequences(t *testing.T) {
	s := newRelay(t, `[{"name":"order"}]`, "SEQD_STORE_MONGO_TIMEOUT=500ms", "SEQD_SEGMENT_ACQUIRETIMEOUT=300ms")
	nodes := []*process{s.start(), s.start()}
	ready := func(p *process, want int) {
		t.Helper()
		await.True(s, fmt.Sprintf("readyz of %s answers %d", p.life, want), func() bool {
			a, err := p.Do("GET", "/readyz", "")
			return err == nil && a.Status == want
		})
	}
	for range longtest.Or(2, 5) {
		for _, p := range nodes {
			p.take(50)
		}
		s.mongo.Kill()
		for _, p := range nodes {
			p.do(http.StatusServiceUnavailable, "GET", "/seq/order", "")
			ready(p, http.StatusServiceUnavailable)
		}
		s.mongo.Restart()
		for _, p := range nodes {
			ready(p, http.StatusOK) // although nobody asks for numbers
		}
	}
	// what a take that timed out has taken is skipped
	await.True(t, "one continues the other", func() bool {
		last := nodes[0].take(1)
		return nodes[1].take(1) == last+1
	})
	s.check()
}

// The sequencer changes by the API, between Redis and the store and there and back, under load on
// two nodes. Each node applies a change in its own time. The order holds throughout.
func TestSequencerChangesLive(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order","step":100,"maxStep":1000}]`, redisAt(r.Addr()))
	nodes := []*process{s.start(), s.start()}
	done := make(chan struct{})
	ended := make(chan error)
	const callers = 8
	for i := range callers {
		go func() { ended <- s.ask(nodes[i%2], i, done) }()
	}
	more := func() {
		t.Helper()
		want := s.history.Numbers() + 1000
		await.True(t, fmt.Sprintf("%d numbers are issued", want), func() bool { return s.history.Numbers() >= want })
	}
	for _, sequencer := range []string{"store", "redis", "store", "auto", "redis"} {
		more()
		s.change(`{"sequencer":"`+sequencer+`"}`, nodes...)
	}
	more()
	close(done)
	for range callers {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d numbers", s.history.Numbers())
	s.check()
}

// ask asks a node for numbers until done is closed. A request that comes while the nodes have
// different definitions may be refused.
func (s *relay) ask(p *process, caller int, done chan struct{}) error {
	for {
		select {
		case <-done:
			return nil
		default:
		}
		began := s.history.Now()
		ids, err := p.Take(s.bizType, 1+caller)
		switch {
		case err == nil:
			s.history.Add(began, p.life, ids)
		case strings.Contains(err.Error(), `"starting"`):
			time.Sleep(10 * time.Millisecond)
		default:
			return err
		}
	}
}

// A node without Redis refuses a counter that a cursor in Redis sequences, and says what to do; a
// change of the definition solves it.
func TestCursorAndNoRedis(t *testing.T) {
	r := testenv.StartRedis(t)
	s := newRelay(t, `[{"name":"order"}]`)
	a := s.start(redisAt(r.Addr()))
	a.take(10)
	a.Stop()
	b := &process{Node: node.Start(s.T, s.TempDir(), s.env...), relay: s, life: "without Redis"}
	await.True(s, "the node answers", func() bool {
		answer, err := b.Do("GET", "/seq/order", "")
		return err == nil && answer.Status == http.StatusConflict && strings.Contains(answer.Body, "redis.addrs")
	})
	b.do(http.StatusServiceUnavailable, "GET", "/readyz", "")
	b.do(http.StatusOK, "PATCH", "/biz-types/order", `{"sequencer":"store"}`)
	b.take(10)
	await.True(s, "the node is ready", func() bool {
		answer, err := b.Do("GET", "/readyz", "")
		return err == nil && answer.Status == http.StatusOK
	})
	s.check()
}
