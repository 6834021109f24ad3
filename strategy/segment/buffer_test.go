package segment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// rangeGiver is a store that tests steer: ranges of one size, one after another, each after a
// delay.
type rangeGiver struct {
	mu      sync.Mutex
	size    int64
	last    int64
	delay   time.Duration
	fail    error
	fetched []persist.Range
	why     []cursor.Reason
	events  []seqd.Event
}

func (s *rangeGiver) fetch(want, _ int64, why cursor.Reason) (persist.Range, error) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	time.Sleep(delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return persist.Range{}, s.fail
	}
	r := persist.Range{First: s.last + 1, Last: s.last + max(s.size, want)}
	s.last = r.Last
	s.fetched = append(s.fetched, r)
	s.why = append(s.why, why)
	return r, nil
}

func (s *rangeGiver) report(e seqd.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *rangeGiver) set(f func(*rangeGiver)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *rangeGiver) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fetched)
}

func newBuffer(s *rangeGiver, threshold float64) *buffer {
	b := &buffer{}
	b.init(s, threshold, 2*time.Second, 0)
	return b
}

func take(t *testing.T, b *buffer, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, b.take(t.Context(), n, &seq))
	return slices.Collect(seq.Numbers())
}

func TestBatchLargerThanSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 3)
		synctest.Wait()
		before := s.fetches()
		got := take(t, b, 5000)
		if got[0] != 4 || got[4999] != 5003 {
			t.Errorf("got %d … %d", got[0], got[4999])
		}
		synctest.Wait()
		// What is missing is asked for in one piece, not a segment at a time. One fetch of a
		// segment may have begun before the batch was known to wait, as it went over from buffer 1
		// to buffer 2; its numbers leave a little to be asked for again, and another fetch fills
		// buffer 2.
		if n := s.fetches() - before; n > 4 {
			t.Errorf("%d fetches for one batch", n)
		}
	})
}

func TestSecondBufferOpensAtThreshold(t *testing.T) {
	tests := []struct {
		size      int64
		threshold float64
		mark      int // the number whose taking opens buffer 2
	}{
		{1000, 0.2, 200}, {10, 0.2, 2}, {3, 0.2, 1}, {1, 0.2, 1}, {10, 1, 10}, {10, 0.999, 9}, {1, 1, 1}, {7, 0.5, 3},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rangeGiver{size: test.size}
				b := newBuffer(s, test.threshold)
				for i := 1; i <= test.mark; i++ {
					take(t, b, 1)
					synctest.Wait()
					if want := 1 + i/test.mark; s.fetches() != want {
						t.Fatalf("after number %d there were %d fetches, want %d", i, s.fetches(), want)
					}
				}
				if !slices.Equal(s.why, []cursor.Reason{cursor.Filling, cursor.Consumed}) {
					t.Errorf("the reasons were %v", s.why)
				}
			})
		})
	}
}

// With a store that answers in time, nobody waits at the joins.
func TestJoinsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(&rangeGiver{size: 100, delay: 50 * time.Millisecond}, 0.2)
		take(t, b, 1)
		for range 1000 {
			before := time.Now()
			take(t, b, 1)
			if waited := time.Since(before); waited > 0 {
				t.Fatalf("waited %s", waited)
			}
			time.Sleep(time.Millisecond) // 80 ms from the mark to the end of a segment
		}
	})
}

func TestWaitsForTheStoreAndThenRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, delay: 1900 * time.Millisecond}
		b := newBuffer(s, 0.2)
		take(t, b, 1) // waited 1.9s of 2s
		s.set(func(s *rangeGiver) { s.delay = time.Hour })
		synctest.Wait()
		before := time.Now()
		take(t, b, 9)
		must.Equal(t, time.Since(before), 0, "waited although there were numbers in hand")
		var seq seqd.Sequence
		err := b.take(t.Context(), 1, &seq)
		must.Code(t, err, seqd.CodeTimeout)
		must.Equal(t, time.Since(before), 2*time.Second, "was rejected after")
		b.close(t.Context(), errStopping)
	})
}

func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, delay: time.Hour}
		b := newBuffer(s, 0.2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var seq seqd.Sequence
		must.Code(t, b.take(ctx, 1, &seq), seqd.CodeTimeout)
		must.Equal(t, b.wanted, 0, "the numbers still wanted")
		b.close(t.Context(), errStopping)
	})
}

// A store that fails is asked again until it answers, also when nobody calls, and not in a loop.
func TestStoreComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, fail: errors.New("away")}
		b := newBuffer(s, 0.2)
		var seq seqd.Sequence
		must.Code(t, b.take(t.Context(), 1, &seq), seqd.CodeStoreUnavailable)
		must.Code(t, b.health(), seqd.CodeStoreUnavailable)
		time.Sleep(time.Hour)
		s.set(func(s *rangeGiver) { s.fail = nil })
		time.Sleep(cursor.LastPause)
		synctest.Wait()
		if err := b.health(); err != nil {
			t.Errorf("still unhealthy: %v", err)
		}
		before := time.Now()
		if got := take(t, b, 1); got[0] != 1 || time.Since(before) != 0 {
			t.Errorf("got %v after %s", got, time.Since(before))
		}
	})
}

func TestNumbersInHandCarryOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 2)
		synctest.Wait()
		s.set(func(s *rangeGiver) { s.fail = errors.New("away") })
		must.Equal(t, take(t, b, 18)[17], 20, "the last number")
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		b.close(t.Context(), errStopping)
	})
}

// What a batch had taken before it failed is skipped, and said to be.
func TestFailedBatchSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 1)
		take(t, b, 9)
		s.set(func(s *rangeGiver) { s.fail = errors.New("away") })
		must.Code(t, b.take(t.Context(), 5, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		s.set(func(s *rangeGiver) { s.fail = nil })
		must.Equal(t, take(t, b, 1)[0], 11, "the number after 10, which went to a call that failed,")
		if len(s.events) != 1 || s.events[0].Kind != seqd.EventAbandoned || s.events[0].Numbers != 1 {
			t.Errorf("events %v", s.events)
		}
	})
}

func TestFinalFailures(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		code    seqd.Code
		healthy bool
	}{
		"exhausted": {persist.ErrExhausted, seqd.CodeExhausted, true},
		"vanished":  {persist.ErrNotFound, seqd.CodeConflict, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rangeGiver{size: 10}
				b := newBuffer(s, 0.2)
				take(t, b, 5)
				synctest.Wait()
				s.set(func(s *rangeGiver) { s.fail = test.err })
				take(t, b, 15) // all that is in hand
				before := time.Now()
				for range 3 {
					must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), test.code)
				}
				must.Equal(t, time.Since(before), 0, "waited for what cannot come")
				must.Equal(t, b.health() == nil, test.healthy, "healthy")
				b.close(t.Context(), errStopping)
			})
		})
	}
}

// A counter that was missing for a while, as during a restore, is found again without being asked
// for.
func TestVanishedCounterComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, fail: persist.ErrNotFound}
		b := newBuffer(s, 0.2)
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeConflict)
		s.set(func(s *rangeGiver) { s.fail = nil })
		time.Sleep(2 * time.Second)
		take(t, b, 1)
		b.close(t.Context(), errStopping)
	})
}

// A store that went back is not believed (the guard): its range is dropped and another is fetched
// above all that was seen.
func TestRangeBelowWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 10)
		synctest.Wait()
		s.set(func(s *rangeGiver) { s.last = 3 })
		got := take(t, b, 11)
		if got[0] != 11 || got[9] != 20 || got[10] <= 20 {
			t.Errorf("got %v", got)
		}
		if len(s.events) == 0 || s.events[0].Kind != seqd.EventOutOfOrder {
			t.Errorf("events %v", s.events)
		}
		b.close(t.Context(), errStopping)
	})
}

func TestCloseReturnsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 4)
		synctest.Wait()
		rest := b.close(t.Context(), errStopping)
		if want := []persist.Range{{First: 11, Last: 20}, {First: 5, Last: 10}}; !slices.Equal(rest, want) {
			t.Errorf("the rest is %v, want %v", rest, want)
		}
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStopping)
		if rest := b.close(t.Context(), errStopping); rest != nil {
			t.Errorf("a second close returned %v", rest)
		}
	})
}

// Callers that wait when the buffer is closed are told at once.
func TestCloseWakesWaitingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(&rangeGiver{size: 10, delay: time.Hour}, 0.2)
		failed := make(chan error)
		go func() { failed <- b.take(t.Context(), 1, &seqd.Sequence{}) }()
		synctest.Wait()
		before := time.Now()
		go b.close(t.Context(), errStopping)
		must.Code(t, <-failed, seqd.CodeStopping)
		must.Equal(t, time.Since(before), 0, "after")
		time.Sleep(2 * time.Hour) // until the store has answered
	})
}

// A refill that answers after close gave up on it is abandoned: its range goes nowhere.
func TestLateRefillIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 1)
		s.set(func(s *rangeGiver) { s.delay = time.Minute })
		take(t, b, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if rest := b.close(ctx, errStopping); !slices.Equal(rest, []persist.Range{{First: 3, Last: 10}}) {
			t.Errorf("the rest is %v", rest)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStopping)
		if n := len(s.events); n != 1 || s.events[0].Kind != seqd.EventAbandoned || s.events[0].Numbers != 10 {
			t.Errorf("events %v", s.events)
		}
	})
}

// Many callers, batches of all sizes, small segments, a store that hesitates and fails: no number
// twice, strict order, and at the end every number was issued, given up by a failed call, or
// returned by close.
func TestConcurrentCallers(t *testing.T) {
	for _, size := range []int64{1, 3, 50, 10_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { concurrentCallers(t, size) })
		})
	}
}

func concurrentCallers(t *testing.T, size int64) {
	s := &rangeGiver{size: size}
	b := newBuffer(s, 0.2)
	h := ordercheck.New()
	enough := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(size), uint64(worker)))
			var seq seqd.Sequence
			for i := range 3000 {
				if worker == 0 && i == 600 {
					close(enough)
				}
				n := 1
				if rng.IntN(4) == 0 {
					n += rng.IntN(40)
				}
				if rng.IntN(500) == 0 {
					s.set(func(s *rangeGiver) { s.delay = time.Duration(rng.IntN(300)) * time.Microsecond })
				}
				seq.Reset()
				start := h.Now()
				if err := b.take(context.Background(), n, &seq); err != nil {
					must.Code(t, err, seqd.CodeStopping)
					return
				}
				h.Add(start, fmt.Sprint("worker ", worker), slices.Collect(seq.Numbers()))
			}
		})
	}
	// Half of the runs close while callers are at it.
	if size%2 == 1 {
		<-enough
	} else {
		wg.Wait()
	}
	rest := b.close(t.Context(), errStopping)
	wg.Wait()
	must.Report(t, h.Check())
	accounted := int64(h.Numbers())
	for _, r := range rest {
		if r.Last > s.last || r.First <= h.Highest() && r.Last >= h.Highest() {
			t.Errorf("%v is given back, but %d was issued", r, h.Highest())
		}
		accounted += r.Size()
	}
	for _, e := range s.events {
		accounted += e.Numbers
	}
	must.Equal(t, accounted, s.last, "the numbers accounted for")
}
