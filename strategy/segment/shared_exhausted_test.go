package segment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A node that found the counter exhausted while another node had the last range on its way serves
// that range too.
func TestSharedLastRangeOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		last := func(s *Settings) {
			s.Start = seqd.MaxNumber - 29
			small(s)
			s.OnRedisDown = Reject
			s.ReserveSegments = 0
			s.Threshold = 1
		}
		a := node(t, store, redis, &observer{}, last)
		numbers(t, a, 5)
		synctest.Wait()
		var gen, epoch string
		var lastRange persist.Range
		for {
			// node b's
			r, err := store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, To: persist.Beside})
			if err != nil {
				break
			}
			lastRange = r
		}
		redis.change(func(r *redisModel) { r.hash.cur, r.hash.queue, gen, epoch = r.hash.last, nil, r.hash.gen, r.hash.epoch })
		_, code := try(t, a, 1)
		t.Log(code, lastRange)
		answer, err := redis.Install(t.Context(), rediscursor.Install{Mode: rediscursor.Append, Gen: gen, Epoch: epoch, Range: lastRange})
		t.Log(answer, err)
		time.Sleep(time.Hour)
		if _, code := try(t, a, 1); code != "" {
			t.Errorf("the cursor has 10 numbers, and node a says %s, health %v", code, a.Health())
		}
		closeAll(t, a)
	})
}

// The counter was missing for a while (a restore that drops and loads): a node on its own goes on
// by itself.
func TestSharedCounterMissingForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		a := node(t, store, redis, &observer{}, small)
		numbers(t, a, 5)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.down = errDown })
		numbers(t, a, 1)
		old := counter(t, store)
		if err := store.Counters().Delete(t.Context(), "order"); err != nil {
			t.Fatal(err)
		}
		for {
			if _, code := try(t, a, 1); code != "" {
				t.Log(code)
				break
			}
		}
		if err := store.Counters().Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, code := try(t, a, 1); code != "" {
			t.Errorf("an hour after the counter is back: %s", code)
		}
		closeAll(t, a)
	})
}
