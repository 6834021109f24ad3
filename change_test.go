package seqd_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// shelf is what strategies of one biz type leave to each other: the next number, as a store keeps
// it over a clean stop.
type shelf struct {
	next atomic.Int64
	open atomic.Int64 // strategies that may issue
}

// lasting is a strategy that takes the numbers off the shelf at Init and puts back what is left at
// Close. Two at a time would issue numbers twice.
type lasting struct {
	shelf     *shelf
	inherited seqd.Strategy
	details   map[string]any
	closing   func(ctx context.Context) error

	mu     sync.Mutex // guards what follows
	next   int64
	open   bool
	closed int
}

func (l *lasting) Init(context.Context, bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.open = l.shelf.next.Load(), true
	if l.shelf.open.Add(1) != 1 {
		return errors.New("another one is open")
	}
	return nil
}

func (l *lasting) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return &seqd.Error{Code: seqd.CodeStopping, Detail: "closed"}
	}
	l.next += int64(n)
	seq.Add(l.next-int64(n)+1, n, 1)
	return nil
}

func (l *lasting) Close(ctx context.Context) error {
	if l.closing != nil {
		if err := l.closing(ctx); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed++; l.open {
		l.open = false
		l.shelf.next.Store(l.next)
		l.shelf.open.Add(-1)
	}
	return nil
}

func (l *lasting) Inherit(from seqd.Strategy) { l.inherited = from }

func (l *lasting) Details() map[string]any { return l.details }

// put puts a definition of the biz type order.
func put(t testing.TB, is *seqd.Issuer, s seqd.Strategy, plugins ...seqd.BoundPlugin) {
	t.Helper()
	if err := is.Put(t.Context(), "order", func() (seqd.Definition, error) { return order(s, plugins...), nil }); err != nil {
		t.Error(err)
	}
}

func shut(t testing.TB, is *seqd.Issuer) {
	t.Helper()
	if err := is.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// watched is a plugin that finds out whether it is closed while a call is in it, twice, or before
// its strategy.
type watched struct {
	seqd.NopPlugin
	t        testing.TB
	strategy *lasting
	inside   atomic.Int64
	closed   atomic.Int64
}

func (p *watched) Before(context.Context, *seqd.Call) error { p.inside.Add(1); return p.open() }
func (p *watched) After(context.Context, *seqd.Call) error  { defer p.inside.Add(-1); return p.open() }
func (p *watched) OnError(context.Context, *seqd.Call, *seqd.Error) {
	defer p.inside.Add(-1)
	_ = p.open()
}

func (p *watched) open() error {
	if p.closed.Load() != 0 {
		p.t.Error("a call was in a closed plugin")
	}
	return nil
}

func (p *watched) Close(context.Context) error {
	if p.closed.Add(1) != 1 {
		p.t.Error("a plugin was closed twice")
	}
	if n := p.inside.Load(); n != 0 {
		p.t.Errorf("a plugin was closed with %d calls inside", n)
	}
	p.strategy.mu.Lock()
	defer p.strategy.mu.Unlock()
	if p.strategy.open {
		p.t.Error("a plugin was closed before its strategy")
	}
	return nil
}

// churn changes a biz type rounds times under many callers, who check what they get: no number
// twice, each call that begins after another ended gets a larger number, and no error but one of
// allowed.
func churn(t *testing.T, change func(t *testing.T, round int, is *seqd.Issuer, fresh func() (seqd.Definition, error)), rounds int, allowed ...seqd.Code) {
	synctest.Test(t, func(t *testing.T) {
		var all []*lasting
		store := &shelf{}
		fresh := func() (seqd.Definition, error) {
			s := &lasting{shelf: store}
			all = append(all, s)
			if len(all)%2 == 0 { // without a plugin that closes, calls take another way
				return order(s), nil
			}
			p := &watched{t: t, strategy: s}
			return order(s, seqd.BoundPlugin{Name: "quick", Quick: true, Plugin: p}), nil
		}
		first, _ := fresh()
		is := newIssuer(t, seqd.Options{}, first)
		h := ordercheck.New()
		var callers sync.WaitGroup
		var over atomic.Bool
		var issued atomic.Int64
		for i := range 16 {
			callers.Go(func() {
				for ; !over.Load(); runtime.Gosched() {
					began := h.Now()
					seq, err := is.Next(t.Context(), "order", 1+i%3)
					switch {
					case err == nil:
						h.Add(began, fmt.Sprint(i), slices.Collect(seq.Numbers()))
						issued.Add(1)
					case !slices.Contains(allowed, seqd.CodeOf(err)):
						t.Error(err)
						return
					}
				}
			})
		}
		for round := range rounds {
			change(t, round, is, fresh)
			for before := issued.Load(); len(allowed) == 0 && round%3 == 0 && issued.Load() < before+16 && !t.Failed(); {
				runtime.Gosched()
			}
		}
		over.Store(true)
		callers.Wait()
		shut(t, is)
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		if got := h.Highest(); got != int64(h.Numbers()) {
			t.Errorf("%d numbers up to %d: some were skipped", h.Numbers(), got)
		}
		for i, s := range all {
			if s.open || s.closed > 1 {
				t.Errorf("strategy %d: open %v, closed %d times", i, s.open, s.closed)
			}
			if i > 0 && s.inherited != all[i-1] {
				t.Errorf("strategy %d inherited from another one than the last", i)
			}
		}
	})
}

func TestPutUnderLoad(t *testing.T) {
	churn(t, func(t *testing.T, _ int, is *seqd.Issuer, fresh func() (seqd.Definition, error)) {
		if err := is.Put(t.Context(), "order", fresh); err != nil {
			t.Error(err)
		}
	}, 300)
}

func TestPutAndRemoveUnderLoad(t *testing.T) {
	reasons := []*seqd.Error{nil, seqd.Errorf(seqd.CodeDisabled, "off"), seqd.Errorf(seqd.CodeConflict, "no")}
	churn(t, func(t *testing.T, round int, is *seqd.Issuer, fresh func() (seqd.Definition, error)) {
		if round%2 == 0 {
			if err := is.Remove(t.Context(), "order", reasons[round/2%3]); err != nil {
				t.Error(err)
			}
			return
		}
		if err := is.Put(t.Context(), "order", fresh); err != nil {
			t.Error(err)
		}
	}, 300, seqd.CodeUnknownBizType, seqd.CodeDisabled, seqd.CodeConflict)
}

// Changes that come together happen one after the other.
func TestPutsTogether(t *testing.T) {
	churn(t, func(t *testing.T, _ int, is *seqd.Issuer, fresh func() (seqd.Definition, error)) {
		var puts sync.WaitGroup
		for range 4 {
			puts.Go(func() {
				if err := is.Put(t.Context(), "order", fresh); err != nil {
					t.Error(err)
				}
			})
		}
		puts.Wait()
	}, 50)
}

// A change that takes long costs a caller 2 s at most, whichever way it came upon it.
func TestCallersOfAChangeThatTakesLong(t *testing.T) {
	slowly := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	ask := func(t *testing.T, is *seqd.Issuer, want seqd.Code, least, most time.Duration) {
		t.Helper()
		began := time.Now()
		_, err := is.Next(t.Context(), "order", 1)
		wantCode(t, err, want)
		if waited := time.Since(began); waited < least || waited > most {
			t.Errorf("waited %s", waited)
		}
	}
	t.Run("one that is too slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, seqd.Options{}, order(&lasting{shelf: store, closing: slowly(time.Minute)}))
			ask(t, is, "", 0, 0)
			go put(t, is, &lasting{shelf: store})
			synctest.Wait()
			ask(t, is, seqd.CodeStarting, 2*time.Second, 2*time.Second)
			if _, err := is.Parse("order", "1"); seqd.CodeOf(err) != seqd.CodeStarting {
				t.Errorf("parse: %v", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := is.Next(ctx, "order", 1)
			wantCode(t, err, seqd.CodeTimeout)
			unready, _ := is.Health(10)
			if len(unready) != 1 || unready[0].Reason.Code != seqd.CodeStarting {
				t.Errorf("while callers wait in vain, unready are %v", unready)
			}
			time.Sleep(time.Minute)
			ask(t, is, "", 0, 0)
			shut(t, is)
		})
	})
	t.Run("one that ends in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, seqd.Options{}, order(&lasting{shelf: store, closing: slowly(1500 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go put(t, is, &lasting{shelf: store})
			synctest.Wait()
			if unready, _ := is.Health(10); unready != nil {
				t.Errorf("unready are %v", unready)
			}
			ask(t, is, "", 1500*time.Millisecond, 1500*time.Millisecond)
			shut(t, is)
		})
	})
	t.Run("a slow Init after it counts too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			is := newIssuer(t, seqd.Options{}, order(&lasting{shelf: &shelf{}, closing: slowly(1500 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go put(t, is, hanging(time.Minute))
			synctest.Wait()
			ask(t, is, seqd.CodeStarting, 2*time.Second, 2*time.Second)
			time.Sleep(time.Minute)
			ask(t, is, "", 0, 0)
			shut(t, is)
		})
	})
	t.Run("one after the other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, seqd.Options{}, order(&lasting{shelf: store, closing: slowly(900 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go func() {
				for range 10 {
					put(t, is, &lasting{shelf: store, closing: slowly(900 * time.Millisecond)})
					_, _ = is.Next(t.Context(), "order", 1) // else there is nothing to close
				}
			}()
			synctest.Wait()
			for range 5 {
				began := time.Now()
				if _, err := is.Next(t.Context(), "order", 1); time.Since(began) > 2*time.Second {
					t.Errorf("waited %s: %v", time.Since(began), err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			shut(t, is)
		})
	})
	t.Run("a call that was in the old chain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var told []seqd.Code
			rejected := seqd.RejectedHandlerFunc(func(_ context.Context, _ *seqd.Call, err *seqd.Error) { told = append(told, err.Code) })
			undone := 0
			p := &hooks{
				before:  func(context.Context, *seqd.Call) error { time.Sleep(time.Second); return nil },
				onError: func(context.Context, *seqd.Call) { undone++ },
			}
			s := &lasting{shelf: &shelf{}}
			is := newIssuer(t, seqd.Options{Rejected: rejected}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
			is.Init(t.Context())
			s.closing = slowly(time.Minute)
			go func() { time.Sleep(500 * time.Millisecond); put(t, is, &lasting{shelf: s.shelf}) }()
			go func() { time.Sleep(900 * time.Millisecond); s.mu.Lock(); s.open = false; s.mu.Unlock() }()
			ask(t, is, seqd.CodeStarting, 3*time.Second, 3*time.Second)
			if undone != 1 || !slices.Equal(told, []seqd.Code{seqd.CodeStarting}) {
				t.Errorf("undone %d times, told of %v", undone, told)
			}
			time.Sleep(2 * time.Minute)
			shut(t, is)
		})
	})
}

// A definition that cannot be built refuses until the next one, which inherits from the last
// strategy there was.
func TestBuildFails(t *testing.T) {
	tests := map[string]struct {
		build func() (seqd.Definition, error)
		code  seqd.Code
	}{
		"an error with a code": {func() (seqd.Definition, error) { return seqd.Definition{}, seqd.Errorf(seqd.CodeConflict, "no") }, seqd.CodeConflict},
		"an error":             {func() (seqd.Definition, error) { return seqd.Definition{}, errors.New("no") }, seqd.CodeInternal},
		"a panic":              {func() (seqd.Definition, error) { panic("no") }, seqd.CodeInternal},
		"no strategy":          {func() (seqd.Definition, error) { return order(nil), nil }, seqd.CodeInternal},
		"an heir that panics":  {func() (seqd.Definition, error) { return order(&ungrateful{}), nil }, seqd.CodeInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			first := &lasting{shelf: &shelf{}}
			is := newIssuer(t, seqd.Options{}, order(first))
			if _, err := is.Next(t.Context(), "order", 3); err != nil {
				t.Fatal(err)
			}
			if err := is.Put(t.Context(), "order", test.build); err != nil {
				t.Errorf("put: %v", err)
			}
			_, err := is.Next(t.Context(), "order", 1)
			wantCode(t, err, test.code)
			_, err = is.Parse("order", "1")
			wantCode(t, err, test.code)
			if unready, total := is.Health(10); total != 1 || unready[0].Reason.Code != test.code {
				t.Errorf("unready are %v", unready)
			}
			if degraded, _ := is.Degraded(10); degraded != nil {
				t.Errorf("degraded are %v", degraded)
			}
			next := &lasting{shelf: first.shelf}
			put(t, is, next)
			if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 4 {
				t.Errorf("got %v, %v", seq, err)
			}
			if next.inherited != first {
				t.Errorf("inherited %v", next.inherited)
			}
			shut(t, is)
		})
	}
}

// ungrateful cannot inherit.
type ungrateful struct{ counting }

func (*ungrateful) Inherit(seqd.Strategy) { panic("no") }

// What was built under another name is not used, and its plugins are closed.
func TestBuildOfAnotherName(t *testing.T) {
	closed := 0
	p := &closing{hooks{close: func(context.Context) error { closed++; return nil }}}
	d := order(&counting{}, seqd.BoundPlugin{Name: "p", Plugin: p})
	d.BizType.Name = "other"
	is := newIssuer(t, seqd.Options{})
	if err := is.Put(t.Context(), "order", func() (seqd.Definition, error) { return d, nil }); err != nil {
		t.Error(err)
	}
	_, err := is.Next(t.Context(), "order", 1)
	wantCode(t, err, seqd.CodeInternal)
	_, err = is.Next(t.Context(), "other", 1)
	wantCode(t, err, seqd.CodeUnknownBizType)
	if closed != 1 {
		t.Errorf("the plugin was closed %d times", closed)
	}
	err = is.Put(t.Context(), "no/name", func() (seqd.Definition, error) { t.Error("was built"); return d, nil })
	wantCode(t, err, seqd.CodeInvalidBizType)
	shut(t, is)
}

// Inheriting goes over a removal, and over a definition that nobody used.
func TestHeirs(t *testing.T) {
	is := newIssuer(t, seqd.Options{})
	store := &shelf{}
	first, second, third := &lasting{shelf: store}, &lasting{shelf: store}, &lasting{shelf: store}
	put(t, is, first)
	if first.inherited != nil {
		t.Error("the first one inherited")
	}
	if _, err := is.Next(t.Context(), "order", 1); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := is.Remove(t.Context(), "order", seqd.Errorf(seqd.CodeDisabled, "off")); err != nil {
			t.Error(err)
		}
	}
	put(t, is, second)
	put(t, is, third)
	if second.inherited != first || third.inherited != second {
		t.Errorf("inherited %v and %v", second.inherited, third.inherited)
	}
	shut(t, is)
}

// What was never there can be removed: a node that missed how it came learns only that it went.
func TestRemoveWhatWasNeverThere(t *testing.T) {
	is := newIssuer(t, seqd.Options{})
	if err := is.Remove(t.Context(), "order", nil); err != nil {
		t.Error(err)
	}
	_, err := is.Next(t.Context(), "order", 1)
	wantCode(t, err, seqd.CodeUnknownBizType)
	wantCode(t, is.Remove(t.Context(), "no/name", nil), seqd.CodeInvalidBizType)
	put(t, is, &counting{})
	if _, err := is.Next(t.Context(), "order", 1); err != nil {
		t.Error(err)
	}
	shut(t, is)
}

// What a strategy knew outlives one that knows nothing of it, such as that of a definition that
// this node could not build.
func TestHeirsOverAnother(t *testing.T) {
	is := newIssuer(t, seqd.Options{})
	first, third := &lasting{shelf: &shelf{}}, &lasting{shelf: &shelf{}}
	put(t, is, first)
	put(t, is, struct{ seqd.Strategy }{&lasting{shelf: &shelf{}}}) // not an heir
	put(t, is, struct{ seqd.Strategy }{&lasting{shelf: &shelf{}}})
	if err := is.Remove(t.Context(), "order", nil); err != nil {
		t.Error(err)
	}
	put(t, is, third)
	if third.inherited != first {
		t.Errorf("inherited %v", third.inherited)
	}
	shut(t, is)
}

// Issuing allocates nothing after a change either, whatever way calls take.
func TestAllocationsAfterAChange(t *testing.T) {
	for _, plugins := range [][]seqd.BoundPlugin{nil, {{Name: "p", Quick: true, Plugin: &closing{hooks{close: func(context.Context) error { return nil }}}}}} {
		is := newIssuer(t, seqd.Options{}, order(&counting{}))
		put(t, is, &counting{}, plugins...)
		call := &seqd.Call{BizType: "order", Count: 1}
		if n := testing.AllocsPerRun(100, func() {
			if err := is.Issue(t.Context(), call); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		shut(t, is)
	}
}

// What is removed or disabled is nobody's reason to be unready, and has no details.
func TestHealthOfWhatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, seqd.Options{})
		for name, why := range map[string]*seqd.Error{"a": nil, "b": seqd.Errorf(seqd.CodeDisabled, "off"), "c": seqd.Errorf(seqd.CodeConflict, "no"), "d": nil} {
			if err := is.Put(t.Context(), name, func() (seqd.Definition, error) {
				d := order(&lasting{shelf: &shelf{}, details: map[string]any{"x": 1}})
				d.BizType.Name = name
				return d, nil
			}); err != nil {
				t.Error(err)
			}
			if name == "d" {
				continue
			}
			if err := is.Remove(t.Context(), name, why); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait() // d is initialised without a caller
		if unready, total := is.Health(10); total != 1 || unready[0].BizType != "c" {
			t.Errorf("unready are %v", unready)
		}
		if degraded, total := is.Degraded(10); total != 0 {
			t.Errorf("degraded are %v", degraded)
		}
		if details := is.Details(10); len(details) != 1 || details[0].BizType != "d" {
			t.Errorf("details are %v", details)
		}
		for name, want := range map[string]seqd.Code{"a": seqd.CodeUnknownBizType, "b": seqd.CodeDisabled, "c": seqd.CodeConflict, "d": ""} {
			_, err := is.Next(t.Context(), name, 1)
			wantCode(t, err, want)
			_, err = is.Parse(name, "1")
			wantCode(t, err, want)
		}
		shut(t, is)
	})
}

// A biz type that was put becomes ready by itself, also when that fails at first: a node out of
// rotation gets no requests.
func TestWhatWasPutIsInitialised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, seqd.Options{})
		var well atomic.Bool
		put(t, is, &counting{init: func(context.Context, bool) error {
			if !well.Load() {
				return errors.New("away")
			}
			return nil
		}})
		time.Sleep(time.Minute)
		if unready, _ := is.Health(10); len(unready) != 1 || unready[0].Reason.Code != seqd.CodeInternal {
			t.Errorf("unready are %v", unready)
		}
		well.Store(true)
		time.Sleep(2 * time.Second)
		if unready, _ := is.Health(10); unready != nil {
			t.Errorf("unready are %v", unready)
		}
		put(t, is, &counting{})
		synctest.Wait()
		if unready, _ := is.Health(10); unready != nil {
			t.Errorf("unready are %v", unready)
		}
		shut(t, is)
	})
}

// Names that are known stay known while others come.
func TestKnownNamesStayKnown(t *testing.T) {
	is := newIssuer(t, seqd.Options{})
	var known atomic.Int64
	var readers sync.WaitGroup
	const names = 2000
	for i := range 4 {
		readers.Go(func() {
			for j := i; ; j += 7 {
				n := int(known.Load())
				if n == names {
					return
				}
				if n == 0 {
					continue
				}
				name := fmt.Sprint("b", j%n)
				if _, err := is.Next(t.Context(), name, 1); seqd.CodeOf(err) != seqd.CodeDisabled {
					t.Errorf("%s: %v", name, err)
					return
				}
			}
		})
	}
	for i := range names {
		if err := is.Remove(t.Context(), fmt.Sprint("b", i), seqd.Errorf(seqd.CodeDisabled, "off")); err != nil {
			t.Error(err)
		}
		known.Store(int64(i + 1))
	}
	readers.Wait()
	for i := range names {
		if _, err := is.Next(t.Context(), fmt.Sprint("b", i), 1); seqd.CodeOf(err) != seqd.CodeDisabled {
			t.Errorf("b%d: %v", i, err)
		}
	}
	shut(t, is)
}

// A change under way is waited for by Close; one that hangs is given up, and what it brings never
// issues.
func TestCloseDuringAChange(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &lasting{shelf: &shelf{}}, &lasting{}
			second.shelf = first.shelf
			is := newIssuer(t, seqd.Options{}, order(first))
			is.Init(t.Context())
			changed := make(chan error)
			go func() {
				changed <- is.Put(t.Context(), "order", func() (seqd.Definition, error) {
					time.Sleep(10 * time.Second)
					return order(second), nil
				})
			}()
			synctest.Wait()
			waiting := make(chan error)
			go func() { _, err := is.Next(t.Context(), "order", 1); waiting <- err }()
			synctest.Wait()
			patience := time.Minute
			if hangs {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() { wantCode(t, <-waiting, seqd.CodeStopping) }()
			if err := is.Close(ctx); err != nil {
				t.Error(err)
			}
			began := time.Now()
			_, err := is.Next(t.Context(), "order", 1)
			wantCode(t, err, seqd.CodeStopping)
			if waited := time.Since(began); waited != 0 {
				t.Errorf("a call after Close waited %s", waited)
			}
			if err := <-changed; err != nil {
				t.Error(err)
			}
			_, err = is.Next(t.Context(), "order", 1)
			wantCode(t, err, seqd.CodeStopping)
			if first.open || second.open {
				t.Error("something is open after Close")
			}
			err = is.Put(t.Context(), "order", func() (seqd.Definition, error) { t.Error("built after Close"); return order(second), nil })
			wantCode(t, err, seqd.CodeStopping)
			wantCode(t, is.Remove(t.Context(), "order", nil), seqd.CodeStopping)
			shut(t, is)
		})
	}
}

// An entry whose Init is under way is replaced: its strategy is closed when that ends, and never
// issues. The next one does not wait for it longer than ctx.
func TestReplaceDuringInit(t *testing.T) {
	for _, patience := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			slow := hanging(time.Minute)
			is := newIssuer(t, seqd.Options{}, order(slow))
			caller := make(chan error, 1)
			go func() { _, err := is.Next(t.Context(), "order", 1); caller <- err }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			next := &counting{}
			err := is.Put(ctx, "order", func() (seqd.Definition, error) {
				if patience > time.Minute && slow.closed.Load() != 1 {
					t.Error("built before the strategy of before was closed")
				}
				return order(next), nil
			})
			if late := patience < time.Minute; late != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("put: %v", err)
			}
			if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 1 || next.last.Load() != 1 {
				t.Errorf("got %v, %v", seq, err)
			}
			wantCode(t, <-caller, seqd.CodeStarting) // it waited for Init for as long as callers do
			time.Sleep(time.Hour)
			if slow.closed.Load() != 1 || slow.last.Load() != 0 {
				t.Errorf("closed %d times, issued %d numbers", slow.closed.Load(), slow.last.Load())
			}
			shut(t, is)
		})
	}
}

// A strategy that panics as it is closed does not keep the next one away.
func TestCloseOfAStrategyPanics(t *testing.T) {
	is := newIssuer(t, seqd.Options{}, order(&lasting{shelf: &shelf{}, closing: func(context.Context) error { panic("no") }}))
	is.Init(t.Context())
	err := is.Put(t.Context(), "order", func() (seqd.Definition, error) { return order(&counting{}), nil })
	wantCode(t, err, seqd.CodeInternal)
	if _, err := is.Next(t.Context(), "order", 1); err != nil {
		t.Error(err)
	}
	shut(t, is)
}

// Parse and Resource are answered by whatever stands there, and hold no plugin that is closed.
func TestParseAndResourceUnderChanges(t *testing.T) {
	is := newIssuer(t, seqd.Options{})
	fresh := func() seqd.BoundPlugin {
		var closed atomic.Bool
		check := func() {
			if closed.Load() {
				t.Error("a closed plugin was asked")
			}
		}
		return seqd.BoundPlugin{Name: "p", Plugin: &complete{
			read:  func(text string) (seqd.Reading, error) { check(); return seqd.Reading{Shown: text}, nil },
			show:  func(url.Values) (any, error) { check(); return 1, nil },
			close: func(context.Context) error { closed.Store(true); return nil },
		}}
	}
	put(t, is, &counting{}, fresh())
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !over.Load() {
				if p, err := is.Parse("order", "7"); err != nil || p.Number != 7 {
					t.Errorf("got %+v, %v", p, err)
				}
				if got, err := is.Resource(t.Context(), "order", "things", nil); err != nil || got != 1 {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	for range 300 {
		put(t, is, &counting{}, fresh())
	}
	over.Store(true)
	readers.Wait()
	shut(t, is)
}

// What a biz type can say of the past it says after Close too.
func TestParseAndResourceAfterClose(t *testing.T) {
	is := newIssuer(t, seqd.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "p", Plugin: &complete{
		read:  func(text string) (seqd.Reading, error) { return seqd.Reading{Shown: text}, nil },
		show:  func(url.Values) (any, error) { return 1, nil },
		close: func(context.Context) error { return nil },
	}}))
	shut(t, is)
	if p, err := is.Parse("order", "7"); err != nil || p.Number != 7 {
		t.Errorf("got %+v, %v", p, err)
	}
	if got, err := is.Resource(t.Context(), "order", "things", nil); err != nil || got != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	_, err := is.Next(t.Context(), "order", 1)
	wantCode(t, err, seqd.CodeStopping)
	shut(t, is)
}

// complete is a plugin that does everything.
type complete struct {
	seqd.NopPlugin
	read  func(string) (seqd.Reading, error)
	show  func(url.Values) (any, error)
	close func(context.Context) error
}

func (c *complete) Read(shown string) (seqd.Reading, error)               { return c.read(shown) }
func (c *complete) ResourceName() string                                  { return "things" }
func (c *complete) Show(_ context.Context, query url.Values) (any, error) { return c.show(query) }
func (c *complete) Close(ctx context.Context) error                       { return c.close(ctx) }

// A call that finds its plugins closed gets a number from the definition that has taken their
// place.
func TestCallThatFindsItsPluginClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lasting{shelf: &shelf{}}
		var closed atomic.Bool
		p := &closing{hooks{
			after: func(context.Context, *seqd.Call) error {
				if time.Sleep(10 * time.Second); closed.Load() {
					return seqd.Errorf(seqd.CodeStopping, "closed")
				}
				return nil
			},
			close: func(context.Context) error { closed.Store(true); return nil },
		}}
		is := newIssuer(t, seqd.Options{}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
		go func() { time.Sleep(5 * time.Second); put(t, is, &lasting{shelf: s.shelf}) }()
		if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 2 {
			t.Errorf("got %v, %v", seq, err)
		}
		shut(t, is)
	})
}

// A call that is in a slow plugin keeps that from being closed, for a second and for as long as the
// one who changes has patience.
func TestCallsInFlightKeepPluginsOpen(t *testing.T) {
	for _, test := range []struct{ takes, patience, waits time.Duration }{
		{900 * time.Millisecond, time.Minute, 900 * time.Millisecond},
		{900 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
		{time.Minute, time.Hour, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &lasting{shelf: &shelf{}}
			var closedAt time.Time
			p := &closing{hooks{
				after: func(context.Context, *seqd.Call) error { time.Sleep(test.takes); return nil },
				close: func(context.Context) error { closedAt = time.Now(); return nil },
			}}
			is := newIssuer(t, seqd.Options{}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
			began := time.Now()
			first := make(chan int64)
			go func() {
				seq, err := is.Next(t.Context(), "order", 1)
				if err != nil {
					t.Error(err)
				}
				first <- seq.First()
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), test.patience)
			defer cancel()
			if err := is.Put(ctx, "order", func() (seqd.Definition, error) { return order(&lasting{shelf: s.shelf}), nil }); err != nil {
				t.Error(err)
			}
			if waited := closedAt.Sub(began); waited != test.waits {
				t.Errorf("the plugin was closed after %s", waited)
			}
			if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 2 || <-first != 1 {
				t.Errorf("got %v, %v", seq, err)
			}
			shut(t, is)
		})
	}
}
