package segment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// The store is found to be away by the last fetch of a buffer that the node has left already. An
// idle node finds out by itself that the store is back.
func TestStoreAwayIsFoundLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis, release := newHooked(), &redisModel{}, make(chan struct{})
		c, cut := cuttable(redis)
		s := node(t, store, c, &observer{}, small)
		numbers(t, s, 1)
		time.Sleep(2 * time.Second)
		cut.Store(true)
		store.change(func(h *hookedStore) {
			h.before = func(op string) error {
				if op != "allocate" {
					return nil
				}
				<-release
				return errDown
			}
		})
		numbers(t, s, 9) // its own buffer is filled meanwhile
		if over(s).local.Load() == nil {
			t.Fatal("the node is not on its own")
		}
		synctest.Wait()
		store.fails("", nil)
		cut.Store(false)
		time.Sleep(2 * time.Second) // it goes back
		if over(s).local.Load() != nil {
			t.Fatal("the node does not go back")
		}
		close(release)
		synctest.Wait()
		if s.Degraded() == nil {
			t.Error("the store is not known to be away")
		}
		time.Sleep(time.Hour)
		must.Equal(t, s.Degraded(), nil, "degraded an hour later")
		closeAll(t, s)
	})
}
