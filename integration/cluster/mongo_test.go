// Package cluster tests several nodes that share MongoDB and Redis. The tests break both, and check
// that numbers stay unique and in order.
package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// system is a set of nodes on one MongoDB with order per node.
type system struct {
	t     *testing.T
	mongo *testenv.Mongo
	env   []string
	each  map[string]*ordercheck.Record // by life of a node, whose order must hold
}

func newSystem(t *testing.T, settings ...string) *system {
	s := &system{t: t, mongo: testenv.StartMongo(t), each: make(map[string]*ordercheck.Record)}
	s.env = append([]string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + s.mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + s.mongo.Database(),
		"SEQD_SEGMENT_ORDERING=per-node",
	}, settings...)
	return s
}

func (s *system) start(name string) *node.Node {
	s.each[name] = ordercheck.New()
	return node.StartReady(s.t, s.t.TempDir(), s.env...)
}

// take requests numbers from a node and records the answer.
func (s *system) take(n *node.Node, name string, count int) error {
	began := s.each[name].Now()
	numbers, err := n.Take("order", count)
	if err == nil {
		s.each[name].Add(began, name, numbers)
	}
	return err
}

func (s *system) load(n *node.Node, name string) *node.Load {
	return node.StartLoad(n, "order", s.each[name], name)
}

// check checks every number of every load and call, after all have ended.
func (s *system) check() {
	s.t.Helper()
	all := ordercheck.New()
	for name, h := range s.each {
		if err := h.Check(); err != nil {
			s.t.Errorf("node %s: %v", name, err)
		}
		h.Each(all.AddCall)
	}
	if err := all.Duplicates(); err != nil {
		s.t.Error(err)
	}
	s.t.Logf("%d numbers from %d lives of nodes", all.Numbers(), len(s.each))
}

// Three nodes under load are killed, stopped and started in turn. No number is issued twice, and
// order holds per node.
func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "SEQD_SEGMENT_STEP=200", "SEQD_SEGMENT_MAXSTEP=1000")
	nodes := make([]*node.Node, 3)
	loads := make([]*node.Load, 3)
	start := func(i, life int) {
		name := fmt.Sprintf("%d.%d", i, life)
		nodes[i] = s.start(name)
		loads[i] = s.load(nodes[i], name)
	}
	for i := range nodes {
		start(i, 0)
	}
	for life := 1; life <= 4; life++ {
		for i := range nodes {
			loads[i].Await(t, 500)
			if (life+i)%2 == 0 {
				nodes[i].Kill()
			} else {
				nodes[i].Stop()
			}
			loads[i].Wait()
			start(i, life)
		}
	}
	for i := range nodes {
		nodes[i].Stop()
		loads[i].Wait()
	}
	s.check()
}

// The store dies: the numbers in hand are issued, then requests get 503, and readyz has the reason.
// When the store returns, issuing resumes.
func TestStoreDownAndBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t, "SEQD_SEGMENT_STEP=100", "SEQD_SEGMENT_MAXSTEP=100", "SEQD_SEGMENT_ACQUIRETIMEOUT=200ms", "SEQD_STORE_MONGO_TIMEOUT=500ms")
	a, b := s.start("a"), s.start("b")
	for _, n := range []struct {
		*node.Node
		name string
	}{{a, "a"}, {b, "b"}} {
		// beyond the threshold: buffer 2 is being filled
		if err := s.takeSoon(n.Node, n.name, 50); err != nil {
			t.Fatal(err)
		}
	}
	s.mongo.Kill()
	issued := 0
	for ; issued < 1000; issued++ {
		err := s.take(a, "a", 1)
		if err == nil {
			continue
		}
		if !errors.Is(err, node.ErrStatus) || !strings.Contains(err.Error(), "store_unavailable") && !strings.Contains(err.Error(), `"timeout"`) {
			t.Fatal(err)
		}
		break
	}
	if issued < 50 || issued > 150 {
		t.Errorf("%d numbers were issued without the store, want what was in hand", issued)
	}
	a.Await("/readyz", 503)
	s.mongo.Restart()
	a.Await("/readyz", 200)
	b.Await("/readyz", 200)
	// A node that was not asked meanwhile learns of the outage only now, and then that it is over.
	for name, n := range map[string]*node.Node{"a": a, "b": b} {
		if err := s.takeSoon(n, name, 500); err != nil {
			t.Error(err)
		}
	}
	a.Stop()
	b.Stop()
	s.check()
}

// takeSoon is take that tries again if the store is away, or needs longer than a request waits.
func (s *system) takeSoon(n *node.Node, name string, count int) error {
	return node.Soon(func() error { return s.take(n, name, count) })
}

// A node that starts without the store opens its port, reports why it is not ready, and becomes
// ready when the store is there.
func TestStartWithoutTheStore(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	s.mongo.Kill()
	n := node.Start(t, t.TempDir(), s.env...)
	if status, _ := n.Status("/healthz"); status != 200 {
		t.Errorf("healthz says %d", status)
	}
	if body := n.Await("/seq/order", 503); !strings.Contains(body, "starting") && !strings.Contains(body, "store_unavailable") {
		t.Errorf("refused with %s", body)
	}
	s.mongo.Restart()
	n.Await("/readyz", 200)
	if numbers, err := n.Take("order", 1); err != nil || numbers[0] != 100 {
		t.Errorf("got %v, %v", numbers, err)
	}
	n.Stop()
}

// A clean stop of the only node skips nothing.
func TestCleanStopGivesBack(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	for life := range 3 {
		name := fmt.Sprint(life)
		n := s.start(name)
		if err := s.take(n, name, 7); err != nil {
			t.Fatal(err)
		}
		n.Stop()
		if got, want := s.each[name].Highest(), int64(100+7*(life+1)-1); got != want {
			t.Errorf("life %d ended with %d, want %d", life, got, want)
		}
	}
}
