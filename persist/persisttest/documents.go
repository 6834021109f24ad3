package persisttest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// documentsSuite is one test's documents.
type documentsSuite struct {
	*testing.T
	documents persist.Documents
	end       func() error
}

// runDocuments runs the tests of documents.
func runDocuments(t *testing.T, open Factory) {
	tests := []struct {
		name string
		run  func(*documentsSuite)
	}{
		{"they keep what they are given", testDocumentLife},
		{"another revision is a conflict, none is not found", testDocumentRevisions},
		{"create has one winner", testDocumentCreateRace},
		{"each revision has one winner", testDocumentUpdateRace},
		{"a deletion and an update have one winner", testDocumentDeleteRace},
		{"odd keys", testDocumentKeys},
		{"list pages in byte order, by kind", testDocumentList},
		{"due finds the earliest first", testDocumentDue},
		{"due follows the last revision", testDocumentDueMoved},
		{"a queue of what is due loses nothing", testDocumentDueRace},
		{"keep stores what is new and leaves what exists", testDocumentKeep},
		{"keep takes odd keys and large bodies, many at once", testDocumentKeepMuch},
		{"of many who keep the same, the first one counts", testDocumentKeepRace},
		{"a ledger is never purged", testDocumentLedger},
		{"purge takes what expired, some at a time", testDocumentPurge},
		{"purge goes by the last revision", testDocumentPurgeMoved},
		{"purge never takes what an update keeps", testDocumentPurgeRace},
		{"bad documents are refused", testDocumentBad},
		{"an ended context changes nothing", testDocumentContext},
		{"a closed store refuses", testDocumentClosed},
	}
	for _, test := range tests {
		t.Run("Documents/"+test.name, func(t *testing.T) {
			store := open(t, time.Now)
			t.Cleanup(func() {
				if err := store.Close(); err != nil && !errors.Is(err, persist.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			test.run(&documentsSuite{t, store.Documents(), store.Close})
		})
	}
}

// RunRevisions runs the tests that only create, read, update, delete and list. open returns empty
// documents.
func RunRevisions(t *testing.T, open func(t *testing.T) persist.Documents) {
	for name, run := range map[string]func(*documentsSuite){
		"another revision is a conflict, none is not found": testDocumentRevisions, "create has one winner": testDocumentCreateRace,
		"each revision has one winner": testDocumentUpdateRace, "a deletion and an update have one winner": testDocumentDeleteRace,
		"list pages in byte order, by kind": testDocumentList,
	} {
		t.Run(name, func(t *testing.T) { run(&documentsSuite{T: t, documents: open(t)}) })
	}
}

// document returns a new one.
func document(kind, key string) persist.Document {
	return persist.Document{Kind: kind, Key: key, Revision: 1, Body: "body of " + kind + " " + key, Timestamp: 1234}
}

// next returns the next revision of d, with another body.
func next(d persist.Document, body string) persist.Document {
	d.Revision, d.Body, d.Timestamp = d.Revision+1, body, d.Timestamp+1
	return d
}

func (s *documentsSuite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *documentsSuite) fails(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want %v", err, want)
	}
}

func (s *documentsSuite) create(list ...persist.Document) {
	s.Helper()
	for _, d := range list {
		s.must(s.documents.Create(s.Context(), d))
	}
}

// reads checks that a document exists and is as wanted.
func (s *documentsSuite) reads(want persist.Document) {
	s.Helper()
	if got, err := s.documents.Read(s.Context(), want.Kind, want.Key); err != nil || got != want {
		s.Errorf("read %.200v, %v, want %.200v", got, err, want)
	}
}

func (s *documentsSuite) missing(kind, key string) {
	s.Helper()
	_, err := s.documents.Read(s.Context(), kind, key)
	s.fails(err, persist.ErrNotFound)
}

// lists checks the keys of a page.
func (s *documentsSuite) lists(kind, after string, limit int, want ...string) {
	s.Helper()
	page, err := s.documents.List(s.Context(), kind, after, limit)
	s.must(err)
	var keys []string
	for _, d := range page {
		if keys = append(keys, d.Key); d.Kind != kind {
			s.Errorf("%s was listed as a %s", d.PersistID(), kind)
		}
	}
	if !slices.Equal(keys, want) {
		s.Errorf("%s after %q, at most %d: %q, want %q", kind, after, limit, keys, want)
	}
}

func (s *documentsSuite) purges(kind string, before int64, limit, want int) {
	s.Helper()
	if n, err := s.documents.Purge(s.Context(), kind, before, limit); n != want || err != nil {
		s.Errorf("of %s before %d, at most %d: %d were purged, %v, want %d", kind, before, limit, n, err, want)
	}
}

func testDocumentLife(s *documentsSuite) {
	first := document("token", "shop")
	first.Body, first.Timestamp, first.Expires = "ü\x00\"\n"+strings.Repeat("x", 1<<20-5), -7, 1<<62
	s.missing("token", "shop")
	s.create(first)
	s.reads(first)
	second := next(first, "")
	second.Expires = 0
	s.must(s.documents.Update(s.Context(), second))
	s.reads(second)
	s.must(s.documents.Delete(s.Context(), "token", "shop", 2))
	s.missing("token", "shop")
	s.lists("token", "", 10)
	s.create(first)
	s.reads(first)
}

func testDocumentRevisions(s *documentsSuite) {
	d := document("token", "shop")
	ctx := s.Context()
	s.fails(s.documents.Update(ctx, d), persist.ErrNotFound)
	s.fails(s.documents.Update(ctx, next(d, "x")), persist.ErrNotFound)
	s.fails(s.documents.Delete(ctx, "token", "shop", 1), persist.ErrNotFound)
	s.create(d)
	s.fails(s.documents.Create(ctx, d), persist.ErrExists)
	second := next(d, "second")
	s.must(s.documents.Update(ctx, second))
	for _, revision := range []int64{1, 2, 4, 1 << 40} {
		wrong := next(d, "wrong")
		wrong.Revision = revision
		s.fails(s.documents.Update(ctx, wrong), persist.ErrConflict)
	}
	for _, revision := range []int64{-1, 0, 1, 3} {
		s.fails(s.documents.Delete(ctx, "token", "shop", revision), persist.ErrConflict)
	}
	s.fails(s.documents.Delete(ctx, "tokens", "shop", 2), persist.ErrNotFound)
	s.reads(second)
	s.must(s.documents.Delete(ctx, "token", "shop", 2))
	s.fails(s.documents.Update(ctx, next(second, "x")), persist.ErrNotFound)
	s.fails(s.documents.Delete(ctx, "token", "shop", 2), persist.ErrNotFound)
}

// crowd runs f many times at once and returns how many calls succeeded. The others must fail with
// one of the errors.
func (s *documentsSuite) crowd(f func(i int) error, losing ...error) int {
	var (
		wg  sync.WaitGroup
		won atomic.Int64
	)
	for i := range 12 {
		wg.Go(func() {
			switch err := f(i); {
			case err == nil:
				won.Add(1)
			case !slices.ContainsFunc(losing, func(want error) bool { return errors.Is(err, want) }):
				s.Error(err)
			}
		})
	}
	wg.Wait()
	return int(won.Load())
}

func testDocumentCreateRace(s *documentsSuite) {
	won := s.crowd(func(i int) error {
		d := document("token", "shop")
		d.Body = strconv.Itoa(i)
		return s.documents.Create(context.Background(), d)
	}, persist.ErrExists)
	if won != 1 {
		s.Errorf("%d created it", won)
	}
}

func testDocumentUpdateRace(s *documentsSuite) {
	d := document("token", "shop")
	s.create(d)
	for range 5 {
		won := s.crowd(func(i int) error {
			return s.documents.Update(context.Background(), next(d, strconv.Itoa(i)))
		}, persist.ErrConflict)
		if won != 1 {
			s.Fatalf("%d wrote revision %d", won, d.Revision+1)
		}
		var err error
		revision := d.Revision
		if d, err = s.documents.Read(s.Context(), "token", "shop"); err != nil || d.Revision != revision+1 {
			s.Fatalf("after revision %d came %+v, %v", revision, d, err)
		}
	}
}

func testDocumentDeleteRace(s *documentsSuite) {
	for round := range 5 {
		key := strconv.Itoa(round)
		d := document("token", key)
		s.create(d)
		won := s.crowd(func(i int) error {
			if i%2 == 0 {
				return s.documents.Delete(context.Background(), "token", key, 1)
			}
			return s.documents.Update(context.Background(), next(d, "x"))
		}, persist.ErrConflict, persist.ErrNotFound)
		if won != 1 {
			s.Errorf("%d changed it", won)
		}
	}
}

// oddKeys in byte order.
var oddKeys = []string{"\n", " ", "$a", ".", "/", "//", "0", "A", "a", "a\x00b", "a/", "a/b", "a0", "b.c", "ü", "\u2028", "😀", strings.Repeat("\U0010ffff", 128)}

func testDocumentKeys(s *documentsSuite) {
	kinds := []string{"a", "ab", "expiry", strings.Repeat("z", 32)}
	for _, kind := range kinds {
		for i, key := range oddKeys {
			d := document(kind, key)
			d.Expires = int64(1 + i)
			s.create(d)
		}
	}
	for _, kind := range kinds {
		for i, key := range oddKeys {
			d := document(kind, key)
			d.Expires = int64(1 + i)
			s.reads(d)
			s.lists(kind, key, 1, oddKeys[i+1:min(i+2, len(oddKeys))]...)
		}
		s.lists(kind, "", 100, oddKeys...)
	}
	s.must(s.documents.Delete(s.Context(), "a", "a/", 1))
	s.missing("a", "a/")
	s.reads(func() persist.Document {
		d := document("ab", "a/")
		d.Expires = int64(1 + slices.Index(oddKeys, "a/"))
		return d
	}())
	s.purges("a", 100, 100, len(oddKeys)-1)
	s.lists("a", "", 100)
	s.lists("ab", "", 100, oddKeys...)
}

func testDocumentList(s *documentsSuite) {
	names := []string{"a", "B", "b", "a.b", "a-b", "ab", "Z", "order-10", "order-9", "ä"}
	for _, name := range names {
		s.create(document("definition", name), document("definitions", name+"s"))
	}
	slices.Sort(names)
	var got []string
	for after := ""; ; {
		page, err := s.documents.List(s.Context(), "definition", after, 3)
		s.must(err)
		if len(page) == 0 {
			break
		}
		for _, d := range page {
			got, after = append(got, d.Key), d.Key
		}
	}
	if !slices.Equal(got, names) {
		s.Errorf("listed %q, want %q", got, names)
	}
	s.lists("definition", "", 0)
	s.lists("definition", "", -1)
	s.lists("definition", "order-", 100, "order-10", "order-9", "ä") // after need not exist
	s.lists("definition", strings.Repeat("y", 1000), 100, "ä")
	s.lists("none", "", 100)
}

// expiring returns a document that expires.
func expiring(kind, key string, expires int64) persist.Document {
	d := document(kind, key)
	d.Expires = expires
	return d
}

func testDocumentPurge(s *documentsSuite) {
	s.purges("answer", 1000, 10, 0)
	for n := int64(1); n <= 10; n++ {
		s.create(expiring("answer", strconv.FormatInt(n, 10), n), expiring("answers", strconv.FormatInt(n, 10), n))
	}
	s.create(document("answer", "stays"))
	s.purges("answer", 0, 10, 0)
	s.purges("answer", -1, 10, 0)
	s.purges("answer", 100, 0, 0)
	s.purges("answer", 100, -1, 0)
	s.purges("answer", 7, 4, 4)
	s.purges("answer", 7, 4, 2)
	s.purges("answer", 7, 4, 0)
	s.lists("answer", "", 100, "10", "7", "8", "9", "stays")
	s.must(s.documents.Delete(s.Context(), "answer", "8", 1))
	s.purges("answer", 1<<62, 100, 3)
	s.lists("answer", "", 100, "stays")
	s.lists("answers", "", 2, "1", "10")
	s.create(expiring("answer", "8", 3)) // there is nothing left of the one before
	s.purges("answer", 3, 100, 0)
	s.purges("answer", 4, 100, 1)
}

// testDocumentPurgeMoved checks that the last revision says when a document expires. Earlier
// revisions do not count towards the limit of a purge.
func testDocumentPurgeMoved(s *documentsSuite) {
	for i, key := range []string{"later", "never", "gone"} {
		s.create(expiring("answer", key, int64(10+i)))
	}
	s.create(expiring("answer", "sooner", 1000), document("answer", "at last"), expiring("answer", "due", 20))
	move := func(key string, from, to int64) {
		s.Helper()
		d := next(expiring("answer", key, from), "moved")
		d.Expires = to
		s.must(s.documents.Update(s.Context(), d))
	}
	move("later", 10, 500)
	move("never", 11, 0)
	move("sooner", 1000, 40)
	move("at last", 0, 45)
	s.must(s.documents.Delete(s.Context(), "answer", "gone", 1))
	s.purges("answer", 50, 1, 1)
	s.purges("answer", 50, 1, 1)
	s.purges("answer", 50, 1, 1)
	s.purges("answer", 50, 1, 0)
	s.lists("answer", "", 10, "later", "never")
	s.purges("answer", 501, 10, 1)
	s.purges("answer", 1<<62, 10, 0)
	s.lists("answer", "", 10, "never")
}

// testDocumentPurgeRace purges while updates prolong documents: a document that was prolonged in
// time stays.
func testDocumentPurgeRace(s *documentsSuite) {
	const count = 40
	for i := range count {
		s.create(expiring("answer", strconv.Itoa(i), 10))
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 2 * count {
				if _, err := s.documents.Purge(context.Background(), "answer", 50, 1); err != nil {
					s.Error(err)
				}
			}
		})
	}
	var kept []string
	for i := count - 1; i >= 0; i-- {
		d := next(expiring("answer", strconv.Itoa(i), 10), "kept")
		d.Expires = 100
		switch err := s.documents.Update(s.Context(), d); {
		case err == nil:
			kept = append(kept, d.Key)
		case !errors.Is(err, persist.ErrNotFound):
			s.Error(err)
		}
	}
	wg.Wait()
	slices.Sort(kept)
	s.purges("answer", 50, 100, 0)
	s.lists("answer", "", 100, kept...)
}

func testDocumentBad(s *documentsSuite) {
	ctx := s.Context()
	there := document("token", "shop")
	s.create(there)
	for name, change := range map[string]func(*persist.Document){
		"no kind":         func(d *persist.Document) { d.Kind = "" },
		"a kind too long": func(d *persist.Document) { d.Kind = strings.Repeat("a", 33) },
		"upper case":      func(d *persist.Document) { d.Kind = "Token" },
		"a path":          func(d *persist.Document) { d.Kind = "a/b" },
		"a line break":    func(d *persist.Document) { d.Kind = "token\n" },
		"no key":          func(d *persist.Document) { d.Key = "" },
		"a key too long":  func(d *persist.Document) { d.Key = strings.Repeat("a", 513) },
		"a key no UTF-8":  func(d *persist.Document) { d.Key = "\xff" },
		"no revision":     func(d *persist.Document) { d.Revision = 0 },
		"a body too long": func(d *persist.Document) { d.Body = strings.Repeat("a", 1<<20+1) },
		"a body no UTF-8": func(d *persist.Document) { d.Body = "\xff" },
		"it expires ago":  func(d *persist.Document) { d.Expires = -1 },
	} {
		bad := document("token", "other")
		change(&bad)
		for what, err := range map[string]error{
			"create": s.documents.Create(ctx, bad), "update": s.documents.Update(ctx, bad),
			"keep": s.documents.Keep(ctx, []persist.Document{document("token", "before it"), bad}),
		} {
			if !errors.Is(err, persist.ErrInvalid) {
				s.Errorf("%s with %s: %v", what, name, err)
			}
		}
	}
	s.fails(s.documents.Create(ctx, next(document("token", "other"), "x")), persist.ErrInvalid)
	s.fails(s.documents.Keep(ctx, []persist.Document{document("token", "one"), next(document("token", "other"), "x")}), persist.ErrInvalid)
	for _, id := range [][2]string{{"", "shop"}, {"Token", "shop"}, {"token", ""}, {"token", "\xff"}} {
		_, err := s.documents.Read(ctx, id[0], id[1])
		s.fails(err, persist.ErrInvalid)
		s.fails(s.documents.Delete(ctx, id[0], id[1], 1), persist.ErrInvalid)
	}
	for _, kind := range []string{"", "Token", "a/b"} {
		_, err := s.documents.List(ctx, kind, "", 10)
		s.fails(err, persist.ErrInvalid)
		_, err = s.documents.Due(ctx, kind, 10, 10)
		s.fails(err, persist.ErrInvalid)
		_, err = s.documents.Purge(ctx, kind, 10, 10)
		s.fails(err, persist.ErrInvalid)
	}
	_, err := s.documents.List(ctx, "token", "\xff", 10)
	s.fails(err, persist.ErrInvalid)
	s.lists("token", "", 10, "shop")
	s.reads(there)
}

func testDocumentContext(s *documentsSuite) {
	d := expiring("answer", "shop", 10)
	s.create(d)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for name, err := range s.all(ctx, d) {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s: %v", name, err)
		}
	}
	s.reads(d)
	s.lists("answer", "", 10, "shop")
}

func testDocumentClosed(s *documentsSuite) {
	d := expiring("answer", "shop", 10)
	s.create(d)
	s.must(s.end())
	for name, err := range s.all(s.Context(), d) {
		if !errors.Is(err, persist.ErrClosed) {
			s.Errorf("%s: %v", name, err)
		}
	}
}

// all tries every operation on an existing document.
func (s *documentsSuite) all(ctx context.Context, d persist.Document) map[string]error {
	_, read := s.documents.Read(ctx, d.Kind, d.Key)
	_, list := s.documents.List(ctx, d.Kind, "", 10)
	_, purge := s.documents.Purge(ctx, d.Kind, 1<<62, 10)
	_, due := s.documents.Due(ctx, d.Kind, 1<<62, 10)
	return map[string]error{
		"create": s.documents.Create(ctx, document(d.Kind, "another")),
		"read":   read,
		"update": s.documents.Update(ctx, next(d, "x")),
		"delete": s.documents.Delete(ctx, d.Kind, d.Key, d.Revision),
		"list":   list,
		"purge":  purge,
		"due":    due,
		"keep":   s.documents.Keep(ctx, []persist.Document{d, document(d.Kind, "a third")}),
	}
}
