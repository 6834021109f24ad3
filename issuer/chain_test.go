package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// hooks is a plugin made of functions; those that are nil do nothing.
type hooks struct {
	seqd.NopPlugin
	before, after func(context.Context, *seqd.Call) error
	onError       func(context.Context, *seqd.Call)
	read          func(string) (seqd.Reading, error)
	close         func(context.Context) error
	show          func(url.Values) (any, error)
}

func (h *hooks) Before(ctx context.Context, call *seqd.Call) error {
	if h.before == nil {
		return nil
	}
	return h.before(ctx, call)
}

func (h *hooks) After(ctx context.Context, call *seqd.Call) error {
	if h.after == nil {
		return nil
	}
	return h.after(ctx, call)
}

func (h *hooks) OnError(ctx context.Context, call *seqd.Call, _ *seqd.Error) {
	if h.onError != nil {
		h.onError(ctx, call)
	}
}

// reading is hooks whose IDs can be read back.
type reading struct{ hooks }

func (r *reading) Read(_ context.Context, shown string, _ seqd.Counter) (seqd.Reading, error) {
	return r.read(shown)
}

// closing is hooks that have something to finish.
type closing struct{ hooks }

func (c *closing) Close(ctx context.Context) error { return c.close(ctx) }

// showing is hooks with a resource.
type showing struct{ hooks }

func (s *showing) ResourceName() string { return "things" }

func (s *showing) Show(_ context.Context, query url.Values) (any, error) { return s.show(query) }

func prefix(text string) func(context.Context, *seqd.Call) error {
	return func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, text...), shown...) })
		return nil
	}
}

// A plugin that blocks for ever costs each request the patience of all plugins together, and other
// biz types nothing.
func TestPluginThatBlocks(t *testing.T) {
	for _, where := range []string{"Before", "After", "OnError"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := make(chan struct{})
				block := func(context.Context, *seqd.Call) error { <-stuck; return nil }
				h := &hooks{}
				s := &counting{}
				want := seqd.CodeTimeout
				switch where {
				case "Before":
					h.before = block
				case "After":
					h.after = block
				case "OnError":
					s.fail, want = seqd.Errorf(seqd.CodeExhausted, "all gone"), seqd.CodeExhausted
					h.onError = func(context.Context, *seqd.Call) { <-stuck }
				}
				other := issuer.Definition{BizType: seqd.BizType{Name: "other"}, Strategy: &counting{}}
				is := newIssuer(t, issuer.Options{PluginTimeout: time.Second},
					order(s, seqd.BoundPlugin{Name: "stuck", Plugin: h}, seqd.BoundPlugin{Name: "other", Plugin: &hooks{}}), other)
				began := time.Now()
				_, err := is.Next(t.Context(), "order", 2)
				must.Code(t, err, want)
				must.Equal(t, time.Since(began), time.Second, "it waited")
				if where != "OnError" && !strings.Contains(err.Error(), "plugin stuck") {
					t.Errorf("%v does not name the plugin", err)
				}
				must.Report(t, must.Err(is.Next(t.Context(), "other", 1)))
				close(stuck)
			})
		})
	}
}

// Calls that hang are bounded in number; when they return after all, the plugin is used again.
func TestPluginThatBlocksManyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &hooks{before: func(context.Context, *seqd.Call) error { <-stuck; return nil }}
		is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "stuck", Plugin: h}))
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeTimeout)
			})
		}
		wg.Wait()
		began := time.Now()
		must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeTimeout)
		must.Equal(t, time.Since(began), 0, "how long the request waited, although a hundred hang,")
		close(stuck)
		synctest.Wait()
		must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
	})
}

// What a plugin does to its call after it was left does not reach the request, nor the next one
// with the same call.
func TestPluginThatReturnsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hooks{after: func(ctx context.Context, call *seqd.Call) error {
			if call.Caller.RequestID == "slow" {
				time.Sleep(time.Minute)
			}
			call.BizType, call.Count = "x", 7
			return prefix("late-")(ctx, call)
		}}
		is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: h}))
		call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{RequestID: "slow"}}
		must.Code(t, is.Issue(t.Context(), call), seqd.CodeTimeout)
		call.Caller.RequestID = ""
		if err := is.Issue(t.Context(), call); err != nil || !slices.Equal(call.Sequence.IDs(), []string{"late-2"}) {
			t.Errorf("%v, %v", call.Sequence.IDs(), err)
		}
		time.Sleep(2 * time.Minute)
		if call.BizType != "order" || !slices.Equal(call.Sequence.IDs(), []string{"late-2"}) {
			t.Errorf("%+v", call)
		}
	})
}

// A caller who goes away is not kept by a plugin.
func TestCallerLeavesAPluginThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := &hooks{before: func(context.Context, *seqd.Call) error { <-stuck; return nil }}
		is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: h}))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		must.Code(t, must.Err(is.Next(ctx, "order", 1)), seqd.CodeCanceled)
		close(stuck)
	})
}

// Quick plugins and those apart do the same, but for blocking.
func TestChainQuickAndApart(t *testing.T) {
	for _, quick := range []bool{true, false} {
		bound := func(name string, order int, h *hooks) seqd.BoundPlugin {
			return seqd.BoundPlugin{Name: name, Order: order, Plugin: h, Quick: quick}
		}
		limit := &hooks{before: func(_ context.Context, call *seqd.Call) error {
			call.Limit.Tighten(seqd.Limit{Quota: 9, Remaining: 5})
			call.Limit.Tighten(seqd.Limit{Quota: 100, Remaining: 50})
			call.Limit.Tighten(seqd.Limit{Quota: 8, Remaining: 3, Reset: time.Second})
			call.Limit.Tighten(seqd.Limit{Quota: 3, Remaining: 3})
			return nil
		}}
		is := newIssuer(t, issuer.Options{}, order(&counting{}, bound("b", 2, &hooks{after: prefix("b")}), bound("a", 1, &hooks{after: prefix("a")}),
			bound("limit", 0, limit), bound("panics", 3, &hooks{after: func(_ context.Context, call *seqd.Call) error {
				if call.Count == 3 {
					panic("three")
				}
				return nil
			}})))
		call := &seqd.Call{BizType: "order", Count: 2}
		if err := is.Issue(t.Context(), call); err != nil || !slices.Equal(call.Sequence.IDs(), []string{"ba1", "ba2"}) {
			t.Errorf("quick %v: %v, %v", quick, call.Sequence.IDs(), err)
		}
		must.Equal(t, call.Limit, seqd.Limit{Quota: 8, Remaining: 3, Reset: time.Second}, "quick %v: the limit", quick)
		call.Count = 3
		must.Code(t, is.Issue(t.Context(), call), seqd.CodePluginPanic)
	}
}

// A panic is one line in the log, with its stack, whoever is told of refusals.
func TestPanicIsLoggedOnce(t *testing.T) {
	for _, quick := range []bool{true, false} {
		for name, handler := range map[string]func(*slog.Logger) seqd.RejectedHandler{
			"the default": func(*slog.Logger) seqd.RejectedHandler { return nil },
			"the log":     seqd.LogRejected,
			"something else": func(*slog.Logger) seqd.RejectedHandler {
				return seqd.RejectedHandlerFunc(func(context.Context, *seqd.Call, *seqd.Error) {})
			},
		} {
			var text strings.Builder
			log := slog.New(slog.NewTextHandler(&text, nil))
			broken := seqd.BoundPlugin{Name: "broken", Quick: quick, Plugin: &hooks{before: func(context.Context, *seqd.Call) error { panic("boom") }}}
			definition := order(&counting{}, broken)
			definition.Claim = &claims{}
			is := must.Get(issuer.New([]issuer.Definition{definition}, issuer.Options{Log: log, Rejected: handler(log)}))(t)
			must.Code(t, is.Issue(t.Context(), &seqd.Call{BizType: "order", Count: 1}), seqd.CodePluginPanic)
			if lines := strings.Count(text.String(), "\n"); lines != 1 || strings.Count(text.String(), "debug.Stack") != 1 {
				t.Errorf("quick %v, refusals go to %s: %d lines are logged, want 1 with the stack: %s", quick, name, lines, &text)
			}
		}
	}
}

// However often callers repeat a request that panics, the log has room for other lines.
func TestPanicsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		broken := seqd.BoundPlugin{Name: "broken", Quick: true, Plugin: &hooks{before: func(context.Context, *seqd.Call) error { panic("boom") }}}
		definition := order(&counting{}, broken)
		definition.Claim = &claims{}
		is := must.Get(issuer.New([]issuer.Definition{definition}, issuer.Options{Log: slog.New(slog.NewTextHandler(&text, nil))}))(t)
		lines := func(calls, want int) {
			t.Helper()
			text.Reset()
			for range calls {
				must.Code(t, is.Issue(t.Context(), &seqd.Call{BizType: "order", Count: 1}), seqd.CodePluginPanic)
			}
			must.Equal(t, strings.Count(text.String(), "\n"), want, "the lines that %d calls leave", calls)
		}
		lines(1000, 100)
		time.Sleep(time.Second)
		lines(10, 1)
		if !strings.Contains(text.String(), "leftOut=900") {
			t.Errorf("the log does not say how many were left out: %s", &text)
		}
	})
}

// IDs are read back through the chain, the last plugin first.
func TestParseThroughPlugins(t *testing.T) {
	cut := func(text string, r seqd.Reading) *reading {
		return &reading{hooks{after: prefix(text), read: func(shown string) (seqd.Reading, error) {
			rest, ok := strings.CutPrefix(shown, text)
			if !ok {
				return r, seqd.Errorf(seqd.CodeInvalidID, "%q does not begin with %s", shown, text)
			}
			if rest == "panic" {
				panic(rest)
			}
			r.Shown = rest
			return r, nil
		}}}
	}
	is := newIssuer(t, issuer.Options{}, order(&counting{},
		seqd.BoundPlugin{Order: 1, Plugin: cut("a", seqd.Reading{}), Rewrites: true},
		seqd.BoundPlugin{Order: 2, Plugin: &hooks{}},
		seqd.BoundPlugin{Order: 3, Plugin: cut("b", seqd.Reading{Invalid: true, Period: 20261120}), Rewrites: true}))
	p, err := is.Parse("order", "ba17")
	if want := (seqd.Parsed{Number: 17, Period: 20261120}); err != nil || p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
	for _, id := range []string{"17", "ab17", "b17", "ba", "ba017", "ba-1", "ba0", "ba9007199254740992", "ba17 "} {
		_, err := is.Parse("order", id)
		must.Code(t, err, seqd.CodeInvalidID)
	}
	must.Code(t, must.Err(is.Parse("order", "bapanic")), seqd.CodePluginPanic)

	is = newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: ofCounter{cut("c", seqd.Reading{})}, Rewrites: true},
		seqd.BoundPlugin{Order: 1, Plugin: cut("p", seqd.Reading{Period: 20261120}), Rewrites: true}))
	if p, err := is.Parse("order", "p17"); err != nil || p.Number != 20261120 {
		t.Errorf("%+v, %v", p, err)
	}

	is = newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "mute", Plugin: &hooks{after: prefix("a")}, Rewrites: true}))
	_, err = is.Parse("order", "a17")
	must.Code(t, err, seqd.CodeInvalidID)
	if !strings.Contains(err.Error(), "mute") {
		t.Errorf("%v does not name the plugin", err)
	}
}

func TestResources(t *testing.T) {
	s := &showing{hooks{show: func(query url.Values) (any, error) {
		if query.Has("panic") {
			panic("boom")
		}
		return query.Get("a"), nil
	}}}
	is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: &hooks{}}, seqd.BoundPlugin{Plugin: s}))
	if got, err := is.Resource(t.Context(), "order", "things", url.Values{"a": {"7"}}); got != "7" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, test := range []struct {
		bizType, name string
		query         url.Values
		want          seqd.Code
	}{
		{"order", "thing", nil, seqd.CodeNotFound},
		{"other", "things", nil, seqd.CodeUnknownBizType},
		{"o/r", "things", nil, seqd.CodeInvalidBizType},
		{"order", "things", url.Values{"panic": nil}, seqd.CodePluginPanic},
	} {
		must.Code(t, must.Err(is.Resource(t.Context(), test.bizType, test.name, test.query)), test.want)
	}
}

// Plugins finish after their strategy has, each of them, also where one fails or panics, or nobody
// ever asked for a number.
func TestPluginsAreClosed(t *testing.T) {
	var closed []string
	s := &counting{}
	finish := func(name string, f func() error) seqd.BoundPlugin {
		return seqd.BoundPlugin{Name: name, Plugin: &closing{hooks{close: func(context.Context) error {
			closed = append(closed, name+strconv.FormatInt(s.closed.Load(), 10))
			return f()
		}}}}
	}
	is := newIssuer(t, issuer.Options{}, order(s,
		finish("fails", func() error { return seqd.Errorf(seqd.CodeInternal, "no room") }),
		finish("panics", func() error { panic("boom") }),
		finish("ends", func() error { return nil })))
	must.Get(is.Next(t.Context(), "order", 1))(t)
	err := is.Close(t.Context())
	if err == nil || !strings.Contains(err.Error(), "plugin fails: internal: no room") || !strings.Contains(err.Error(), "panics") {
		t.Error(err)
	}
	if want := []string{"fails1", "panics1", "ends1"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
	closed = nil
	is = newIssuer(t, issuer.Options{}, order(&counting{}, finish("idle", func() error { return nil })))
	if err := is.Close(t.Context()); err != nil || len(closed) != 1 {
		t.Error(err, closed)
	}
}

// A chain of quick plugins that rewrite allocates nothing of its own.
func TestChainAllocations(t *testing.T) {
	again := &hooks{after: func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Show(rewrite)
		return nil
	}}
	var plugins []seqd.BoundPlugin
	for range 3 {
		plugins = append(plugins, seqd.BoundPlugin{Plugin: again, Quick: true})
	}
	is := newIssuer(t, issuer.Options{}, order(&counting{}, plugins...))
	call := &seqd.Call{BizType: "order", Count: 1}
	if n := must.Allocs(100, func() {
		must.Report(t, is.Issue(t.Context(), call))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func rewrite(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, 'x'), shown...) }

func TestPeriods(t *testing.T) {
	at := time.Date(2026, 2, 3, 23, 59, 59, 0, time.UTC)
	for _, test := range []struct {
		reset         seqd.Reset
		text, counter string
	}{
		{seqd.ResetDaily, "2026-02-03", "order@20260203"}, {seqd.ResetMonthly, "2026-02", "order@202602"}, {seqd.ResetYearly, "2026", "order@2026"},
	} {
		p := test.reset.Of(at)
		if p.String() != test.text || p.Counter("order") != test.counter {
			t.Errorf("%s: %s, %s", test.reset, p, p.Counter("order"))
		}
		if back, ok := test.reset.Parse(strings.TrimPrefix(test.counter, "order@")); !ok || back != p {
			t.Errorf("%s: read back as %s, %v", test.counter, back, ok)
		}
		must.Equal(t, test.reset.Of(p.Date()), p, "the period of %s, the date of %s,", p.Date(), p)
		for _, wrong := range []string{"", "20260230", "2026020", "26", "202613", "2026-02-03", "x"} {
			if back, ok := test.reset.Parse(wrong); ok {
				t.Errorf("%s: %q is read as %s", test.reset, wrong, back)
			}
		}
	}
	if p := seqd.ResetNever.Of(at); p != 0 || p.String() != "" {
		t.Errorf("never: %v", p)
	}
	for settings, want := range map[any]seqd.Reset{nil: seqd.ResetNever, monthly{}: seqd.ResetMonthly} {
		if c := seqd.TraitsOf(settings).Calendar; c.Reset != want || c.Zone != time.UTC {
			t.Errorf("%+v, want %s", c, want)
		}
	}
}

// monthly are settings of numbers that begin again each month.
type monthly struct{}

func (monthly) Traits() seqd.Traits {
	return seqd.Traits{Calendar: seqd.Calendar{Reset: seqd.ResetMonthly}}
}

// A plugin whose Close blocks: Close of the issuer must end with its context, as it does for
// strategies and stores.
func TestPluginCloseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		defer close(stuck)
		end := func(name string, f func(context.Context) error) seqd.BoundPlugin {
			return seqd.BoundPlugin{Name: name, Plugin: &closing{hooks{close: f}}}
		}
		is := newIssuer(t, issuer.Options{}, order(&counting{},
			end("stuck", func(context.Context) error { <-stuck; return nil }),
			end("heedful", func(ctx context.Context) error { <-ctx.Done(); return errors.New("cut off") })))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := is.Close(ctx)
		if text := fmt.Sprint(err); !strings.Contains(text, "plugin stuck: it did not close") || !strings.Contains(text, "plugin heedful: cut off") {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Close of the issuer took %v, and its context had 20 ms", took)
		}
	})
}

// A plugin cannot put other numbers in the place of those that were issued.
func TestPluginChangesNumbers(t *testing.T) {
	p := &hooks{after: func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Reset()
		call.Sequence.Add(7, call.Count, 1)
		return nil
	}}
	is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "p", Quick: true, Plugin: p}))
	a, errA := is.Next(t.Context(), "order", 1)
	b, errB := is.Next(t.Context(), "order", 1)
	if errA == nil && errB == nil && a.First() == b.First() {
		t.Errorf("%d was issued twice", a.First())
	}
}

// ofCounter is a plugin whose IDs can only be read of a known period, which it takes for the
// number.
type ofCounter struct{ *reading }

func (ofCounter) Read(_ context.Context, _ string, of seqd.Counter) (seqd.Reading, error) {
	return seqd.Reading{Shown: fmt.Sprint(int(of.Period))}, nil
}
