package gaplesstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// world is the nodes of one test.
type world struct {
	*testing.T
	stores   []persist.Store
	settings gapless.Settings
	faults   []*faults // of the nodes, if set before they are made
	expired  expiries
}

// expiries are the reservations that nodes found to be expired.
type expiries struct {
	mu  sync.Mutex
	ids []string
}

func (e *expiries) add(x seqd.Expiry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ids = append(e.ids, x.ID)
}

func (e *expiries) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.ids)
}

// bizType is the name of the biz type of all tests.
const bizType = "invoice"

// node returns a strategy over one of the stores, initialised and closed at the end.
func (w *world) node(store int) *gapless.Strategy {
	w.Helper()
	s := w.crashing(store)
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			w.Error(err)
		}
	})
	return s
}

// crashing returns a strategy that is not closed.
func (w *world) crashing(store int) *gapless.Strategy {
	w.Helper()
	settings := w.settings
	over := w.stores[store]
	if len(w.faults) > store {
		over = &faulty{over, w.faults[store]}
	}
	s, err := gapless.New(strategy.Env{
		Store: over, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{},
		Clock: storeclock.New(over, time.Now, nil),
	}, seqd.BizType{Name: bizType, Strategy: gapless.Name, Settings: &settings})
	if err != nil {
		w.Fatal(err)
	}
	s.OnExpired(w.expired.add)
	_, err = over.Documents().Read(w.Context(), persist.LedgerKind, bizType)
	if err := s.Init(w.Context(), errors.Is(err, persist.ErrNotFound)); err != nil {
		w.Fatal(err)
	}
	return s
}

// numbers returns the numbers of a sequence.
func numbers(seq *seqd.Sequence) (list []int64) {
	for n := range seq.Numbers() {
		list = append(list, n)
	}
	return list
}

// issue issues n numbers.
func (w *world) issue(s *gapless.Strategy, n int) []int64 {
	w.Helper()
	var seq seqd.Sequence
	if err := s.Generate(w.Context(), n, &seq); err != nil {
		w.Fatal(err)
	}
	return numbers(&seq)
}

// recovered issues a number after faults have ended. What they left unknown may take longer to find
// out than a call waits.
func (w *world) recovered(s *gapless.Strategy) []int64 {
	w.Helper()
	var seq seqd.Sequence
	await.Eventually(w, "a number is issued again", func() error {
		seq.Reset()
		return s.Generate(w.Context(), 1, &seq)
	})
	return numbers(&seq)
}

// reserve reserves n numbers.
func (w *world) reserve(s *gapless.Strategy, n int, ttl time.Duration) (string, []int64) {
	w.Helper()
	var seq seqd.Sequence
	r, _, err := s.HandOut(w.Context(), seqd.Order{Count: n, Reserve: true, TTL: ttl}, &seq)
	if err != nil {
		w.Fatal(err)
	}
	if r.State != seqd.Reserved || r.ID == "" || seq.Len() != n {
		w.Fatalf("reserved %+v, %v", r, numbers(&seq))
	}
	return r.ID, numbers(&seq)
}

// confirm confirms a reservation, and returns the code of the refusal.
func (w *world) confirm(s *gapless.Strategy, id string) ([]int64, seqd.Code) {
	var seq seqd.Sequence
	_, err := s.Confirm(w.Context(), seqd.Settlement{ID: id}, &seq)
	return numbers(&seq), seqd.CodeOf(err)
}

func (w *world) release(s *gapless.Strategy, id string) seqd.Code {
	return seqd.CodeOf(s.Release(w.Context(), seqd.Settlement{ID: id}))
}

// want fails the test unless two values are equal.
func want[T any](w *world, what string, got, want T) {
	w.Helper()
	if g, s := fmt.Sprint(got), fmt.Sprint(want); g != s {
		w.Errorf("%s: %s, want %s", what, g, s)
	}
}

// account returns the account of a counter, read in small pages, and checks that it is whole: each
// number is in one state.
func (w *world) account(s *gapless.Strategy, key string) (a seqd.Account) {
	w.Helper()
	q := seqd.AccountQuery{Key: key, Limit: 7}
	for {
		page, err := s.Account(w.Context(), q)
		if err != nil {
			w.Fatal(err)
		}
		gaps := append(a.Gaps, page.Gaps...)
		a = page
		a.Gaps = gaps
		if page.Next == 0 {
			break
		}
		q.After = page.Next
	}
	count, last := int64(0), a.First-1
	for _, g := range a.Gaps {
		if g.From <= last || g.To < g.From || g.To > a.Last {
			w.Fatalf("gap %d to %d after %d, of %d to %d", g.From, g.To, last, a.First, a.Last)
		}
		count, last = count+g.To-g.From+1, g.To
	}
	if count+a.Issued != a.Last-a.First+1 {
		w.Fatalf("%d numbers are issued and %d are not, of %d to %d", a.Issued, count, a.First, a.Last)
	}
	return a
}

// in returns the numbers that an account has in one state.
func in(a seqd.Account, state string) (list []int64) {
	for _, g := range a.Gaps {
		for n := g.From; n <= g.To && g.State == state; n++ {
			list = append(list, n)
		}
	}
	return list
}

// whole checks that the numbers that callers have are exactly those that are issued.
func (w *world) whole(s *gapless.Strategy, key string, told []int64) {
	w.Helper()
	a := w.account(s, key)
	gap := make(map[int64]string)
	for _, g := range a.Gaps {
		for n := g.From; n <= g.To; n++ {
			gap[n] = g.State
		}
	}
	seen := make(map[int64]bool)
	for _, n := range told {
		switch {
		case seen[n]:
			w.Errorf("%d was handed out twice", n)
		case n < a.First || n > a.Last || gap[n] != "":
			w.Errorf("%d was handed out, and is %q in the account of %d to %d", n, gap[n], a.First, a.Last)
		}
		seen[n] = true
	}
	if int64(len(seen)) != a.Issued {
		w.Errorf("%d numbers are issued, and callers have %d", a.Issued, len(seen))
	}
}

// settled is whole after what nobody was told has been returned, which happens in the background.
func (w *world) settled(s *gapless.Strategy, told []int64) {
	w.Helper()
	await.True(w, "nothing is issued to nobody", func() bool { return w.account(s, "").Issued == int64(len(told)) })
	w.whole(s, "", told)
}

// collect gathers numbers of goroutines.
type collect struct {
	mu   sync.Mutex
	list []int64
}

func (c *collect) add(list ...int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, list...)
}
