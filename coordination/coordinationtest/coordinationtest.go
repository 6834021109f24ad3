// Package coordinationtest is the suite that every coordinator passes: the tests of persisttest for
// documents that change by their revision, and those of what a coordinator does besides.
package coordinationtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
)

// Run runs the suite. open returns empty documents. They may be the same servers each time.
func Run(t *testing.T, open func(t *testing.T) coordination.Documents) {
	persisttest.RunRevisions(t, func(t *testing.T) persist.Documents { return only{open(t), nil} })
	for name, test := range map[string]func(*testing.T, coordination.Documents){
		"odd keys": oddKeys, "large bodies": largeBodies, "many documents": many, "bad documents are refused": bad,
		"an ended context changes nothing": ended, "it has one ID": identity,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// only are documents of which nothing but [coordination.Documents] is used.
type only struct {
	coordination.Documents
	rest
}

// rest is what [persist.Documents] have besides.
type rest interface {
	Due(ctx context.Context, kind string, before int64, limit int) ([]persist.Document, error)
	Keep(ctx context.Context, list []persist.Document) error
	Purge(ctx context.Context, kind string, before int64, limit int) (int, error)
}

func document(key string) persist.Document {
	return persist.Document{Kind: "test", Key: key, Revision: 1, Body: "body of " + key, Timestamp: -7, Expires: 1 << 62}
}

func oddKeys(t *testing.T, d coordination.Documents) {
	keys := []string{"\n", " ", "$a", "%", "%2E", ".", "..", "...", "/", "//", "0", "A", "a", "a\x00b", "a/", "a/b", "b.c", "ü", "\u2028", "😀", strings.Repeat("\U0010ffff", 128)}
	for _, key := range keys {
		must.Do(t, d.Create(t.Context(), document(key)))
	}
	list := must.Get(d.List(t.Context(), "test", "", 100))(t)
	must.Equal(t, len(list), len(keys), "keys")
	for i, key := range keys {
		must.Equal(t, list[i], document(key), key)
		must.Equal(t, must.Get(d.Read(t.Context(), "test", key))(t), document(key), key)
		must.Do(t, d.Delete(t.Context(), "test", key, 1))
		must.Is(t, must.Err(d.Read(t.Context(), "test", key)), persist.ErrNotFound)
	}
}

func largeBodies(t *testing.T, d coordination.Documents) {
	doc := document("large")
	doc.Body = "ü\x00\"\n" + strings.Repeat("x", 490_000)
	must.Do(t, d.Create(t.Context(), doc))
	must.Equal(t, must.Get(d.Read(t.Context(), "test", "large"))(t) == doc, true, "the large document")
	doc.Revision, doc.Body = 2, ""
	must.Do(t, d.Update(t.Context(), doc))
	must.Equal(t, must.Get(d.Read(t.Context(), "test", "large"))(t), doc)
}

func many(t *testing.T, d coordination.Documents) {
	key := func(i int) string { return fmt.Sprintf("%03d", i) }
	for i := range 200 {
		must.Do(t, d.Create(t.Context(), document(key(199-i))))
	}
	for _, part := range []struct{ from, limit, want int }{{0, 500, 200}, {0, 150, 150}, {150, 100, 50}, {150, 50, 50}} {
		after := ""
		if part.from > 0 {
			after = key(part.from - 1)
		}
		list := must.Get(d.List(t.Context(), "test", after, part.limit))(t)
		must.Equal(t, len(list), part.want, "documents")
		for i, doc := range list {
			must.Equal(t, doc, document(key(part.from+i)))
		}
	}
}

func bad(t *testing.T, d coordination.Documents) {
	for _, change := range []func(*persist.Document){
		func(d *persist.Document) { d.Kind = "a/b" }, func(d *persist.Document) { d.Key = "" },
		func(d *persist.Document) { d.Revision = 0 }, func(d *persist.Document) { d.Body = "\xff" },
	} {
		doc := document("bad")
		change(&doc)
		must.Is(t, d.Create(t.Context(), doc), persist.ErrInvalid)
		must.Is(t, d.Update(t.Context(), doc), persist.ErrInvalid)
	}
	must.Is(t, must.Err(d.Read(t.Context(), "test", "")), persist.ErrInvalid)
	must.Is(t, must.Err(d.List(t.Context(), "a/b", "", 1)), persist.ErrInvalid)
	must.Is(t, d.Delete(t.Context(), "test", "", 1), persist.ErrInvalid)
}

func ended(t *testing.T, d coordination.Documents) {
	must.Do(t, d.Create(t.Context(), document("there")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	next := document("there")
	next.Revision = 2
	for _, err := range []error{
		d.Create(ctx, document("new")), d.Update(ctx, next), d.Delete(ctx, "test", "there", 1),
		must.Err(d.Read(ctx, "test", "there")), must.Err(d.List(ctx, "test", "", 1)),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	must.Equal(t, must.Get(d.List(t.Context(), "test", "", 9))(t)[0], document("there"))
}

func identity(t *testing.T, d coordination.Documents) {
	id := must.Get(coordination.Identify(t.Context(), d))(t)
	must.Equal(t, must.Get(coordination.Identify(t.Context(), d))(t), id)
	must.Equal(t, len(id) > 20, true, "an ID: "+id)
}
