package segment

import (
	"context"
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
		store, redis := &stuckStore{Store: memory.New(time.Now)}, &redisModel{}
		c, cut := cuttable(redis)
		s := node(t, store, c, &observer{}, small)
		numbers(t, s, 1)
		time.Sleep(2 * time.Second)
		cut.Store(true)
		numbers(t, s, 9)
		if s.local.Load() == nil {
			t.Fatal("the node is not on its own")
		}
		store.stuck = make(chan struct{})
		stuck := store.stuck
		numbers(t, s, 1) // its buffer is filled
		synctest.Wait()
		store.stuck = nil
		cut.Store(false)
		time.Sleep(2 * time.Second) // it goes back
		if s.local.Load() != nil {
			t.Fatal("the node does not go back")
		}
		close(stuck)
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

// stuckStore lets an allocation fail that began while stuck was not nil, when stuck is closed.
type stuckStore struct {
	persist.Store
	stuck chan struct{}
}

func (s *stuckStore) Counters() persist.Counters { return stuckCounters{s.Store.Counters(), s} }

type stuckCounters struct {
	persist.Counters
	store *stuckStore
}

func (c stuckCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if stuck := c.store.stuck; stuck != nil {
		<-stuck
		return persist.Range{}, errDown
	}
	return c.Counters.Allocate(ctx, req)
}
