package persisttest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seqd/seqd/persist"
)

// testCounterLife walks one counter through its life.
func testCounterLife(s *suite) {
	ctx := s.Context()
	first := persist.Counter{BizTag: "order@2026", Max: 99, Step: 1000, Timestamp: 1234}
	second := persist.Counter{BizTag: "order@2026", Max: persist.MaxNumber, Step: persist.MaxNumber, Timestamp: 5678, Epoch: persist.NewEpoch()}
	for _, c := range []persist.Counter{first, second} {
		_, err := s.counters.Read(ctx, c.BizTag)
		s.wants(err, persist.ErrNotFound)
		s.wants(s.counters.Delete(ctx, c.BizTag), persist.ErrNotFound)
		s.must(s.counters.Create(ctx, c))
		s.wants(s.counters.Create(ctx, first), persist.ErrExists)
		s.wants(s.counters.Create(ctx, second), persist.ErrExists)
		s.equal(s.counter(c.BizTag), c)
		s.must(s.counters.Delete(ctx, c.BizTag))
	}
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

func testBadCounters(s *suite) {
	for _, c := range []persist.Counter{
		{BizTag: "", Max: 0, Step: 1},
		{BizTag: "x", Max: -1, Step: 1},
		{BizTag: "x", Max: persist.MaxNumber + 1, Step: 1},
		{BizTag: "x", Max: 0, Step: 0},
		{BizTag: "x", Max: 0, Step: -5},
	} {
		s.wants(s.counters.Create(s.Context(), c), persist.ErrInvalid)
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
		{Size: -1}, {Size: persist.MaxNumber + 1},
		{Size: 1, Floor: -1}, {Size: 1, Floor: persist.MaxNumber + 1},
		{Size: 1, FailoverSteps: -1}, {Size: 1, FailoverSteps: persist.MaxNumber + 1},
		{Size: 1, Step: -1}, {Size: 1, Step: persist.MaxNumber + 1},
		{Size: 0, To: persist.NewCursor("", persist.NewEpoch())},
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

// recorder collects ranges from many goroutines and finds overlaps.
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

// testRaise asks for no numbers: the counter is raised to the floor, never lowered, and its cursor
// retired.
func testRaise(s *suite) {
	s.create("order", 100)
	for _, floor := range []int64{0, 99, 100, 500, 300, persist.MaxNumber, persist.MaxNumber, 1} {
		if s.counter("order").Max < persist.MaxNumber {
			s.allocate(persist.Request{BizTag: "order", Size: 1, To: persist.NewCursor("", persist.NewEpoch())})
		}
		want := max(floor, s.counter("order").Max)
		s.equal(s.allocate(persist.Request{BizTag: "order", Floor: floor}), persist.Range{First: want + 1, Last: want})
		s.equal(s.counter("order"), persist.Counter{BizTag: "order", Max: want, Step: 10, Timestamp: 5})
	}
	s.must(s.counters.Create(s.Context(), persist.Counter{BizTag: "other", Max: 5, Step: 10, Timestamp: 5, Epoch: persist.StoreEpoch}))
	_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "other", Floor: 50, To: persist.Retire("")})
	s.wants(err, persist.ErrEpoch)
	s.equal(s.counter("other"), persist.Counter{BizTag: "other", Max: 5, Step: 10, Timestamp: 5, Epoch: persist.StoreEpoch})
	s.equal(s.allocate(persist.Request{BizTag: "other", Floor: 50, To: persist.Retire(persist.StoreEpoch)}), persist.Range{First: 51, Last: 50})
	s.equal(s.counter("other"), persist.Counter{BizTag: "other", Max: 50, Step: 10, Timestamp: 5})
	_, err = s.counters.Allocate(s.Context(), persist.Request{BizTag: "none", Floor: 5})
	s.wants(err, persist.ErrNotFound)
}

func testGap(s *suite) {
	s.create("order", 100)
	// At or above the floor nothing is skipped.
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 10, Floor: 100, Gap: 1000}), persist.Range{First: 101, Last: 110})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 10, Floor: 50, Gap: 1000}), persist.Range{First: 111, Last: 120})
	s.equal(s.allocate(persist.Request{BizTag: "order", Size: 10, Floor: 121, Gap: 1000}), persist.Range{First: 1122, Last: 1131})
	// A gap never leads above the highest number.
	_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 1, Floor: persist.MaxNumber - 5, Gap: persist.MaxNumber})
	s.wants(err, persist.ErrExhausted)
	s.equal(s.counter("order").Max, int64(1131))
}

// testEpochs tries every target.
func testEpochs(s *suite) {
	s.create("order", 0)
	first, second := persist.NewEpoch(), persist.NewEpoch()
	for _, step := range []struct {
		name  string
		to    persist.Target
		floor int64
		want  error
		epoch string // afterwards
	}{
		{"a new record has none", persist.ToCursor(first), 0, persist.ErrEpoch, ""},
		{"beside a cursor", persist.Beside, 0, nil, ""},
		{"a cursor begins", persist.NewCursor("", first), 0, nil, first},
		{"another one, too late", persist.NewCursor("", second), 0, persist.ErrEpoch, first},
		{"to the cursor", persist.ToCursor(first), 0, nil, first},
		{"to another one", persist.ToCursor(second), 0, persist.ErrEpoch, first},
		{"to another one, above a floor", persist.ToCursor(second), 5000, persist.ErrEpoch, first},
		{"to the cursor, above a floor", persist.ToCursor(first), 5000, nil, first},
		{"beside the cursor", persist.Beside, 0, nil, first},
		{"the next one begins", persist.NewCursor(first, second), 0, nil, second},
		{"to the one before", persist.ToCursor(first), 0, persist.ErrEpoch, second},
		{"a node's own", persist.Target{}, 0, nil, ""},
		{"to no cursor any more", persist.ToCursor(second), 0, persist.ErrEpoch, ""},
		{"from the store, which is no cursor yet", persist.ToCursor(persist.StoreEpoch), 0, persist.ErrEpoch, ""},
		{"the store becomes the cursor", persist.NewCursor("", persist.StoreEpoch), 0, nil, persist.StoreEpoch},
		{"from the store", persist.ToCursor(persist.StoreEpoch), 0, nil, persist.StoreEpoch},
		{"a cursor in Redis, too late", persist.NewCursor("", first), 0, persist.ErrEpoch, persist.StoreEpoch},
		{"a cursor in Redis takes over", persist.NewCursor(persist.StoreEpoch, first), 0, nil, first},
		{"from the store no more", persist.ToCursor(persist.StoreEpoch), 0, persist.ErrEpoch, first},
		{"another one is retired, too late", persist.Retire(persist.StoreEpoch), 0, persist.ErrEpoch, first},
		{"another one is retired, above a floor", persist.Retire(second), 20_000, persist.ErrEpoch, first},
		{"none is retired, too late", persist.Retire(""), 0, persist.ErrEpoch, first},
		{"the cursor is retired", persist.Retire(first), 20_000, nil, ""},
		{"none is retired", persist.Retire(""), 0, nil, ""},
	} {
		before := s.counter("order").Max
		_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 10, Floor: step.floor, Gap: 7, To: step.to})
		if !errors.Is(err, step.want) || step.want == nil && err != nil {
			s.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
		after := s.counter("order")
		if after.Epoch != step.epoch {
			s.Errorf("%s: the epoch is %q, want %q", step.name, after.Epoch, step.epoch)
		}
		if (err == nil) != (after.Max > before) {
			s.Errorf("%s: the maximum went from %d to %d", step.name, before, after.Max)
		}
		epoch, err := s.counters.Epoch(s.Context(), "order")
		s.must(err)
		s.equal(epoch, step.epoch)
	}
	_, err := s.counters.Epoch(s.Context(), "missing")
	s.wants(err, persist.ErrNotFound)
	_, err = s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 1, To: persist.NewCursor("", "short")})
	s.wants(err, persist.ErrInvalid)
}

// testEpochRace lets many callers begin a cursor at the same time: one succeeds.
func testEpochRace(s *suite) {
	s.create("order", 0)
	const callers, rounds = 8, 5
	for range rounds {
		now, err := s.counters.Epoch(s.Context(), "order")
		s.must(err)
		var mu sync.Mutex
		var won []string
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				drawn := persist.NewEpoch()
				_, err := s.counters.Allocate(s.Context(), persist.Request{BizTag: "order", Size: 10, To: persist.NewCursor(now, drawn)})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, drawn)
				} else if !errors.Is(err, persist.ErrEpoch) {
					s.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			s.Fatalf("%d of %d began a cursor", len(won), callers)
		}
		s.equal(s.counter("order").Epoch, won[0])
	}
}
