package segment

import (
	"testing"
	"testing/synctest"
	"time"
)

// A biz type that nobody asks has no goroutine, whatever the state of Redis and the store: the
// bubble would not end.
func TestIdleHasNoGoroutine(t *testing.T) {
	for name, change := range map[string]func(redis *redisModel, store *hookedStore){
		"well":       func(*redisModel, *hookedStore) {},
		"Redis away": func(redis *redisModel, _ *hookedStore) { redis.down = errDown },
		"store away": func(_ *redisModel, store *hookedStore) { store.fails("read", errDown) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				redis, store := &redisModel{}, newHooked()
				s := node(t, store, redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
				numbers(t, s, 10)
				synctest.Wait()
				change(redis, store)
				_, _ = try(t, s, 2000)
				time.Sleep(time.Minute)
				synctest.Wait()
			})
		})
	}
}
