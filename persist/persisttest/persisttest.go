// Package persisttest is the suite that every driver of package persist must pass.
package persisttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// Factory returns an empty store whose clock is now. The store is closed by the suite.
type Factory func(t *testing.T, now func() time.Time) persist.Store

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	ms int64
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.UnixMilli(c.ms)
}

func (c *clock) set(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ms = ms
}

// suite is one test's store.
type suite struct {
	*testing.T
	store    persist.Store
	counters persist.Counters
	clock    *clock
}

// Run runs the suite against the driver.
func Run(t *testing.T, open Factory) {
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"counters keep what they are given", testCounterRepository},
		{"shapes keep what they are given", testShapeRepository},
		{"clusters keep what they are given", testClusterRepository},
		{"all who ask for the cluster's ID get the same", testClusterID},
		{"list pages in byte order", testList},
		{"update never lowers a counter", testUpdateLowered},
		{"bad records are refused", testBadRecords},
		{"ranges follow one another", testAllocate},
		{"a floor lifts the counter", testFloor},
		{"a gap lies above a floor that the counter is below", testGap},
		{"a range never ends above 2^53-1", testExhausted},
		{"the target of a range decides about the epoch", testEpochs},
		{"an epoch is replaced once", testEpochRace},
		{"a missing counter is an error", testMissing},
		{"bad requests change nothing", testBadRequests},
		{"give-back only takes the end", testGiveBack},
		{"a give-back counts once", testGiveBackOnce},
		{"concurrent allocations never overlap", testConcurrent},
		{"concurrent give-backs and allocations never overlap", testConcurrentGiveBack},
		{"create has one winner", testCreateRace},
		{"an ended context changes nothing", testContext},
		{"a closed store refuses", testClosed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := &clock{ms: 1_000_000}
			store := open(t, c.now)
			t.Cleanup(func() {
				if err := store.Close(); err != nil && !errors.Is(err, persist.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			test.run(&suite{t, store, store.Counters(), c})
		})
	}
	RunSlots(t, func(t *testing.T, now func() time.Time) (persist.SlotStore, func() error) {
		store := open(t, now)
		return store.Slots(), store.Close
	})
	RunHistory(t, false, func(t *testing.T) (persist.HistoryStore, func() error) {
		store := open(t, time.Now)
		return store.History(), store.Close
	})
	runDocuments(t, open)
}

func (s *suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) wants(err, want error) {
	s.Helper()
	if !errors.Is(err, want) {
		s.Errorf("error %v, want %v", err, want)
	}
}

func (s *suite) create(bizTag string, maximum int64) {
	s.Helper()
	s.must(s.counters.Create(s.Context(), persist.Counter{BizTag: bizTag, Max: maximum, Step: 10, Timestamp: 5}))
}

func (s *suite) counter(bizTag string) persist.Counter {
	s.Helper()
	c, err := s.counters.Read(s.Context(), bizTag)
	s.must(err)
	return c
}

func (s *suite) allocate(req persist.Request) persist.Range {
	s.Helper()
	r, err := s.counters.Allocate(s.Context(), req)
	s.must(err)
	return r
}

func (s *suite) equal(got, want any) {
	s.Helper()
	if got != want {
		s.Errorf("got %+v, want %+v", got, want)
	}
}

func testCounterRepository(s *suite) {
	first := persist.Counter{BizTag: "order", Max: 99, Step: 1000, Timestamp: 1234}
	second := persist.Counter{BizTag: "order", Max: persist.MaxNumber, Step: persist.MaxNumber, Timestamp: 5678, Epoch: persist.NewEpoch()}
	testRepository(s, s.counters, first, second)
}

func testShapeRepository(s *suite) {
	first := persist.Shape{BizTag: "order", Shape: "segment", Timestamp: 1234}
	second := persist.Shape{BizTag: "order", Shape: "snowflake ü\x00", Timestamp: 5678}
	testRepository(s, s.store.Shapes(), first, second)
}

func testClusterRepository(s *suite) {
	first := persist.Cluster{ID: "0123456789abcdef0123456789abcdef", Timestamp: 1234}
	second := persist.Cluster{ID: "ffffffffffffffffffffffffffffffff", Timestamp: 5678}
	testRepository(s, s.store.Clusters(), first, second)
}

func testClusterID(s *suite) {
	const callers = 16
	ids := make([]string, callers)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			err := persist.ErrUnavailable
			// a shared store may not show at once what another caller wrote
			for errors.Is(err, persist.ErrUnavailable) {
				ids[i], err = persist.ClusterID(context.Background(), s.store, s.clock.now)
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	kept, err := s.store.Clusters().Read(s.Context(), persist.Cluster{}.PersistID())
	s.must(err)
	s.must(kept.Validate())
	s.equal(kept.Timestamp, int64(1_000_000))
	for _, id := range ids {
		s.equal(id, kept.ID)
	}
}

// testRepository walks one record through its life; first and second have the same persist ID.
func testRepository[M interface {
	persist.Model
	comparable
}](s *suite, repo persist.Repository[M], first, second M) {
	ctx, id := s.Context(), first.PersistID()
	_, err := repo.Read(ctx, id)
	s.wants(err, persist.ErrNotFound)
	s.wants(repo.Update(ctx, first), persist.ErrNotFound)
	s.wants(repo.Delete(ctx, id), persist.ErrNotFound)
	s.must(repo.Create(ctx, first))
	s.wants(repo.Create(ctx, second), persist.ErrExists)
	got, err := repo.Read(ctx, id)
	s.must(err)
	s.equal(got, first)
	s.must(repo.Update(ctx, second))
	got, err = repo.Read(ctx, id)
	s.must(err)
	s.equal(got, second)
	s.must(repo.Delete(ctx, id))
	_, err = repo.Read(ctx, id)
	s.wants(err, persist.ErrNotFound)
	s.must(repo.Create(ctx, first))
}

func testList(s *suite) {
	names := []string{"a", "B", "b", "a.b", "a-b", "ab", "Z", "order-10", "order-9"}
	for i, name := range names {
		s.create(name, int64(i))
	}
	slices.Sort(names)
	var got []string
	for after := ""; ; {
		page, err := s.counters.List(s.Context(), after, 2)
		s.must(err)
		if len(page) > 2 {
			s.Fatalf("a page of 2 holds %d records", len(page))
		}
		if len(page) == 0 {
			break
		}
		for _, c := range page {
			got = append(got, c.BizTag)
			after = c.BizTag
		}
	}
	if !slices.Equal(got, names) {
		s.Errorf("listed %v, want %v", got, names)
	}
	for _, limit := range []int{0, -1} {
		if page, err := s.counters.List(s.Context(), "", limit); err != nil || len(page) != 0 {
			s.Errorf("a page of %d holds %d records, %v", limit, len(page), err)
		}
	}
	// after need not exist
	page, err := s.counters.List(s.Context(), "order-", 100)
	s.must(err)
	if len(page) != 2 || page[0].BizTag != "order-10" {
		s.Errorf("after order- came %v", page)
	}
}

func testUpdateLowered(s *suite) {
	s.create("order", 100)
	s.wants(s.counters.Update(s.Context(), persist.Counter{BizTag: "order", Max: 99, Step: 1}), persist.ErrLowered)
	s.equal(s.counter("order").Max, int64(100))
	s.must(s.counters.Update(s.Context(), persist.Counter{BizTag: "order", Max: 100, Step: 7, Timestamp: 9}))
	s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: 100, Step: 7, Timestamp: 9})
	s.must(s.counters.Update(s.Context(), persist.Counter{BizTag: "order", Max: 500, Step: 7, Timestamp: 9}))
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 1}), persist.Range{First: 501, Last: 501})
}

func testBadRecords(s *suite) {
	for _, c := range []persist.Counter{
		{BizTag: "", Max: 0, Step: 1},
		{BizTag: "x", Max: -1, Step: 1},
		{BizTag: "x", Max: persist.MaxNumber + 1, Step: 1},
		{BizTag: "x", Max: 0, Step: 0},
		{BizTag: "x", Max: 0, Step: -5},
	} {
		s.wants(s.counters.Create(s.Context(), c), persist.ErrInvalid)
		s.wants(s.counters.Update(s.Context(), c), persist.ErrInvalid)
	}
	s.wants(s.store.Shapes().Create(s.Context(), persist.Shape{BizTag: "x"}), persist.ErrInvalid)
	for _, id := range []string{"", "cluster", "0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef00"} {
		s.wants(s.store.Clusters().Create(s.Context(), persist.Cluster{ID: id}), persist.ErrInvalid)
	}
}

func testAllocate(s *suite) {
	s.create("order", 99)
	s.create("other", 0)
	s.clock.set(2_000_000)
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 10}), persist.Range{First: 100, Last: 109})
	s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: 109, Step: 10, Timestamp: 5})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 1, Step: 20}), persist.Range{First: 110, Last: 110})
	s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: 110, Step: 20, Timestamp: 2_000_000})
	s.equal(s.allocate(persist.Request{BizTag: "other", Size: 3}), persist.Range{First: 1, Last: 3})
}

func testFloor(s *suite) {
	s.create("order", 99)
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 5, Floor: 1000}), persist.Range{First: 1001, Last: 1005})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 5, Floor: 1000}), persist.Range{First: 1006, Last: 1010})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 5, Floor: 1010}), persist.Range{First: 1011, Last: 1015})
}

func testExhausted(s *suite) {
	s.create("order", persist.MaxNumber-10)
	_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 11, Step: 11})
	s.wants(err, persist.ErrExhausted)
	s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: persist.MaxNumber - 10, Step: 10, Timestamp: 5})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 10}), persist.Range{First: persist.MaxNumber - 9, Last: persist.MaxNumber})
	_, err = s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 1})
	s.wants(err, persist.ErrExhausted)
	s.create("high", 0)
	_, err = s.counters.Allocate(s.Context(), persist.Request{BizTag: "high", Size: persist.MaxNumber, Floor: persist.MaxNumber})
	s.wants(err, persist.ErrExhausted)
	s.equal(s.counter("high").Max, int64(0))
}

func testMissing(s *suite) {
	_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "none", Size: 1})
	s.wants(err, persist.ErrNotFound)
	_, err = s.counters.GiveBack(s.Context(), "none", persist.Range{First: 1, Last: 1})
	s.wants(err, persist.ErrNotFound)
	s.create("order", 0)
	s.allocate(persist.Request{BizTag: "order", Size: 100})
	s.must(s.counters.Delete(s.Context(), "order"))
	_, err = s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 1})
	s.wants(err, persist.ErrNotFound)
	_, err = s.counters.Read(s.Context(), "order")
	s.wants(err, persist.ErrNotFound)
}

func testBadRequests(s *suite) {
	s.create("order", 50)
	for _, req := range []persist.Request{
		{Size: 0}, {Size: -1}, {Size: persist.MaxNumber + 1},
		{Size: 1, Floor: -1}, {Size: 1, Floor: persist.MaxNumber + 1},
		{Size: 1, Step: -1}, {Size: 1, Step: persist.MaxNumber + 1},
	} {
		req.BizTag = "order"
		_, err := s.counters.Allocate(s.Context(), req)
		s.wants(err, persist.ErrInvalid)
	}
	for _, r := range []persist.Range{{First: 0, Last: 50}, {First: 51, Last: 50}, {First: -3, Last: 50}, {First: 1, Last: persist.MaxNumber + 1}} {
		_, err := s.counters.GiveBack(s.Context(), "order", r)
		s.wants(err, persist.ErrInvalid)
	}
	s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: 50, Step: 10, Timestamp: 5})
}

func testGiveBack(s *suite) {
	s.create("order", 99)
	first := s.allocate(persist.Request{BizTag: "order", Size: 10})
	second := s.allocate(persist.Request{BizTag: "order", Size: 10})
	given, err := s.counters.GiveBack(s.Context(), "order", first)
	s.must(err)
	s.equal(given, false) // second lies above it
	s.equal(s.counter("order").Max, second.Last)
	given, err = s.counters.GiveBack(s.Context(), "order", persist.Range{First: second.First + 3, Last: second.Last})
	s.must(err)
	s.equal(given, true)
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 1}), persist.Range{First: second.First + 3, Last: second.First + 3})
}

func testGiveBackOnce(s *suite) {
	s.create("order", 99)
	r := s.allocate(persist.Request{BizTag: "order", Size: 10})
	for i, want := range []bool{true, false, false} {
		given, err := s.counters.GiveBack(s.Context(), "order", r)
		s.must(err)
		if given != want {
			s.Errorf("give-back %d returned %v, want %v", i, given, want)
		}
	}
	s.equal(s.counter("order").Max, int64(99))
}

// recorder collects ranges from many goroutines and finds numbers that are in two of them.
type recorder struct {
	mu     sync.Mutex
	ranges []persist.Range
}

func (r *recorder) add(x persist.Range) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ranges = append(r.ranges, x)
}

func (r *recorder) check(s *suite) {
	s.Helper()
	slices.SortFunc(r.ranges, func(a, b persist.Range) int { return int(a.First - b.First) })
	for i := 1; i < len(r.ranges); i++ {
		if r.ranges[i].First <= r.ranges[i-1].Last {
			s.Fatalf("%+v and %+v overlap", r.ranges[i-1], r.ranges[i])
		}
	}
}

func testConcurrent(s *suite) {
	const workers, rounds = 8, 50
	s.create("order", 0)
	var got recorder
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			last := int64(0)
			for i := range rounds {
				r, err := s.counters.Allocate(context.Background(), persist.Request{BizTag: "order", Size: int64(1 + (w+i)%7)})
				if err != nil {
					s.Error(err)
					return
				}
				if r.First <= last {
					s.Errorf("range %+v after %d", r, last)
				}
				last = r.Last
				got.add(r)
			}
		})
	}
	wg.Wait()
	got.check(s)
	var sum int64
	for _, r := range got.ranges {
		sum += r.Size()
	}
	s.equal(s.counter("order").Max, sum) // nothing was lost either
}

// testConcurrentGiveBack lets every worker use the first half of a range and give the second half
// back.
func testConcurrentGiveBack(s *suite) {
	const workers, rounds = 8, 50
	s.create("order", 0)
	var used recorder
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				r, err := s.counters.Allocate(context.Background(), persist.Request{BizTag: "order", Size: 10})
				if err != nil {
					s.Error(err)
					return
				}
				rest := persist.Range{First: r.First + 5, Last: r.Last}
				given, err := s.counters.GiveBack(context.Background(), "order", rest)
				if err != nil {
					s.Error(err)
					return
				}
				if given {
					r.Last = rest.First - 1
				}
				used.add(r)
			}
		})
	}
	wg.Wait()
	used.check(s)
}

func testCreateRace(s *suite) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 16 {
		wg.Go(func() {
			err := s.counters.Create(context.Background(), persist.Counter{BizTag: "order", Max: int64(i), Step: 1})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				won++
			case !errors.Is(err, persist.ErrExists):
				s.Error(err)
			}
		})
	}
	wg.Wait()
	s.equal(won, 1)
}

func testContext(s *suite) {
	s.create("order", 7)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.counters.Allocate(ctx, persist.Request{BizTag: "order", Size: 1})
	s.wants(err, context.Canceled)
	s.wants(s.counters.Create(ctx, persist.Counter{BizTag: "x", Step: 1}), context.Canceled)
	_, err = s.counters.GiveBack(ctx, "order", persist.Range{First: 7, Last: 7})
	s.wants(err, context.Canceled)
	s.equal(s.counter("order").Max, int64(7))
}

func testClosed(s *suite) {
	s.create("order", 7)
	s.must(s.store.Close())
	ctx := s.Context()
	_, allocate := s.counters.Allocate(ctx, persist.Request{BizTag: "order", Size: 1})
	_, read := s.counters.Read(ctx, "order")
	_, list := s.counters.List(ctx, "", 1)
	_, giveBack := s.counters.GiveBack(ctx, "order", persist.Range{First: 7, Last: 7})
	_, cluster := persist.ClusterID(ctx, s.store, s.clock.now)
	_, look := s.store.Slots().Look(ctx, "order")
	for name, err := range map[string]error{
		"cluster": cluster, "look": look, "allocate": allocate, "read": read, "list": list, "give-back": giveBack,
		"create": s.counters.Create(ctx, persist.Counter{BizTag: "x", Step: 1}),
		"update": s.counters.Update(ctx, persist.Counter{BizTag: "order", Max: 8, Step: 1}),
		"delete": s.counters.Delete(ctx, "order"),
	} {
		if !errors.Is(err, persist.ErrClosed) {
			s.Error(fmt.Errorf("%s after close: %w", name, err))
		}
	}
}
