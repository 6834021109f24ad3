package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// library is a source of biz types that count on from what the one before has left.
type library struct {
	issuer  *issuer.Issuer
	mu      sync.Mutex // guards what follows
	shelves map[string]*shelf
	fetched map[string]int
	fail    error
	wait    chan struct{} // if not nil, Fetch waits until it is closed
}

func newLibrary(t testing.TB, names ...string) *library {
	t.Helper()
	l := &library{shelves: map[string]*shelf{}, fetched: map[string]int{}}
	for _, name := range names {
		l.shelves[name] = &shelf{}
	}
	is := must.Get(issuer.New(nil, issuer.Options{Log: quiet(), Source: l}))(t)
	l.issuer = is
	return l
}

func (l *library) Fetch(ctx context.Context, name string) error {
	l.mu.Lock()
	l.fetched[name]++
	s, err, wait := l.shelves[name], l.fail, l.wait
	l.mu.Unlock()
	if wait != nil {
		<-wait
	}
	switch {
	case err != nil:
		return err
	case s == nil:
		return seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
	}
	return l.issuer.Put(ctx, name, func() (issuer.Definition, error) {
		return issuer.Definition{BizType: seqd.BizType{Name: name}, Strategy: &idler{lasting{shelf: s}}}, nil
	})
}

func (l *library) set(fail error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = fail
}

func (l *library) times(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetched[name]
}

func (l *library) remove(t testing.TB, name string) {
	t.Helper()
	must.Report(t, l.issuer.Remove(context.Background(), name, nil))
}

// idler is a strategy that can be closed and made anew.
type idler struct{ lasting }

func (*idler) Idle() bool { return true }

func wantNext(t *testing.T, is *issuer.Issuer, name, want string) {
	t.Helper()
	seq := must.Get(is.Next(t.Context(), name, 1))(t)
	must.Equal(t, seq.IDs()[0], want, "%s", name)
}

// A biz type is fetched when it is first asked for, by whatever call, and again after it was
// removed.
func TestFetchedWhenNeeded(t *testing.T) {
	for name, ask := range map[string]func(is *issuer.Issuer) error{
		"Issue": func(is *issuer.Issuer) error { _, err := is.Next(t.Context(), "order", 1); return err },
		"IssueAll": func(is *issuer.Issuer) error {
			calls, errs := pipelineOf(1, 1)
			for _, call := range calls {
				call.BizType = "order"
			}
			is.IssueAll(t.Context(), calls, errs)
			return errors.Join(errs...)
		},
		"Parse":     func(is *issuer.Issuer) error { _, err := is.Parse("order", "1"); return err },
		"Form":      func(is *issuer.Issuer) error { _, err := is.Form("order"); return err },
		"Increment": func(is *issuer.Issuer) error { _, err := is.Increment("order"); return err },
		"Reclaim":   func(is *issuer.Issuer) error { _, err := is.Reclaim(t.Context(), "order", "", 0); return err },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLibrary(t, "order")
			defer shut(t, l.issuer)
			for range 2 {
				must.Do(t, ask(l.issuer))
			}
			l.remove(t, "order")
			must.Do(t, ask(l.issuer))
			must.Equal(t, l.times("order"), 2, "fetches")
		})
	}
}

// Numbers continue over being dropped and fetched again, and what the strategy knew is inherited.
func TestDroppedAndFetchedAgain(t *testing.T) {
	l := newLibrary(t, "order")
	defer shut(t, l.issuer)
	for i := range 3 {
		wantNext(t, l.issuer, "order", fmt.Sprint(i+1))
		l.remove(t, "order")
		l.issuer.States(func(s issuer.State) { t.Errorf("%s is still held", s.BizType) })
	}
}

// What was used since it was last asked for is not dropped, nor what cannot be made anew.
func TestDrop(t *testing.T) {
	l := newLibrary(t, "order")
	put(t, l.issuer, &idler{lasting{shelf: l.shelves["order"]}})
	must.Do(t, l.issuer.Put(t.Context(), "keeps", func() (issuer.Definition, error) {
		return issuer.Definition{BizType: seqd.BizType{Name: "keeps"}, Strategy: &lasting{shelf: &shelf{}}}, nil
	}))
	for i, want := range []bool{false, true, true} {
		if i == 0 {
			wantNext(t, l.issuer, "order", "1")
		}
		must.Equal(t, must.Get(l.issuer.Drop(t.Context(), "order"))(t), want, "%d: dropped", i)
	}
	if dropped, err := l.issuer.Drop(t.Context(), "keeps"); dropped || err != nil {
		t.Errorf("dropped %t, %v", dropped, err)
	}
	wantNext(t, l.issuer, "keeps", "1")
	wantNext(t, l.issuer, "order", "2")
	must.Equal(t, l.times("order"), 1, "fetches")
	shut(t, l.issuer)
	dropped, err := l.issuer.Drop(t.Context(), "order")
	if must.Code(t, err, seqd.CodeStopping); dropped {
		t.Error("dropped after Close")
	}
}

// A name that does not exist is asked for each time, and an invalid one never.
func TestFetchOfNothing(t *testing.T) {
	l := newLibrary(t)
	defer shut(t, l.issuer)
	for name, want := range map[string]seqd.Code{"none": seqd.CodeUnknownBizType, "no name": seqd.CodeInvalidBizType} {
		for range 2 {
			must.Code(t, must.Err(l.issuer.Next(t.Context(), name, 1)), want)
		}
		calls, errs := pipelineOf(1, 1)
		for _, call := range calls {
			call.BizType = name
		}
		l.issuer.IssueAll(t.Context(), calls, errs)
		must.Code(t, errs[1], want)
	}
	if n, invalid := l.times("none"), l.times("no name"); n != 3 || invalid != 0 {
		t.Errorf("fetched %d and %d times", n, invalid)
	}
	if list, total := l.issuer.Health(10); total > 0 {
		t.Errorf("unready: %v", list)
	}
}

// Callers share a fetch, wait for it as long as for an initialisation, and it goes on without them.
func TestFetchIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, "order")
		l.wait = make(chan struct{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				must.Code(t, must.Err(l.issuer.Next(t.Context(), "order", 1)), seqd.CodeStarting)
			})
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			must.Code(t, must.Err(l.issuer.Next(ctx, "order", 1)), seqd.CodeTimeout)
		})
		wg.Wait()
		close(l.wait)
		synctest.Wait()
		wantNext(t, l.issuer, "order", "1")
		must.Equal(t, l.times("order"), 1, "fetches")
		shut(t, l.issuer)
	})
}

// What cannot be read is refused with the reason, makes the node unready once it has failed twice,
// and is tried again without a caller.
func TestFetchThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, "order")
		away := &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"}
		l.set(away)
		must.Code(t, must.Err(l.issuer.Next(t.Context(), "order", 1)), seqd.CodeStoreUnavailable)
		if _, total := l.issuer.Health(10); total != 0 {
			t.Error("one failure makes the node unready")
		}
		time.Sleep(4500 * time.Millisecond)
		must.Equal(t, l.times("order"), 5, "the tries in 4.5 s")
		if list, total := l.issuer.Degraded(10); total != 0 {
			t.Errorf("degraded: %v", list)
		}
		if list, total := l.issuer.Health(10); total != 1 || list[0].Reason.Code != seqd.CodeStoreUnavailable {
			t.Errorf("unready: %v", list)
		}
		states := 0
		l.issuer.States(func(s issuer.State) {
			if states++; s.Unready == nil {
				t.Errorf("%s is not unready", s.BizType)
			}
		})
		l.set(nil)
		time.Sleep(1500 * time.Millisecond)
		if list, total := l.issuer.Health(10); total != 0 || states != 1 {
			t.Errorf("unready: %v; %d states before", list, states)
		}
		fetched := l.times("order")
		wantNext(t, l.issuer, "order", "1")
		must.Equal(t, l.times("order"), fetched, "fetches, if it was fetched before the caller came,")
		shut(t, l.issuer)
	})
}

// However many names cannot be read, few of them are kept; and a stop waits for none of them.
func TestManyFetchesThatFail(t *testing.T) {
	l := newLibrary(t)
	l.set(&seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"})
	for i := range 3000 {
		must.Code(t, must.Err(l.issuer.Next(t.Context(), fmt.Sprintf("name%d", i), 1)), seqd.CodeStoreUnavailable)
	}
	if _, total := l.issuer.Health(10); total > 1000 {
		t.Errorf("%d are kept", total)
	}
	shut(t, l.issuer)
	must.Code(t, must.Err(l.issuer.Next(t.Context(), "other", 1)), seqd.CodeStopping)
}

// A probe that names what cannot be read takes no place among what is tried again. Who needs
// numbers does, also if the fetch was begun for a probe.
func TestFetchOfAProbeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, "order")
		l.set(&seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"})
		for i := range 2000 {
			state := must.Get(l.issuer.Look(t.Context(), fmt.Sprintf("name%d", i)))(t)
			must.Code(t, state.Unready, seqd.CodeStoreUnavailable)
		}
		time.Sleep(4 * time.Second)
		must.Equal(t, l.times("name1999"), 1, "the tries of what only a probe named")
		wait := make(chan struct{})
		l.mu.Lock()
		l.wait = wait
		l.mu.Unlock()
		var callers sync.WaitGroup
		callers.Go(func() { _, _ = l.issuer.Look(t.Context(), "order") })
		synctest.Wait()
		callers.Go(func() { _, _ = l.issuer.Next(t.Context(), "order", 1) })
		synctest.Wait()
		close(wait)
		callers.Wait()
		time.Sleep(4500 * time.Millisecond)
		if list, total := l.issuer.Health(10); total != 1 || list[0].BizType != "order" || l.times("order") != 5 {
			t.Errorf("tried %d times, unready: %v", l.times("order"), list)
		}
		shut(t, l.issuer)
	})
}

// A source that panics is an error like another.
func TestFetchThatPanics(t *testing.T) {
	is := newIssuer(t, issuer.Options{Source: panicking{}})
	defer shut(t, is)
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeInternal)
}

type panicking struct{}

func (panicking) Fetch(context.Context, string) error { panic("no") }

// A biz type is idle if nobody has used it since it was last asked, and all its parts can be made
// anew.
func TestIdle(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	defer shut(t, is)
	plain := func(name string, s seqd.Strategy, plugins ...seqd.BoundPlugin) {
		t.Helper()
		must.Do(t, is.Put(t.Context(), name, func() (issuer.Definition, error) {
			return issuer.Definition{BizType: seqd.BizType{Name: name}, Strategy: s, Plugins: plugins}, nil
		}))
	}
	bound := func(p seqd.Plugin) seqd.BoundPlugin { return seqd.BoundPlugin{Name: "p", Quick: true, Plugin: p} }
	plain("idle", &idler{lasting{shelf: &shelf{}}}, bound(resting{}))
	plain("keeps", &lasting{shelf: &shelf{}})
	plain("plugin", &idler{lasting{shelf: &shelf{}}}, bound(seqd.NopPlugin{}))
	plain("panics", &idler{lasting{shelf: &shelf{}}}, bound(&restless{}))
	want := func(name string, want bool) {
		t.Helper()
		must.Equal(t, is.Idle(name), want, "%s is idle", name)
	}
	want("none", true)
	want("keeps", false)
	want("plugin", false)
	want("panics", false)
	want("idle", true)
	wantNext(t, is, "idle", "1")
	want("idle", false)
	want("idle", true)
	must.Do(t, is.Disable(t.Context(), "idle", seqd.Errorf(seqd.CodeDisabled, "off")))
	want("idle", true)
	plain("changing", &lasting{shelf: &shelf{}, closing: func(context.Context) error { want("changing", false); return nil }})
	wantNext(t, is, "changing", "1")
	must.Do(t, is.Disable(t.Context(), "changing", errOff))
	want("changing", true)
}

type resting struct{ seqd.NopPlugin }

func (resting) Idle() bool { return true }

type restless struct{ resting }

func (*restless) Idle() bool { panic("no") }

// What fails to initialise is tried again, and keeps nothing else from being initialised meanwhile.
func TestPutBesideWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{})
		var fails atomic.Bool
		fails.Store(true)
		put := func(name string, init func(context.Context, bool) error) *counting {
			s := &counting{init: init}
			must.Do(t, is.Put(t.Context(), name, func() (issuer.Definition, error) {
				return issuer.Definition{BizType: seqd.BizType{Name: name}, Strategy: s}, nil
			}))
			return s
		}
		put("failing", func(context.Context, bool) error {
			if fails.Load() {
				return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"}
			}
			return nil
		})
		time.Sleep(10 * time.Second)
		put("good", nil)
		synctest.Wait()
		if list, total := is.Health(10); total != 1 || list[0].BizType != "failing" {
			t.Errorf("unready: %v", list)
		}
		fails.Store(false)
		time.Sleep(2 * time.Second)
		if list, total := is.Health(10); total != 0 {
			t.Errorf("unready: %v", list)
		}
		shut(t, is)
	})
}

// A biz type that is put while the node serves does not make it unready until it fails or takes as
// long as callers wait. One that the node began with does at once.
func TestReadyWhileBizTypesAreOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(d time.Duration, err error) *counting {
			return &counting{init: func(context.Context, bool) error { time.Sleep(d); return err }}
		}
		is := newIssuer(t, issuer.Options{}, order(slow(time.Second, nil)))
		unready := func(want int) {
			t.Helper()
			synctest.Wait()
			if list, total := is.Health(10); total != want {
				t.Errorf("unready: %v, want %d", list, want)
			}
		}
		unready(1)
		is.Init(t.Context())
		unready(0)
		put(t, is, slow(3*time.Second, nil))
		unready(0)
		time.Sleep(2500 * time.Millisecond)
		unready(1)
		time.Sleep(time.Second)
		unready(0)
		put(t, is, slow(time.Second, &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"}))
		time.Sleep(1500 * time.Millisecond)
		unready(1)
		shut(t, is)
	})
}

type closesIn struct {
	idler
	left chan time.Duration // until the end of ctx when Close was called
}

func (c *closesIn) Close(ctx context.Context) error {
	until, _ := ctx.Deadline()
	c.left <- time.Until(until)
	return c.idler.Close(ctx)
}

// Close does not wait for a definition that is being read: strategies would have no time left to
// give numbers back.
func TestCloseDoesNotWaitForAFetch(t *testing.T) {
	synctest.Test(t, closeDuringAFetch)
}

func closeDuringAFetch(t *testing.T) {
	l := newLibrary(t, "order", "slow")
	c := &closesIn{idler{lasting{shelf: &shelf{}}}, make(chan time.Duration, 1)}
	must.Do(t, l.issuer.Put(t.Context(), "busy", func() (issuer.Definition, error) {
		return issuer.Definition{BizType: seqd.BizType{Name: "busy"}, Strategy: c}, nil
	}))
	wantNext(t, l.issuer, "busy", "1")
	wait := make(chan struct{})
	l.mu.Lock()
	l.wait = wait
	l.mu.Unlock()
	go func() { _, _ = l.issuer.Next(t.Context(), "slow", 1) }()
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_ = l.issuer.Close(ctx)
	if left := <-c.left; left < 100*time.Millisecond {
		t.Errorf("a strategy that has nothing to do with the fetch had %v to give back", left)
	}
	close(wait)
}

// While the store hangs, however many names are asked for, few fetches wait for it.
func TestFetchesAreBounded(t *testing.T) {
	synctest.Test(t, manyFetches)
}

func manyFetches(t *testing.T) {
	l := newLibrary(t, "order")
	wait := make(chan struct{})
	l.mu.Lock()
	l.wait = wait
	l.mu.Unlock()
	before := runtime.NumGoroutine()
	var callers sync.WaitGroup
	for i := range 20_000 {
		callers.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, _ = l.issuer.Next(ctx, fmt.Sprint("junk", i), 1)
		})
	}
	callers.Wait()
	synctest.Wait() // those that end have ended
	if n := runtime.NumGoroutine() - before; n > 1100 {
		t.Errorf("no caller waits, and %d goroutines do", n)
	}
	close(wait)
	shut(t, l.issuer)
}
