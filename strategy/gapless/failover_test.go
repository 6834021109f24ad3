package gapless_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless"
)

// failingOver is a store whose server can fail over.
type failingOver struct {
	persist.Store
	fence atomic.Pointer[persist.Fence]
}

func (f *failingOver) Lossy() bool                                       { return true }
func (f *failingOver) Fence(context.Context) (persist.Fence, error)      { return *f.fence.Load(), nil }
func (f *failingOver) ConfirmFence(context.Context, string) error        { return nil }
func (f *failingOver) CreateLost(context.Context, persist.Counter) error { return nil }

func (f *failingOver) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != f.fence.Load().Current {
		return persist.ErrFailedOver
	}
	return f.Documents().Create(ctx, d)
}

func (f *failingOver) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != f.fence.Load().Current {
		return persist.ErrFailedOver
	}
	return f.Documents().Update(ctx, d)
}

// failOver lets another server take over, which lacks nothing, and an operator confirms that.
func (f *failingOver) failOver(fence string) {
	f.fence.Store(&persist.Fence{Current: fence, Confirmed: fence})
}

// A node that only reads after a failover uses a counter again as soon as an operator has raised
// it, also if it has not noticed the failover.
func TestReadsAfterFailover(t *testing.T) {
	synctest.Test(t, readsAfterFailover)
}

func readsAfterFailover(t *testing.T) {
	d := newDaily(t)
	store := &failingOver{Store: d.store}
	store.failOver("f1")
	d.store = store
	s := d.node(24 * time.Hour)
	_, n, _ := d.once(s, "order-1")

	store.failOver("f2")
	raise(t, d.store, "invoice@20261120", d.at.Load(), "f2")
	var seq seqd.Sequence
	_, replayed, err := s.HandOut(t.Context(), seqd.Order{Count: 1, Once: "order-1"}, &seq)
	if err != nil || !replayed || seq.First() != n {
		t.Fatalf("%d, replayed %v, %v: it had got %d", seq.First(), replayed, err, n)
	}
}

// A ledger that is missing after a failover may have been lost: it is not created.
func TestNoLedgerAfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, true, nil)
		s.fence.Store(&persist.Fence{Current: "f1", Confirmed: "f0"})
		_, err := s.on(func(node *gapless.Strategy) (string, error) {
			must.Code(t, node.Init(t.Context(), true), seqd.CodeStoreFailedOver)
			return "", nil
		})
		must.Report(t, err)
	})
}

// The fence is read once for all counters, unless a failover is to be confirmed: then it is read
// each time, so that the node notices soon that it was.
func TestFenceIsReadOnce(t *testing.T) {
	const keys = 5
	for confirmed, want := range map[string]struct {
		reads int
		code  seqd.Code
	}{"f1": {1, ""}, "f0": {2 * keys, seqd.CodeStoreFailedOver}} { // a key is looked at when it is opened, and for the request
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, true, keyed)
			s.fence.Store(&persist.Fence{Current: "f1", Confirmed: confirmed})
			_, err := s.on(func(node *gapless.Strategy) (string, error) {
				for i := range keys {
					if _, _, err := order(node, fmt.Sprint("k", i), seqd.Order{Count: 1}); seqd.CodeOf(err) != want.code {
						t.Errorf("%s is confirmed: %v", confirmed, err)
					}
				}
				if got := node.Degraded(); (got != nil) != (want.code != "") || got != nil && got.Code != want.code {
					t.Errorf("%s is confirmed: degraded: %v", confirmed, got)
				}
				return "", nil
			})
			reads := strings.Count(strings.Join(s.seen(), "\n"), "fence ")
			if err != nil || reads != want.reads {
				t.Errorf("%s is confirmed: %d reads of the fence, %v", confirmed, reads, err)
			}
		})
	}
}
