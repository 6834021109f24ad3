package issuer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// Which numbers a biz type can give depends on its strategy, and on its plugins if they are a
// range.
func TestWant(t *testing.T) {
	blind := seqd.BoundPlugin{Name: "blind", Ranges: true, Quick: true, Plugin: seqd.NopPlugin{}}
	sees := seqd.BoundPlugin{Name: "sees", Quick: true, Plugin: seqd.NopPlugin{}}
	tests := map[string]struct {
		strategy seqd.Strategy
		plugins  []seqd.BoundPlugin
		want     seqd.Want
		count    int
		got      int
		code     seqd.Code
	}{
		"any":                              {&counting{}, nil, seqd.AnyNumbers, 3, 3, ""},
		"no such kind":                     {&counting{}, nil, seqd.ReservedNumbers + 1, 1, 0, seqd.CodeInvalidRequest},
		"none are reserved":                {&counting{}, nil, seqd.ReservedNumbers, 1, 0, seqd.CodeInvalidRequest},
		"one is always consecutive":        {&counting{}, nil, seqd.Consecutive, 1, 1, ""},
		"not consecutive":                  {&counting{}, nil, seqd.Consecutive, 2, 0, seqd.CodeInvalidRequest},
		"consecutive":                      {&supply{left: 99}, nil, seqd.Consecutive, 9, 9, ""},
		"consecutive, with a plugin":       {&supply{left: 99}, []seqd.BoundPlugin{sees}, seqd.Consecutive, 9, 9, ""},
		"consecutive of nothing":           {&supply{left: 99}, nil, seqd.Consecutive, 0, 0, seqd.CodeInvalidCount},
		"too many consecutive":             {&supply{left: 99}, nil, seqd.Consecutive, seqd.MaxCount + 1, 0, seqd.CodeInvalidCount},
		"one of many apart":                {&supply{left: 99}, nil, seqd.Consecutive, 1, 1, ""},
		"many apart":                       {&supply{left: 99}, nil, seqd.Consecutive, 2, 0, seqd.CodeInvalidRequest},
		"a broken run":                     {&broken{}, nil, seqd.Consecutive, 3, 0, seqd.CodeInternal},
		"a range":                          {&supply{}, nil, seqd.OneRange, seqd.MaxCount, seqd.MaxCount, ""},
		"a range, with a plugin":           {&supply{}, []seqd.BoundPlugin{blind}, seqd.OneRange, 5, 5, ""},
		"a step":                           {&supply{}, []seqd.BoundPlugin{blind}, seqd.OneRange, 0, 7, ""},
		"a range that is too large":        {&supply{}, nil, seqd.OneRange, seqd.MaxCount + 1, 0, seqd.CodeInvalidCount},
		"a range that is negative":         {&supply{}, nil, seqd.OneRange, -1, 0, seqd.CodeInvalidCount},
		"no ranges":                        {&counting{}, nil, seqd.OneRange, 5, 0, seqd.CodeInvalidRequest},
		"a plugin that needs every number": {&supply{}, []seqd.BoundPlugin{blind, sees}, seqd.OneRange, 5, 0, seqd.CodeInvalidRequest},
		"a broken range":                   {&broken{}, nil, seqd.OneRange, 5, 0, seqd.CodeInternal},
		"a short range":                    {&broken{short: true}, nil, seqd.OneRange, 5, 0, seqd.CodeInternal},
		"an empty range":                   {&broken{empty: true}, nil, seqd.OneRange, 0, 0, seqd.CodeInternal},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := &losses{}
			d := order(test.strategy, test.plugins...)
			if strings.HasSuffix(name, "apart") {
				d.BizType.Settings = apart{}
			}
			is := newIssuer(t, issuer.Options{Observer: o}, d)
			call := &seqd.Call{BizType: "order", Count: test.count, Want: test.want, Reservation: seqd.Reservation{ID: "of before"}}
			must.Code(t, is.Issue(t.Context(), call), test.code)
			if call.Reservation.ID != "" || call.Sequence.Len() != test.got || o.issued.Load() != int64(test.got) || call.Count != test.count || call.Want != test.want {
				t.Errorf("got %d numbers, %d were observed, and the call is %d %d", call.Sequence.Len(), o.issued.Load(), call.Count, call.Want)
			}
		})
	}
}

// broken is a strategy that does not keep its promises.
type broken struct {
	counting
	short, empty bool
}

func (b *broken) GenerateConsecutive(_ context.Context, n int, seq *seqd.Sequence) error {
	for k := range n {
		seq.Add(int64(10*k+1), 1, 1)
	}
	return nil
}

func (b *broken) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	switch {
	case b.empty:
		return nil
	case b.short:
		return b.Generate(ctx, int(n)-1, seq)
	}
	return b.GenerateConsecutive(ctx, int(n), seq)
}

// A plugin of a biz type that hands out ranges sees how many numbers it has.
func TestPluginSeesTheSizeOfARange(t *testing.T) {
	var before, after int
	h := &hooks{
		before: func(_ context.Context, call *seqd.Call) error { before = call.Count; return nil },
		after: func(_ context.Context, call *seqd.Call) error {
			if after = call.Count; call.Want != seqd.OneRange {
				return errors.New("no range")
			}
			return nil
		},
	}
	is := newIssuer(t, issuer.Options{}, order(&supply{}, seqd.BoundPlugin{Ranges: true, Plugin: h}))
	call := &seqd.Call{BizType: "order", Want: seqd.OneRange}
	if err := is.Issue(t.Context(), call); err != nil || before != 0 || after != 7 {
		t.Errorf("the plugin saw %d, then %d; %v", before, after, err)
	}
}

// apart is settings of a biz type whose numbers are 3 apart.
type apart struct{ last int64 }

func (a apart) Traits() seqd.Traits {
	return seqd.Traits{Increment: 3, Offset: 1, First: 4, Last: a.last}
}

// TestPlain checks what is known of a biz type before it issues.
func TestPlain(t *testing.T) {
	rewrites := seqd.BoundPlugin{Name: "rewrites", Rewrites: true, Quick: true, Plugin: seqd.NopPlugin{}}
	counts := seqd.BoundPlugin{Name: "counts", Quick: true, Plugin: seqd.NopPlugin{}}
	shown := order(&counting{}, counts, rewrites)
	shown.BizType.Name, shown.BizType.Settings = "shown", apart{seqd.MaxNumber}
	large := order(&counting{})
	large.BizType.Name, large.BizType.Settings = "large", apart{seqd.MaxNumber + 1}
	off := order(&counting{})
	off.BizType.Name, off.Disabled = "off", seqd.Errorf(seqd.CodeDisabled, "off")
	is := newIssuer(t, issuer.Options{}, order(&counting{}, counts), shown, large, off)
	check := func(name string, want bool, apart int64, code seqd.Code) {
		t.Helper()
		form, err := is.Form(name)
		must.Code(t, err, code)
		must.Equal(t, form.Plain, want, "%s is plain", name)
		if form.Exact != (code == "" && name != "large") {
			t.Errorf("no number of %s is above 2^53: %t", name, form.Exact)
		}
		increment, err := is.Increment(name)
		must.Code(t, err, code)
		must.Equal(t, increment, apart, "how far the numbers of %s are apart", name)
	}
	check("order", true, 1, "")
	check("shown", false, 3, "")
	check("large", true, 3, "")
	check("off", false, 0, seqd.CodeDisabled)
	check("other", false, 0, seqd.CodeUnknownBizType)
	check("no/name", false, 0, seqd.CodeInvalidBizType)
	put(t, is, &counting{}, rewrites)
	check("order", false, 1, "")
}
