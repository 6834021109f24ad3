package issuer_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
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
	shelf   *shelf
	learned any
	details map[string]any
	closing func(ctx context.Context) error

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

func (l *lasting) Learn(from any) { l.learned = from }

func (l *lasting) Knowledge() any { return l }

func (l *lasting) Health() error           { return nil }
func (l *lasting) Degraded() *seqd.Error   { return nil }
func (l *lasting) Details() map[string]any { return l.details }

// put puts a definition of the biz type order.
func put(t testing.TB, is *issuer.Issuer, s seqd.Strategy, plugins ...seqd.BoundPlugin) {
	t.Helper()
	must.Report(t, is.Put(t.Context(), "order", func() (issuer.Definition, error) { return order(s, plugins...), nil }))
}

func shut(t testing.TB, is *issuer.Issuer) {
	t.Helper()
	must.Report(t, is.Close(context.WithoutCancel(t.Context())))
}

// A definition that cannot be built refuses until the next one, which learns what the last
// strategy knew.
func TestBuildFails(t *testing.T) {
	tests := map[string]struct {
		build func() (issuer.Definition, error)
		code  seqd.Code
	}{
		"an error with a code":  {func() (issuer.Definition, error) { return issuer.Definition{}, seqd.Errorf(seqd.CodeConflict, "no") }, seqd.CodeConflict},
		"an error":              {func() (issuer.Definition, error) { return issuer.Definition{}, errors.New("no") }, seqd.CodeInternal},
		"a panic":               {func() (issuer.Definition, error) { panic("no") }, seqd.CodeInternal},
		"no strategy":           {func() (issuer.Definition, error) { return order(nil), nil }, seqd.CodeInternal},
		"a learner that panics": {func() (issuer.Definition, error) { return order(&ungrateful{}), nil }, seqd.CodeInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			first := &lasting{shelf: &shelf{}}
			is := newIssuer(t, issuer.Options{}, order(first))
			must.Get(is.Next(t.Context(), "order", 3))(t)
			if err := is.Put(t.Context(), "order", test.build); err != nil {
				t.Errorf("put: %v", err)
			}
			_, err := is.Next(t.Context(), "order", 1)
			must.Code(t, err, test.code)
			must.Code(t, must.Err(is.Parse("order", "1")), test.code)
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
			must.Equal[any](t, next.learned, first, "learned")
			shut(t, is)
		})
	}
}

// ungrateful cannot learn.
type ungrateful struct{ counting }

func (*ungrateful) Learn(any) { panic("no") }

func (*ungrateful) Knowledge() any { return nil }

// What was built under another name is not used, and its plugins are closed.
func TestBuildOfAnotherName(t *testing.T) {
	closed := 0
	p := &closing{hooks{close: func(context.Context) error { closed++; return nil }}}
	d := order(&counting{}, seqd.BoundPlugin{Name: "p", Plugin: p})
	d.BizType.Name = "other"
	is := newIssuer(t, issuer.Options{})
	must.Report(t, is.Put(t.Context(), "order", func() (issuer.Definition, error) { return d, nil }))
	_, err := is.Next(t.Context(), "order", 1)
	must.Code(t, err, seqd.CodeInternal)
	must.Code(t, must.Err(is.Next(t.Context(), "other", 1)), seqd.CodeUnknownBizType)
	must.Equal(t, closed, 1, "the times that the plugin was closed")
	err = is.Put(t.Context(), "no/name", func() (issuer.Definition, error) { t.Error("was built"); return d, nil })
	must.Code(t, err, seqd.CodeInvalidBizType)
	shut(t, is)
}

// Knowledge outlives a removal, and a definition that nobody used.
func TestLearners(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	store := &shelf{}
	first, second, third := &lasting{shelf: store}, &lasting{shelf: store}, &lasting{shelf: store}
	put(t, is, first)
	must.Equal[any](t, first.learned, nil, "what the first one learned")
	must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
	for range 2 {
		must.Report(t, is.Remove(t.Context(), "order", seqd.Errorf(seqd.CodeDisabled, "off")))
	}
	put(t, is, second)
	put(t, is, third)
	if second.learned != first || third.learned != second {
		t.Errorf("learned %v and %v", second.learned, third.learned)
	}
	shut(t, is)
}

// What was never there can be removed: a node that missed how it came learns only that it went.
func TestRemoveWhatWasNeverThere(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	must.Report(t, is.Remove(t.Context(), "order", nil))
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeUnknownBizType)
	must.Code(t, is.Remove(t.Context(), "no/name", nil), seqd.CodeInvalidBizType)
	put(t, is, &counting{})
	must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
	shut(t, is)
}

// Issuing allocates nothing after a change either, whatever way calls take.
func TestAllocationsAfterAChange(t *testing.T) {
	for _, plugins := range [][]seqd.BoundPlugin{nil, {{Name: "p", Quick: true, Plugin: &closing{hooks{close: func(context.Context) error { return nil }}}}}} {
		is := newIssuer(t, issuer.Options{}, order(&counting{}))
		put(t, is, &counting{}, plugins...)
		call := &seqd.Call{BizType: "order", Count: 1}
		if n := must.Allocs(100, func() {
			must.Report(t, is.Issue(t.Context(), call))
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		shut(t, is)
	}
}

// What is removed or disabled is nobody's reason to be unready, and has no details.
func TestHealthOfWhatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{})
		for name, why := range map[string]*seqd.Error{"a": nil, "b": seqd.Errorf(seqd.CodeDisabled, "off"), "c": seqd.Errorf(seqd.CodeConflict, "no"), "d": nil} {
			must.Report(t, is.Put(t.Context(), name, func() (issuer.Definition, error) {
				d := order(&lasting{shelf: &shelf{}, details: map[string]any{"x": 1}})
				d.BizType.Name = name
				return d, nil
			}))
			if name == "d" {
				continue
			}
			must.Report(t, is.Remove(t.Context(), name, why))
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
			must.Code(t, err, want)
			must.Code(t, must.Err(is.Parse(name, "1")), want)
		}
		shut(t, is)
	})
}

// A biz type that was put becomes ready by itself, also when that fails at first: a node out of
// rotation gets no requests.
func TestWhatWasPutIsInitialised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{})
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

// A strategy that panics as it is closed does not keep the next one away, and can be disabled. Who
// does that gets the error.
func TestCloseOfAStrategyPanics(t *testing.T) {
	panics := func() issuer.Definition {
		return order(&lasting{shelf: &shelf{}, closing: func(context.Context) error { panic("no") }})
	}
	is := newIssuer(t, issuer.Options{}, panics())
	is.Init(t.Context())
	next := func(d issuer.Definition) error {
		return is.Put(t.Context(), "order", func() (issuer.Definition, error) { return d, nil })
	}
	must.Code(t, next(panics()), seqd.CodeInternal)
	_, err := is.Next(t.Context(), "order", 1)
	must.Code(t, err, "")
	must.Code(t, is.Disable(t.Context(), "order", errOff), seqd.CodeInternal)
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeDisabled)
	must.Code(t, next(order(&counting{})), "")
	shut(t, is)
}

// What a biz type can say of the past it says after Close too.
func TestParseAndResourceAfterClose(t *testing.T) {
	closed := 0
	is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "p", Plugin: &complete{
		read:  func(text string) (seqd.Reading, error) { return seqd.Reading{Shown: text}, nil },
		show:  func(url.Values) (any, error) { return 1, nil },
		close: func(context.Context) error { closed++; return nil },
	}}))
	shut(t, is)
	if p, err := is.Parse("order", "7"); err != nil || p.Number != 7 {
		t.Errorf("got %+v, %v", p, err)
	}
	if got, err := is.Resource(t.Context(), "order", "things", nil); err != nil || got != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeStopping)
	shut(t, is)
	must.Equal(t, closed, 1, "the times that a plugin was closed")
}
