package segment

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// stuckObserver does not return from the first event of a kind before it is released.
type stuckObserver struct {
	observer
	kind    seqd.EventKind
	why     error
	stuck   bool // guarded by observer.mu
	release chan struct{}
}

func (o *stuckObserver) Event(e seqd.Event) {
	o.observer.Event(e)
	o.mu.Lock()
	first := e.Kind == o.kind && e.Err == o.why && !o.stuck
	o.stuck = o.stuck || first
	o.mu.Unlock()
	if first {
		<-o.release
	}
}

// A node goes back to the cursor while its observer is stuck. Callers do not wait for the observer,
// and a node that is closed meanwhile leaves to its heir what it has issued on its own.
func TestReturnDoesNotWaitForTheObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		c, cut := cuttable(redis)
		o := &stuckObserver{kind: seqd.EventAbandoned, why: errLeft, release: make(chan struct{})}
		s := node(t, store, c, o, small)
		numbers(t, s, 1)
		time.Sleep(2 * time.Second)
		cut.Store(true)
		alone := numbers(t, s, 25)[24]
		if over(s).local.Load() == nil {
			t.Fatal("the node is not on its own")
		}
		cut.Store(false)
		time.Sleep(2 * time.Second) // it goes back
		if over(s).local.Load() != nil || o.count(seqd.EventAbandoned) == 0 {
			t.Fatal("the node does not go back")
		}
		if k := s.knows(); k.issued < alone {
			t.Errorf("%d was issued, and the node knows of %d", alone, k.issued)
		}
		if got, code := try(t, s, 1); code != "" || got[0] <= alone {
			t.Errorf("got %v, %s after %d", got, code, alone)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = s.Close(ctx)
		heir, _ := newSharedHeir(t, store, redis, s)
		if got := numbers(t, heir, 1); got[0] <= alone {
			t.Errorf("the heir issues %d after %d", got[0], alone)
		}
		close(o.release)
		closeAll(t, heir)
	})
}

func newSharedHeir(t *testing.T, store persist.Store, redis *redisModel, from seqd.Strategy) (*Counter, *observer) {
	t.Helper()
	s, o := kinds["shared"].begin(t, store, redis, from)
	return s.(*Counter), o
}
