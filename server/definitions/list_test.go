package definitions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
)

// counted counts how many documents are read.
type counted struct {
	persist.Documents
	read int
}

func (c *counted) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	docs, err := c.Documents.List(ctx, kind, after, limit)
	c.read += len(docs)
	return docs, err
}

// keep writes definitions, of which those for which deleted is true are tombstones.
func keep(t *testing.T, store persist.Store, names []string, deleted func(string) bool) {
	t.Helper()
	var docs []persist.Document
	for _, name := range names {
		body := `{"definition":{},"enabled":true,"source":"api"}`
		if deleted(name) {
			body = `{"definition":{},"enabled":true,"source":"api","deleted":true}`
		}
		docs = append(docs, persist.Document{Kind: kind, Key: name, Revision: 1, Body: body, Timestamp: 1})
	}
	must.Do(t, store.Documents().Keep(t.Context(), docs))
}

// lister returns an editor that only lists, and what counts its reads.
func lister(store persist.Store) (*Editor, *counted) {
	docs := &counted{Documents: store.Documents()}
	cfg := config.Default()
	return &Editor{cfg: &cfg, records: records{documents: docs}, catalogue: &Catalogue{states: newStates()}}, docs
}

// slowDocuments are documents that take a second to list.
type slowDocuments struct {
	persist.Documents
	lists, most atomic.Int64 // that are under way, and were at most
}

func (s *slowDocuments) List(context.Context, string, string, int) ([]persist.Document, error) {
	s.most.Store(max(s.most.Load(), s.lists.Add(1)))
	time.Sleep(time.Second)
	s.lists.Add(-1)
	return nil, nil
}

// However many search by patterns, the store is asked for one of them at a time. The others wait,
// but not for long. Lists without a pattern do not wait.
func TestOneSearchAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := lister(memory.New(time.Now))
		docs := new(slowDocuments)
		e.records.documents = docs
		var all sync.WaitGroup
		var refused atomic.Int64
		for range 10 {
			all.Go(func() {
				_, _, err := e.List(t.Context(), admin.Listing{Limit: 10, Match: "*x"})
				if seqd.CodeOf(err) == seqd.CodeOverloaded {
					refused.Add(1)
				} else {
					must.Report(t, err)
				}
			})
		}
		synctest.Wait()
		_, _, err := e.List(t.Context(), admin.Listing{Limit: 10})
		must.Report(t, err)
		all.Wait()
		if docs.most.Load() != 2 || refused.Load() < 4 {
			t.Errorf("%d lists at once, %d refused", docs.most.Load(), refused.Load())
		}
	})
}

// matches is what a pattern means.
func matches(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return matches(pattern[1:], name) || name != "" && matches(pattern, name[1:])
	}
	return name != "" && pattern[0] == name[0] && matches(pattern[1:], name[1:])
}

// pages lists page after page, and returns the names.
func pages(t *testing.T, e *Editor, want admin.Listing) (names []string) {
	t.Helper()
	for range 100_000 {
		list, next, err := e.List(t.Context(), want)
		if err != nil || len(list) > want.Limit {
			t.Fatalf("%+v: %d, %v", want, len(list), err)
		}
		for _, b := range list {
			names = append(names, b.Name)
		}
		if next == "" {
			return names
		}
		if next <= want.After {
			t.Fatalf("%+v: it goes on after %q", want, next)
		}
		want.After = next
	}
	t.Fatalf("%+v: the pages have no end", want)
	return nil
}

// A list with a pattern has what a look at every name finds, whatever the pages are.
func TestListMatch(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 2))
	text := func(letters string, most int) string {
		var b strings.Builder
		for range r.IntN(most) {
			b.WriteByte(letters[r.IntN(len(letters))])
		}
		return b.String()
	}
	found := 0
	for range 60 {
		store := newFaulty(true)
		var names []string
		for range 80 {
			names = append(names, "a"+text("abzZ-._09", 4))
		}
		deleted := func(name string) bool { return strings.HasSuffix(name, "9") }
		keep(t, store, names, deleted)
		slices.Sort(names)
		names = slices.Compact(names)
		stored, _ := lister(store)
		configured, _ := lister(store)
		configured.catalogue.locked = true
		for _, name := range names {
			if !deleted(name) {
				configured.cfg.BizTypes = append(configured.cfg.BizTypes, bizTypeNamed(name))
				configured.catalogue.states.set(name, state{})
			}
		}
		for range 20 {
			want := admin.Listing{Match: text("a*bzZ-._0*", 5), After: text("ab-z~", 4), Limit: 1 + r.IntN(5)}
			if r.IntN(3) == 0 {
				want.Match = names[r.IntN(len(names))]
			}
			var all []string
			for _, name := range names {
				if !deleted(name) && name > want.After && (want.Match == "" || matches(want.Match, name)) {
					all = append(all, name)
				}
			}
			found += len(all)
			for _, e := range []*Editor{stored, configured} {
				if got := pages(t, e, want); !slices.Equal(got, all) {
					t.Fatalf("%+v, locked %t: %q, want %q of %q", want, e.catalogue.locked, got, all, names)
				}
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d names were found", found)
	}
}

// A request with a pattern looks at a bounded number of names, of which the text before the first
// star decides how many there are to look at.
func TestListMatchIsBounded(t *testing.T) {
	store := newFaulty(true)
	var names []string
	for i := range 30_000 {
		names = append(names, fmt.Sprintf("name%06d", i))
	}
	keep(t, store, names, func(name string) bool { return strings.HasPrefix(name, "name01") })
	e, docs := lister(store)
	for _, tt := range []struct {
		match, after     string
		limit            int
		first, next      string
		listed, mostRead int
	}{
		{"*", "", 10, "name000000", "name000009", 10, 11},
		{"*99", "", 10, "name000099", "name000999", 10, 2100},
		{"*none*", "", 10, "", "name009999", 0, mostLooked},
		{"*none*", "name009999", 10, "", "name019999", 0, mostLooked},
		{"*none*", "name025000", 10, "", "", 0, 5000},
		{"name01*", "", 10, "", "name019999", 0, mostLooked}, // all were deleted
		{"name0200*", "", 1000, "name020000", "", 100, 1001},
		{"name0200*99", "", 10, "name020099", "", 1, 1100},
		{"name029999*", "", 10, "name029999", "", 1, 1},
		{"name100*", "", 10, "", "", 0, 0},
		{"name02*7*", "name025000", 10, "name025007", "name025072", 10, 1100},
		{"name020001", "", 10, "name020001", "", 1, 0},
		{"name020001", "name020001", 10, "", "", 0, 0},
		{"name010001", "", 10, "", "", 0, 0},
		{"b*", "", 10, "", "", 0, 11},
		{"z*", "", 10, "", "", 0, 0},
	} {
		docs.read = 0
		list, next, err := e.List(t.Context(), admin.Listing{Match: tt.match, After: tt.after, Limit: tt.limit})
		first := ""
		if len(list) > 0 {
			first = list[0].Name
		}
		if err != nil || first != tt.first || next != tt.next || len(list) != tt.listed || docs.read > tt.mostRead {
			t.Errorf("%q after %q: %d from %q, next %q, %d were read, %v", tt.match, tt.after, len(list), first, next, docs.read, err)
		}
	}
}

func bizTypeNamed(name string) seqd.BizType { return seqd.BizType{Name: name} }
