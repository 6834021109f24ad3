package nodes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// storeTime is the clock of a store that may be away.
type storeTime struct {
	ahead time.Duration
	away  atomic.Bool
	asked atomic.Int64
}

func (s *storeTime) Now(context.Context) (time.Time, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return time.Time{}, errors.New("away")
	}
	return time.Now().Add(s.ahead), nil
}

// The clock tells the time of day until the store answers, and then the store's, whatever becomes
// of the time of day.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, set := &storeTime{ahead: -time.Hour}, time.Duration(0)
		store.away.Store(true)
		c := NewClock(store, func() time.Time { return time.Now().Add(set) })
		wants := func(now, offset time.Duration, ok bool) {
			t.Helper()
			if got, known := c.Offset(); got != offset || known != ok {
				t.Errorf("the offset is %s, %t; want %s, %t", got, known, offset, ok)
			}
			must.Equal(t, time.Until(c.Now()).Round(time.Millisecond), now, "the clock is ahead by")
		}
		wants(0, 0, false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.Follow(ctx) }()
		synctest.Wait()
		wants(0, 0, false)
		store.away.Store(false)
		time.Sleep(askAgain)
		synctest.Wait()
		wants(-time.Hour, time.Hour, true)
		set = 3 * time.Hour // somebody sets the time of day
		wants(-time.Hour, 4*time.Hour, true)
		store.away.Store(true)
		store.asked.Store(0)
		time.Sleep(time.Hour)
		wants(-time.Hour, 4*time.Hour, true)
		if n, most := store.asked.Load(), int64(time.Hour/askAgain); n == 0 || n > most {
			t.Errorf("the store was asked %d times in an hour, want at most %d", n, most)
		}
		cancel()
		<-ended
	})
}
