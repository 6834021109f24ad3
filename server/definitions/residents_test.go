package definitions

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// countedReads counts reads of definitions.
type countedReads struct {
	persist.Documents
	reads atomic.Int64
}

func (d *countedReads) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	d.reads.Add(1)
	return d.Documents.Read(ctx, kind, key)
}

// A biz type that is used while it is about to be dropped stays: its rate limit would be full again.
func TestDropKeepsRateLimits(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.write(t, "limited", 1, `{"plugins":[{"name":"rate-limit","rate":0.001,"burst":5}]}`)
	must.Do(t, c.catalogue.Fetch(t.Context(), "limited"))
	read, written := make(chan struct{}), make(chan struct{})
	c.catalogue.records.documents = &slowReads{Documents: store.Documents(), read: read, written: written}
	dropped := make(chan bool)
	go func() { dropped <- c.catalogue.drop("limited") }()
	<-read
	issued := 0
	for range 10 {
		if _, err := c.issuer.Next(t.Context(), "limited", 1); err == nil {
			issued++
		}
	}
	close(written)
	if <-dropped {
		t.Error("it was dropped")
	}
	for range 10 {
		if _, err := c.issuer.Next(t.Context(), "limited", 1); err == nil {
			issued++
		}
	}
	if issued > 5 {
		t.Errorf("%d numbers were issued, and the limit is 5 and 1 in 1000 s", issued)
	}
}

// A request for a biz type that the node knows to be deleted does not read the store.
func TestDeletedNamesCostNoReads(t *testing.T) {
	store := newFaulty(true)
	c := newNodeOf(t, store, configuredWith(t, `bizTypes: [{name: configured}]`))
	c.mustPut(t, "order", `{}`, always)
	for _, name := range []string{"order", "configured"} {
		must.Get(c.Delete(t.Context(), name, always))(t)
	}
	docs := &countedReads{Documents: store.Documents()}
	c.catalogue.records.documents = docs
	for _, name := range []string{"order", "configured"} {
		docs.reads.Store(0)
		for range 100 {
			_, _ = c.issuer.Next(t.Context(), name, 1)
		}
		if n := docs.reads.Load(); n > 2 {
			t.Errorf("100 requests for %s, which this node knows is deleted, read the store %d times", name, n)
		}
	}
}

// What is disabled or deleted makes room too.
func TestStoppedNamesAreBounded(t *testing.T) {
	for _, what := range []string{"deleted", "disabled"} {
		t.Run(what, func(t *testing.T) {
			store := newFaulty(true)
			c := limited(t, store, 10)
			put := func(name string, said stored) {
				must.Do(t, c.records.documents.Create(t.Context(), c.records.document(name, 1, said)))
			}
			for i := range 500 {
				put(fmt.Sprint("stopped", i), stored{Definition: []byte(`{}`), Enabled: what == "deleted", Deleted: what == "deleted", Source: fromAPI})
			}
			for i := range 500 {
				_, _ = c.issuer.Next(t.Context(), fmt.Sprint("stopped", i), 1)
			}
			c.awaitDrops()
			if n := c.catalogue.residents.count(); n > 10+2*mostLooks {
				t.Errorf("%d biz types are held, want about 10", n)
			}
		})
	}
}

// A name that may not exist, asked for by anybody while the store is away, does not make a node unready
// that issues all that it holds.
func TestNamesThatCannotBeRead(t *testing.T) {
	onFakeClock(t, namesThatCannotBeRead)
}

func namesThatCannotBeRead(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "order", `{"ordering":"per-node"}`, always)
	c.mustPut(t, "gone", `{}`, always)
	c.mustIssue(t, "order")
	must.Get(c.Delete(t.Context(), "gone", always))(t)
	c.catalogue.records.documents = unreachable{store.Documents()}
	for _, name := range []string{"junk", "gone"} {
		_, err := c.issuer.Next(t.Context(), name, 1)
		if name == "gone" && seqd.CodeOf(err) != seqd.CodeUnknownBizType {
			t.Errorf("this node knows that %s was deleted, and answers %v", name, err)
		}
	}
	time.Sleep(1500 * time.Millisecond) // it is tried again without a caller
	c.mustIssue(t, "order")
	if list, n := c.issuer.Health(10); n > 0 {
		t.Errorf("the node is unready because of %v, and issues all it holds", list)
	}
}
