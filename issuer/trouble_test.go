package issuer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// TestStatesOfTrouble checks that a biz type is either unready or degraded, with its reason.
func TestStatesOfTrouble(t *testing.T) {
	away, lost := seqd.Errorf(seqd.CodeStoreUnavailable, "away"), seqd.Errorf(seqd.CodeStoreFailedOver, "lost")
	refused := func(context.Context, bool) error { return seqd.Errorf(seqd.CodeConflict, "no") }
	var definitions []issuer.Definition
	for name, s := range map[string]*limping{
		"well": {}, "limps": {why: away}, "ill": {why: away, counting: counting{health: away}}, "lost": {counting: counting{health: lost}},
		"refused": {counting: counting{init: refused}}, "defined late": {counting: counting{init: refused}}, "defined late and ill": {counting: counting{health: away}},
		"off": {},
	} {
		d := order(s)
		d.BizType.Name, d.OnlyDegrades = strings.ReplaceAll(name, " ", "-"), strings.HasPrefix(name, "defined late")
		if name == "off" {
			d.Strategy, d.Disabled = nil, errOff
		}
		definitions = append(definitions, d)
	}
	is := newIssuer(t, issuer.Options{}, definitions...)
	is.Init(t.Context())
	var got []string
	is.States(func(s issuer.State) {
		got = append(got, fmt.Sprintf("%s %v %v", s.BizType, s.Unready != nil, s.Degraded != nil))
	})
	slices.Sort(got)
	want := []string{
		"defined-late false true", "defined-late-and-ill true false", "ill true false", "limps false true", "lost false true", "off false false",
		"refused true false", "well false false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
}

// TestServes checks when a node should get requests: if each biz type had its first chance to
// start, and not everything is unready. Look tells the same of one biz type, and is stricter: see
// there.
func TestServes(t *testing.T) {
	code := func(code seqd.Code) *seqd.Error { return seqd.Errorf(code, "no") }
	fails := func(why seqd.Code) *counting {
		return &counting{init: func(context.Context, bool) error { return code(why) }}
	}
	hangs := &counting{init: func(ctx context.Context, _ bool) error { time.Sleep(time.Hour); return nil }}
	well, ill := &counting{}, &counting{health: code(seqd.CodeStoreUnavailable)}
	still := &counting{health: code(seqd.CodeStoreFailedOver)}
	for name, test := range map[string]struct {
		strategies                 []seqd.Strategy // the first one is looked at; nil is disabled
		after                      time.Duration
		serves                     bool
		unready, degraded          seqd.Code
		onlyDegrades, neverStarted bool
	}{
		"all well":                        {strategies: []seqd.Strategy{well, well}, serves: true},
		"one was up and cannot issue now": {strategies: []seqd.Strategy{ill, well}, serves: true, unready: seqd.CodeStoreUnavailable},
		"none can issue":                  {strategies: []seqd.Strategy{ill, ill}, unready: seqd.CodeStoreUnavailable},
		"the other one is disabled":       {strategies: []seqd.Strategy{ill, nil}, unready: seqd.CodeStoreUnavailable},
		"all are disabled":                {strategies: []seqd.Strategy{nil, nil}, serves: true},
		"all stand still":                 {strategies: []seqd.Strategy{still, still}, serves: true, degraded: seqd.CodeStoreFailedOver},
		"one stands still, one cannot":    {strategies: []seqd.Strategy{still, ill}, degraded: seqd.CodeStoreFailedOver},
		"never tried":                     {strategies: []seqd.Strategy{well, well}, neverStarted: true, unready: seqd.CodeStarting},
		"waits for a lease":               {strategies: []seqd.Strategy{fails(seqd.CodeStarting), well}, unready: seqd.CodeStarting},
		"waits for days":                  {strategies: []seqd.Strategy{fails(seqd.CodeStarting), well}, after: 2 * time.Minute, serves: true, unready: seqd.CodeStarting},
		"is still being started":          {strategies: []seqd.Strategy{hangs, well}, unready: seqd.CodeStarting},
		"hangs":                           {strategies: []seqd.Strategy{hangs, well}, after: 2 * time.Minute, serves: true, unready: seqd.CodeStarting},
		"stands by":                       {strategies: []seqd.Strategy{fails(seqd.CodeNoMachineID), well}, serves: true, unready: seqd.CodeNoMachineID},
		"is in conflict":                  {strategies: []seqd.Strategy{fails(seqd.CodeConflict), well}, serves: true, unready: seqd.CodeConflict},
		"all are in conflict":             {strategies: []seqd.Strategy{fails(seqd.CodeConflict)}, unready: seqd.CodeConflict},
		"one was put and is in conflict":  {strategies: []seqd.Strategy{fails(seqd.CodeConflict)}, onlyDegrades: true, serves: true, unready: seqd.CodeConflict},
	} {
		synctest.Test(t, func(t *testing.T) {
			var definitions []issuer.Definition
			for n, s := range test.strategies {
				d := order(s)
				if d.BizType.Name, d.OnlyDegrades = fmt.Sprint("b", n), test.onlyDegrades; s == nil {
					d.Disabled = errOff
				}
				definitions = append(definitions, d)
			}
			is := newIssuer(t, issuer.Options{}, definitions...)
			ctx, cancel := context.WithCancel(t.Context())
			if !test.neverStarted {
				go is.Init(ctx)
			}
			time.Sleep(test.after + time.Millisecond)
			state, err := is.Look(t.Context(), "b0")
			if unready, degraded := codeOf(state.Unready), codeOf(state.Degraded); err != nil ||
				unready != test.unready || degraded != test.degraded || state.Disabled != (test.strategies[0] == nil) {
				t.Errorf("%s: it is %q, %q, disabled %v, %v", name, unready, degraded, state.Disabled, err)
			}
			must.Equal(t, is.Serves(), test.serves, "%s: serves", name)
			cancel()
			time.Sleep(2 * time.Hour)
			shut(t, is)
		})
	}
}

func codeOf(why *seqd.Error) seqd.Code {
	if why == nil {
		return ""
	}
	return why.Code
}

// TestLookFetches checks that a biz type that the issuer does not hold is fetched when it is looked
// at, and stays open, and that one that does not exist is an error.
func TestLookFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t, "order")
		for _, unready := range []bool{true, false} {
			state, err := l.issuer.Look(t.Context(), "order")
			if err != nil || !unready && state.Unready != nil || !l.issuer.Holds("order") {
				t.Errorf("the state is %+v, %v", state, err)
			}
			time.Sleep(time.Second)
		}
		if l.issuer.Idle("order") {
			t.Error("it is idle although it is watched")
		}
		for name, code := range map[string]seqd.Code{"none": seqd.CodeUnknownBizType, "no name": seqd.CodeInvalidBizType, "": seqd.CodeInvalidBizType} {
			must.Code(t, must.Err(l.issuer.Look(t.Context(), name)), code)
		}
		l.remove(t, "order")
		l.set(seqd.Errorf(seqd.CodeStoreUnavailable, "away"))
		if state, err := l.issuer.Look(t.Context(), "order"); err != nil || codeOf(state.Unready) != seqd.CodeStoreUnavailable || l.issuer.Holds("order") {
			t.Errorf("the state is %+v, %v", state, err)
		}
		l.set(nil)
		shut(t, l.issuer)
	})
}

// TestCutOff checks when biz types that cannot be fetched make a node unready: if it holds no
// other. Otherwise they degrade it, however many they are. One failure each does not count.
func TestCutOff(t *testing.T) {
	for _, test := range []struct {
		held    bool
		unread  int
		unready int
	}{{false, 0, 0}, {false, 1, 1}, {true, 0, 0}, {true, 1, 0}, {true, 101, 0}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLibrary(t, "order")
			if test.held {
				wantNext(t, l.issuer, "order", "1")
			}
			l.set(seqd.Errorf(seqd.CodeStoreUnavailable, "away"))
			for range 2 {
				if _, total := l.issuer.Health(1000); total != 0 {
					t.Errorf("%d are unready after one failure each", total)
				}
				for i := range test.unread {
					must.Code(t, must.Err(l.issuer.Next(t.Context(), fmt.Sprint("b", i), 1)), seqd.CodeStoreUnavailable)
				}
			}
			degraded := test.unread - test.unready
			_, unready := l.issuer.Health(1000)
			_, limping := l.issuer.Degraded(1000)
			if unready != test.unready || limping != degraded {
				t.Errorf("%+v: %d are unready and %d degraded", test, unready, limping)
			}
			must.Equal(t, l.issuer.Serves(), unready == 0, "%+v: serves", test)
			states := map[string]int{}
			l.issuer.States(func(s issuer.State) {
				if s.Unready != nil {
					states["unready"]++
				}
				if s.Degraded != nil {
					states["degraded"]++
				}
			})
			if states["unready"] != test.unready || states["degraded"] != degraded {
				t.Errorf("%+v: states %v", test, states)
			}
			l.set(nil)
			shut(t, l.issuer)
		})
	}
}

// TestMostFetches checks that 1000 names are fetched at a time and no more, and that a name that is
// being fetched already is not refused.
func TestMostFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		l.wait = make(chan struct{})
		ask := func(n int, want seqd.Code) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			must.Code(t, must.Err(l.issuer.Next(ctx, fmt.Sprint("junk", n), 1)), want)
		}
		for i := range 1000 {
			ask(i, seqd.CodeTimeout)
		}
		ask(1000, seqd.CodeOverloaded)
		ask(0, seqd.CodeTimeout)
		close(l.wait)
		synctest.Wait()
		ask(1000, seqd.CodeUnknownBizType)
		shut(t, l.issuer)
	})
}

// TestCallersOfAnAbandonedInit checks that callers who wait for an Init that ends after Close get
// no numbers.
func TestCallersOfAnAbandonedInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hanging(time.Second)
		is := newIssuer(t, issuer.Options{}, order(s))
		refused := make(chan error)
		for range 2 {
			go func() {
				_, err := is.Next(context.Background(), "order", 1)
				refused <- err
			}()
		}
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- is.Close(context.Background()) }()
		for range 2 {
			must.Code(t, <-refused, seqd.CodeStopping)
		}
		if err := <-closed; err != nil || s.last.Load() != 0 || s.closed.Load() != 1 {
			t.Errorf("%v, issued up to %d, closed %d times", err, s.last.Load(), s.closed.Load())
		}
	})
}

// TestErrorsOfALedger checks that no error of a ledger is taken for success, and that a panic is an
// error.
func TestErrorsOfALedger(t *testing.T) {
	for code, why := range map[seqd.Code]*seqd.Error{seqd.CodeStoreUnavailable: seqd.Errorf(seqd.CodeStoreUnavailable, "away"), seqd.CodeInternal: nil} {
		errorsOfALedger(t, &unable{why: why}, code)
	}
}

func errorsOfALedger(t *testing.T, b *unable, code seqd.Code) {
	is := newIssuer(t, issuer.Options{Observer: &took{}}, order(b))
	d := order(b)
	d.BizType.Settings = keyedSettings{true}
	keyed := newIssuer(t, issuer.Options{}, d)
	ctx, call := t.Context(), func() *seqd.Call { return &seqd.Call{BizType: "order", Count: 1} }
	once := call()
	once.Once = "x"
	run, some := call(), call()
	run.Count, run.Want, some.Want = 2, seqd.Consecutive, seqd.OneRange
	all := make([]error, 2)
	is.IssueAll(ctx, []*seqd.Call{call(), call()}, all)
	errs := map[string]error{
		"issue": is.Issue(ctx, call()), "issue once": is.Issue(ctx, once), "find": is.Find(ctx, call(), "r1"), "confirm": is.Confirm(ctx, call(), "r1", true),
		"release": is.Release(ctx, call(), "r1", true), "void": is.Void(ctx, "order", "1", seqd.Voiding{}),
		"consecutive": is.Issue(ctx, run), "range": is.Issue(ctx, some), "together": all[0], "and together": all[1],
	}
	_, errs["keys"] = keyed.Keys(ctx, "order", "", 1)
	_, errs["account"] = is.Account(ctx, "order", seqd.AccountQuery{})
	for name, err := range errs {
		must.Code(t, err, code, "%s", name)
	}
}

// unable is a ledger of which everything fails, or panics if why is nil.
type unable struct {
	book
	why *seqd.Error
}

func (u *unable) fail() error {
	if u.why == nil {
		panic("how rude")
	}
	return u.why
}

func (u *unable) Generate(context.Context, int, *seqd.Sequence) error            { return u.fail() }
func (u *unable) GenerateConsecutive(context.Context, int, *seqd.Sequence) error { return u.fail() }
func (u *unable) GenerateRange(context.Context, int64, *seqd.Sequence) error     { return u.fail() }
func (u *unable) HandOut(context.Context, seqd.Order, *seqd.Sequence) (r seqd.Reservation, _ bool, _ error) {
	return r, false, u.fail()
}
func (u *unable) Find(context.Context, string, *seqd.Sequence) (r seqd.Reservation, _ error) {
	return r, u.fail()
}
func (u *unable) Confirm(context.Context, seqd.Settlement, *seqd.Sequence) (r seqd.Reservation, _ error) {
	return r, u.fail()
}
func (u *unable) Release(context.Context, seqd.Settlement) error      { return u.fail() }
func (u *unable) Void(context.Context, seqd.Voiding) error            { return u.fail() }
func (u *unable) Keys(context.Context, string, int) ([]string, error) { return nil, u.fail() }
func (u *unable) Account(context.Context, seqd.AccountQuery) (a seqd.Account, _ error) {
	return a, u.fail()
}

// TestUnreadIsLoggedOnce checks that the log says when definitions begin to be unreadable, not for
// each of them.
func TestUnreadIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		l := newLibrary(t)
		is := must.Get(issuer.New(nil, issuer.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Source: l}))(t)
		l.set(seqd.Errorf(seqd.CodeStoreUnavailable, "away"))
		for _, name := range []string{"first", "second", "first"} {
			must.Code(t, must.Err(is.Next(t.Context(), name, 1)), seqd.CodeStoreUnavailable)
		}
		shut(t, is)
		if got := log.String(); strings.Count(got, "cannot be read") != 1 || !strings.Contains(got, "bizType=first") {
			t.Errorf("logged %s", got)
		}
	})
}

// TestFailedInitIsLoggedOnce checks that the log has each reason why a biz type cannot issue, and
// has it once if attempts in a row fail for it.
func TestFailedInitIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &counting{}
		s.init = func(context.Context, bool) error {
			if n := s.inits.Load(); n < 7 {
				return seqd.Errorf(seqd.CodeStoreUnavailable, "reason %d", n/3)
			}
			return nil
		}
		is := must.Get(issuer.New([]issuer.Definition{order(s)}, issuer.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
		is.Init(t.Context())
		if n := strings.Count(log.String(), "biz type cannot issue"); n != 3 || !strings.Contains(log.String(), "reason 2") || strings.Contains(log.String(), "ERROR") {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		shut(t, is)
	})
}

// TestOpenedBesideWhatFails checks that a biz type that is put is initialised at once, although
// another one that cannot be is tried again only later.
func TestOpenedBesideWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{})
		putNamed := func(name string, s seqd.Strategy) {
			d := order(s)
			d.BizType.Name = name
			must.Do(t, is.Put(t.Context(), name, func() (issuer.Definition, error) { return d, nil }))
			synctest.Wait()
		}
		ill := &counting{init: func(context.Context, bool) error { return seqd.Errorf(seqd.CodeStoreUnavailable, "away") }}
		putNamed("ill", ill)
		time.Sleep(10*time.Second + time.Millisecond)
		tried := ill.inits.Load()
		well := &counting{}
		putNamed("well", well)
		if well.inits.Load() != 1 || ill.inits.Load() != tried {
			t.Errorf("initialised %d times, and the one that fails %d times more", well.inits.Load(), ill.inits.Load()-tried)
		}
		shut(t, is)
	})
}

// TestDisableWhatWasNeverThere checks that a name without a definition can be disabled: then
// callers get why.
func TestDisableWhatWasNeverThere(t *testing.T) {
	is := newIssuer(t, issuer.Options{})
	must.Do(t, is.Disable(t.Context(), "order", seqd.Errorf(seqd.CodeDisabled, "no")))
	_, err := is.Next(t.Context(), "order", 1)
	must.Code(t, err, seqd.CodeDisabled)
	must.Code(t, must.Err(is.Parse("order", "1")), seqd.CodeDisabled)
	must.Code(t, must.Err(is.Resource(t.Context(), "order", "history", nil)), seqd.CodeNotFound)
}

// TestOnErrorThatPanics checks that the log says so, and that the caller gets the refusal.
func TestOnErrorThatPanics(t *testing.T) {
	var log strings.Builder
	d := order(&counting{fail: seqd.Errorf(seqd.CodeExhausted, "no more")},
		seqd.BoundPlugin{Name: "p", Quick: true, Plugin: &hooks{onError: func(context.Context, *seqd.Call) { panic("oh") }}})
	is := must.Get(issuer.New([]issuer.Definition{d}, issuer.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeExhausted)
	if got := log.String(); strings.Count(got, "OnError failed") != 1 || !strings.Contains(got, "plugin p panicked") {
		t.Errorf("logged %s", got)
	}
}
