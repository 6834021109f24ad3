package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// A store that has failed over creates no key, and continues those that exist above a gap.
func TestKeysAfterFailover(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"per node":     func(s *Settings) { s.Ordering, s.RestoreGap = PerNode, 1000 },
		"by the store": func(s *Settings) { byStore(s); s.RestoreGap = 1000 },
		"redis":        func(s *Settings) { s.RestoreGap = 1000 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFailingOver()
				var redis map[string]*redisModel
				if name == "redis" {
					redis = map[string]*redisModel{}
				}
				first := keyed(t, store, time.Now, redis, change)
				wantOf(t, first, "a", 1, "[1]")
				copied := store.copied()
				wantOf(t, first, "a", 30, fmt.Sprint(upTo(2, 31)))
				wantOf(t, first, "lost", 1, "[1]")
				closed(t, first)
				store.failOver(copied)
				s := keyed(t, store, time.Now, redis, change)
				if got, _, err := of(t.Context(), s, "a", 1); err != nil || got[0] <= 1000 {
					t.Errorf("got %v, %v", got, err)
				}
				for range 3 {
					if got, _, err := of(t.Context(), s, "lost", 1); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
						t.Errorf("got %v, %v", got, err)
					}
				}
				synctest.Wait()
				if s.Len() != 1 || s.Health() != nil {
					t.Errorf("%d open, %v", s.Len(), s.Health())
				}
				store.confirm()
				wantOf(t, s, "new", 1, "[1]")
				closed(t, s)
			})
		})
	}
}

func upTo(first, last int64) (all []int64) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

// A key whose counter was lost does not begin again in a process that remembers it.
func TestLostKeyIsRefused(t *testing.T) {
	for name, open := range map[string]int{"embedded": 0, "by the store": 0, "by the store, open": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var kept persist.Store = memory.New(time.Now)
				if name != "embedded" {
					kept = newHooked()
				}
				s := keyed(t, kept, time.Now, nil, nil)
				wantOf(t, s, "a", 1, "[1]")
				if open == 0 {
					time.Sleep(time.Hour) // it is closed
				}
				if err := kept.Counters().Delete(t.Context(), "invoice/a"); err != nil || s.Len() != open {
					t.Fatal(err, s.Len())
				}
				for range 3 {
					if got, _, err := of(t.Context(), s, "a", 1); seqd.CodeOf(err) != seqd.CodeConflict {
						t.Errorf("got %v, %v", got, err)
					}
				}
				closed(t, s)
			})
		})
	}
}

// A key is opened again only after it was closed, so its numbers continue, although its numbers are
// given back slowly and the answer is lost.
func TestReopenedWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := keyed(t, slowToTakeBack{memory.New(time.Now)}, time.Now, nil, func(s *Settings) { s.LiveKeys = 1 })
		wantOf(t, s, "a", 1, "[1]")
		wantOf(t, s, "b", 1, "[1]") // closes a
		began := time.Now()
		wantOf(t, s, "a", 1, "[2]")
		must.Equal(t, time.Since(began), time.Second, "it waited")
		closed(t, s)
	})
}

// A cursor that may be behind what this node has issued is retired when its key is closed, so that
// nobody has to remember it.
func TestCursorBehindIsRetired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), map[string]*redisModel{"invoice/a": {}}
		s := keyed(t, store, time.Now, redis, nil)
		wantOf(t, s, "a", 1, "[1]")
		redis["invoice/a"].change(func(r *redisModel) { r.down = errDown })
		got, _, err := of(t.Context(), s, "a", 1)
		if err != nil || got[0] < 2 {
			t.Fatal(got, err)
		}
		time.Sleep(time.Hour)
		if s.Len() != 0 {
			t.Fatal("the key is open")
		}
		redis["invoice/a"].change(func(r *redisModel) { r.down = nil })
		synctest.Wait()
		s.Memory = counters.Memory[known]{Least: 1} // other nodes do not know either
		next, _, err := of(t.Context(), s, "a", 1)
		if err != nil || next[0] <= got[0] {
			t.Errorf("%v after %v, %v", next, got, err)
		}
		closed(t, s)
	})
}

// The counters of past periods are removed, with the places of their keys, and none comes back.
func TestPurgedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		short := func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour }
		s := keyed(t, store, time.Now, nil, short)
		var log strings.Builder
		s.Env.Log = slog.New(slog.NewTextHandler(&log, nil))
		late := keyed(t, store, func() time.Time { return time.Now().AddDate(0, 0, -5) }, nil, short)
		for day := range 8 {
			for key := range 30 {
				wantOf(t, s, fmt.Sprint("k", key, "-", day%2), 1, "[1]")
			}
			time.Sleep(24 * time.Hour)
		}
		synctest.Wait()
		counters, err := store.Counters().List(t.Context(), "", 10_000)
		if err != nil || len(counters) != 3*31 {
			t.Errorf("%d counters are left, %v", len(counters), err)
		}
		must.Equal(t, strings.Count(log.String(), "counters=31\n"), 5, "the times that it logs that 31 counters were removed")
		for _, key := range []string{"k1-0", "k1-1", "new"} {
			if got, p, err := of(t.Context(), late, key, 1); seqd.CodeOf(err) != seqd.CodeClockRollback {
				t.Errorf("%s got %v of %s, %v", key, got, p, err)
			}
		}
		if keys, err := s.Keys(t.Context(), "", 100); err != nil || len(keys) != 60 {
			t.Errorf("%d keys, %v", len(keys), err)
		}
		closed(t, s)
		closed(t, late)
	})
}

// The cursors of past periods are removed from Redis with their counters.
func TestPurgedKeysLeaveNoCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), map[string]*redisModel{}
		short := func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour }
		for day := range 2 {
			s := keyed(t, store, time.Now, redis, short)
			wantOf(t, s, "t", 1, "[1]")
			closed(t, s)
			if day == 0 {
				time.Sleep(96 * time.Hour)
			}
		}
		s := keyed(t, store, time.Now, redis, short)
		if n, err := s.purger.Purge(t.Context(), s.forget); err != nil || n == 0 {
			t.Errorf("%d counters were removed, %v", n, err)
		}
		closed(t, s)
		left := map[string]bool{}
		for name, model := range redis {
			model.change(func(r *redisModel) { left[name] = r.hash != nil })
		}
		if left["invoice/t@20000101"] || !left["invoice/t@20000105"] {
			t.Errorf("cursors that are left: %v", left)
		}
	})
}

// A store that is away is reported once, not for each key, and found to be back without a request.
func TestStoreAwayForKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, o := newHooked(), &observer{}
		settings := DefaultSettings()
		settings.Keyed, settings.Ordering = true, PerNode
		b := seqd.BizType{Name: "invoice", Strategy: Name, Settings: &settings}
		built := must.Get(build(strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}, b))(t)
		s := built.(*family)
		store.change(func(h *hookedStore) { h.before = func(string) error { return errors.New("away") } })
		for key := range 20 {
			if _, _, err := of(t.Context(), s, fmt.Sprint("k", key), 1); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
				t.Error(err)
			}
		}
		if seqd.CodeOf(s.Health()) != seqd.CodeStoreUnavailable || s.Degraded() == nil || o.count(seqd.EventStoreAway) != 1 {
			t.Errorf("%v, %v, %d events", s.Health(), s.Degraded(), o.count(seqd.EventStoreAway))
		}
		store.change(func(h *hookedStore) { h.before = nil })
		time.Sleep(2 * time.Second)
		if s.Health() != nil || s.Degraded() != nil || o.count(seqd.EventStoreBack) != 1 {
			t.Errorf("%v, %v, %d events", s.Health(), s.Degraded(), o.count(seqd.EventStoreBack))
		}
		closed(t, s)
	})
}

// A store that answers some calls and not others is asked by one goroutine, once a second.
func TestStoreThatAnswersSomeCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s := keyed(t, store, time.Now, nil, nil)
		store.change(func(h *hookedStore) { h.before = func(string) error { return persist.ErrUnavailable } })
		for range 1000 {
			s.Note(nil)
			s.Note(persist.ErrUnavailable)
		}
		for second := range 3 {
			store.change(func(h *hookedStore) { clear(h.calls) })
			time.Sleep(time.Second + time.Second/100)
			must.Equal(t, store.called("read"), 1, "the reads in second %d", second)
		}
		store.change(func(h *hookedStore) { h.before = nil })
		time.Sleep(2 * time.Second)
		if err := s.Health(); err != nil {
			t.Errorf("the store is back, and the health is %v", err)
		}
		// The next outage is watched too.
		s.Note(persist.ErrUnavailable)
		time.Sleep(2 * time.Second)
		if err := s.Health(); err != nil {
			t.Errorf("the store is back again, and the health is %v", err)
		}
		store.change(func(h *hookedStore) { clear(h.calls) })
		time.Sleep(time.Minute)
		must.Equal(t, store.called("read"), 0, "the reads, although the store is not away,")
		closed(t, s)
	})
}

// An heir knows what its predecessor knew of its open keys and of those that it had closed.
func TestHeirOfKeys(t *testing.T) {
	store := memory.New(time.Now)
	first := keyed(t, store, time.Now, nil, func(s *Settings) { s.LiveKeys = 5 })
	for key := range 20 {
		wantOf(t, first, fmt.Sprint(key), 3, "[1 2 3]")
	}
	closed(t, first)
	heir := keyed(t, store, time.Now, nil, nil)
	heir.Learn(first.Knowledge())
	for key := range 20 {
		must.Equal(t, heir.Memory.Of(counters.Name{Key: fmt.Sprint(key)}).issued, 3, "what it knows of %d", key)
	}
	closed(t, heir)
}

// A key whose counter is gone begins nothing, however many keys its node closes meanwhile.
func TestLostKeyIsNotForgotten(t *testing.T) {
	store := memory.New(time.Now)
	s := keyed(t, store, time.Now, nil, func(s *Settings) { s.LiveKeys = 1 })
	s.Memory.Least = 2
	wantOf(t, s, "a", 1, "[1]")
	wantOf(t, s, "b", 1, "[1]") // closes a
	for round := range 3 {
		_ = store.Counters().Delete(t.Context(), "invoice/a")
		if got, _, err := of(t.Context(), s, "a", 1); seqd.CodeOf(err) != seqd.CodeConflict {
			t.Fatalf("round %d: %v, %v", round, got, err)
		}
		for key := range 10 {
			wantOf(t, s, fmt.Sprint("k", round, key), 1, "[1]")
		}
	}
	closed(t, s)
}

// How much a key takes that is open and that nobody asks.
func TestOpenKeyTakesLittle(t *testing.T) {
	for _, test := range []struct {
		name   string
		shared bool
		change func(*Settings)
		most   int
	}{
		{"embedded", false, func(*Settings) {}, 1400},
		{"per node", true, func(s *Settings) { s.Ordering = PerNode }, 1400},
		{"by the store", true, byStore, 2000},
		{"redis", true, func(s *Settings) { s.Sequencer = SequencerRedis }, 2200},
	} {
		t.Run(test.name, func(t *testing.T) {
			const many = 500
			settings := DefaultSettings()
			settings.Keyed = true
			test.change(&settings)
			env := strategy.Env{Store: memory.New(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
			if test.shared {
				env.Store = perNode{env.Store}
			}
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // which nobody asks
			defer func() { _ = client.Close() }()
			env.Redis = client
			names := make([]counters.Name, many)
			for i := range names {
				names[i].Key = fmt.Sprintf("tenant-%04d", i)
			}
			open := func() *family {
				s := must.Get(build(env, seqd.BizType{Name: "invoice", Strategy: Name, Settings: &settings}))(t)
				for _, name := range names {
					e := must.Get(s.(*family).acquire(t.Context(), name, ""))(t)
					e.Release()
				}
				return s.(*family)
			}
			fill := open() // the store
			closed(t, fill)
			got := test.most + 1
			for tries := 0; tries < 3 && got > test.most; tries++ { // what else is on the heap only adds to it
				before := heap()
				s := open()
				got = (heap() - before) / many
				closed(t, s)
			}
			runtime.KeepAlive(fill)
			if got > test.most {
				t.Errorf("%d bytes are more than %d", got, test.most)
			}
		})
	}
}

// Close is bounded in time, also if the store does not answer.
func TestCloseOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s := keyed(t, store, time.Now, nil, func(s *Settings) { s.Ordering = PerNode })
		for key := range 3000 {
			wantOf(t, s, fmt.Sprint(key), 1, "[1]")
		}
		store.change(func(h *hookedStore) { h.before = func(string) error { time.Sleep(500 * time.Millisecond); return nil } })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		_ = s.Close(ctx)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// A key that was not created after all uses no place.
func TestPlacesAreKept(t *testing.T) {
	store := newFailingOver()
	s := keyed(t, store, time.Now, nil, func(s *Settings) { s.Ordering, s.MaxKeys = PerNode, 2 })
	wantOf(t, s, "a", 1, "[1]")
	store.failOver(store.copied())
	for key := range 10 {
		if _, _, err := of(t.Context(), s, fmt.Sprint(key), 1); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
			t.Error(err)
		}
	}
	store.confirm()
	wantOf(t, s, "b", 1, "[1]")
	if _, _, err := of(t.Context(), s, "c", 1); seqd.CodeOf(err) != seqd.CodeTooManyKeys {
		t.Error(err)
	}
	closed(t, s)
}

// Keys get numbers of every kind, except ranges, and the details say how many there are.
func TestKindsOfKeys(t *testing.T) {
	c := clockAt("2026-11-20T12:00:00Z")
	s := keyed(t, memory.New(time.Now), c.Now, nil, func(s *Settings) { s.Reset, s.Sequencer = seqd.ResetDaily, SequencerStore })
	var seq seqd.Sequence
	for i, take := range []func(context.Context, int, *seqd.Sequence) error{s.GenerateSome, s.GenerateConsecutive} {
		seq.Reset()
		seq.For("a")
		if err := take(t.Context(), 3, &seq); err != nil || seq.Len() != 3 || seq.First() != int64(1+3*i) || seq.Key() != "a" {
			t.Errorf("got %v of %q, %v", seq.Runs(), seq.Key(), err)
		}
	}
	must.Code(t, s.GenerateRange(t.Context(), 1, &seq), seqd.CodeInvalidRequest)
	if got := fmt.Sprint(s.Details()); !s.Idle() || got != "map[keys:100 maxKeys:1000000 openKeys:1 period:2026-11-20]" {
		t.Errorf("idle %t, details %s", s.Idle(), got)
	}
	c.ms.Store(time.Date(seqd.LastYear+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	_, _, err := of(t.Context(), s, "b", 1)
	must.Code(t, err, seqd.CodeClockRollback)
	closed(t, s)
}

// Close says that what only this node had could not be given back.
func TestCloseSaysWhatFailed(t *testing.T) {
	store := &chaos{Store: memory.New(time.Now), fails: math.MaxInt}
	k, p := keyed(t, store, time.Now, nil, nil), periodic(t, store, time.Now, nil, daily)
	wantOf(t, k, "a", 1, "[1]")
	numbers(t, p, 1)
	for _, s := range []seqd.Strategy{k, p} {
		store.fails = store.calls + 1
		must.Is(t, s.Close(t.Context()), persist.ErrUnavailable)
	}
}

// Nodes do not all prepare a period at once.
func TestLead(t *testing.T) {
	for port := range 2000 {
		p := family{Family: &counters.Family[*Counter, known]{
			Base: counters.Base{Env: &strategy.Env{Addr: fmt.Sprint(port)}, BizType: &seqd.BizType{}},
		}}
		if lead := p.lead(); lead < ahead/5 || lead >= ahead {
			t.Errorf("port %d prepares a period %v before it begins", port, lead)
		}
	}
}

// A caller may create so many keys, and use as many as there are.
func TestNewKeysOfACaller(t *testing.T) {
	store := memory.New(time.Now)
	s := keyed(t, store, time.Now, nil, func(s *Settings) { s.NewKeysPerCaller, s.LiveKeys = 1, 1 })
	wantOf(t, s, "a", 1, "[1]")
	wantOf(t, s, "a", 1, "[2]")
	for range 2 {
		_, _, err := of(t.Context(), s, "b", 1)
		must.Code(t, err, seqd.CodeRateLimited)
	}
	other := keyed(t, store, time.Now, nil, nil)
	wantOf(t, other, "c", 1, "[1]")
	closed(t, other)
	wantOf(t, s, "c", 1, "[2]") // another node has created it
	wantOf(t, s, "a", 1, "[3]")
	is := must.Get(issuer.New([]issuer.Definition{{BizType: seqd.BizType{Name: "invoice", Settings: s.settings}, Strategy: s}}, issuer.Options{}))(t)
	for _, caller := range []string{"shop", "depot"} {
		for i, want := range []seqd.Code{"", seqd.CodeRateLimited} {
			err := is.Issue(t.Context(), &seqd.Call{BizType: "invoice", Key: fmt.Sprint(caller, i), Count: 1, Caller: seqd.Caller{Name: caller}})
			must.Code(t, err, want, "key %d of %s", i, caller)
		}
	}
	must.Do(t, is.Close(t.Context()))
	must.Equal(t, must.Get(store.Counters().Read(t.Context(), counters.PlacesName("invoice", 0)))(t).Max, 4, "the places taken by 4 keys")
}

// The first numbers of a key are given only if its counter is still the one that was opened.
func TestColdKeyThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := purged()
		for _, name := range []string{"per-node", "store"} {
			s := keyed(t, newHooked(), time.Now, nil, orderings[name])
			wantOf(t, s, "a", 1, "[1]")
			c := must.Get(s.counter(counters.Name{Key: "a"}, ""))(t)
			watched(c, func() error { return gone })
			err := c.Init(t.Context(), false)
			if err == nil {
				err = c.Generate(t.Context(), 1, new(seqd.Sequence))
			}
			must.Is(t, err, gone, "%s", name)
			end(t, c)
			closed(t, s)
		}
	})
}
