package storesim_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
)

// Without faults it is a store like any other. (One that is Lossless does not compare fences, which the
// suite wants.)
func TestConformance(t *testing.T) {
	for name, mode := range map[string]storesim.Mode{"unfenced": storesim.Unfenced, "lossy": storesim.Lossy} {
		t.Run(name, func(t *testing.T) {
			persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
				c := storesim.New(storesim.Options{Mode: mode, Clock: now, Lag: 3})
				t.Cleanup(c.Close)
				return open(t, c.View(nil), now, time.Hour) // of real time
			})
		})
	}
}

func open(t *testing.T, v *storesim.View, now func() time.Time, timeout time.Duration) persist.Store {
	t.Helper()
	store := must.Get(v.Open(context.Background(), storesim.Client{Timeout: timeout, Now: now}))(t)
	if !store.Shared() {
		t.Error("it is not shared")
	}
	return store
}

// world is a database in a bubble, with the counter order at 0, and a node whose draws a test sets.
type world struct {
	*testing.T
	c     *storesim.Cluster
	view  *storesim.View
	store persist.Store // of the node
	well  persist.Store // of another one, without faults
	fate  storesim.Fate
}

func simulate(t *testing.T, opts storesim.Options, f func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, c: storesim.New(opts)}
		defer w.c.Close()
		w.view = w.c.View(func(storesim.Call) storesim.Fate { return w.fate })
		w.store, w.well = open(t, w.view, time.Now, time.Second), open(t, w.c.View(nil), time.Now, time.Second)
		w.must(w.well.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
		f(w)
	})
}

func (w *world) must(err error) {
	w.Helper()
	must.Do(w, err)
}

func (w *world) take(s persist.Store, size int64) (persist.Range, error) {
	return s.Counters().Allocate(w.Context(), persist.Request{BizTag: "order", Size: size, FailoverGap: 1000})
}

// highest returns the maximum of the counter.
func (w *world) highest() int64 {
	w.Helper()
	m, err := w.well.Counters().Read(w.Context(), "order")
	w.must(err)
	return m.Max
}

// takes takes 10 numbers on the node, and checks the error, how long it took, and what the counter is
// at then.
func (w *world) takes(want error, last time.Duration, highest int64) {
	w.Helper()
	began := time.Now()
	_, err := w.take(w.store, 10)
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		w.Errorf("error %v, want %v", err, want)
	}
	if took := time.Since(began); took != last {
		w.Errorf("it took %v, want %v", took, last)
	}
	if got := w.highest(); got != highest {
		w.Errorf("the counter is at %d, want %d", got, highest)
	}
}

// later waits, and checks what the counter is at then.
func (w *world) later(d time.Duration, highest int64) {
	w.Helper()
	time.Sleep(d)
	synctest.Wait()
	if got := w.highest(); got != highest {
		w.Errorf("after %v the counter is at %d, want %d", d, got, highest)
	}
}

func TestFates(t *testing.T) {
	const ms = time.Millisecond
	away, late := persist.ErrUnavailable, context.DeadlineExceeded
	for name, test := range map[string]struct {
		fate          storesim.Fate
		want          error
		last          time.Duration
		then, highest int64 // at the end of the call, and in the end
	}{
		"nothing goes wrong":                    {storesim.Fate{}, nil, 0, 10, 10},
		"slow":                                  {storesim.Fate{Send: 300 * ms, Reply: 200 * ms}, nil, 500 * ms, 10, 10},
		"refused before sending":                {storesim.Fate{Send: 300 * ms, End: storesim.Unsent}, away, 0, 0, 0},
		"the question is lost":                  {storesim.Fate{Send: 300 * ms, Reply: 200 * ms, End: storesim.QuestionLost}, away, 500 * ms, 0, 0},
		"the reply is lost":                     {storesim.Fate{Send: 300 * ms, Reply: 200 * ms, End: storesim.ReplyLost}, away, 500 * ms, 10, 10},
		"the reply is lost, and nobody says so": {storesim.Fate{Reply: time.Hour, End: storesim.ReplyLost}, late, time.Second, 10, 10},
		"the answer comes too late":             {storesim.Fate{Send: 900 * ms, Reply: 200 * ms}, late, time.Second, 10, 10},
		"the question is given up":              {storesim.Fate{Send: 2000 * ms}, late, time.Second, 0, 0},
		"the question arrives later":            {storesim.Fate{Send: 2000 * ms, Left: true}, late, time.Second, 0, 10},
		"a lost question never arrives":         {storesim.Fate{Send: 2000 * ms, Left: true, End: storesim.QuestionLost}, late, time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, storesim.Options{Mode: storesim.Lossy}, func(w *world) {
				w.fate = test.fate
				w.takes(test.want, test.last, test.then)
				w.later(2*time.Hour, test.highest)
			})
		})
	}
}

// Each state of the way, of one node and of all.
func TestStates(t *testing.T) {
	for name, all := range map[string]bool{"of one node": false, "of all": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, storesim.Options{}, func(w *world) {
				set := w.view.Set
				if all {
					set = w.c.Set
				}
				set(storesim.Away)
				must.Is(w, must.Err(w.take(w.store, 10)), persist.ErrUnavailable)
				must.Is(w, must.Err(w.view.Open(w.Context(), storesim.Client{})), persist.ErrUnavailable)
				if _, err := w.take(w.well, 1); (err != nil) != all {
					w.Errorf("another node: %v", err)
				}
				set(storesim.Up)
				before := w.highest()
				for _, held := range []storesim.State{storesim.Hung, storesim.Mute} {
					set(held)
					time.AfterFunc(700*time.Millisecond, func() { set(storesim.Up) })
					before += 10
					w.takes(nil, 700*time.Millisecond, before)
				}
			})
		})
	}
}

// What is under way when the way is cut: the answer does not arrive, and the question if it has left and
// the way is open again.
func TestHungTooLong(t *testing.T) {
	simulate(t, storesim.Options{}, func(w *world) {
		for i, left := range []bool{false, true} {
			w.fate.Left = left
			w.view.Set(storesim.Hung)
			w.takes(context.DeadlineExceeded, time.Second, 0)
			w.later(time.Hour, 0)
			w.view.Set(storesim.Up)
			w.later(0, 10*int64(i))
		}
		w.view.Set(storesim.Mute)
		w.takes(context.DeadlineExceeded, time.Second, 20)
		w.view.Set(storesim.Up)
		w.fate = storesim.Fate{Send: 100 * time.Millisecond, Reply: 100 * time.Millisecond}
		time.AfterFunc(50*time.Millisecond, func() { w.view.Set(storesim.Away) })
		w.takes(persist.ErrUnavailable, 100*time.Millisecond, 20)
		w.view.Set(storesim.Up)
		time.AfterFunc(150*time.Millisecond, func() { w.view.Set(storesim.Away) })
		w.takes(persist.ErrUnavailable, 200*time.Millisecond, 30)
	})
}

func TestCallerLeaves(t *testing.T) {
	simulate(t, storesim.Options{}, func(w *world) {
		w.fate = storesim.Fate{Send: time.Second / 2, Left: true}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second/4)
		defer cancel()
		_, err := w.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10})
		if !errors.Is(err, persist.ErrUnavailable) {
			w.Error(err)
		}
		w.later(0, 0)
		w.later(time.Second/4, 10)
	})
}

// After a kill nothing is applied, except what had left.
func TestKill(t *testing.T) {
	for name, left := range map[string]bool{"the operation has not left": false, "the operation has left": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, storesim.Options{}, func(w *world) {
				w.fate = storesim.Fate{Send: time.Second / 2, Left: left}
				time.AfterFunc(time.Second/4, w.view.Kill)
				w.takes(persist.ErrClosed, time.Second/4, 0)
				want := int64(0)
				if left {
					want = 10
				}
				w.later(time.Hour, want)
				w.fate = storesim.Fate{Left: true}
				w.takes(persist.ErrClosed, 0, want)
			})
		})
	}
}

// A paused node sends nothing and receives nothing.
func TestPause(t *testing.T) {
	simulate(t, storesim.Options{}, func(w *world) {
		w.fate = storesim.Fate{Send: 100 * time.Millisecond, Reply: 100 * time.Millisecond}
		w.view.Pause()
		time.AfterFunc(time.Minute, w.view.Resume)
		w.takes(nil, time.Minute+200*time.Millisecond, 10)
		time.AfterFunc(150*time.Millisecond, w.view.Pause)
		time.AfterFunc(time.Hour, w.view.Resume)
		w.takes(nil, time.Hour, 20)
		w.view.Pause()
		time.AfterFunc(time.Minute, w.view.Kill)
		w.takes(persist.ErrClosed, time.Minute, 20)
	})
}

// Close waits for what is under way, and leaves the database to the others.
func TestClose(t *testing.T) {
	simulate(t, storesim.Options{}, func(w *world) {
		w.fate = storesim.Fate{Send: time.Second / 2}
		go func() { _, _ = w.take(w.store, 10) }()
		synctest.Wait()
		began := time.Now()
		w.must(w.store.Close())
		if took := time.Since(began); took != time.Second/2 {
			w.Errorf("closing took %v", took)
		}
		w.takes(persist.ErrClosed, 0, 10)
	})
}

// The clock is that of the database, whatever the nodes' say.
func TestClock(t *testing.T) {
	skew := time.Hour
	simulate(t, storesim.Options{Clock: func() time.Time { return time.Now().Add(skew) }}, func(w *world) {
		w.fate = storesim.Fate{Send: time.Second / 4, Reply: time.Second / 4}
		sent := time.Now()
		got, err := w.store.Now(w.Context())
		w.must(err)
		if ahead := got.Sub(sent); ahead != time.Hour+time.Second/4 {
			w.Errorf("its time is %v ahead", ahead)
		}
	})
}

func TestUnreached(t *testing.T) {
	simulate(t, storesim.Options{}, func(w *world) {
		w.c.Set(storesim.Away)
		refused := errors.New("not admitted")
		admit := func(context.Context) error { return refused }
		s, err := w.view.Open(w.Context(), storesim.Client{Unreached: true, Admit: admit})
		w.must(err)
		must.Is(w, must.Err(w.take(s, 10)), refused)
	})
}
