package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

// Two nodes agree on who leads and who does a work, on every store that nodes share.

func TestTermsOnPostgres(t *testing.T) { twoOnPostgres(t, agree) }
func TestTermsOnMySQL(t *testing.T)    { twoOnMySQL(t, agree) }
func TestTermsOnMongo(t *testing.T)    { twoOnMongo(t, agree) }

func agree(t *testing.T, one, two persist.Store) {
	t.Helper()
	node := func(name string, s persist.Store) (own *terms.Terms, end func()) {
		fenced, _ := s.(persist.Fenced)
		own = terms.New(terms.Options{
			Documents: s.Documents(), Fenced: fenced, Shared: true, Node: name, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { own.Run(ctx) })
		return own, sync.OnceFunc(func() { cancel(); running.Wait() })
	}
	a, endA := node("a", one)
	b, endB := node("b", two)
	defer endA()
	defer endB()
	await.True(t, "one leads", func() bool { return a.Leading() != b.Leading() && a.Leader() == b.Leader() })
	if b.Leading() {
		a, b, endA = b, a, endB
	}
	var work *terms.Work
	take := func(n *terms.Terms) {
		await.Eventually(t, "the work is taken and written", func() (err error) {
			if work, err = n.Take(t.Context(), "work", "w"); err == nil {
				err = work.Write(t.Context(), []byte("7"), 0)
			}
			return err
		})
	}
	take(a)
	before := work.Term
	await.True(t, "the other one may not take it", func() bool { return errors.Is(must.Err(b.Take(t.Context(), "work", "w")), terms.ErrTaken) })
	endA()
	await.True(t, "the other one leads", b.Leading)
	take(b)
	if work.Term <= before {
		t.Errorf("term %d after term %d", work.Term, before)
	}
}
