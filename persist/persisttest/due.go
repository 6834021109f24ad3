package persisttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
)

// due checks the keys of what is due, in order.
func (s *documentsSuite) due(kind string, before int64, limit int, want ...string) {
	s.Helper()
	list, err := s.documents.Due(s.Context(), kind, before, limit)
	s.must(err)
	var keys []string
	for _, d := range list {
		keys = append(keys, d.Key)
		s.reads(d)
	}
	if !slices.Equal(keys, want) {
		s.Errorf("of %s before %d, at most %d: %q are due, want %q", kind, before, limit, keys, want)
	}
}

func testDocumentDue(s *documentsSuite) {
	s.due("ledger", 1000, 10)
	for i, key := range oddKeys {
		s.create(expiring("ledger", key, 50), expiring("ledgers", key, 1))
		s.create(expiring("ledge", key, int64(1+i)))
	}
	s.create(document("ledger", "never"), expiring("ledger", "last", 1<<62), expiring("ledger", "first", 49))
	s.due("ledger", 51, 100, append([]string{"first"}, oddKeys...)...)
	s.due("ledger", 50, 100, "first")
	s.due("ledger", 49, 100)
	s.due("ledger", 51, 3, "first", oddKeys[0], oddKeys[1])
	for _, limit := range []int{0, -1} {
		s.due("ledger", 51, limit)
	}
	for _, before := range []int64{0, -1, -1 << 62} {
		s.due("ledger", before, 100)
	}
	s.due("ledger", 1<<62+1, 100, append(append([]string{"first"}, oddKeys...), "last")...)
	s.due("ledge", 4, 100, oddKeys[:3]...)
	s.due("none", 1<<62, 100)
	s.lists("ledger", "l", 2, "last", "never")
}

// testDocumentDueMoved checks that each change moves a document in the queue, or out of it.
func testDocumentDueMoved(s *documentsSuite) {
	d := expiring("ledger", "a", 10)
	s.create(d, expiring("ledger", "b", 20))
	for _, step := range []struct {
		expires int64
		want    []string
	}{
		{30, []string{"b", "a"}}, {0, []string{"b"}}, {0, []string{"b"}}, {15, []string{"a", "b"}}, {15, []string{"a", "b"}},
		{20, []string{"a", "b"}}, {100, []string{"b"}}, {99, []string{"b", "a"}},
	} {
		d = next(d, fmt.Sprint("due at ", step.expires))
		d.Expires = step.expires
		s.must(s.documents.Update(s.Context(), d))
		s.due("ledger", 100, 10, step.want...)
	}
	s.must(s.documents.Delete(s.Context(), "ledger", "a", d.Revision))
	s.due("ledger", 100, 10, "b")
}

// testDocumentDueRace lets several sweepers take what is due, each by an update, while others add
// to it. Everything is taken once.
func testDocumentDueRace(s *documentsSuite) {
	const writers, each = 4, 15
	var (
		wg, writing sync.WaitGroup
		mu          sync.Mutex
		taken       = map[string]int{}
		written     = make(chan struct{})
	)
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				if err := s.documents.Create(context.Background(), expiring("ledger", fmt.Sprint(w, "-", i), int64(1+i))); err != nil {
					s.Error(err)
				}
			}
		})
	}
	sweep := func() (found int) {
		list, err := s.documents.Due(context.Background(), "ledger", 100, 5)
		if err != nil {
			s.Error(err)
		}
		for _, d := range list {
			if d.Revision != 1 {
				s.Errorf("%s is due at revision %d", d.Key, d.Revision)
			}
			d = next(d, "taken")
			d.Expires = 0
			switch err := s.documents.Update(context.Background(), d); {
			case err == nil:
				mu.Lock()
				taken[d.Key]++
				mu.Unlock()
			case !errors.Is(err, persist.ErrConflict):
				s.Error(err)
			}
		}
		return len(list)
	}
	for range 3 {
		wg.Go(func() {
			for done := false; !done; {
				select {
				case <-written:
					done = true // unless something is left
				default:
				}
				if sweep() > 0 {
					done = false
				}
			}
		})
	}
	writing.Wait()
	close(written)
	wg.Wait()
	for key, n := range taken {
		if n != 1 {
			s.Errorf("%s was taken %d times", key, n)
		}
	}
	if len(taken) != writers*each {
		s.Errorf("%d of %d were taken", len(taken), writers*each)
	}
}

func (s *documentsSuite) keep(list ...persist.Document) {
	s.Helper()
	s.must(s.documents.Keep(s.Context(), list))
}

func testDocumentKeep(s *documentsSuite) {
	s.keep()
	there := expiring("void", "b", 5)
	s.create(there)
	changed := next(document("void", "c"), "second")
	s.create(document("void", "c"))
	s.must(s.documents.Update(s.Context(), changed))
	fresh, last := expiring("void", "a", 7), document("other", "b")
	late := expiring("void", "b", 900)
	late.Body = "too late"
	twice := fresh
	twice.Body, twice.Expires = "another body", 0
	for range 3 { // a repeat changes nothing
		s.keep(fresh, late, document("void", "c"), twice, last)
		s.reads(fresh)
		s.reads(there)
		s.reads(changed)
		s.reads(last)
		s.lists("void", "", 10, "a", "b", "c")
		s.due("void", 100, 10, "b", "a")
	}
	// What was kept is a document as any other, and what was removed can be kept again.
	s.must(s.documents.Update(s.Context(), next(fresh, "changed")))
	s.must(s.documents.Delete(s.Context(), "void", "b", 1))
	s.keep(late)
	s.reads(late)
	s.purges("void", 1000, 10, 2)
	s.lists("void", "", 10, "c")
}

// testDocumentKeepMuch keeps more, and larger, documents than one statement of a server takes.
func testDocumentKeepMuch(s *documentsSuite) {
	var list []persist.Document
	for _, key := range oddKeys {
		d := document("void", key)
		d.Body = "\x00ü'\"\\" + key
		list = append(list, d)
	}
	large := document("void", "large")
	large.Body = strings.Repeat("\x00", 1<<20)
	s.keep(append(slices.Clone(list), large)...)
	for _, d := range append(list, large) {
		s.reads(d)
	}
	list = nil
	many := longtest.Or(1200, 2500) // more than one statement takes
	for i := range many {
		list = append(list, expiring("reservation", fmt.Sprintf("%05d", i), int64(1+i)))
	}
	s.keep(list[many/5 : 3*many/5]...)
	s.keep(list...)
	for i := 0; i < len(list); i += 250 {
		s.reads(list[i])
	}
	s.purges("reservation", 1<<62, 10_000, len(list))
}

// testDocumentKeepRace checks that a document that was kept never changes.
func testDocumentKeepRace(s *documentsSuite) {
	const many = 20
	won := s.crowd(func(i int) error {
		var list []persist.Document
		for n := range many {
			d := document("void", strconv.Itoa((n+i)%many)) // each in another order
			d.Body = "of " + strconv.Itoa(i)
			list = append(list, d)
		}
		if err := s.documents.Keep(context.Background(), list); err != nil {
			return err
		}
		first, err := s.documents.List(context.Background(), "void", "", 100)
		if err != nil {
			return err
		}
		if err := s.documents.Keep(context.Background(), list); err != nil {
			return err
		}
		again, err := s.documents.List(context.Background(), "void", "", 100)
		if err == nil && (len(first) != many || !slices.Equal(first, again)) {
			err = fmt.Errorf("%d documents became %d, or others", len(first), len(again))
		}
		return err
	})
	if won != 12 {
		s.Errorf("%d succeeded", won)
	}
}

func testDocumentLedger(s *documentsSuite) {
	d := expiring(persist.LedgerKind, "invoice/tenant-42@2026", 10)
	s.create(d)
	for _, limit := range []int{0, 100} {
		n, err := s.documents.Purge(s.Context(), persist.LedgerKind, 1<<62, limit)
		s.fails(err, persist.ErrInvalid)
		if n != 0 {
			s.Errorf("%d were purged", n)
		}
	}
	s.reads(d)
	s.due(persist.LedgerKind, 11, 10, d.Key)
}
