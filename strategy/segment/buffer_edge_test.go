package segment

import (
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// A count that would overflow the cursor is refused and leaves nothing behind, in this buffer or in
// the others.
func TestHugeCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, other := newBuffer(&rangeGiver{size: 10}, 0.2), newBuffer(&rangeGiver{size: 10}, 0.2)
		for range 2 {
			for _, n := range []int{math.MaxInt, math.MaxInt - 5, math.MinInt, -1, 0, seqd.MaxCount + 1} {
				must.Code(t, b.take(t.Context(), n, &seqd.Sequence{}), seqd.CodeInvalidCount)
			}
			take(t, b, 1)
		}
		if got := take(t, b, seqd.MaxCount); got[0] != 3 || got[seqd.MaxCount-1] != seqd.MaxCount+2 {
			t.Errorf("got %d to %d", got[0], got[seqd.MaxCount-1])
		}
		must.Equal(t, take(t, other, 1)[0], 1, "another buffer gave")
	})
}

// A range that begins with the highest number seen, or that is none, is refused too.
func TestGuard(t *testing.T) {
	for name, bad := range map[string]persist.Range{
		"begins at the highest": {First: 20, Last: 29},
		"ends before it begins": {First: 101, Last: 50},
		"beyond all numbers":    {First: seqd.MaxNumber, Last: seqd.MaxNumber + 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuffer(&rangeGiver{}, 0.2)
			b.highest, b.refilling = 20, make(chan struct{})
			if b.install(bad, nil, b.refilling); b.second != nil || b.highest != 20 {
				t.Errorf("installed %+v", b.second)
			}
		})
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, fail: errors.New("away")}
		b := newBuffer(s, 0.2)
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		s.set(func(s *rangeGiver) { s.fail, s.delay = nil, 100*time.Millisecond })
		take(t, b, 1)
		take(t, b, 25)
		time.Sleep(time.Second)
		synctest.Wait()
		if b.wanted != 0 || b.failure != nil || b.refilling != nil || b.changed != nil {
			t.Errorf("wanted %d, failure %v, refilling %v, changed %v", b.wanted, b.failure, b.refilling, b.changed)
		}
	})
}

func TestHealthyWhileThereAreNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 2)
		synctest.Wait()
		s.set(func(s *rangeGiver) { s.fail = errors.New("away") })
		take(t, b, 8) // buffer 1 is used up, buffer 2 is full
		if err := b.health(); err != nil {
			t.Errorf("buffer 2 is full, but: %v", err)
		}
		take(t, b, 2) // into buffer 2, whose own refill fails
		time.Sleep(time.Second)
		if err := b.health(); err != nil {
			t.Errorf("8 numbers are in hand, but: %v", err)
		}
		take(t, b, 8)
		must.Code(t, b.health(), seqd.CodeStoreUnavailable)
		b.close(t.Context(), errStopping)
	})
}

// A store that hangs makes the biz type unhealthy, although it never said that anything is wrong.
func TestHealthOfAHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, delay: time.Hour}
		b := newBuffer(s, 0.2)
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeTimeout)
		if err := b.health(); err != nil {
			t.Errorf("unhealthy after the first refusal: %v", err)
		}
		time.Sleep(2 * cursor.Hangs)
		must.Code(t, b.health(), seqd.CodeTimeout)
		time.Sleep(time.Hour)
		if err := b.health(); err != nil {
			t.Errorf("the store has answered, but: %v", err)
		}
		b.close(t.Context(), errStopping)
	})
}

// The patience of a caller is one, however often it is woken in between.
func TestPatienceDoesNotBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBuffer(&rangeGiver{size: 1, delay: 900 * time.Millisecond}, 0.2)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				began := time.Now()
				if err := b.take(t.Context(), 1, &seqd.Sequence{}); err != nil {
					must.Code(t, err, seqd.CodeTimeout)
				}
				if waited := time.Since(began); waited > 2*time.Second {
					t.Errorf("waited %s", waited)
				}
			})
		}
		wg.Wait()
		b.close(t.Context(), errStopping)
	})
}

// floors is a source that writes down the floors it is given.
type floors struct {
	rangeGiver
	floors []int64
}

func (f *floors) fetch(want, floor int64, why cursor.Reason) (persist.Range, error) {
	f.floors = append(f.floors, floor)
	return f.rangeGiver.fetch(want, floor, why)
}

func TestFloorIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &floors{rangeGiver: rangeGiver{size: 10, last: 41}}
		b := &buffer{}
		b.init(s, 0.2, time.Second, 41)
		take(t, b, 2)
		synctest.Wait()
		if !slices.Equal(s.floors, []int64{41, 51}) {
			t.Errorf("floors %v", s.floors)
		}
	})
}

// A refill that answers while close waits for it is part of the rest, so that a clean stop skips
// nothing.
func TestCloseWaitsForTheRefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		take(t, b, 1)
		s.set(func(s *rangeGiver) { s.delay = time.Second })
		take(t, b, 1)
		synctest.Wait()
		if rest := b.close(t.Context(), errStopping); !slices.Equal(rest, []persist.Range{{First: 11, Last: 20}, {First: 3, Last: 10}}) {
			t.Errorf("the rest is %v", rest)
		}
	})
}

// A refill that waits between two attempts ends with close, without another attempt.
func TestCloseEndsThePauseOfARefill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10, fail: errors.New("away")}
		b := newBuffer(s, 0.2)
		must.Code(t, b.take(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		s.set(func(s *rangeGiver) { s.fail = nil })
		began := time.Now()
		if rest := b.close(t.Context(), errStopping); rest != nil || time.Since(began) != 0 || s.fetches() != 0 {
			t.Errorf("the rest is %v after %s and %d fetches", rest, time.Since(began), s.fetches())
		}
	})
}

// nosy is a source that asks back when it is told something.
type nosy struct {
	*rangeGiver
	buffer *buffer
}

func (n *nosy) report(seqd.Event) { _ = n.buffer.health() }

func TestWhoIsToldMayAskBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &rangeGiver{size: 10}
		b := newBuffer(s, 0.2)
		b.source = &nosy{s, b}
		take(t, b, 10)
		synctest.Wait()
		s.set(func(s *rangeGiver) { s.last = 3 })
		take(t, b, 11)
		b.close(t.Context(), errStopping)
	})
}
