package definitions

import (
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// What a node learns of a biz type that it is about to drop does not take effect if it is old.
func TestLearnDuringADrop(t *testing.T) {
	store := newFaulty(true)
	other := newNode(t, store)
	other.write(t, "order", 1, `{}`)
	c := newNode(t, store)
	c.mustIssue(t, "order")
	old, _, err := c.records.read(t.Context(), "order") // tryChange with force=true, or one that changes nothing
	must.Do(t, err)
	c.issuer.Idle("order")
	read, written := make(chan struct{}), make(chan struct{})
	c.catalogue.records.documents = &slowReads{Documents: store.Documents(), read: read, written: written}
	done := make(chan bool, 3)
	go func() { done <- c.catalogue.drop("order") }()
	<-read // drop has the turn
	must.Get(other.Enable(t.Context(), "order", false, always))(t)
	go func() { // the message of Redis
		must.Report(t, c.catalogue.changed(t.Context(), "order"))
		done <- true
	}()
	c.awaitTurns(t, "order", 2)
	go func() { c.catalogue.learn(t.Context(), old); done <- true }()
	c.awaitTurns(t, "order", 3)
	close(written)
	for range 3 {
		if !<-done {
			t.Fatal("not dropped")
		}
	}
	if id, err := c.issuer.Next(t.Context(), "order", 1); seqd.CodeOf(err) != seqd.CodeDisabled {
		t.Errorf("order is disabled and its message was followed, and this node issues %v until the next poll (error %v)", id, err)
	}
}

// awaitTurns waits until n callers have the turn of a name or wait for it.
func (c *node) awaitTurns(t *testing.T, name string, n int) {
	t.Helper()
	turns := &c.catalogue.turns
	await.True(t, "the others wait for their turn", func() bool {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		own := turns.names[name]
		return own != nil && own.users == n
	})
}

// A biz type that does not exist cannot be changed. A node that learns of changes there and back
// knows the newest document.
func TestChangedThereAndBack(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	must.Code(t, must.Err(c.Patch(t.Context(), "order", []byte(`{}`), always)), seqd.CodeUnknownBizType)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	before, _ := c.catalogue.states.get("order")
	for _, enabled := range []bool{false, true} {
		must.Get(other.Enable(t.Context(), "order", enabled, always))(t)
	}
	must.Do(t, c.feed.Poll(t.Context()))
	if k, _ := c.catalogue.states.get("order"); k.revision != before.revision+2 || k.said != before.said {
		t.Errorf("%+v became %+v", before, k)
	}
}
