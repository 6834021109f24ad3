package history

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
)

// slow is a plugin before history that blocks an issued number until it is released.
type slow struct {
	seqd.NopPlugin
	reached, goOn chan struct{}
}

func (s *slow) After(context.Context, *seqd.Call) error {
	close(s.reached)
	<-s.goOn
	return nil
}

// one is a strategy that counts.
type one struct{ n int64 }

func (o *one) Init(context.Context, bool) error { return nil }
func (o *one) Close(context.Context) error      { return nil }
func (o *one) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	o.n++
	seq.Add(o.n, n, 1)
	return nil
}

// TestAnsweredAfterClose closes the issuer while a call is between strategy and history. If the
// close succeeds and the call is answered, the history has its record.
func TestAnsweredAfterClose(t *testing.T) {
	store := memory.New(time.Now)
	h := start(t, store, nil, func(s *Settings) { s.OnOverflow = Block })
	s := &slow{reached: make(chan struct{}), goOn: make(chan struct{})}
	is := must.Get(issuer.New([]issuer.Definition{{
		BizType: seqd.BizType{Name: "order"}, Strategy: &one{},
		Plugins: []seqd.BoundPlugin{{Name: "slow", Order: 500, Quick: true, Plugin: s}, {Name: "history", Order: 900, Quick: true, Plugin: h}},
	}}, issuer.Options{}))(t)
	var wg sync.WaitGroup
	var answered error
	wg.Go(func() { _, answered = is.Next(context.Background(), "order", 1) })
	<-s.reached
	must.Do(t, is.Close(context.Background()))
	close(s.goOn)
	wg.Wait()
	if list := kept(t, store.History(), "order"); answered == nil && !slices.Contains(list, int64(1)) {
		t.Errorf("1 was answered, Close was clean, and the history holds %v", list)
	}
}

// TestClosed checks that, after the last biz type was closed, each policy refuses at once,
// including requests that wait.
func TestClosed(t *testing.T) {
	for _, policy := range []string{Drop, Block, Reject} {
		synctest.Test(t, func(t *testing.T) {
			store, hang := newFake(), make(chan struct{})
			store.set(nil, false, hang)
			p := start(t, store, nil, func(s *Settings) { s.Queue, s.Batch, s.OnOverflow, s.BlockTimeout = 2, 2, policy, time.Minute })
			for n := int64(1); n <= 2; n++ {
				must.Do(t, issue(t.Context(), p, n))
			}
			var wg sync.WaitGroup
			began := time.Now()
			if policy == Block {
				for range 2 {
					wg.Go(func() {
						must.Code(t, issue(t.Context(), p, 3), seqd.CodeStopping, "one who waited got")
					})
				}
				synctest.Wait()
			}
			wg.Go(func() { stop(t, p) })
			synctest.Wait()
			call := &seqd.Call{Count: 1}
			call.Sequence.Add(4, 1, 1)
			must.Code(t, p.Before(t.Context(), call), seqd.CodeStopping, "%s: before it is", policy)
			must.Code(t, p.After(t.Context(), call), seqd.CodeStopping, "%s: after it is", policy)
			close(hang)
			wg.Wait()
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: it took %s", policy, took)
			}
			once(t, kept(t, store.HistoryStore, "order"), 2)
		})
	}
}
