package seqd_test

import (
	"slices"
	"testing"

	"github.com/seqd/seqd"
)

// TestStates: every biz type that there is is told of once, a disabled one too, and no other.
func TestStates(t *testing.T) {
	var definitions []seqd.Definition
	for _, name := range []string{"ready", "disabled", "gone", "late"} {
		definitions = append(definitions, seqd.Definition{BizType: seqd.BizType{Name: name, Strategy: "s"}, Strategy: measured{}})
	}
	is, err := seqd.NewIssuer(definitions, seqd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := is.Next(t.Context(), "ready", 1); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]*seqd.Error{"disabled": seqd.Errorf(seqd.CodeDisabled, "no"), "gone": nil} {
		if err := is.Remove(t.Context(), name, why); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	is.States(func(s seqd.State) {
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
