package issuer_test

import (
	"slices"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

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
