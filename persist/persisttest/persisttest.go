// Package persisttest is the conformance suite of package persist. Every driver must pass it; the
// names of the tests are the promises. There is one file for each part of a store.
package persisttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// Factory returns an empty store. now is the clock of a store that has none of its own. The suite
// closes the store.
type Factory func(t *testing.T, now func() time.Time) persist.Store

// clock is a clock that a test sets.
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

// Run runs the suite on the stores that a driver opens.
func Run(t *testing.T, open Factory) {
	tests := []struct {
		name string
		run  func(*suite)
	}{
		{"Counters/counters keep what they are given", testCounterLife},
		{"Counters/list pages in byte order", testList},
		{"Counters/bad counters are refused", testBadCounters},
		{"Counters/ranges follow one another", testAllocate},
		{"Counters/a floor lifts the counter", testFloor},
		{"Counters/a gap lies above a floor that the counter is below", testGap},
		{"Counters/a range never ends above 2^53-1", testExhausted},
		{"Counters/the target of a range decides about the epoch", testEpochs},
		{"Counters/an epoch is replaced once", testEpochRace},
		{"Counters/a range of no numbers raises the counter", testRaise},
		{"Counters/a missing counter is an error", testMissing},
		{"Counters/bad requests change nothing", testBadRequests},
		{"Counters/give-back only takes the end", testGiveBack},
		{"Counters/a give-back counts once", testGiveBackOnce},
		{"Counters/concurrent allocations never overlap", testConcurrent},
		{"Counters/concurrent give-backs and allocations never overlap", testConcurrentGiveBack},
		{"Counters/create has one winner", testCreateRace},
		{"Documents/all who ask for the cluster's ID get the same", testClusterID},
		{"Documents/shapes keep what they are given", testShapes},
		{"Clock/the clock is the store's", testClock},
		{"Store/all that it has is listed, and filled in again", testWhole},
		{"Store/one that is shut changes nothing", testShut},
		{"Store/an ended context changes nothing", testContext},
		{"Store/a closed store refuses", testClosed},
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
	runFenced(t, open)
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
	_, epoch := s.counters.Epoch(ctx, "order")
	_, cluster := persist.ClusterID(ctx, s.store, s.clock.now)
	_, now := s.store.Now(ctx)
	_, look := s.store.Slots().Look(ctx, "order")
	for name, err := range map[string]error{
		"cluster": cluster, "now": now, "epoch": epoch, "look": look, "allocate": allocate, "read": read, "list": list, "give-back": giveBack,
		"create": s.counters.Create(ctx, persist.Counter{BizTag: "x", Step: 1}),
		"delete": s.counters.Delete(ctx, "order"),
	} {
		if !errors.Is(err, persist.ErrClosed) {
			s.Error(fmt.Errorf("%s after close: %w", name, err))
		}
	}
}
