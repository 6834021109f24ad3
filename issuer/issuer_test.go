package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// counting is a strategy that counts up, with hooks for what a test wants to go wrong.
type counting struct {
	last   atomic.Int64
	inits  atomic.Int64
	closed atomic.Int64
	init   func(ctx context.Context, fresh bool) error
	fail   error
	health error
	add    func(n int, seq *seqd.Sequence)
}

func (c *counting) Init(ctx context.Context, fresh bool) error {
	c.inits.Add(1)
	if c.init != nil {
		return c.init(ctx, fresh)
	}
	return nil
}

func (c *counting) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	if n < 1 {
		panic("no numbers are wanted")
	}
	if c.add != nil {
		c.add(n, seq)
		return c.fail
	}
	last := c.last.Add(int64(n))
	seq.Add(last-int64(n)+1, n, 1)
	return c.fail
}

func (c *counting) Close(context.Context) error { c.closed.Add(1); return nil }
func (c *counting) Health() error               { return c.health }
func (c *counting) Degraded() *seqd.Error       { return nil }
func (c *counting) Details() map[string]any     { return nil }

// tracing is a plugin that writes down what happens to it.
type tracing struct {
	name   string
	trace  *[]string
	before func(*seqd.Call) error
	after  func(*seqd.Call) error
	onErr  func()
}

func (p tracing) Before(_ context.Context, call *seqd.Call) error {
	*p.trace = append(*p.trace, "before "+p.name)
	if p.before != nil {
		return p.before(call)
	}
	return nil
}

func (p tracing) After(_ context.Context, call *seqd.Call) error {
	*p.trace = append(*p.trace, "after "+p.name)
	if p.after != nil {
		return p.after(call)
	}
	return nil
}

func (p tracing) OnError(_ context.Context, _ *seqd.Call, err *seqd.Error) {
	*p.trace = append(*p.trace, "error "+p.name+" "+string(err.Code))
	if p.onErr != nil {
		p.onErr()
	}
}

// tally is an observer that counts.
type tally struct {
	seqd.NopObserver
	issued   atomic.Int64
	mu       sync.Mutex
	rejected []seqd.Code
}

func (o *tally) Issued(_ string, n int) { o.issued.Add(int64(n)) }
func (o *tally) Rejected(_ string, code seqd.Code) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rejected = append(o.rejected, code)
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func newIssuer(t *testing.T, opts issuer.Options, definitions ...issuer.Definition) *issuer.Issuer {
	t.Helper()
	opts.Log = quiet()
	return must.Get(issuer.New(definitions, opts))(t)
}

func order(s seqd.Strategy, plugins ...seqd.BoundPlugin) issuer.Definition {
	return issuer.Definition{BizType: seqd.BizType{Name: "order", Strategy: "counting"}, Strategy: s, Plugins: plugins}
}

func TestIssue(t *testing.T) {
	o := &tally{}
	is := newIssuer(t, issuer.Options{Observer: o}, order(&counting{}))
	for _, n := range []int{1, 10_000, 3} {
		seq, err := is.Next(t.Context(), "order", n)
		if err != nil || seq.Len() != n {
			t.Fatalf("got %v, %v", seq, err)
		}
	}
	must.Equal(t, o.issued.Load(), 10_004, "the numbers counted")
	_, err := is.Next(t.Context(), "other", 1)
	must.Code(t, err, seqd.CodeUnknownBizType)
	must.Code(t, must.Err(is.Next(t.Context(), "no/name", 1)), seqd.CodeInvalidBizType)
	for _, n := range []int{0, -1, seqd.MaxCount + 1, math.MaxInt, math.MinInt} {
		must.Code(t, must.Err(is.Next(t.Context(), "order", n)), seqd.CodeInvalidCount)
	}
}

func TestDefinitionsAreChecked(t *testing.T) {
	for want, definitions := range map[string][]issuer.Definition{
		"twice":    {order(&counting{}), order(&counting{})},
		"strategy": {order(nil)},
		"empty":    {{Strategy: &counting{}}},
	} {
		if _, err := issuer.New(definitions, issuer.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

// chain issues once through three plugins given out of order and returns the trace.
func chain(t *testing.T, change func(first, second, third *tracing), s *counting) (trace []string, err error) {
	t.Helper()
	plugins := []*tracing{{name: "1", trace: &trace}, {name: "2", trace: &trace}, {name: "3", trace: &trace}}
	if change != nil {
		change(plugins[0], plugins[1], plugins[2])
	}
	rejected := seqd.RejectedHandlerFunc(func(_ context.Context, call *seqd.Call, err *seqd.Error) {
		must.Equal(t, call.Sequence.Len(), 0, "a rejected call still holds numbers")
		trace = append(trace, "rejected "+string(err.Code))
	})
	is := newIssuer(t, issuer.Options{Rejected: rejected}, order(s,
		seqd.BoundPlugin{Name: "third", Order: 200, Plugin: plugins[2]},
		seqd.BoundPlugin{Name: "first", Order: -5, Plugin: plugins[0]},
		seqd.BoundPlugin{Name: "second", Order: 100, Plugin: plugins[1]}))
	seq, err := is.Next(t.Context(), "order", 2)
	if err == nil && seq.Len() != 2 {
		t.Errorf("%d numbers", seq.Len())
	}
	return trace, err
}

func TestChain(t *testing.T) {
	veto := seqd.Errorf(seqd.CodeRateLimited, "slowly")
	all := []string{"before 1", "before 2", "before 3", "after 1", "after 2", "after 3"}
	tests := []struct {
		name   string
		change func(first, second, third *tracing)
		fail   error
		trace  []string
		code   seqd.Code
	}{
		{"all well", nil, nil, all, ""},
		{"veto", func(_, second, _ *tracing) { second.before = func(*seqd.Call) error { return veto } }, nil,
			[]string{"before 1", "before 2", "error 1 rate_limited", "rejected rate_limited"}, seqd.CodeRateLimited},
		{"veto of the first", func(first, _, _ *tracing) { first.before = func(*seqd.Call) error { return veto } }, nil,
			[]string{"before 1", "rejected rate_limited"}, seqd.CodeRateLimited},
		{"an error without a code", func(first, _, _ *tracing) { first.before = func(*seqd.Call) error { return errors.New("x") } }, nil,
			[]string{"before 1", "rejected internal"}, seqd.CodeInternal},
		{"panic in Before", func(_, second, _ *tracing) { second.before = func(*seqd.Call) error { panic("boom") } }, nil,
			[]string{"before 1", "before 2", "error 1 plugin_panic", "rejected plugin_panic"}, seqd.CodePluginPanic},
		{"strategy refuses", nil, seqd.Errorf(seqd.CodeExhausted, "no more"),
			[]string{"before 1", "before 2", "before 3", "error 1 exhausted", "error 2 exhausted", "error 3 exhausted", "rejected exhausted"}, seqd.CodeExhausted},
		{"error in After", func(_, second, _ *tracing) { second.after = func(*seqd.Call) error { return veto } }, nil,
			append(all[:5:5], "error 1 rate_limited", "error 2 rate_limited", "error 3 rate_limited", "rejected rate_limited"), seqd.CodeRateLimited},
		{"panic in After", func(_, _, third *tracing) { third.after = func(*seqd.Call) error { panic(errors.New("boom")) } }, nil,
			append(all[:6:6], "error 1 plugin_panic", "error 2 plugin_panic", "error 3 plugin_panic", "rejected plugin_panic"), seqd.CodePluginPanic},
		{"panic in OnError", func(first, second, _ *tracing) {
			second.before = func(*seqd.Call) error { return veto }
			first.onErr = func() { panic("boom") }
		}, nil, []string{"before 1", "before 2", "error 1 rate_limited", "rejected rate_limited"}, seqd.CodeRateLimited},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trace, err := chain(t, test.change, &counting{fail: test.fail})
			if !slices.Equal(trace, test.trace) {
				t.Errorf("what ran was\n%q, want\n%q", trace, test.trace)
			}
			must.Code(t, err, test.code)
		})
	}
}

// listening is a plugin that wants to know of every refusal.
type listening struct {
	tracing
	panics bool
}

func (p listening) Rejected(_ context.Context, call *seqd.Call, err *seqd.Error) {
	*p.trace = append(*p.trace, fmt.Sprintf("told %s %s %d", p.name, err.Code, call.Count))
	if p.panics {
		panic("boom")
	}
}

// A plugin that is a RejectedHandler is told of every refusal once, wherever in the chain it was
// made, and may panic.
func TestPluginsAreToldOfEveryRefusal(t *testing.T) {
	for _, quick := range []bool{true, false} {
		var trace []string
		d := order(&counting{fail: seqd.Errorf(seqd.CodeExhausted, "no more")},
			seqd.BoundPlugin{Order: 1, Quick: true, Plugin: tracing{name: "1", trace: &trace, before: func(c *seqd.Call) error {
				if c.Count == 2 {
					return seqd.Errorf(seqd.CodeRateLimited, "slowly")
				}
				return nil
			}}},
			seqd.BoundPlugin{Order: 2, Quick: quick, Plugin: listening{tracing{name: "2", trace: &trace}, true}},
			seqd.BoundPlugin{Order: 3, Quick: quick, Plugin: listening{tracing: tracing{name: "3", trace: &trace}}})
		d.Rejected = seqd.RejectedHandlerFunc(func(_ context.Context, _ *seqd.Call, err *seqd.Error) {
			trace = append(trace, "rejected "+string(err.Code))
		})
		is := newIssuer(t, issuer.Options{}, d)
		for count, want := range map[int][]string{
			2: {"before 1", "told 2 rate_limited 2", "told 3 rate_limited 2", "rejected rate_limited"},
			1: {"before 1", "before 2", "before 3", "error 1 exhausted", "error 2 exhausted", "error 3 exhausted",
				"told 2 exhausted 1", "told 3 exhausted 1", "rejected exhausted"},
		} {
			trace = nil
			_, err := is.Next(t.Context(), "order", count)
			if err == nil || !slices.Equal(trace, want) {
				t.Errorf("quick %v, %v: what ran was\n%q, want\n%q", quick, err, trace, want)
			}
		}
	}
}

func TestEqualOrdersKeepTheirPlace(t *testing.T) {
	var trace []string
	var plugins []seqd.BoundPlugin
	for i := range 20 {
		plugins = append(plugins, seqd.BoundPlugin{Order: i / 10, Plugin: tracing{name: fmt.Sprintf("%02d", i), trace: &trace}})
	}
	is := newIssuer(t, issuer.Options{}, order(&counting{}, plugins...))
	must.Get(is.Next(t.Context(), "order", 1))(t)
	if len(trace) != 40 || !slices.IsSorted(trace[:20]) || !slices.IsSorted(trace[20:]) {
		t.Errorf("what ran was %q", trace)
	}
}

// A plugin rewrites what is shown; the next one builds on it.
func TestPluginsRewriteInTurn(t *testing.T) {
	var trace []string
	shows := func(format string) func(*seqd.Call) error {
		return func(call *seqd.Call) error {
			call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return fmt.Appendf(dst, format, shown) })
			return nil
		}
	}
	is := newIssuer(t, issuer.Options{}, order(&counting{},
		seqd.BoundPlugin{Order: 200, Plugin: tracing{trace: &trace, after: shows("INV-%s")}},
		seqd.BoundPlugin{Order: 100, Plugin: tracing{trace: &trace, after: shows("<%s>")}}))
	seq, err := is.Next(t.Context(), "order", 2)
	if err != nil || !slices.Equal(seq.IDs(), []string{"INV-<1>", "INV-<2>"}) {
		t.Errorf("shown as %q, %v", seq.IDs(), err)
	}
}

// What plugins show is one line for each number.
func TestPluginsShowLines(t *testing.T) {
	for text, want := range map[string]seqd.Code{"x": "", "": seqd.CodeInternal, "a\r": seqd.CodeInternal, "a\nb": seqd.CodeInternal} {
		show := &hooks{after: func(_ context.Context, call *seqd.Call) error {
			call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, text...) })
			return nil
		}}
		_, err := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Rewrites: true, Plugin: show})).Next(t.Context(), "order", 1)
		must.Code(t, err, want, "%q", text)
	}
}

// How many numbers are issued is what the caller asked for, whatever plugins make of the call.
func TestPluginsDoNotChangeTheCount(t *testing.T) {
	var trace []string
	is := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: tracing{trace: &trace,
		before: func(c *seqd.Call) error { c.Count, c.BizType = 5, "other"; return nil }}}))
	call := &seqd.Call{BizType: "order", Count: 1}
	if err := is.Issue(t.Context(), call); err != nil || call.Sequence.Len() != 1 || call.BizType != "order" || call.Count != 1 {
		t.Errorf("issued %d of %q, %v", call.Sequence.Len(), call.BizType, err)
	}
}

func TestStrategyThatMiscounts(t *testing.T) {
	is := newIssuer(t, issuer.Options{}, order(&counting{add: func(n int, seq *seqd.Sequence) { seq.Add(1, n+1, 1) }}))
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeInternal)
}

func TestHandlerOfTheBizTypeWinsAndMayPanic(t *testing.T) {
	o := &tally{}
	d := order(&counting{fail: seqd.Errorf(seqd.CodeTimeout, "late")})
	told := 0
	d.Rejected = seqd.RejectedHandlerFunc(func(context.Context, *seqd.Call, *seqd.Error) { told++; panic("boom") })
	none := source(func(context.Context, string) error { return seqd.Errorf(seqd.CodeUnknownBizType, "none") })
	is := newIssuer(t, issuer.Options{Observer: o, Source: none, Rejected: seqd.RejectedHandlerFunc(func(context.Context, *seqd.Call, *seqd.Error) {
		t.Error("the issuer's handler was told")
	})}, d)
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeTimeout)
	// Anybody can ask for names that do not exist: nobody is told, and none is counted.
	must.Code(t, must.Err(is.Next(t.Context(), "other", 1)), seqd.CodeUnknownBizType)
	if told != 1 || !slices.Equal(o.rejected, []seqd.Code{seqd.CodeTimeout}) {
		t.Errorf("told %d times, counted %v", told, o.rejected)
	}
}

// Biz types without a claim are a warning, once.
func TestWithoutAClaim(t *testing.T) {
	for _, claim := range []seqd.Claim{nil, &claims{}} {
		var text strings.Builder
		definitions := []issuer.Definition{order(&counting{}), order(&counting{})}
		for i := range definitions {
			definitions[i].BizType.Name, definitions[i].Claim = fmt.Sprint("order", i), claim
		}
		must.Get(issuer.New(definitions, issuer.Options{Log: slog.New(slog.NewTextHandler(&text, nil))}))(t)
		if warnings := strings.Count(text.String(), "has no Claim"); warnings != 1 && claim == nil || warnings > 0 && claim != nil {
			t.Errorf("with the claim %v there are %d warnings: %s", claim, warnings, &text)
		}
	}
}

// claims is a Claim that a test steers.
type claims struct {
	fresh    bool
	check    error
	recorded int
}

func (c *claims) Reshaped() bool                      { return false }
func (c *claims) Check(context.Context) (bool, error) { return c.fresh, c.check }
func (c *claims) Record(context.Context) error        { c.recorded++; return nil }

func TestClaim(t *testing.T) {
	for name, test := range map[string]struct {
		claim    claims
		code     seqd.Code
		inits    int64
		recorded int
	}{
		"new biz type":   {claims{fresh: true}, "", 1, 1},
		"known biz type": {claims{fresh: false}, "", 1, 0},
		"another shape":  {claims{check: seqd.Errorf(seqd.CodeConflict, "was snowflake")}, seqd.CodeConflict, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &counting{init: func(_ context.Context, fresh bool) error {
				must.Equal(t, fresh, test.claim.fresh, "Init was told fresh")
				return nil
			}}
			d := order(s)
			d.Claim = &test.claim
			is := newIssuer(t, issuer.Options{}, d)
			for range 3 {
				must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), test.code)
			}
			if s.inits.Load() != test.inits || test.claim.recorded != test.recorded {
				t.Errorf("%d initialisations, %d records", s.inits.Load(), test.claim.recorded)
			}
		})
	}
}

func TestInitIsSharedAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counting{}
		s.init = func(context.Context, bool) error {
			time.Sleep(time.Second)
			if s.inits.Load() < 3 {
				return errors.New("away")
			}
			return nil
		}
		is := newIssuer(t, issuer.Options{}, order(s))
		var failed atomic.Int64
		for range 2 {
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() {
					if _, err := is.Next(t.Context(), "order", 1); err != nil {
						failed.Add(1)
					}
				})
			}
			wg.Wait()
		}
		if failed.Load() != 20 || s.inits.Load() != 2 {
			t.Errorf("%d failed in %d attempts, want 20 in 2", failed.Load(), s.inits.Load())
		}
		if unready, total := is.Health(10); total != 1 || len(unready) != 1 || unready[0].Reason.Code != seqd.CodeInternal {
			t.Errorf("unready: %v, %d", unready, total)
		}
		is.Init(t.Context())
		if _, total := is.Health(10); total != 0 || s.inits.Load() != 3 {
			t.Errorf("%d unready after %d attempts", total, s.inits.Load())
		}
		must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
	})
}

// After a conflict each request tries again, because an operator may have ended it, and so does the
// node itself after a while.
func TestInitAfterAConflict(t *testing.T) { synctest.Test(t, initAfterAConflict) }

func initAfterAConflict(t *testing.T) {
	conflict := &counting{}
	conflict.init = func(context.Context, bool) error {
		if conflict.inits.Load() < 4 {
			return seqd.Errorf(seqd.CodeConflict, "no")
		}
		return nil
	}
	panics := &counting{}
	panics.init = func(context.Context, bool) error {
		if panics.inits.Load() < 3 {
			panic("boom")
		}
		return nil
	}
	other := order(panics)
	other.BizType.Name = "other"
	is := newIssuer(t, issuer.Options{}, order(conflict), other)
	is.Init(t.Context())
	if unready, total := is.Health(10); total != 1 || unready[0].BizType != "order" {
		t.Errorf("unready: %v, %d", unready, total)
	}
	must.Equal(t, conflict.inits.Load(), 1, "the attempts at a conflict")
	for _, step := range []struct {
		wait     time.Duration
		asks     bool
		attempts int64
	}{{0, true, 2}, {9 * time.Second, false, 2}, {time.Second, false, 3}} {
		time.Sleep(step.wait)
		synctest.Wait()
		if step.asks {
			must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeConflict)
		}
		must.Equal(t, conflict.inits.Load(), step.attempts, "the attempts")
	}
	time.Sleep(time.Second)
	must.Report(t, must.Err(is.Next(t.Context(), "order", 1)))
}

func TestCallerDoesNotWaitForInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{}, order(&counting{init: func(context.Context, bool) error {
			time.Sleep(time.Hour)
			return nil
		}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		must.Code(t, must.Err(is.Next(ctx, "order", 1)), seqd.CodeTimeout)
		must.Equal(t, time.Since(began), time.Second, "it took")
		time.Sleep(time.Hour) // until the attempt has ended
	})
}

func TestHealthOfAStrategy(t *testing.T) {
	s := &counting{}
	is := newIssuer(t, issuer.Options{}, order(s))
	if unready, _ := is.Health(1); len(unready) != 1 || unready[0].Reason.Code != seqd.CodeStarting {
		t.Errorf("before Init: %v", unready)
	}
	is.Init(t.Context())
	s.health = seqd.Errorf(seqd.CodeStoreUnavailable, "away")
	if unready, _ := is.Health(1); len(unready) != 1 || unready[0].Reason.Code != seqd.CodeStoreUnavailable {
		t.Errorf("while the store is away: %v", unready)
	}
}

// limping is a strategy that issues, but not as it should.
type limping struct {
	counting
	why *seqd.Error
}

func (l *limping) Degraded() *seqd.Error { return l.why }

func TestDegraded(t *testing.T) {
	well := &counting{}
	var definitions []issuer.Definition
	for i, name := range []string{"b", "c", "a", "well"} {
		d := order(&limping{why: seqd.Errorf(seqd.CodeRedisUnavailable, "%d", i)})
		if d.BizType.Name = name; name == "well" {
			d.Strategy = well
		}
		definitions = append(definitions, d)
	}
	is := newIssuer(t, issuer.Options{}, definitions...)
	if list, total := is.Degraded(10); total != 0 || len(list) != 0 {
		t.Errorf("before Init: %v, %d", list, total)
	}
	is.Init(t.Context())
	list, total := is.Degraded(2)
	if total != 3 || len(list) != 2 || list[0].BizType != "a" || list[1].BizType != "b" || list[1].Reason.Detail != "0" {
		t.Errorf("%v, %d in all", list, total)
	}
	if _, total := is.Health(10); total != 0 {
		t.Errorf("%d cannot issue", total)
	}
	definitions[0].Strategy.(*limping).health = seqd.Errorf(seqd.CodeStoreUnavailable, "away")
	definitions[1].Strategy.(*limping).why = nil
	if list, total := is.Degraded(10); total != 1 || list[0].BizType != "a" {
		t.Errorf("%v, %d in all", list, total)
	}
}

func TestParse(t *testing.T) {
	is := newIssuer(t, issuer.Options{}, order(&counting{}))
	p, err := is.Parse("order", "9007199254740991")
	if err != nil || p.Number != seqd.MaxNumber || !p.Valid {
		t.Errorf("parsed %+v, %v", p, err)
	}
	for _, id := range []string{"", "0", "-1", "+1", "01", "1 ", "1.0", "1e3", "0x1", "9007199254740992", "99999999999999999999999", "ä", strings.Repeat("1", 500)} {
		_, err := is.Parse("order", id)
		must.Code(t, err, seqd.CodeInvalidID)
	}
	must.Code(t, must.Err(is.Parse("other", "1")), seqd.CodeUnknownBizType)
	d := order(&counting{})
	d.BizType.Settings = apart{}
	is = newIssuer(t, issuer.Options{}, d)
	for id, code := range map[string]seqd.Code{"1": "", "2": seqd.CodeInvalidID, "3": seqd.CodeInvalidID, "3001": ""} {
		must.Code(t, must.Err(is.Parse("order", id)), code)
	}
	is = newIssuer(t, issuer.Options{}, order(&parsing{}))
	if p, err := is.Parse("order", "9223372036854775807"); err != nil || p.Number != math.MaxInt64 || p.Sequence == nil || *p.Sequence != 7 || !p.Valid {
		t.Errorf("parsed %+v, %v", p, err)
	}
	must.Code(t, must.Err(is.Parse("order", "5")), seqd.CodeInvalidID)
}

// parsing is a strategy that reads its numbers, except small ones.
type parsing struct{ counting }

func (*parsing) Parse(number int64) (seqd.Parsed, error) {
	if number < 10 {
		return seqd.Parsed{}, seqd.Errorf(seqd.CodeInvalidID, "too small")
	}
	return seqd.Parsed{Number: number, Sequence: new(int64(7)), Valid: true}, nil
}

func TestErrorsKeepTheirCause(t *testing.T) {
	cause := errors.New("cause")
	wrapped := fmt.Errorf("outside: %w", &seqd.Error{Code: seqd.CodeTimeout, Detail: "late", Err: cause})
	if e := seqd.AsError(wrapped); e.Code != seqd.CodeTimeout || !errors.Is(e, cause) || e.Error() != "timeout: late: cause" {
		t.Errorf("got %v", e)
	}
	for err, want := range map[error]seqd.Code{
		context.Canceled: seqd.CodeCanceled, context.DeadlineExceeded: seqd.CodeTimeout, cause: seqd.CodeInternal, nil: "",
	} {
		must.Equal(t, seqd.CodeOf(err), want, "%v has code", err)
	}
	if e := seqd.AsError(cause); strings.Contains(e.Detail, "cause") {
		t.Errorf("the detail %q gives an inner error away", e.Detail)
	}
}

func TestRefusalsAreLoggedOncePerEpisode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := seqd.LogRejected(slog.New(slog.NewTextHandler(&log, nil)))
		refuse := func(code seqd.Code, times int) {
			for range times {
				h.Rejected(t.Context(), &seqd.Call{BizType: "order", Count: 1}, seqd.Errorf(code, "no"))
			}
		}
		lines := func(want int) {
			t.Helper()
			must.Equal(t, strings.Count(log.String(), "\n"), want, "the lines of\n%s", log.String())
		}
		refuse(seqd.CodeTimeout, 1000)
		lines(1)
		refuse(seqd.CodeExhausted, 1000)
		lines(2)
		refuse(seqd.CodeCanceled, 1000)
		lines(2)
		time.Sleep(59 * time.Second)
		refuse(seqd.CodeTimeout, 10)
		lines(2)
		time.Sleep(time.Second)
		refuse(seqd.CodeTimeout, 10)
		lines(3)
		if !strings.Contains(log.String(), "alsoRefused=1009") {
			t.Errorf("the log does not say how many were left out:\n%s", log.String())
		}
		time.Sleep(time.Minute)
		refuse(seqd.CodeTimeout, 1)
		lines(4)
	})
}

func BenchmarkIssue(b *testing.B) {
	is := must.Get(issuer.New([]issuer.Definition{order(&counting{})}, issuer.Options{}))(b)
	call := &seqd.Call{BizType: "order", Count: 1}
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, is.Issue(b.Context(), call))
	}
}
