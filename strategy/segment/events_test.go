package segment

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// wantEvents compares how many events of each kind there were, how many numbers they had together,
// and whether each said why and of which biz type.
func (o *observer) wantEvents(t *testing.T, want map[seqd.EventKind][2]int64, why error) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	got := make(map[seqd.EventKind][2]int64)
	for _, e := range o.events {
		sum := got[e.Kind]
		got[e.Kind] = [2]int64{sum[0] + 1, sum[1] + e.Numbers}
		must.Equal(t, e.BizType, "order", "%+v is of no biz type", e)
		if failed := e.Kind == seqd.EventRefillFailed || e.Kind == seqd.EventStoreAway || e.Kind == seqd.EventRedisAway; failed && !errors.Is(e.Err, why) {
			t.Errorf("%+v does not say why", e)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("events, with their numbers: %v, want %v", got, want)
	}
}

func TestEventsOfOwnBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, o := newStrategy(t, store, func(s *Settings) { s.Step, s.MaxStep, s.AcquireTimeout = 10, 10, 15*time.Millisecond })
		start(t, s, true)
		store.fails("read", errDown)
		if _, code := try(t, s, 1); code != seqd.CodeStoreUnavailable {
			t.Errorf("refused as %s", code)
		}
		store.fails("read", nil)
		time.Sleep(cursor.FirstPause) // it tries again
		synctest.Wait()
		generate(t, s, 1)
		synctest.Wait()
		must.Do(t, s.Close(t.Context()))
		o.wantEvents(t, map[seqd.EventKind][2]int64{
			seqd.EventRefillFailed: {1, 0}, seqd.EventStoreAway: {1, 0}, seqd.EventStoreBack: {1, 0}, seqd.EventRefilled: {1, 10}, seqd.EventGivenBack: {1, 9},
		}, errDown)
	})
}

func TestEventsOfCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s, o := newShared(t, memory.New(time.Now), redis, func(s *Settings) { small(s); s.ReserveSegments, s.OnRedisDown, s.Threshold = 0, Reject, 1 })
		numbers(t, s, 1)
		synctest.Wait()
		redis.lose()
		numbers(t, s, 1)
		synctest.Wait()
		closeAll(t, s)
		o.wantEvents(t, map[seqd.EventKind][2]int64{seqd.EventRefilled: {2, 20}, seqd.EventSeeded: {2, 20}}, nil)
	})
}

// What becomes of the store is told when it changes. That a counter is at its end says nothing of
// it.
func TestEventsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, own := newStrategy(t, memory.New(time.Now), nil)
		for i, step := range []struct {
			err, away error // what the store answers, and what is said then
			told      int   // how many events
		}{
			{nil, nil, 0}, {persist.ErrExhausted, nil, 0}, {errDown, errDown, 1}, {errBehind, errBehind, 1}, {persist.ErrExhausted, nil, 2}, {nil, nil, 2},
		} {
			s.noteStore(step.err)
			if s.whyAway() != step.away || len(own.events) != step.told {
				t.Errorf("after %d answers: %v, events %v", i+1, s.whyAway(), own.events)
			}
		}
		p := new(family)
		for _, pause := range []time.Duration{0, lookPause} {
			if time.Sleep(pause); !p.looks() || p.looks() {
				t.Errorf("after %v no counter, or two, are read", pause)
			}
			if time.Sleep(lookPause - 1); p.looks() {
				t.Error("a counter is read too early")
			}
			time.Sleep(time.Nanosecond)
		}
	})
}

// No event tells that no number is skipped.
func TestEventsOfKeys(t *testing.T) {
	s, o := observedKeys(t, memory.New(time.Now), small)
	one, other := newStrategy(t, memory.New(time.Now), nil)
	for o, s := range map[*observer]takesSome{o: s, other: one} {
		s.skipped(0, nil)
		s.skipped(2, nil)
		if o.count(seqd.EventAbandoned) != 1 || o.numbers(seqd.EventAbandoned) != 2 {
			t.Errorf("events %+v", o.events)
		}
	}
	closed(t, s)
}

// A range of a period that was removed while it was allocated is abandoned.
func TestEventsOfRemovedPeriod(t *testing.T) {
	s, o := newStrategy(t, memory.New(time.Now), small)
	start(t, s, true)
	watched(s, purged)
	must.Is(t, must.Err(s.fetchFor(persist.Target{}, 0, 0, cursor.Filling)), counters.ErrPurged)
	o.wantEvents(t, map[seqd.EventKind][2]int64{seqd.EventRefilled: {1, 10}, seqd.EventAbandoned: {1, 10}, seqd.EventRefillFailed: {1, 0}}, counters.ErrPurged)
}

// A store that goes back loses the range that it gives.
func TestEventsOfOldRange(t *testing.T) {
	s, o := newStrategy(t, memory.New(time.Now), nil)
	s.near.buffer.adopt(persist.Range{First: 100, Last: 199})
	s.near.buffer.refilling = make(chan struct{})
	s.near.buffer.install(persist.Range{First: 150, Last: 159}, nil, s.near.buffer.refilling)
	o.wantEvents(t, map[seqd.EventKind][2]int64{seqd.EventOutOfOrder: {1, 10}, seqd.EventAbandoned: {1, 10}}, nil)
}

// panicky is an observer that panics.
type panicky struct{ seqd.NopObserver }

func (panicky) Event(seqd.Event) { panic("observing") }

// An observer that panics keeps nobody from issuing, nor anything from being given back.
func TestObserverThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		s := node(t, store, redis, panicky{}, small)
		numbers(t, s, 25)
		synctest.Wait()
		redis.lose()
		numbers(t, s, 25)
		synctest.Wait()
		closeAll(t, s)
		own, _ := newStrategy(t, store, small)
		own.env.Observer = panicky{}
		before := numbers(t, own, 1)[0]
		synctest.Wait()
		must.Report(t, own.Close(t.Context()))
		if counter, err := store.Counters().Read(t.Context(), "order"); err != nil || counter.Max != before {
			t.Errorf("after %d the store is at %d: %v", before, counter.Max, err)
		}
	})
}
