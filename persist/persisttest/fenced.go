package persisttest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// runFenced runs the tests of changes under a fence, if the store is a [persist.Fenced]. What
// happens at a failover is tested with the servers of a driver.
func runFenced(t *testing.T, open Factory) {
	t.Helper()
	store := open(t, time.Now)
	if err := store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, ok := store.(persist.Fenced); !ok {
		if store.Lossy() {
			t.Error("a failover can lose what the store has acknowledged, and the store is no Fenced")
		}
		return
	}
	tests := []struct {
		name string
		run  func(*fencedSuite)
	}{
		{"documents are changed under the present fence", testFencedLife},
		{"another fence changes nothing", testFencedOther},
		{"each revision has one winner, whoever compares the fence", testFencedRace},
		{"bad documents are refused", testFencedBad},
		{"an ended context changes nothing, a closed store refuses", testFencedEnds},
	}
	for _, test := range tests {
		t.Run("Fenced/"+test.name, func(t *testing.T) {
			store := open(t, time.Now)
			t.Cleanup(func() {
				if err := store.Close(); err != nil && !errors.Is(err, persist.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			fenced, _ := store.(persist.Fenced)
			fence, err := fenced.Fence(t.Context())
			if err != nil || fence.FailedOver() || fence.Current == "" {
				t.Fatalf("the fence of a new store is %+v, %v", fence, err)
			}
			test.run(&fencedSuite{documentsSuite{t, store.Documents(), store.Close}, fenced, fence.Current})
		})
	}
}

// fencedSuite is one test's documents and fence.
type fencedSuite struct {
	documentsSuite
	fenced persist.Fenced
	fence  string
}

func testFencedLife(s *fencedSuite) {
	ctx := s.Context()
	first := expiring(persist.LedgerKind, "invoice/ü\x00@2026", 50)
	first.Body = "\x00'\"\\?ü"
	s.must(s.fenced.CreateFenced(ctx, first, s.fence))
	s.reads(first)
	s.fails(s.fenced.CreateFenced(ctx, first, s.fence), persist.ErrExists)
	second := next(first, "")
	second.Expires = 0
	s.must(s.fenced.UpdateFenced(ctx, second, s.fence))
	s.reads(second)
	s.due(persist.LedgerKind, 1000, 10)
	for _, revision := range []int64{1, 2, 4} {
		wrong := next(first, "wrong")
		wrong.Revision = revision
		s.fails(s.fenced.UpdateFenced(ctx, wrong, s.fence), persist.ErrConflict)
	}
	s.reads(second)
	s.must(s.documents.Update(ctx, next(second, "third")))
	s.reads(next(second, "third"))
	s.fails(s.fenced.UpdateFenced(ctx, next(document(persist.LedgerKind, "missing"), "x"), s.fence), persist.ErrNotFound)
}

func testFencedOther(s *fencedSuite) {
	ctx := s.Context()
	there := document(persist.LedgerKind, "invoice")
	s.create(there)
	for _, other := range []string{"", "another", s.fence + "0", " " + s.fence, "0"} {
		s.fails(s.fenced.CreateFenced(ctx, document(persist.LedgerKind, "order"), other), persist.ErrFailedOver)
		s.fails(s.fenced.UpdateFenced(ctx, next(there, "x"), other), persist.ErrFailedOver)
		s.missing(persist.LedgerKind, "order")
		s.reads(there)
		// What is there is said first: it is true whatever the fence is.
		s.fails(s.fenced.CreateFenced(ctx, there, other), persist.ErrExists)
		s.fails(s.fenced.UpdateFenced(ctx, next(document(persist.LedgerKind, "order"), "x"), other), persist.ErrNotFound)
		s.fails(s.fenced.UpdateFenced(ctx, next(next(there, "x"), "x"), other), persist.ErrConflict)
	}
}

func testFencedRace(s *fencedSuite) {
	won := s.crowd(func(i int) error {
		d := document(persist.LedgerKind, "invoice")
		d.Body = strconv.Itoa(i)
		if i%3 == 0 {
			return s.documents.Create(context.Background(), d)
		}
		return s.fenced.CreateFenced(context.Background(), d, s.fence)
	}, persist.ErrExists)
	if won != 1 {
		s.Errorf("%d created it", won)
	}
	for revision := int64(1); revision <= 5; revision++ {
		body := ""
		won := s.crowd(func(i int) error {
			d := next(document(persist.LedgerKind, "invoice"), fmt.Sprint(revision, " ", i))
			d.Revision = revision + 1
			var err error
			switch i % 3 {
			case 0:
				err = s.documents.Update(context.Background(), d)
			case 1:
				err = s.fenced.UpdateFenced(context.Background(), d, "another")
			default:
				err = s.fenced.UpdateFenced(context.Background(), d, s.fence)
			}
			if err == nil {
				body = d.Body // one winner, or the race detector says so
			}
			return err
		}, persist.ErrConflict, persist.ErrFailedOver)
		got, err := s.documents.Read(s.Context(), persist.LedgerKind, "invoice")
		if won != 1 || err != nil || got.Revision != revision+1 || got.Body != body {
			s.Fatalf("%d wrote revision %d, which is %+v, %v", won, revision+1, got, err)
		}
	}
}

func testFencedBad(s *fencedSuite) {
	there := document(persist.LedgerKind, "invoice")
	s.create(there)
	for _, change := range []func(*persist.Document){
		func(d *persist.Document) { d.Kind = "Ledger" },
		func(d *persist.Document) { d.Key = "" },
		func(d *persist.Document) { d.Body = "\xff" },
		func(d *persist.Document) { d.Expires = -1 },
		func(d *persist.Document) { d.Revision = 0 },
	} {
		bad := next(there, "x")
		change(&bad)
		s.fails(s.fenced.UpdateFenced(s.Context(), bad, s.fence), persist.ErrInvalid)
		s.fails(s.fenced.CreateFenced(s.Context(), bad, s.fence), persist.ErrInvalid)
	}
	s.fails(s.fenced.CreateFenced(s.Context(), next(document(persist.LedgerKind, "order"), "x"), s.fence), persist.ErrInvalid)
	s.reads(there)
}

func testFencedEnds(s *fencedSuite) {
	there := document(persist.LedgerKind, "invoice")
	s.create(there)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	s.fails(s.fenced.UpdateFenced(ctx, next(there, "x"), s.fence), context.Canceled)
	s.fails(s.fenced.CreateFenced(ctx, document(persist.LedgerKind, "order"), s.fence), context.Canceled)
	s.reads(there)
	s.missing(persist.LedgerKind, "order")
	s.must(s.end())
	s.fails(s.fenced.UpdateFenced(s.Context(), next(there, "x"), s.fence), persist.ErrClosed)
	s.fails(s.fenced.CreateFenced(s.Context(), document(persist.LedgerKind, "order"), s.fence), persist.ErrClosed)
}
