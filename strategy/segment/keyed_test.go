package segment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// keyed is a node of a keyed biz type. redis, if it is not nil, gives the cursor of each counter.
func keyed(t testing.TB, store persist.Store, now func() time.Time, redis map[string]*redisModel, change func(*Settings)) *family {
	t.Helper()
	settings := usual()
	settings.Keyed, settings.Step, settings.MaxStep = true, 10, 10
	if change != nil {
		change(&settings)
	}
	validate(t, &settings)
	env := strategy.Env{Store: store, Now: now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}, Addr: fmt.Sprint(rand.Int())}
	return newFamily(env, seqd.BizType{Name: "invoice", Strategy: Name, Settings: &settings}, &settings, func(env strategy.Env, b seqd.BizType, _ string, part *part) (*Counter, error) {
		if redis == nil {
			return count(env, b, "invoice", part)
		}
		redisMu.Lock()
		defer redisMu.Unlock()
		if redis[b.Name] == nil {
			redis[b.Name] = &redisModel{}
		}
		o, err := originOf(env, b, "invoice")
		o.part = part
		return newSequenced(o, o.cursor(redis[b.Name])), err
	})
}

// of asks for n numbers of a key.
func of(ctx context.Context, s *family, key string, n int) ([]int64, seqd.Period, error) {
	var seq seqd.Sequence
	seq.For(key)
	err := s.Generate(ctx, n, &seq)
	if seq.Key() != key {
		panic("the key was lost")
	}
	return slices.Collect(seq.Numbers()), seq.Period(), err
}

func wantOf(t testing.TB, s *family, key string, n int, want string) {
	t.Helper()
	got, _, err := of(t.Context(), s, key, n)
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("%s got %v and %v, want %s", key, got, err, want)
	}
}

func TestKeysCountOnTheirOwn(t *testing.T) {
	for name, store := range map[string]persist.Store{
		"embedded": memory.New(time.Now), "by the store": newHooked(),
	} {
		t.Run(name, func(t *testing.T) {
			first := keyed(t, store, time.Now, nil, func(s *Settings) { s.Start, s.LiveKeys = 100, counters.Remembered+1 })
			must.Equal(t, first.Memory.Least, counters.Remembered+1, "the keys it remembers")
			wantOf(t, first, "a", 2, "[100 101]")
			wantOf(t, first, "b", 1, "[100]")
			wantOf(t, first, "a", 1, "[102]")
			for p, want := range map[seqd.Period]int64{0: 2, 20261120: 0} {
				if n, err := first.CountKeys(t.Context(), p); n != want || err != nil {
					t.Errorf("it counts %d keys, %v, want %d", n, err, want)
				}
			}
			closed(t, first)
			next := keyed(t, store, time.Now, nil, func(s *Settings) { s.Start = 100 })
			wantOf(t, next, "b", 1, "[101]")
			wantOf(t, next, "a", 1, "[103]")
			keys, err := next.Keys(t.Context(), "", 10)
			must.Equal(t, fmt.Sprint(keys, err), "[a b] <nil>", "the keys")
			closed(t, next)
		})
	}
}

// A key that is evicted gives its numbers back, and continues where it was.
func TestEvictedKeysContinue(t *testing.T) {
	s := keyed(t, memory.New(time.Now), time.Now, nil, func(s *Settings) { s.LiveKeys = 3 })
	for round := range 5 {
		for key := range 20 {
			wantOf(t, s, fmt.Sprint("tenant-", key), 1, fmt.Sprintf("[%d]", round+1))
		}
	}
	if n := s.Len(); n > 4 {
		t.Errorf("%d keys are open", n)
	}
	closed(t, s)
}

// An idle key gives its numbers back.
func TestIdleKeysAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		s := keyed(t, store, time.Now, nil, nil)
		wantOf(t, s, "a", 1, "[1]")
		for range 20 {
			time.Sleep(time.Minute)
			wantOf(t, s, "b", 1, fmt.Sprintf("[%d]", s.issuedOf("b")+1))
		}
		synctest.Wait()
		if c, err := store.Counters().Read(t.Context(), "invoice/a"); err != nil || c.Max != 1 || s.Len() != 1 {
			t.Errorf("%+v, %v, %d open", c, err, s.Len())
		}
		wantOf(t, s, "a", 1, "[2]")
		closed(t, s)
	})
}

// issuedOf returns the highest number that an open key has issued.
func (f *family) issuedOf(key string) (issued int64) {
	for _, memo := range memos(f) {
		if memo.Name.Key == key {
			issued = memo.Known.issued
		}
	}
	return issued
}

// What calls of the store and of Redis a cold key costs.
func TestColdKeysCostLittle(t *testing.T) {
	type cost struct{ read, allocate, create int }
	for name, test := range map[string]struct {
		change          func(*Settings)
		exists, missing cost
	}{
		"per node":     {func(s *Settings) { s.Ordering = PerNode }, cost{allocate: 1}, cost{allocate: 1, create: 1}},
		"by the store": {byStore, cost{allocate: 1}, cost{allocate: 1, create: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			store := newHooked()
			fill := keyed(t, store, time.Now, nil, test.change)
			wantOf(t, fill, "a", 1, "[1]")
			wantOf(t, fill, "b", 1, "[1]") // the node has places for keys now
			closed(t, fill)
			s := keyed(t, store, time.Now, nil, test.change)
			must.Do(t, s.Init(t.Context(), false))
			wantOf(t, s, "z", 1, "[1]")
			measure := func(key, want string) cost {
				store.change(func(h *hookedStore) { clear(h.calls) })
				wantOf(t, s, key, 1, want)
				return cost{store.called("read"), store.called("allocate"), store.called("create")}
			}
			must.Equal(t, measure("a", "[2]"), test.exists, "a cold key")
			must.Equal(t, measure("new", "[1]"), test.missing, "a new key")
			closed(t, s)
		})
	}
}

func byHundreds(s *Settings) { s.Step, s.MaxStep = 100, 100 }

// With Redis, a key that has a cursor costs a read and a script. Another one costs an allocation,
// which reads too, and three scripts more, and a new one the call that creates it.
func TestColdKeyWithRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), map[string]*redisModel{"invoice/b": {}, "invoice/c": {}}
		first := keyed(t, store, time.Now, redis, byHundreds)
		wantOf(t, first, "a", 1, "[1]")
		wantOf(t, first, "b", 1, "[1]")
		synctest.Wait()
		closed(t, first)
		redis["invoice/b"].lose()
		s := keyed(t, store, time.Now, redis, byHundreds)
		wantOf(t, s, "z", 1, "[1]") // the node has places for keys now
		synctest.Wait()
		for _, test := range []struct {
			key, want, cost string
		}{
			{"a", "[2]", "1 reads, 0 allocations, 0 creations, 1 scripts"},
			{"b", "[101]", "2 reads, 1 allocations, 0 creations, 4 scripts"},
			{"c", "[1]", "2 reads, 1 allocations, 1 creations, 4 scripts"},
		} {
			store.change(func(h *hookedStore) { clear(h.calls) })
			before := redis["invoice/"+test.key].calls
			wantOf(t, s, test.key, 1, test.want)
			synctest.Wait()
			got := fmt.Sprintf("%d reads, %d allocations, %d creations, %d scripts",
				store.called("read"), store.called("allocate"), store.called("create"), redis["invoice/"+test.key].calls-before)
			must.Equal(t, got, test.cost, "%s", test.key)
		}
		closed(t, s)
	})
}

// A biz type has no more than maxKeys keys, over all nodes.
func TestMaxKeys(t *testing.T) {
	store := newHooked()
	few := func(s *Settings) { s.MaxKeys = 7 }
	nodes := []*family{keyed(t, store, time.Now, nil, few), keyed(t, store, time.Now, nil, few), keyed(t, store, time.Now, nil, few)}
	made := map[string]bool{}
	var mu sync.Mutex
	var callers sync.WaitGroup
	for n, s := range nodes {
		callers.Go(func() {
			for i := range 20 {
				key := fmt.Sprint("k", (i+7*n)%20)
				_, _, err := of(t.Context(), s, key, 1)
				mu.Lock()
				switch {
				case err == nil:
					made[key] = true
				case seqd.CodeOf(err) != seqd.CodeTooManyKeys:
					t.Error(key, err)
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	keys, err := nodes[0].Keys(t.Context(), "", 100)
	if err != nil || len(keys) != 7 || len(made) != 7 {
		t.Errorf("%v, %v, %v", keys, made, err)
	}
	for key := range made {
		if _, _, err := of(t.Context(), nodes[1], key, 1); err != nil {
			t.Error(err)
		}
	}
	for _, s := range nodes {
		if s.Len() > 7 {
			t.Errorf("%d are open", s.Len())
		}
		closed(t, s)
	}
}

// Keys are listed once each, whatever pages are asked for.
func TestKeysAreListed(t *testing.T) {
	for _, reset := range []seqd.Reset{seqd.ResetNever, seqd.ResetDaily} {
		store, c := memory.New(time.Now), clockAt("2026-11-20T12:00:00Z")
		s := keyed(t, store, c.Now, nil, func(s *Settings) { s.Reset = reset })
		want := map[string]bool{}
		for day := range 5 {
			for _, key := range []string{"a", "a-b", "a.b", "a0", "aA", "a_", "b", "0", fmt.Sprint("day", day)} {
				if _, _, err := of(t.Context(), s, key, 1); err != nil {
					t.Fatal(err)
				}
				want[key] = true
			}
			c.turn(24 * time.Hour)
		}
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "invoicf", Step: 1, Timestamp: 1})) // of another biz type
		if none, err := s.Keys(t.Context(), "", 0); len(none) > 0 || err != nil {
			t.Errorf("%q, %v: none were asked for", none, err)
		}
		left := map[seqd.Reset]float64{seqd.ResetNever: missing, seqd.ResetDaily: 43200}
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugePeriodLeft: left[reset], seqd.GaugeMaxKeys: float64(s.settings.MaxKeys)})
		for limit := 1; limit < 15; limit++ {
			var all []string
			for after := ""; ; {
				page := must.Get(s.Keys(t.Context(), after, limit))(t)
				if all = append(all, page...); len(page) < limit {
					break
				}
				after = page[limit-1]
			}
			got := map[string]bool{}
			for _, key := range all {
				got[key] = true
			}
			if len(all) != len(want) || len(got) != len(want) {
				t.Errorf("%s, limit %d: %v", reset, limit, all)
			}
			if reset == seqd.ResetNever && !slices.IsSorted(all) {
				t.Errorf("%v is not sorted", all)
			}
		}
		closed(t, s)
	}
}

// Nodes with few open keys each, over a store that loses requests and replies, with crashes, clean
// stops, changes of the definition and jumping clocks: no number of a key and period twice, and on
// each node they increase.
func TestKeysRandom(t *testing.T) {
	kinds := map[string]struct {
		shared, redis bool
		change        func(*Settings)
	}{
		"per node":     {shared: true, change: func(s *Settings) { s.Ordering = PerNode }},
		"by the store": {shared: true, change: byStore},
		"redis":        {shared: true, redis: true, change: func(s *Settings) { s.Sequencer = SequencerRedis }},
	}
	for name, kind := range kinds {
		for i := range 6 {
			reset, increments := []seqd.Reset{seqd.ResetNever, seqd.ResetDaily}[i%2], [][]int64{{1}, {7}, {1, 3, 100}}[i/2]
			t.Run(fmt.Sprint(name, " ", reset, " ", increments), func(t *testing.T) {
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) {
						w := &keyWorld{
							t: t, seed: uint64(seed), seen: map[string]string{}, ordered: kind.change == nil || name == "by the store",
							last: map[string]int64{}, increments: increments,
						}
						w.store = &chaos{Store: memory.New(time.Now), rnd: rand.New(rand.NewPCG(w.seed, 7))}
						if kind.redis {
							w.redis = map[string]*redisModel{}
						}
						w.change = func(s *Settings) {
							kind.change(s)
							s.Reset, s.RestoreGap, s.LiveKeys, s.PeriodRetention = reset, 0, 3, 48*time.Hour
						}
						w.run()
					})
					if t.Failed() {
						return
					}
				}
			})
		}
	}
}

// keyWorld is some nodes and what they issued.
type keyWorld struct {
	t       *testing.T
	seed    uint64
	store   persist.Store
	redis   map[string]*redisModel
	change  func(*Settings)
	ordered bool // over all nodes

	mu         sync.Mutex // guards what follows
	seen       map[string]string
	increments []int64          // each life of a node has one of them
	last       map[string]int64 // the highest number of calls that have ended, by counter
	issued     int
	failed     int
}

func (w *keyWorld) run() {
	var nodes sync.WaitGroup
	for node := range 3 {
		nodes.Go(func() { w.node(node, rand.New(rand.NewPCG(w.seed, uint64(node)+100))) })
	}
	nodes.Wait()
	time.Sleep(time.Minute)
	if w.issued < 100 {
		w.t.Errorf("seed %d: only %d numbers", w.seed, w.issued)
	}
	if w.seed == 0 {
		w.t.Log(w.issued, "numbers,", w.failed, "refusals")
	}
}

// node is the lives of one node: sometimes its strategy is replaced while it runs.
func (w *keyWorld) node(node int, r *rand.Rand) {
	offset := time.Duration(0)
	var clock sync.Mutex
	now := func() time.Time { clock.Lock(); defer clock.Unlock(); return time.Now().Add(offset) }
	var before *family
	for life := range longtest.Or(3, 5) {
		increment := w.increments[r.IntN(len(w.increments))]
		s := keyed(w.t, perNode{w.store}, now, w.redis, func(s *Settings) {
			w.change(s)
			s.Increment, s.Offset = increment, increment/2
		})
		if before != nil && r.IntN(2) == 0 {
			s.Learn(before.Knowledge())
		}
		for range longtest.Or(10, 20) {
			var calls sync.WaitGroup
			for range 1 + r.IntN(6) {
				key, n := fmt.Sprint("k", r.IntN(9)), 1+r.IntN(7)
				patience := time.Duration(1+r.IntN(4000)) * time.Millisecond
				calls.Go(func() { w.call(s, key, n, patience, fmt.Sprint("node ", node, " life ", life)) })
			}
			calls.Wait()
			time.Sleep(time.Duration(r.IntN(4)) * time.Duration(r.IntN(1200)) * time.Second)
			if r.IntN(8) == 0 {
				clock.Lock()
				offset = time.Duration(r.IntN(8*24)-6*24) * time.Hour
				clock.Unlock()
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(5))*time.Second)
		_ = s.Close(ctx)
		cancel()
		before = s
	}
}

func (w *keyWorld) call(s *family, key string, n int, patience time.Duration, who string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.mu.Lock()
	floors := make(map[string]int64, len(w.last))
	for counter, last := range w.last {
		if strings.HasPrefix(counter, key+"@") {
			floors[counter] = last
		}
	}
	w.mu.Unlock()
	got, period, err := of(ctx, s, key, n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failed++
		return
	}
	counter := key + "@" + period.String()
	for _, number := range got {
		if increment, offset := max(1, s.settings.Increment), s.settings.Offset; number%increment != offset {
			w.t.Errorf("seed %d: %d is none of increment %d and offset %d", w.seed, number, increment, offset)
		}
		id := fmt.Sprint(counter, "/", number)
		who := fmt.Sprint(who, " at ", time.Now().Format(time.DateTime))
		if other, twice := w.seen[id]; twice {
			w.t.Errorf("seed %d: %s by %s and by %s", w.seed, id, other, who)
		}
		if w.ordered && number <= floors[counter] {
			w.t.Errorf("seed %d: %s by %s is below %d, of a call that had ended", w.seed, id, who, floors[counter])
		}
		w.seen[id] = who
		w.issued++
	}
	w.last[counter] = max(w.last[counter], got[len(got)-1])
}

// A biz type is degraded if one of its keys is.
// A node is well as long as one of its open keys gets numbers.
func TestHealthOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := map[string]*redisModel{}
		s := keyed(t, newHooked(), time.Now, redis, func(s *Settings) { s.OnRedisDown = Reject })
		want := func(down string, unready bool) {
			for _, key := range []string{"a", "b"} {
				redis["invoice/"+key].change(func(r *redisModel) {
					if r.down = nil; strings.Contains(down, key) {
						r.down = errDown
					}
				})
				_, _, _ = of(t.Context(), s, key, 1)
			}
			time.Sleep(5 * time.Second)
			if err := s.Health(); (err != nil) != unready {
				t.Errorf("down for %q, the health is %v", down, err)
			}
		}
		wantOf(t, s, "a", 1, "[1]")
		wantOf(t, s, "b", 1, "[1]")
		for range 3 { // the keys are asked in any order
			want("", false)
			want("a", false)
			want("b", false)
			want("ab", true)
		}
		closed(t, s)
	})
}

func TestDegradedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := map[string]*redisModel{}
		s := keyed(t, newHooked(), time.Now, redis, nil)
		wantOf(t, s, "a", 1, "[1]")
		must.Equal(t, s.Degraded(), nil, "degraded")
		redis["invoice/a"].change(func(r *redisModel) { r.down = errDown })
		if _, _, err := of(t.Context(), s, "a", 1); err != nil {
			t.Error(err)
		}
		if d := s.Degraded(); d == nil || d.Code != seqd.CodeRedisUnavailable {
			t.Errorf("Redis is down, and it is degraded by %v", d)
		}
		closed(t, s)
	})
}
