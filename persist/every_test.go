package persist_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Everything is read once and in order, also when the last page is full, and no more is read than
// is wanted.
func TestEvery(t *testing.T) {
	for _, n := range []int{0, 1, 999, 1000, 1001, 2000} {
		documents := memory.New(time.Now).Documents()
		for i := range n {
			doc := persist.Document{Kind: "k", Key: fmt.Sprintf("%05d", i), Revision: 1, Body: "{}"}
			must.Do(t, documents.Create(t.Context(), doc))
		}
		seen := 0
		for doc, err := range persist.EveryDocument(t.Context(), documents, "k") {
			if err != nil || doc.Key != fmt.Sprintf("%05d", seen) {
				t.Fatalf("%d: %q %v after %d", n, doc.Key, err, seen)
			}
			seen++
		}
		must.Equal(t, seen, n, "how many came")
	}
}

// most is documents that note the most that one call asked for.
type most struct {
	persist.Documents
	limit int
}

func (d *most) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	d.limit = max(d.limit, limit)
	return d.Documents.List(ctx, kind, after, limit)
}

// Work that has a pace reads few records at a time, and may rest at each.
func TestPaced(t *testing.T) {
	documents := &most{Documents: memory.New(time.Now).Documents()}
	for i := range 25 {
		must.Do(t, documents.Create(t.Context(), persist.Document{Kind: "k", Key: fmt.Sprintf("%05d", i), Revision: 1, Body: "{}"}))
	}
	rests, seen := 0, 0
	for _, err := range persist.EveryDocument(persist.Paced(t.Context(), func() { rests++ }), documents, "k") {
		must.Do(t, err)
		seen++
	}
	must.Equal(t, [3]int{seen, rests, documents.limit}, [3]int{25, 25, 10})
}

// failing is documents that fail at their second page.
type failing struct {
	persist.Documents
	pages int
}

var errPage = errors.New("the second page")

func (f *failing) List(_ context.Context, _, _ string, limit int) ([]persist.Document, error) {
	if f.pages++; f.pages > 1 {
		return nil, errPage
	}
	return make([]persist.Document, limit), nil
}

// An error comes last, after all that was read, and who stops has no further page read.
func TestEveryEnds(t *testing.T) {
	for kind, page := range map[string]int{"k": 1000, persist.LedgerKind: 100} { // a ledger may be large
		seen := 0
		var last error
		for _, err := range persist.EveryDocument(t.Context(), &failing{}, kind) {
			if last = err; err == nil {
				seen++
			}
		}
		if seen != page || !errors.Is(last, errPage) {
			t.Errorf("%d came of %s, and then %v", seen, kind, last)
		}
	}
	stopped := &failing{}
	for range persist.EveryDocument(t.Context(), stopped, "k") {
		break
	}
	must.Equal(t, stopped.pages, 1, "the pages read for one record")
}

// Only the counters that begin with the prefix and are longer come.
func TestCountersUnder(t *testing.T) {
	counters, got := memory.New(time.Now).Counters(), ""
	for _, name := range []string{"a", "a/", "a/x", "a/y@1", "a0", "b/z"} {
		must.Do(t, counters.Create(t.Context(), persist.Counter{BizTag: name, Step: 1}))
	}
	for c, err := range persist.CountersUnder(t.Context(), counters, "a/") {
		got += fmt.Sprint(c.BizTag, " ", err, ";")
	}
	must.Equal(t, got, "a/x <nil>;a/y@1 <nil>;")
}
