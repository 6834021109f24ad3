package terms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// cluster is a store that nodes share.
type cluster struct {
	*testing.T
	documents persist.Documents
	// coordinator has the sessions; it is the store unless the nodes have another one.
	coordinator persist.Documents
	fence       atomic.Pointer[string] // of the store, if there is a coordinator
	ops         atomic.Int64           // of all nodes, except questions for the fence
}

func newCluster(t *testing.T) *cluster {
	d := memory.New(time.Now).Documents()
	c := &cluster{T: t, documents: d, coordinator: d}
	c.fence.Store(new("first"))
	return c
}

// node is Terms whose way to the store can be cut, and whose machine can be suspended.
type node struct {
	*Terms
	end func()

	cut       atomic.Bool  // neither the store nor the coordinator answers
	suspended atomic.Int64 // for how long, in all
	// What follows is used if sessions are in a coordinator.
	c         *cluster
	storeCut  atomic.Bool           // the store does not answer
	elsewhere atomic.Pointer[error] // see Options
}

// way is the way of a node to the store.
type way struct {
	persist.Documents
	c *cluster
	n *node
}

func (w way) pass() error {
	w.c.ops.Add(1)
	if w.n.cut.Load() {
		return persist.ErrUnavailable
	}
	return nil
}

func (w way) Create(ctx context.Context, d persist.Document) error {
	return errors.Join(w.pass(), ctx.Err(), w.then(func() error { return w.Documents.Create(ctx, d) }))
}

func (w way) Update(ctx context.Context, d persist.Document) error {
	return errors.Join(w.pass(), w.then(func() error { return w.Documents.Update(ctx, d) }))
}

func (w way) Delete(ctx context.Context, kind, key string, revision int64) error {
	return errors.Join(w.pass(), w.then(func() error { return w.Documents.Delete(ctx, kind, key, revision) }))
}

func (w way) Read(ctx context.Context, kind, key string) (d persist.Document, err error) {
	if err := w.pass(); err != nil {
		return d, err
	}
	if d, err = w.Documents.Read(ctx, kind, key); err == nil && kind == "nodesession" && d.Body == "" { // as a coordinator does
		err = persist.ErrInvalid
	}
	return d, err
}

func (w way) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if err := w.pass(); err != nil {
		return nil, err
	}
	return w.Documents.List(ctx, kind, after, limit)
}

func (w way) then(do func() error) error {
	if w.n.cut.Load() {
		return nil // pass has said so
	}
	return do()
}

// simulate runs a test with so many nodes, a, b and so on, of which each began a second after the
// one before. It does so twice: with sessions in the store, and in a coordinator.
func simulate(t *testing.T, nodes int, test func(t *testing.T, c *cluster, n []*node)) {
	t.Run("store", func(t *testing.T) { simulateIn(t, nodes, false, test) })
	t.Run("coordinator", func(t *testing.T) { simulateIn(t, nodes, true, test) })
}

func simulateIn(t *testing.T, nodes int, apart bool, test func(t *testing.T, c *cluster, n []*node)) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		if apart {
			c.coordinator = memory.New(time.Now).Documents()
		}
		var all []*node
		for i := range nodes {
			all = append(all, c.start(string(rune('a'+i)), nil))
			time.Sleep(time.Second)
		}
		c.sleep(5 * time.Second)
		test(t, c, all)
		for _, n := range all {
			n.end()
		}
		left := must.Get(c.coordinator.List(t.Context(), kind, "", 10))(t)
		must.Equal(t, len(left), 0, "sessions after all nodes have ended")
	})
}

func (c *cluster) start(name string, wanted func(context.Context) (map[string]string, error)) *node {
	n := &node{c: c}
	options := Options{
		Documents: way{c.documents, c, n}, Shared: true, Node: name, Now: time.Now, Log: slog.New(slog.DiscardHandler), Wanted: wanted,
		Clock: func() instant.Instant {
			now := instant.Now()
			now.Mono -= time.Duration(n.suspended.Load())
			return now
		},
	}
	if c.coordinator != c.documents {
		options.Coordinator = way{c.coordinator, c, n}
		options.Fenced = n
		options.Elsewhere = func() error {
			if why := n.elsewhere.Load(); why != nil {
				return *why
			}
			return nil
		}
	}
	n.Terms = New(options)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	n.end = sync.OnceFunc(func() { n.cut.Store(false); cancel(); running.Wait() })
	return n
}

// sleep sleeps, and lets what happens at the end of that happen.
func (c *cluster) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// leaders requires which nodes believe that they lead, and whom the others follow.
func (c *cluster) leaders(all []*node, want string) {
	c.Helper()
	for _, n := range all {
		must.Equal(c, n.Leading(), n.opts.Node == want, "leading: "+n.opts.Node)
		if !n.cut.Load() {
			must.Equal(c, n.Leader(), want, "the leader of "+n.opts.Node)
		}
	}
}

// take lets a node take a work, and requires the error.
func (c *cluster) take(n *node, key string, want error) *Work {
	c.Helper()
	w, err := n.Take(c.Context(), "work", key)
	must.Is(c, err, want)
	return w
}

func TestOneLeads(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		c.leaders(n, "a")
		n[0].end()
		c.sleep(time.Second)
		if n[0].Leading() || n[1].Leading() == n[2].Leading() {
			t.Error("a stop is not followed by one leader at once")
		}
	})
}

// A leader that is cut off stops to lead before another one does, and follows when it returns.
func TestLeaderIsCutOff(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		n[0].cut.Store(true)
		stopped := false
		for range 100 {
			c.sleep(100 * time.Millisecond)
			stopped = stopped || !n[0].Leading()
			if n[1].Leading() || n[2].Leading() {
				must.Equal(t, stopped, true, "the first has stopped")
			}
		}
		leader := n[1].Leader()
		must.Equal(t, n[1].Leading() != n[2].Leading() && leader != "a", true, "another leads")
		was, _, _ := n[0].Session()
		n[0].cut.Store(false)
		c.sleep(5 * time.Second)
		c.leaders(n, leader)
		key, working, ok := n[0].Session()
		must.Equal(t, ok && working.Err() == nil && key != was, true, "it has another session")
	})
}

// While the store is away nobody works, and afterwards everybody goes on: no session died.
func TestStoreIsAway(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		var keys []string
		var before []context.Context
		for _, n := range n {
			key, working, ok := n.Session()
			must.Equal(t, ok, true)
			keys, before = append(keys, key), append(before, working)
			n.cut.Store(true)
		}
		c.sleep(4 * time.Second)
		for i, n := range n {
			_, _, ok := n.Session()
			must.Equal(t, ok || before[i].Err() == nil, false, "it may work")
			must.Equal(t, n.Leading(), false)
			must.Is(t, must.Err(n.Take(t.Context(), "work", "w")), persist.ErrUnavailable)
		}
		c.sleep(20 * time.Second)
		for _, n := range n {
			n.cut.Store(false)
		}
		c.sleep(5 * time.Second)
		for i, n := range n {
			key, working, ok := n.Session()
			must.Equal(t, ok && working.Err() == nil && key == keys[i], true, "it goes on")
		}
		c.leaders(n, "a")
	})
}

// A node that wakes up after a suspension does not work, although its own clock says that nothing
// has happened.
func TestSuspension(t *testing.T) {
	simulate(t, 2, func(t *testing.T, c *cluster, n []*node) {
		w := c.take(n[0], "w", nil)
		n[0].cut.Store(true)
		c.sleep(10 * time.Second)
		n[0].suspended.Add(int64(10 * time.Second))
		_, _, ok := n[0].Session()
		must.Equal(t, ok, false, "it may work")
		must.Is(t, w.Write(t.Context(), nil, 0), ErrNoSession)
		must.Equal(t, c.take(n[1], "w", nil).Term, 2)
	})
}

// Only the owner writes a work, until its session has ended.
func TestWork(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		w := c.take(n[0], "w", nil)
		must.Equal(t, w.Term, 1)
		must.Do(t, w.Write(t.Context(), json.RawMessage(`{"n":1}`), 77))
		again := c.take(n[0], "w", nil)
		must.Equal(t, again.Term == 1 && string(again.State) == `{"n":1}` && again.doc.Expires == 77, true, "taken again")
		c.take(n[1], "w", ErrTaken)
		must.Do(t, w.Release(t.Context(), json.RawMessage(`{"n":2}`), 0))
		must.Is(t, w.Write(t.Context(), nil, 0), ErrLost)
		must.Is(t, again.Write(t.Context(), nil, 0), ErrLost)

		b := c.take(n[1], "w", nil)
		must.Equal(t, b.Term == 2 && string(b.State) == `{"n":2}`, true, "taken after a release")
		n[1].cut.Store(true)
		for range 3 {
			c.take(n[2], "w", ErrTaken)
			c.sleep(900 * time.Millisecond)
		}
		c.sleep(4 * time.Second) // the leader has declared the session dead
		taken := c.take(n[2], "w", nil)
		must.Equal(t, taken.Term, 3)
		n[1].cut.Store(false)
		must.Is(t, b.Write(t.Context(), nil, 0), ErrNoSession)
		c.sleep(2 * time.Second)
		must.Is(t, b.Write(t.Context(), nil, 0), ErrLost)
		must.Do(t, taken.Write(t.Context(), nil, 0))
		must.Is(t, must.Err(n[1].Take(t.Context(), "work", strings.Repeat("x", 600))), persist.ErrInvalid)
	})
}

// A node takes nothing before it has watched for a while.
func TestNewNodeWaits(t *testing.T) {
	simulate(t, 1, func(t *testing.T, c *cluster, n []*node) {
		late := c.start("late", nil)
		defer late.end()
		c.sleep(time.Second)
		c.take(late, "new", ErrTaken)
		must.Is(t, must.Err(late.Acquire(t.Context(), "permit", "p", "", 1, nil)), ErrNoPermit)
		c.sleep(3 * time.Second)
		c.take(late, "new", nil)
	})
}

// A document that is no work is refused.
func TestDamagedDocuments(t *testing.T) {
	simulate(t, 1, func(t *testing.T, c *cluster, n []*node) {
		for _, kind := range []string{"work", "permit"} {
			in := map[string]persist.Documents{"work": c.documents, "permit": c.coordinator}[kind]
			must.Do(t, in.Create(t.Context(), persist.Document{Kind: kind, Key: "x", Revision: 1, Body: "nonsense"}))
		}
		c.take(n[0], "x", persist.ErrInvalid)
		n[0].Replan() // nothing is planned
		must.Is(t, must.Err(n[0].Acquire(t.Context(), "permit", "x", "", 1, nil)), persist.ErrInvalid)
	})
}

// A document of the leader that cannot be read is one warning, and keeps nobody from working.
func TestDamagedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		must.Do(t, c.documents.Create(t.Context(), persist.Document{Kind: leaderKind, Key: leaderKey, Revision: 1, Body: "nonsense"}))
		var log testlog.Text
		n := c.start("a", nil)
		n.end()
		n.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); n.Run(ctx) }()
		c.sleep(time.Minute)
		must.Equal(t, strings.Count(log.String(), "level=WARN"), 1, log.String())
		_, _, ok := n.Session()
		must.Equal(t, ok && !n.Leading(), true, "it works and does not lead")
		cancel()
		<-ended
	})
}

// A session that is damaged ends, as one whose node does not beat, and hides no other one.
func TestDamagedSession(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		sessions := func() (list []persist.Document) {
			return must.Get(c.coordinator.List(t.Context(), kind, "", 10))(t)
		}
		damage := func(doc persist.Document) {
			doc.Revision, doc.Body = doc.Revision+1, ""
			must.Do(t, persist.Put(t.Context(), c.coordinator, doc))
		}
		damage(persist.Document{Kind: kind, Key: "x.gone"})
		c.take(n[1], "w", nil)
		n[1].cut.Store(true)
		c.sleep(6 * time.Second)
		must.Equal(t, len(sessions()), 2, "those of a and c")
		c.take(n[2], "w", nil)
		n[1].cut.Store(false)
		c.sleep(6 * time.Second)
		for range 3 { // also that of the leader, and of who owns the work
			for _, doc := range sessions() {
				damage(doc)
			}
			c.sleep(12 * time.Second)
			list := sessions()
			must.Equal(t, len(list), 3, "new ones")
			for _, doc := range list {
				must.Equal(t, doc.Body, "{}", doc.Key)
			}
			c.take(n[0], "w", nil)
			w := c.take(n[0], "w", nil)
			must.Do(t, w.Release(t.Context(), nil, 0))
		}
	})
}

// Permits end with the session of their holder, and what was freed can be taken.
func TestPermitsOfNodes(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		acquire := func(n *node, name string, want error) *Permit {
			t.Helper()
			p, err := n.Acquire(t.Context(), "permit", "p", name, 2, nil)
			must.Is(t, err, want)
			return p
		}
		first := acquire(n[0], "x", nil)
		second := acquire(n[1], "x", nil)
		must.Equal(t, []int{first.Slot, second.Slot}[1], 1)
		acquire(n[2], "x", ErrNoPermit)
		must.Do(t, first.Free(t.Context()))
		must.Do(t, first.Free(t.Context()))
		must.Equal(t, acquire(n[2], "x", nil).Slot, 0)
		acquire(n[0], "x", ErrNoPermit)
		n[1].cut.Store(true)
		c.sleep(6 * time.Second)
		must.Equal(t, acquire(n[0], "x", nil).Slot, 1)
		n[1].cut.Store(false)
		c.sleep(2 * time.Second)
		must.Do(t, second.Free(t.Context())) // another node has
		acquire(n[1], "x", ErrNoPermit)
	})
}

// The leader spreads the works over the sessions, also after it has changed, and moves few.
func TestManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var passes atomic.Int64
		wanted := func(context.Context) (map[string]string, error) {
			all := make(map[string]string)
			for i := range 12 {
				all[fmt.Sprint("w", i)] = ""
			}
			passes.Add(1)
			return all, nil
		}
		var all []*node
		for i := range 3 {
			all = append(all, c.start(string(rune('a'+i)), wanted))
			defer all[i].end()
		}
		loads := func(n *node) (list []int) {
			for _, works := range n.Manifest().Works {
				list = append(list, len(works))
			}
			return list
		}
		c.sleep(10 * time.Second)
		for _, n := range all {
			must.Equal(t, fmt.Sprint(loads(n)), "[4 4 4]", "loads at the start")
		}
		was := passes.Load()
		for range 10 {
			for _, n := range all {
				n.Replan()
			}
		}
		c.sleep(1100 * time.Millisecond)
		must.Equal(t, passes.Load()-was, 1, "passes for many triggers")
		i := slices.IndexFunc(all, func(n *node) bool { return n.Leading() })
		all[i].end()
		c.sleep(10 * time.Second)
		rest := slices.Delete(all, i, i+1)
		for _, n := range rest {
			must.Equal(t, fmt.Sprint(loads(n)), "[6 6]", "loads after the leader has ended")
		}
	})
}

// What a node costs at rest: the leader one write, one read and one list a second, another node one
// write and two reads.
func TestCostAtRest(t *testing.T) {
	simulate(t, 3, func(t *testing.T, c *cluster, n []*node) {
		was := c.ops.Load()
		c.sleep(100 * time.Second)
		must.Equal(t, (c.ops.Load()-was)/100, 9, "operations of three nodes in a second")
	})
}

// A store that no other node can use gets no document, and its only node leads and works.
func TestAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		documents := memory.New(time.Now).Documents()
		options := Options{Documents: documents, Node: "a", Now: time.Now, Log: slog.New(slog.DiscardHandler), Wanted: func(context.Context) (map[string]string, error) {
			return map[string]string{"w": ""}, nil
		}}
		before := New(options)
		must.Equal(t, before.Leading() && before.Leader() == "a", true, "it leads before it runs")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); before.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		key, working, ok := before.Session()
		must.Equal(t, ok && working.Err() == nil && slices.Equal(before.Manifest().Works[key], []string{"w"}), true, "it works")
		for _, kind := range []string{kind, leaderKind} {
			must.Equal(t, len(must.Get(documents.List(t.Context(), kind, "", 1))(t)), 0, "documents of "+kind)
		}
		w := must.Get(before.Take(t.Context(), "work", "w"))(t)
		must.Do(t, w.Write(t.Context(), nil, 0))
		cancel()
		<-ended
		must.Equal(t, working.Err() != nil, true, "it was told to stop")
		after := New(options) // the next process
		must.Equal(t, must.Get(after.Take(t.Context(), "work", "w"))(t).Term, 2)
	})
}
