package format

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/plugin"
)

// padSettings are the settings of a plugin that displays numbers with leading zeros.
type padSettings struct{ digits int }

func (s *padSettings) Traits() seqd.Traits { return seqd.Traits{Decimal: true, Digits: s.digits} }

// datedSettings are the settings of a strategy whose numbers reset.
type datedSettings struct{ calendar seqd.Calendar }

func (s *datedSettings) Traits() seqd.Traits { return seqd.Traits{Calendar: s.calendar} }

// padder is the plugin of padSettings. It reads only what it displays.
type padder struct {
	seqd.NopPlugin
	digits int
}

func (p padder) After(_ context.Context, call *seqd.Call) error {
	pad(&call.Sequence, p.digits)
	return nil
}

func (p padder) Read(_ context.Context, shown string, _ seqd.Counter) (seqd.Reading, error) {
	if len(shown) != p.digits {
		return seqd.Reading{}, seqd.Errorf(seqd.CodeInvalidID, "%s has not %d digits", shown, p.digits)
	}
	return seqd.Reading{Shown: strings.TrimLeft(shown, "0")}, nil
}

func init() {
	shape := func(seqd.BizType, seqd.PluginBinding) (string, error) { return "", nil }
	plugin.Register(plugin.Factory{
		Name: "pad", Shape: shape, Settings: func() any { return new(padSettings) },
		New: func(_ plugin.Env, _ seqd.BizType, b seqd.PluginBinding) (seqd.Plugin, error) {
			return padder{digits: b.Settings.(*padSettings).digits}, nil
		},
	})
	for name, shape := range map[string]func(seqd.BizType, seqd.PluginBinding) (string, error){"letters": shape, "quiet": nil} {
		plugin.Register(plugin.Factory{
			Name: name, Shape: shape, Settings: func() any { return new(struct{}) },
			New: func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return seqd.NopPlugin{}, nil },
		})
	}
}

func ptr[T any](v T) *T { return &v }

func bound(name string, order int, settings any) seqd.PluginBinding {
	return seqd.PluginBinding{Name: name, Order: order, Settings: settings}
}

// TestCheck checks bindings at different places in the chain.
func TestCheck(t *testing.T) {
	daily := &datedSettings{calendar(t, seqd.ResetDaily, "UTC")}
	one := bound("format", 200, &Settings{Template: "{date:20060102}{seq}"})
	for _, test := range []struct {
		settings any
		plugins  []seqd.PluginBinding
		want     string // empty for no problem
		shows    bool
	}{
		{nil, []seqd.PluginBinding{one}, "", false},
		{daily, []seqd.PluginBinding{one}, "", true},
		// another plugin may show the date
		{daily, []seqd.PluginBinding{bound("format", 200, &Settings{Template: "{seq}"})}, "", false},
		{daily, []seqd.PluginBinding{bound("format", 200, &Settings{Template: "A{date:2006}{seq}"})}, "template: byte 1: daily needs year, month and day", false},
		{nil, []seqd.PluginBinding{one, one}, "name: a biz type can have one template", false},
		{nil, []seqd.PluginBinding{one, bound("pad", 100, &padSettings{8})}, "", false},
		{nil, []seqd.PluginBinding{one, bound("quiet", 100, new(struct{}))}, "", false},
		{nil, []seqd.PluginBinding{one, bound("letters", 300, new(struct{}))}, "", false},
		{nil, []seqd.PluginBinding{one, bound("letters", 50, new(struct{})), bound("pad", 100, &padSettings{8})}, "", false},
		{nil, []seqd.PluginBinding{one, bound("letters", 100, new(struct{}))}, "order: it is 200, so format runs after letters", false},
		{nil, []seqd.PluginBinding{one, bound("letters", 150, new(struct{})), bound("pad", 100, &padSettings{8})}, "order: ", false},
		{nil, []seqd.PluginBinding{one, bound("unknown", 100, nil)}, "", false},
	} {
		factory := must.Get(plugin.Lookup("format"))(t)
		b := seqd.BizType{Name: "order", Settings: test.settings, Plugins: test.plugins}
		problems := factory.Check(b, test.plugins[0])
		text := ""
		for _, p := range problems {
			text += p.Key + ": " + p.Text
		}
		if !strings.HasPrefix(text, test.want) || test.want == "" && text != "" {
			t.Errorf("%v: %q, want %q", test.plugins, text, test.want)
		}
		must.Equal(t, factory.ShowsPeriod(b, test.plugins[0]), test.shows, "%v: shows the period", test.plugins)
	}
}

func TestShape(t *testing.T) {
	shapes := make(map[string]Settings)
	for _, s := range []Settings{{"{seq}", ""}, {"{seq}{check}", "luhn"}, {"{seq}{check}", "damm"}, {`{seq} luhn`, ""}, {"{seq:06}", ""}} {
		if other, twice := shapes[s.shape()]; twice {
			t.Errorf("%+v and %+v have the shape %s", s, other, s.shape())
		}
		shapes[s.shape()] = s
	}
	must.Equal(t, example().shape(), `v1 "INV-{date:20060102}-{seq:06}{check}" luhn`, "the shape, under which IDs in stores are claimed,")
}

// counter is a strategy that counts, in a period.
type counter struct {
	period seqd.Period
	last   int64
}

func (c *counter) Init(context.Context, bool) error { return nil }

func (c *counter) Generate(_ context.Context, n int, s *seqd.Sequence) error {
	s.Add(c.last+1, n, 1)
	s.In(c.period)
	c.last += int64(n)
	return nil
}

func (c *counter) Close(context.Context) error { return nil }

// TestChain issues and reads with a plugin that shows leading zeros, followed by format.
func TestChain(t *testing.T) {
	b := seqd.BizType{
		Name: "order", Settings: &datedSettings{calendar(t, seqd.ResetDaily, "Asia/Shanghai")},
		Plugins: []seqd.PluginBinding{bound("format", 200, ptr(example())), bound("pad", 100, &padSettings{9})},
	}
	d := issuer.Definition{BizType: b, Strategy: &counter{period: 20261121, last: 41}}
	for _, binding := range b.Plugins {
		factory := must.Get(plugin.Lookup(binding.Name))(t)
		made := must.Get(factory.New(plugin.Env{Now: time.Now}, b, binding))(t)
		d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: binding.Name, Order: binding.Order, Plugin: made, Quick: true, Rewrites: true})
	}
	is := must.Get(issuer.New([]issuer.Definition{d}, issuer.Options{}))(t)
	seq := must.Get(is.Next(t.Context(), "order", 2))(t)
	must.Equal(t, fmt.Sprint(seq.IDs()), "[INV-20261121-0000428 INV-20261121-0000436]", "the IDs")
	for id, valid := range map[string]bool{"INV-20261121-0000436": true, "INV-20261121-0000437": false} {
		if p, err := is.Parse("order", id); err != nil || p.Number != 43 || p.Period != 20261121 || p.Valid != valid {
			t.Errorf("%s reads as %+v, %v", id, p, err)
		}
	}
	must.Code(t, must.Err(is.Parse("order", "INV-20261121-12345678903")), seqd.CodeInvalidID, "a number with more digits than the plugin before shows")
}

// TestAfterErrors checks that a plugin or strategy that violates its contract fails the request and
// repeats no ID.
func TestAfterErrors(t *testing.T) {
	daily := calendar(t, seqd.ResetDaily, "UTC")
	for _, test := range []struct {
		calendar seqd.Calendar
		width    int
		period   seqd.Period
		shown    string
		want     string
	}{
		{never(), 0, 0, "12a", `"12a", which is not a decimal number`},
		{never(), 0, 0, "-12", "not a decimal number"},
		{never(), 0, 0, "012", "not a decimal number"},
		{never(), 4, 0, "012", "not a decimal number"},
		{never(), 0, 0, "18446744073709551616", "not a decimal number"},
		{never(), 0, 20261121, "12", "disagree"},
		{daily, 0, 0, "12", "disagree"},
	} {
		p := mustPlugin(t, example(), test.calendar, test.width)
		call := seqd.Call{Count: 1}
		call.Sequence.Add(12, 1, 1)
		call.Sequence.In(test.period)
		call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, test.shown...) })
		if err := p.After(t.Context(), &call); err == nil || !strings.Contains(err.Error(), test.want) || seqd.CodeOf(err) != seqd.CodeInternal {
			t.Errorf("%+v gives %v", test, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	p := mustPlugin(t, example(), calendar(t, seqd.ResetDaily, "UTC"), 0)
	for id, want := range map[string]string{
		"":                                   "at least 20 characters",
		"INV-20261121-00042":                 "at least 20 characters",
		"inv-20261121-0000428":               `character 0: the template has "INV-" here`,
		"INV-20261121_0000428":               `character 12: the template has "-" here`,
		"INV-20261321-0000428":               "its date is not one",
		"INV-20260229-0000428":               "its date is not one",
		"INV-2026112x-0000428":               "its date is not one",
		"INV-20261121-00000428":              "character 13: the number does not have at least 6 digits",
		"INV-20261121-00 0421":               "character 13: the number",
		"INV-20261121--000421":               "character 13: the number",
		"INV-20261121-000042x":               "character 19: a check digit is from 0 to 9",
		"INV-20261121-184467440737095516160": "character 13: the number",
		"INV-20261121-0000428\n":             "character 13: the number",
		strings.Repeat("INV-", 1000):         "character 4",
	} {
		if _, err := p.Read(t.Context(), id, seqd.Counter{}); seqd.CodeOf(err) != seqd.CodeInvalidID || want != "character 4" && !strings.Contains(err.Error(), want) || len(err.Error()) > 200 {
			t.Errorf("%q gives %v, want %s", id, err, want)
		}
	}
}

// TestConcurrent displays numbers of several periods at once. Each must have its own date. Run it
// with the race detector.
func TestConcurrent(t *testing.T) {
	p := mustPlugin(t, example(), calendar(t, seqd.ResetDaily, "UTC"), 0)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				period := seqd.Period(20261121 + (worker+i)%3)
				id := show(t, p, period, int64(i))
				if r, err := p.Read(t.Context(), id, seqd.Counter{}); err != nil || r.Period != period || r.Invalid {
					t.Errorf("%s of %s reads as %+v, %v", id, period, r, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestAllocations checks that displaying allocates nothing except the answer.
func TestAllocations(t *testing.T) {
	p := mustPlugin(t, example(), calendar(t, seqd.ResetDaily, "UTC"), 0)
	call := seqd.Call{Count: 10}
	if n := must.Allocs(100, func() {
		call.Sequence.Reset()
		call.Sequence.Add(1, 10, 1)
		call.Sequence.In(20261121)
		must.Do(t, p.After(t.Context(), &call))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
