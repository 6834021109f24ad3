package segment

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
)

// The counter of a key that is created near the end of all numbers has no ordinal above the last.
func TestKeyAtTheEndOfSpacedNumbers(t *testing.T) {
	for _, name := range []string{"per-node", "store"} {
		for _, left := range []int64{1, 2, 7} {
			for _, n := range []int{1, 5} {
				t.Run(fmt.Sprint(name, left, n), func(t *testing.T) {
					s := keyed(t, perNode{memory.New(time.Now)}, time.Now, nil, func(s *Settings) {
						orderings[name](s)
						s.Increment = 100
						s.Start = s.ordinals().number(s.ordinals().last() - left + 1)
					})
					last := s.settings.Traits().Last
					for range left {
						got, _, err := of(t.Context(), s, "a", n)
						if err != nil && seqd.CodeOf(err) != seqd.CodeExhausted {
							t.Fatal(err)
						}
						if len(got) > 0 && got[len(got)-1] > last {
							t.Errorf("got %d, which is above %d", got, last)
						}
					}
					_, _, err := of(t.Context(), s, "a", 1)
					must.Code(t, err, seqd.CodeExhausted)
					closed(t, s)
				})
			}
		}
	}
}

// A node gives back its ordinals while nodes with another increment take the numbers between them:
// those do not come back.
func TestGiveBackAmongIncrements(t *testing.T) {
	store := perNode{memory.New(time.Now)}
	node := func(increment int64) *family {
		return keyed(t, store, time.Now, nil, func(s *Settings) { s.Ordering, s.Increment = PerNode, increment })
	}
	one, hundreds, seen := node(1), node(100), make(map[int64]bool)
	take := func(s *family, n int) {
		t.Helper()
		got, _, err := of(t.Context(), s, "a", n)
		must.Do(t, err)
		for _, number := range got {
			if seen[number] {
				t.Fatal(number, "is issued again")
			}
			seen[number] = true
		}
	}
	take(one, 1)
	take(hundreds, 1)
	take(one, 12) // above the last ordinal of the other node, and below its next one
	closed(t, hundreds)
	another := node(1)
	for range 20 {
		take(another, 100)
	}
	closed(t, one)
	closed(t, another)
}

// A cursor has numbers left of another increment, too few for an ordinal: they are taken, so that
// the cursor gets a range of the node's own.
func TestCursorWithLessThanOneOrdinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := perNode{memory.New(time.Now)}, map[string]*redisModel{}
		node := func(increment int64) *family {
			return keyed(t, store, time.Now, redis, func(s *Settings) { s.Increment = increment })
		}
		one, hundreds := node(1), node(100)
		wantOf(t, one, "a", 2, "[1 2]")
		synctest.Wait()
		got, _, err := of(t.Context(), hundreds, "a", 1)
		if err != nil || got[0]%100 != 0 {
			t.Error(got, err)
		}
		closed(t, one)
		closed(t, hundreds)
	})
}
