package definitions

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
)

// What a node learns of a biz type that it is about to drop does not take effect if it is old.
func TestLearnDuringADrop(t *testing.T) {
	store := newFaulty(true)
	other := newNode(t, store)
	other.write(t, "order", 1, `{}`)
	c := newNode(t, store)
	c.mustIssue(t, "order")
	old, _, err := c.records.read(t.Context(), "order") // tryChange with force=true, or one that changes nothing
	if err != nil {
		t.Fatal(err)
	}
	c.issuer.Idle("order")
	read, written := make(chan struct{}), make(chan struct{})
	c.catalogue.records.documents = &slowReads{Documents: store.Documents(), read: read, written: written}
	done := make(chan bool, 3)
	go func() { done <- c.catalogue.drop("order") }()
	<-read // drop has the turn
	if _, err := other.Enable(t.Context(), "order", false, always); err != nil {
		t.Fatal(err)
	}
	go func() { // the message of Redis
		if err := c.catalogue.changed(t.Context(), "order"); err != nil {
			t.Error(err)
		}
		done <- true
	}()
	time.Sleep(20 * time.Millisecond)
	go func() { c.catalogue.learn(t.Context(), old); done <- true }()
	time.Sleep(20 * time.Millisecond)
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
