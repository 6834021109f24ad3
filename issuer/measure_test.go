package issuer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// measured is a strategy and a plugin with values to watch.
type measured struct {
	seqd.NopPlugin
	panics bool
}

func (m measured) Measure(tell func(seqd.Measurement)) {
	tell(seqd.Measurement{Gauge: seqd.GaugeStep, Value: 7})
	if m.panics {
		panic("measuring")
	}
}
func (measured) Init(context.Context, bool) error { return nil }
func (measured) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(1, n, 1)
	return nil
}
func (measured) Close(context.Context) error { return nil }

// TestMeasure: strategies and plugins are asked, and one that panics keeps nobody else from being
// asked.
func TestMeasure(t *testing.T) {
	is := must.Get(issuer.New([]issuer.Definition{
		{BizType: seqd.BizType{Name: "a", Strategy: "s"}, Strategy: measured{panics: true}},
		{BizType: seqd.BizType{Name: "b", Strategy: "s"}, Strategy: measured{}, Plugins: []seqd.BoundPlugin{{Name: "p", Plugin: measured{panics: true}}}},
	}, issuer.Options{}))(t)
	var got []string
	is.Measure(func(bizType, plugin string, m seqd.Measurement) {
		if m.Gauge != seqd.GaugeStep || m.Value != 7 {
			t.Errorf("%s: %+v", bizType, m)
		}
		got = append(got, bizType+"/"+plugin)
	})
	slices.Sort(got)
	if want := []string{"a/", "b/", "b/p"}; !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
}

// took counts calls by strategy.
type took struct {
	seqd.NopObserver
	calls, ns atomic.Int64
}

func (l *took) Took(strategy string, ns int64) {
	if strategy == "s" {
		l.calls.Add(1)
		l.ns.Add(ns)
	}
}

// TestLatencyObserver: each call that reaches a biz type is told of, issued or refused, and no
// other.
func TestLatencyObserver(t *testing.T) {
	l := new(took)
	is := must.Get(issuer.New([]issuer.Definition{
		{BizType: seqd.BizType{Name: "a", Strategy: "s"}, Strategy: measured{}},
		{BizType: seqd.BizType{Name: "b", Strategy: "s"}, Strategy: measured{}, Plugins: []seqd.BoundPlugin{{Name: "p", Plugin: veto{}}}},
	}, issuer.Options{Observer: l}))(t)
	for _, bizType := range []string{"a", "b", "none"} {
		_, _ = is.Next(t.Context(), bizType, 1)
	}
	_, _ = is.Next(t.Context(), "a", 0)
	is.IssueAll(t.Context(), []*seqd.Call{{BizType: "none", Count: 1}, {BizType: "none", Count: 1}}, make([]error, 2))
	if l.calls.Load() != 2 || l.ns.Load() <= 0 {
		t.Errorf("told of %d calls that took %d ns", l.calls.Load(), l.ns.Load())
	}
}

// veto refuses everything.
type veto struct{ seqd.NopPlugin }

func (veto) Before(context.Context, *seqd.Call) error { return seqd.Errorf(seqd.CodeForbidden, "no") }

// events keeps what it is told.
type events struct {
	seqd.NopObserver
	all []seqd.Event
}

func (o *events) Event(e seqd.Event) { o.all = append(o.all, e) }

// refuses refuses what was issued.
type refuses struct{ seqd.NopPlugin }

var errRefuses = errors.New("no")

func (refuses) After(context.Context, *seqd.Call) error { return errRefuses }

// TestNumbersThatAPluginRefuses: they are abandoned.
func TestNumbersThatAPluginRefuses(t *testing.T) {
	o := &events{}
	is := must.Get(issuer.New([]issuer.Definition{
		{BizType: seqd.BizType{Name: "a", Strategy: "s"}, Strategy: measured{}, Plugins: []seqd.BoundPlugin{{Name: "p", Plugin: refuses{}}}},
	}, issuer.Options{Observer: o}))(t)
	if _, err := is.Next(t.Context(), "a", 3); err == nil {
		t.Error("the numbers were issued")
	}
	if len(o.all) != 1 || o.all[0].BizType != "a" || o.all[0].Kind != seqd.EventAbandoned || o.all[0].Numbers != 3 || !errors.Is(o.all[0].Err, errRefuses) {
		t.Errorf("events %+v", o.all)
	}
}
