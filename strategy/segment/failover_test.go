package segment

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// failingOver is a store whose server can fail over: to one that has only an older copy of the
// counters, as after an asynchronous replication, or to one that has them all.
type failingOver struct {
	persist.Store
	mu                 sync.Mutex // guards what follows
	current, confirmed int        // the fence
	kept               map[string]fencedRecord
	lossless           bool // not while it is used
}

// fencedRecord is a counter with the fence that it was written under last.
type fencedRecord struct {
	persist.Counter
	fence int
}

func newFailingOver() *failingOver {
	return &failingOver{Store: memory.New(time.Now), kept: make(map[string]fencedRecord)}
}

func (f *failingOver) Shared() bool               { return true }
func (f *failingOver) Lossy() bool                { return !f.lossless }
func (f *failingOver) Counters() persist.Counters { return fencedCounters{f} }

// copied returns what a standby has that has received everything so far.
func (f *failingOver) copied() map[string]fencedRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kept)
}

// failOver promotes a standby that has only copied.
func (f *failingOver) failOver(copied map[string]fencedRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current++
	f.kept = maps.Clone(copied)
}

// confirm is what an operator does.
func (f *failingOver) confirm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed = f.current
}

type fencedCounters struct{ f *failingOver }

// read returns a counter as the present server sees it. mu is held.
func (c fencedCounters) read(name string) (persist.Counter, error) {
	kept, ok := c.f.kept[name]
	if !ok {
		return persist.Counter{}, persist.ErrNotFound
	}
	counter := kept.Counter
	if kept.fence != c.f.current {
		counter.FailedOver, counter.Epoch = true, ""
	}
	return counter, nil
}

func (c fencedCounters) Create(_ context.Context, counter persist.Counter) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.current != c.f.confirmed {
		return persist.ErrFailedOver
	}
	if _, ok := c.f.kept[counter.BizTag]; ok {
		return persist.ErrExists
	}
	c.f.kept[counter.BizTag] = fencedRecord{counter, c.f.current}
	return nil
}

func (c fencedCounters) Read(_ context.Context, name string) (persist.Counter, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.read(name)
}

func (c fencedCounters) Epoch(ctx context.Context, name string) (string, error) {
	counter, err := c.Read(ctx, name)
	return counter.Epoch, err
}

func (c fencedCounters) Delete(_ context.Context, name string) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	delete(c.f.kept, name)
	return nil
}

func (c fencedCounters) List(context.Context, string, int) ([]persist.Counter, error) {
	return nil, errors.New("not needed")
}

func (c fencedCounters) Allocate(_ context.Context, req persist.Request) (persist.Range, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	counter, err := c.read(req.BizTag)
	if err != nil {
		return persist.Range{}, err
	}
	counter, r, err := counter.Allocated(req, time.Now().UnixMilli())
	if err == nil {
		c.f.kept[req.BizTag] = fencedRecord{counter, c.f.current}
	}
	return r, err
}

func (c fencedCounters) GiveBack(_ context.Context, name string, r persist.Range) (bool, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	counter, err := c.read(name)
	if err != nil || counter.FailedOver || counter.Max != r.Last {
		return false, err
	}
	counter.Max = r.First - 1
	c.f.kept[name] = fencedRecord{counter, c.f.current}
	return true, nil
}

// A node that has seen nothing yet begins above the gap as well: another node may have got what the
// store lost. What was lost is not issued twice.
func TestFailoverLosesRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, change := newFailingOver(), func(s *Settings) { small(s); s.RestoreGap = 500 }
		a, _ := newStrategy(t, store, change)
		start(t, a, true)
		copied := store.copied()
		held := generate(t, a, 35)
		synctest.Wait() // its second buffer is filled
		store.failOver(copied)
		b, events := newStrategy(t, store, change)
		start(t, b, true)
		must.Equal(t, generate(t, b, 1)[0], 501, "the first number")
		if events.count(seqd.EventStoreFailedOver) != 1 || events.numbers(seqd.EventStoreFailedOver) != 500 || events.count(seqd.EventStoreBehind) != 0 {
			t.Errorf("events %v", events.counts)
		}
		seen := make(map[int64]bool)
		for _, n := range append(held, generate(t, b, 100)...) {
			seen[n] = true
		}
		for _, n := range generate(t, a, 100) {
			if seen[n] {
				t.Fatalf("%d was issued twice", n)
			}
		}
		if got := generate(t, b, 100); got[99] > 1500 || events.count(seqd.EventStoreFailedOver) != 1 {
			t.Errorf("up to %d, events %v", got[99], events.counts)
		}
		must.Report(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
	})
}

// The range that a node holds is not given back to a server that does not know of it, even if its
// maximum is the end of that range.
func TestNothingIsGivenBackAfterAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		s, events := newStrategy(t, store, small)
		start(t, s, true)
		generate(t, s, 1)
		store.failOver(store.copied())
		must.Report(t, s.Close(t.Context()))
		if events.count(seqd.EventGivenBack) != 0 || events.numbers(seqd.EventAbandoned) != 9 {
			t.Errorf("events %v", events.counts)
		}
	})
}

// A cursor of before the failover does not count: the next numbers are above the gap, and in order.
func TestFailoverEndsTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newFailingOver(), &redisModel{}
		change := func(s *Settings) { small(s); s.RestoreGap = 500 }
		a, events := newShared(t, store, redis, change)
		b, _ := newShared(t, store, redis, change)
		last := max(numbers(t, a, 15)[14], numbers(t, b, 15)[14])
		synctest.Wait()
		before := counter(t, store)
		store.failOver(store.copied())
		if c := counter(t, store); !c.FailedOver || c.Epoch != "" {
			t.Fatalf("the counter is %+v", c)
		}
		time.Sleep(10 * time.Second)
		for range 20 {
			for _, s := range []*Counter{a, b} {
				n := numbers(t, s, 1)[0]
				if n <= last {
					t.Fatalf("%d after %d", n, last)
				}
				last = n
			}
			time.Sleep(time.Second)
		}
		after := counter(t, store)
		if after.FailedOver || after.Epoch == "" || after.Epoch == before.Epoch || last < before.Max+500 || last > before.Max+700 {
			t.Errorf("the counter was %+v and is %+v; the last number is %d", before, after, last)
		}
		must.Equal(t, events.count(seqd.EventStoreBehind), 0, "events %v", events.counts)
		closeAll(t, a, b)
	})
}

// A counter that may have been lost is not created, until an operator has confirmed the failover.
func TestFailoverCreatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		store.failOver(store.copied())
		s, _ := newStrategy(t, store, small)
		if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeStoreFailedOver || strings.Contains(err.Error(), "lost the counter of") {
			t.Errorf("it is refused as %v", err)
		}
		store.confirm()
		start(t, s, true)
		must.Equal(t, generate(t, s, 1)[0], 1, "the first number")
	})
}

// A period that begins after a failover waits for the operator, and then begins by itself.
func TestFailoverCreatesNoPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		s := periodic(t, store, time.Now, nil, daily)
		must.Do(t, s.Init(t.Context(), true))
		numbers(t, s, 1)
		store.failOver(store.copied())
		time.Sleep(24 * time.Hour)
		if _, code := try(t, s, 1); code != seqd.CodeStoreFailedOver {
			t.Errorf("refused as %q", code)
		}
		store.confirm()
		time.Sleep(2 * time.Minute)
		must.Equal(t, numbers(t, s, 1)[0], 1, "the first number")
		must.Report(t, s.Close(t.Context()))
	})
}

// At most half of what is left is skipped, so a counter near its end is not used up by a failover.
func TestFailoverNearTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		s, events := newStrategy(t, store, func(s *Settings) { small(s); s.Start = seqd.MaxNumber - 999 })
		start(t, s, true)
		store.failOver(store.copied())
		must.Equal(t, generate(t, s, 1)[0], seqd.MaxNumber-499, "the first number")
		must.Equal(t, events.numbers(seqd.EventStoreFailedOver), 500, "the numbers skipped")
		must.Report(t, s.Close(t.Context()))
	})
}

// restore takes the counter down to an older copy.
func restore(t testing.TB, store persist.Store, most int64) {
	t.Helper()
	old := counter(t, store)
	old.Max = most
	must.Do(t, store.Counters().Delete(t.Context(), "order"))
	must.Do(t, store.Counters().Create(t.Context(), old))
}

// A failover is reported by the take that skips the gap, and not by one that read the counter
// before that.
func TestFailoverIsReportedOnce(t *testing.T) {
	for _, k := range []kind{whole, ranged} {
		synctest.Test(t, func(t *testing.T) {
			store, behind := newHooked(), newFailingOver()
			store.Store = behind
			open := func() (*Counter, *observer) {
				s, o := newStrategy(t, store, func(s *Settings) { small(s); s.RestoreGap = 500 })
				start(t, s, true)
				return s, o
			}
			first, _ := open()
			generate(t, first, 1)
			synctest.Wait()
			behind.failOver(behind.copied())
			behind.confirm()
			second, skips := open()
			third, late := open()
			var came atomic.Bool
			store.change(func(h *hookedStore) {
				h.before = func(op string) error {
					if op == "allocate" && came.CompareAndSwap(false, true) {
						generate(t, second, 1)
					}
					return nil
				}
			})
			got := must.Get(k.get(t.Context(), t, third, 1))(t)
			if got[0] <= 500 || skips.count(seqd.EventStoreFailedOver) != 1 || late.count(seqd.EventStoreFailedOver) != 0 {
				t.Errorf("got %d; events %v and %v", got[0], skips.counts, late.counts)
			}
			synctest.Wait()
			for _, s := range []*Counter{first, second, third} {
				_ = s.Close(t.Context())
			}
		})
	}
}
