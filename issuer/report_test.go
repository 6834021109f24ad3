package issuer_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// indiscreet is a strategy that issues, and panics when it is asked how it is.
type indiscreet struct{ counting }

func (*indiscreet) Health() error           { panic("how rude") }
func (*indiscreet) Degraded() *seqd.Error   { panic("how rude") }
func (*indiscreet) Details() map[string]any { panic("how rude") }

// vain is one that panics only when it is asked whether it is degraded.
type vain struct{ counting }

func (*vain) Degraded() *seqd.Error { panic("how rude") }

// Readiness, metrics and the list of nodes are asked for in the background, where a panic would end
// the process.
func TestReportsThatPanic(t *testing.T) {
	definitions := []issuer.Definition{
		{BizType: seqd.BizType{Name: "a", Strategy: "indiscreet"}, Strategy: &indiscreet{}},
		{BizType: seqd.BizType{Name: "b", Strategy: "vain"}, Strategy: &vain{}},
		{BizType: seqd.BizType{Name: "c", Strategy: "detailed"}, Strategy: &lasting{shelf: &shelf{}, details: map[string]any{"x": 1}}},
	}
	for _, name := range []string{"d", "e", "f", "g"} {
		definitions = append(definitions, issuer.Definition{
			BizType: seqd.BizType{Name: name}, Strategy: &lasting{shelf: &shelf{}, details: map[string]any{"x": 1}},
		})
	}
	is := must.Get(issuer.New(definitions, issuer.Options{Log: slog.New(slog.DiscardHandler)}))(t)
	is.Init(context.Background())
	if list := is.Details(4); len(list) != 4 || list[0].BizType != "c" || list[1].BizType != "d" || list[2].BizType != "e" || list[3].BizType != "f" {
		t.Errorf("details %+v", list)
	}
	if list, total := is.Health(10); total != 1 || list[0].BizType != "a" || list[0].Reason.Code != seqd.CodeInternal {
		t.Errorf("health %+v", list)
	}
	if list, total := is.Degraded(10); total != 1 || list[0].BizType != "b" || list[0].Reason.Code != seqd.CodeInternal {
		t.Errorf("degraded %+v", list)
	}
	is.States(func(issuer.State) {})
}

// TestStates: every biz type that there is is told of once, a disabled one too, and no other.
func TestStates(t *testing.T) {
	var definitions []issuer.Definition
	for _, name := range []string{"ready", "disabled", "gone", "late"} {
		definitions = append(definitions, issuer.Definition{BizType: seqd.BizType{Name: name, Strategy: "s"}, Strategy: measured{}})
	}
	is := must.Get(issuer.New(definitions, issuer.Options{}))(t)
	must.Get(is.Next(t.Context(), "ready", 1))(t)
	for name, why := range map[string]*seqd.Error{"disabled": seqd.Errorf(seqd.CodeDisabled, "no"), "gone": nil} {
		must.Do(t, is.Remove(t.Context(), name, why))
	}
	var got []string
	is.States(func(s issuer.State) {
		switch {
		case s.Disabled:
			got = append(got, s.BizType+" disabled")
		case s.Unready != nil:
			got = append(got, s.BizType+" "+string(s.Unready.Code))
		default:
			got = append(got, s.BizType)
		}
	})
	slices.Sort(got)
	if want := []string{"disabled disabled", "late starting", "ready"}; !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
}
