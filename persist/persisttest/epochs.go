package persisttest

import (
	"errors"
	"sync"

	"github.com/seqd/seqd/persist"
)

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

// testEpochs goes through every target.
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

// testEpochRace lets many begin a cursor at the same time: each range that somebody got was the
// only one of its epoch.
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
