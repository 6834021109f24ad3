package segment

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// The store is found to be away by the last fetch of a buffer that the node has left already. An
// idle node finds out by itself that the store is back.
func TestStoreAwayIsFoundLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &stuckStore{Store: memory.New(time.Now), release: make(chan struct{})}, &redisModel{}
		c, cut := cuttable(redis)
		s := node(t, store, c, &observer{}, small)
		numbers(t, s, 1)
		time.Sleep(2 * time.Second)
		cut.Store(true)
		store.stuck.Store(true)
		numbers(t, s, 9) // its own buffer is filled meanwhile
		if s.local.Load() == nil {
			t.Fatal("the node is not on its own")
		}
		synctest.Wait()
		store.stuck.Store(false)
		cut.Store(false)
		time.Sleep(2 * time.Second) // it goes back
		if s.local.Load() != nil {
			t.Fatal("the node does not go back")
		}
		close(store.release)
		synctest.Wait()
		if s.Degraded() == nil {
			t.Error("the store is not known to be away")
		}
		time.Sleep(time.Hour)
		if d := s.Degraded(); d != nil {
			t.Errorf("an hour later it still says %v", d)
		}
		closeAll(t, s)
	})
}

// stuckStore lets an allocation that begins while it is stuck fail, at its release.
type stuckStore struct {
	persist.Store
	stuck   atomic.Bool
	release chan struct{}
}

func (s *stuckStore) Counters() persist.Counters { return stuckCounters{s.Store.Counters(), s} }

type stuckCounters struct {
	persist.Counters
	store *stuckStore
}

func (c stuckCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if c.store.stuck.Load() {
		<-c.store.release
		return persist.Range{}, errDown
	}
	return c.Counters.Allocate(ctx, req)
}
