package segment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/persist/memory"
)

// A strategy that issues on its own because Redis is away is not idle: if it were dropped, nobody would
// move the cursor above what it has issued.
func TestNotIdleWhileAlone(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, redis := memory.New(time.Now), &redisModel{}
			c, cut := cuttable(redis)
			a := node(t, store, c, &observer{}, small)
			b := node(t, store, redis, &observer{}, small)
			numbers(t, a, 1)
			numbers(t, b, 1)
			synctest.Wait()
			cut.Store(true)
			var last int64
			for range 5 {
				got := numbers(t, a, 1)
				last = got[0]
				time.Sleep(time.Second)
			}
			if dropped && a.Idle() {
				closeAll(t, a)
			}
			time.Sleep(10 * time.Second)
			cut.Store(false)
			time.Sleep(10 * time.Minute)
			got := numbers(t, b, 1)
			if got[0] <= last {
				t.Errorf("dropped %v: 10 minutes after all nodes reached Redis again, %d comes after %d", dropped, got[0], last)
			}
			if !a.Idle() {
				t.Error("it is not idle although it went back")
			}
			closeAll(t, a)
			closeAll(t, b)
		})
	}
}
