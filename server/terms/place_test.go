package terms

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// A node is the fence of the store, as it sees it; a store in memory has none.
var _ persist.Fenced = (*node)(nil)

func (n *node) Fence(context.Context) (persist.Fence, error) {
	if n.storeCut.Load() || n.cut.Load() {
		return persist.Fence{}, persist.ErrUnavailable
	}
	return persist.Fence{Current: *n.c.fence.Load()}, nil
}

func (n *node) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != *n.c.fence.Load() {
		return persist.ErrFailedOver
	}
	return way{n.c.documents, n.c, n}.Create(ctx, d)
}

func (n *node) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != *n.c.fence.Load() {
		return persist.ErrFailedOver
	}
	return way{n.c.documents, n.c, n}.Update(ctx, d)
}

func (*node) ConfirmFence(context.Context, string) error        { panic("nobody confirms") }
func (*node) CreateLost(context.Context, persist.Counter) error { panic("there are no counters") }

// apart runs a test with nodes that have a coordinator.
func apart(t *testing.T, nodes int, test func(t *testing.T, c *cluster, n []*node)) {
	simulateIn(t, nodes, true, test)
}

// wipe removes everything that a coordinator has.
func (c *cluster) wipe() {
	for _, kind := range []string{kind, leaderKind, "permit", "coordinator"} {
		for doc, err := range persist.EveryDocument(c.Context(), c.coordinator, kind) {
			must.Do(c, err)
			must.Do(c, c.coordinator.Delete(c.Context(), kind, doc.Key, doc.Revision))
		}
	}
}

// Every session is gone when a coordinator is wiped. Nobody takes a work or a permit before all who
// had one have stopped, and then everything goes on.
func TestCoordinatorIsWiped(t *testing.T) {
	apart(t, 3, func(t *testing.T, c *cluster, n []*node) {
		w := c.take(n[0], "w", nil)
		p := must.Get(n[0].Acquire(t.Context(), "permit", "p", "x", 1, nil))(t)
		id, _ := n[0].Coordinator()
		key, working, _ := n[0].Session()
		c.wipe()
		for range 40 {
			_, err := n[1].Take(t.Context(), "work", "w")
			must.Equal(t, err == nil && working.Err() == nil, false, "two nodes do a work")
			_, err = n[2].Acquire(t.Context(), "permit", "p", "y", 1, nil)
			must.Equal(t, err == nil && working.Err() == nil, false, "two nodes hold the permit")
			c.sleep(100 * time.Millisecond)
		}
		c.sleep(5 * time.Second)
		must.Equal(t, c.take(n[1], "w", nil).Term, w.Term+1)
		must.Is(t, w.Write(t.Context(), nil, 0), ErrLost)
		must.Do(t, p.Free(t.Context()))
		now, _, ok := n[0].Session()
		must.Equal(t, ok && now != key, true, "it has another session")
		other, trouble := n[0].Coordinator()
		must.Is(t, trouble, nil)
		must.Equal(t, other != id, true, "the coordinator has another ID")
	})
}

// An older copy of a coordinator lacks sessions that live.
func TestCoordinatorIsRestored(t *testing.T) {
	apart(t, 2, func(t *testing.T, c *cluster, n []*node) {
		backup := must.Get(c.coordinator.List(t.Context(), kind, "", 10))(t)
		late := c.start("late", nil)
		defer late.end()
		c.sleep(5 * time.Second)
		_, working, _ := late.Session()
		c.take(late, "w", nil)
		c.wipe()
		for _, doc := range backup {
			doc.Revision = 1
			must.Do(t, c.coordinator.Create(t.Context(), doc))
		}
		for working.Err() == nil {
			must.Equal(t, must.Err(n[0].Take(t.Context(), "work", "w")) != nil, true, "it takes what another node does")
			c.sleep(50 * time.Millisecond)
		}
		c.sleep(20 * time.Second)
		c.take(n[0], "w", nil)
	})
}

// A failover of the store ends sessions that the store does not have: it may have lost a take.
func TestStoreOfWorksFailsOver(t *testing.T) {
	apart(t, 2, func(t *testing.T, c *cluster, n []*node) {
		w := c.take(n[0], "w", nil)
		key, working, _ := n[0].Session()
		c.fence.Store(new("second"))
		must.Is(t, w.Write(t.Context(), nil, 0), ErrLost)
		c.sleep(2 * time.Second)
		now, _, ok := n[0].Session()
		must.Equal(t, ok && working.Err() != nil && now != key, true, "it has another session")
		c.take(n[1], "x", ErrTaken) // so has this one, and it has not watched for long enough
		c.sleep(20 * time.Second)
		must.Equal(t, c.take(n[1], "w", nil).Term, 2)
	})
}

// While the store of the works is away nobody works, although the coordinator answers; no session
// ends.
func TestStoreOfWorksIsAway(t *testing.T) {
	apart(t, 2, func(t *testing.T, c *cluster, n []*node) {
		key, working, _ := n[0].Session()
		for _, n := range n {
			n.storeCut.Store(true)
		}
		c.sleep(time.Minute)
		_, _, ok := n[0].Session()
		must.Equal(t, ok || working.Err() == nil || n[0].Leading(), false, "it may work")
		for _, n := range n {
			n.storeCut.Store(false)
		}
		c.sleep(2 * time.Second)
		now, _, ok := n[0].Session()
		must.Equal(t, ok && now == key, true, "it goes on")
	})
}

// A node whose coordinator is away says so, and works again afterwards.
func TestCoordinatorIsAway(t *testing.T) {
	apart(t, 2, func(t *testing.T, c *cluster, n []*node) {
		n[1].cut.Store(true)
		c.sleep(10 * time.Second)
		_, trouble := n[1].Coordinator()
		must.Is(t, trouble, persist.ErrUnavailable)
		_, trouble = n[0].Coordinator()
		must.Is(t, trouble, nil)
		n[1].cut.Store(false)
		c.sleep(9 * time.Second)
		c.take(n[1], "w", nil)
	})
}

// A node has no session while others use another coordinator. It edits works nevertheless: that
// depends on the store only.
func TestElsewhere(t *testing.T) {
	apart(t, 1, func(t *testing.T, c *cluster, n []*node) {
		_, working, _ := n[0].Session()
		must.Do(t, c.take(n[0], "edited", nil).Write(t.Context(), json.RawMessage("1"), 0))
		two := func(json.RawMessage) (json.RawMessage, int64, error) { return json.RawMessage("2"), 0, nil }
		n[0].elsewhere.Store(new(error(persist.ErrConflict)))
		c.sleep(2 * time.Second)
		_, _, ok := n[0].Session()
		must.Equal(t, ok || working.Err() == nil, false, "it may work")
		_, trouble := n[0].Coordinator()
		must.Is(t, trouble, persist.ErrConflict)
		must.Do(t, n[0].Edit(t.Context(), "work", "edited", two))
		before, _ := n[0].Coordinator()
		c.wipe() // the others found out first
		c.sleep(2 * time.Second)
		id, _ := n[0].Coordinator()
		must.Equal(t, id != before, true, "it finds out that its coordinator is another one now")
		n[0].elsewhere.Store(nil)
		c.sleep(9 * time.Second)
		c.take(n[0], "w", nil)
		must.Equal(t, string(c.take(n[0], "edited", nil).State), "2")
	})
}
