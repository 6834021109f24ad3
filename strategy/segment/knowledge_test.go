package segment

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/counters"
)

// one makes a strategy of one counter.
type one func(t *testing.T, store persist.Store, redis *redisModel) (seqd.Strategy, *observer)

var kinds = map[string]one{
	"alone": func(t *testing.T, store persist.Store, _ *redisModel) (seqd.Strategy, *observer) {
		return newStrategy(t, store, small)
	},
	"shared": func(t *testing.T, store persist.Store, redis *redisModel) (seqd.Strategy, *observer) {
		return newShared(t, store, redis, small)
	},
}

// begin makes a strategy that inherits, and initialises it.
func (make one) begin(t *testing.T, store persist.Store, redis *redisModel, from seqd.Strategy) (seqd.Strategy, *observer) {
	t.Helper()
	s, o := make(t, store, redis)
	if from != nil {
		s.(seqd.Learner).Learn(from.(seqd.Learner).Knowledge())
	}
	must.Do(t, s.Init(t.Context(), from == nil))
	return s, o
}

func end(t *testing.T, s seqd.Strategy) {
	t.Helper()
	must.Report(t, s.Close(t.Context()))
}

// every runs a test for every two kinds, the previous one and the heir's.
func every(t *testing.T, test func(t *testing.T, before, after one)) {
	for a, before := range kinds {
		for b, after := range kinds {
			t.Run(a+" to "+b, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, before, after) }) })
		}
	}
}

// A store that was restored from an older copy while the process ran is noticed by the heir, also
// by one whose predecessor was never asked.
func TestHeirFindsTheStoreRestored(t *testing.T) {
	every(t, func(t *testing.T, before, after one) {
		store, redis := memory.New(time.Now), &redisModel{}
		first, _ := before.begin(t, store, redis, nil)
		issued := numbers(t, first, 500)
		synctest.Wait()
		end(t, first)
		restore(t, store, 50)
		redis.lose()
		unused, _ := after.begin(t, store, redis, first)
		end(t, unused)
		heir, o := before.begin(t, store, redis, unused)
		if got := numbers(t, heir, 1); got[0] <= issued[499] {
			t.Errorf("got %d after %d", got, issued[499])
		}
		if o.count(seqd.EventStoreBehind) == 0 {
			t.Error("nobody was told")
		}
		synctest.Wait()
		end(t, heir)
	})
}

// What was in the cursor may have been issued by others: an heir continues above it although it has
// issued nothing of that.
func TestHeirOfWhatWasInTheCursor(t *testing.T) {
	every(t, func(t *testing.T, before, after one) {
		store, redis := memory.New(time.Now), &redisModel{}
		first, _ := newShared(t, store, redis, small)
		numbers(t, first, 5)
		synctest.Wait()
		ceil := redis.hash.ceil
		closeAll(t, first)
		restore(t, store, 7)
		redis.lose()
		second, _ := before.begin(t, store, redis, first)
		end(t, second)
		heir, o := after.begin(t, store, redis, second)
		if got := numbers(t, heir, 1); got[0] <= ceil || o.count(seqd.EventStoreBehind) == 0 {
			t.Errorf("got %d, want above %d; events %v", got, ceil, o.counts)
		}
		synctest.Wait()
		end(t, heir)
	})
}

// memos returns what an heir of a family learns.
func memos(f *family) []counters.Memo[known] {
	all, _ := f.Knowledge().([]counters.Memo[known])
	return all
}

// Each period inherits for itself, and only the latest are remembered.
func TestHeirOfPeriods(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, c := memory.New(time.Now), clockAt("2026-11-20T12:00:00Z")
			var redis map[string]*redisModel
			if strict {
				redis = make(map[string]*redisModel)
			}
			first := periodic(t, store, c.Now, redis, daily)
			dated(t, first, 300)
			c.turn(24 * time.Hour)
			wantDated(t, first, 2, "2026-11-21[1 2]")
			c.turn(-24 * time.Hour)
			synctest.Wait()
			closed(t, first)
			unused := periodic(t, store, c.Now, redis, daily)
			unused.Learn(first.Knowledge())
			closed(t, unused)

			name := seqd.ResetDaily.Of(c.Now()).Counter("order")
			old := must.Get(store.Counters().Read(t.Context(), name))(t)
			old.Max = 20
			must.Do(t, store.Counters().Delete(t.Context(), name))
			must.Do(t, store.Counters().Create(t.Context(), old))
			for _, r := range redis {
				r.lose()
			}
			heir := periodic(t, store, c.Now, redis, daily)
			heir.Learn(unused.Knowledge())
			var seq seqd.Sequence
			if err := heir.Generate(t.Context(), 1, &seq); err != nil || seq.First() <= 300 {
				t.Errorf("got %d, %v", seq.First(), err)
			}
			for day := range 10 {
				c.turn(24 * time.Hour)
				if got := dated(t, heir, 1); day > 0 && got != fmt.Sprintf("%s[1]", seqd.ResetDaily.Of(c.Now())) {
					t.Errorf("got %s", got)
				}
				synctest.Wait()
			}
			closed(t, heir)
			if n := len(memos(heir)); n == 0 || n >= 2*knownPeriods {
				t.Errorf("%d periods are remembered", n)
			}
		})
	}
}

// An heir knows what the strategy before it knew.
func TestHeirKnowsTheSame(t *testing.T) {
	every(t, func(t *testing.T, before, after one) {
		store, redis := memory.New(time.Now), &redisModel{}
		first, _ := before.begin(t, store, redis, nil)
		numbers(t, first, 30)
		synctest.Wait()
		end(t, first)
		want := first.(*Counter).knows()
		heir, _ := after.begin(t, store, redis, first)
		if got := heir.(*Counter).knows(); got.issued != want.issued || got.alone < want.alone || got.ceil < want.ceil {
			t.Errorf("the heir knows %+v, the strategy knew %+v", got, want)
		}
		end(t, heir)
	})
}

// The same of periods. A strategy that has issued nothing leaves nothing.
func TestKnowledgeOfPeriods(t *testing.T) {
	c := clockAt("2026-11-20T12:00:00Z")
	first := periodic(t, memory.New(time.Now), c.Now, nil, daily)
	must.Equal(t, first.Knowledge(), nil, "what is left of nothing")
	for range 3 {
		dated(t, first, 5)
		c.turn(24 * time.Hour)
	}
	closed(t, first)
	must.Equal(t, keyed(t, memory.New(time.Now), c.Now, nil, nil).Knowledge(), nil, "what is left of no key")
	heir := periodic(t, memory.New(time.Now), c.Now, nil, daily)
	heir.Learn(first.Knowledge())
	got, want := memos(heir), memos(first)
	for _, memo := range want {
		if len(got) != 3 || len(want) != 3 || !slices.Contains(got, memo) {
			t.Errorf("the heir knows %v, the strategy knew %v", got, want)
		}
	}
	closed(t, heir)
}
