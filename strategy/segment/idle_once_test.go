package segment

import (
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// A strategy from which another sequencer has taken over is not idle: one that is made anew would take
// over again, although nobody changed a definition or restarted a node.
func TestNotIdleAfterATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		old, _ := newStored(t, store, redis.Drop, byStore)
		numbers(t, old, 10)
		c := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		numbers(t, c, 10)
		if _, code := try(t, old, 1); code != seqd.CodeStarting {
			t.Fatalf("the node with the old definition answered %q", code)
		}
		if !old.Idle() {
			return // it is not dropped
		}
		_ = old.Close(t.Context())
		again := newSequenced(old.origin, redis)
		again.Learn(old.Knowledge())
		must.Do(t, again.Init(t.Context(), false))
		if got, code := try(t, again, 1); code != seqd.CodeStarting {
			t.Errorf("after a drop the node with the old definition takes over again: %v %q", got, code)
		}
		if _, code := try(t, c, 1); code != "" {
			t.Errorf("and the node with the new definition refuses: %q", code)
		}
		_ = again.Close(t.Context())
		closeAll(t, c)
	})
}
