package persisttest

import (
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// testWhole fills a store as a restore does: documents keep their revision, and all that a store
// has is listed.
func testWhole(s *suite) {
	ctx := s.Context()
	lists := func(what string, got []string, err error, want ...string) {
		s.Helper()
		s.must(err)
		if !slices.Equal(got, want) {
			s.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	kinds, err := s.store.Kinds(ctx)
	lists("kinds of an empty store", kinds, err)
	registries, err := s.store.Registries(ctx)
	lists("registries of an empty store", registries, err)

	doc := persist.Document{Kind: "token", Key: "a/ü\x00", Revision: 7, Body: strings.Repeat("x", 1<<20), Timestamp: 5, Expires: 9}
	s.wants(s.store.Refill(ctx, []persist.Document{doc, {Kind: "token", Key: "b"}}), persist.ErrInvalid)
	s.must(s.store.Refill(ctx, []persist.Document{doc, {Kind: "tokens", Key: "b", Revision: 2}, {Kind: "audit", Key: "c", Revision: 1}}))
	later := doc
	later.Revision, later.Body = 9, "another"
	s.must(s.store.Refill(ctx, []persist.Document{later}))
	got, err := s.store.Documents().Read(ctx, doc.Kind, doc.Key)
	s.must(err)
	if got != doc {
		s.Errorf("a document that was filled in has revision %d and %d bytes, want %d and %d", got.Revision, len(got.Body), doc.Revision, len(doc.Body))
	}
	later.Revision = 8
	s.must(s.store.Documents().Update(ctx, later))
	due, err := s.store.Documents().Due(ctx, "token", 100, 10)
	s.must(err)
	if len(due) != 1 {
		s.Errorf("%d documents are due, want 1", len(due))
	}
	kinds, err = s.store.Kinds(ctx)
	lists("kinds", kinds, err, "audit", "token", "tokens")

	for _, name := range []string{"z ü/1", "a"} {
		t, err := s.store.Slots().Look(ctx, name)
		s.must(err)
		made, err := s.store.Slots().Swap(ctx, name, persist.SlotSwap{NewSlot: &persist.Slot{ID: 3, Key: "k"}, Source: t.Source})
		s.must(err)
		if !made {
			s.Errorf("registry %q was not made", name)
		}
	}
	registries, err = s.store.Registries(ctx)
	lists("registries", registries, err, "a", "z ü/1")
}
