package issuer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// keyedSettings are settings of a biz type that counts for each key.
type keyedSettings struct{ keyed bool }

func (s keyedSettings) Traits() seqd.Traits { return seqd.Traits{Keyed: s.keyed} }

// book is a Ledger with one reservation at most.
type book struct {
	gaps   []seqd.NumberGap // of the account
	period seqd.Period      // of what is reserved
	counting
	orders   []seqd.Order
	keys     []string
	answers  map[string]int64 // by Order.Once
	returned []int64
	released []seqd.Settlement
	voided   []seqd.Voiding
	reserved []int64
}

var _ seqd.Ledger = (*book)(nil)

func (*book) Reclaim(context.Context, string, seqd.Period) error { return nil }
func (*book) OnExpired(func(seqd.Expiry))                        {}

func (b *book) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	b.keys = append(b.keys, seq.Key())
	return b.counting.Generate(ctx, n, seq)
}

func (b *book) HandOut(ctx context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
	b.orders, b.keys = append(b.orders, o), append(b.keys, seq.Key())
	if first, known := b.answers[o.Once]; known {
		seq.Add(first, o.Count, 1)
		return r, true, nil
	}
	if err := b.counting.Generate(ctx, o.Count, seq); err != nil {
		return r, false, err
	}
	if o.Once != "" {
		b.answers = map[string]int64{o.Once: seq.First()}
	}
	if o.Reserve {
		b.reserved = slices.Collect(seq.Numbers())
		r = seqd.Reservation{ID: "r1", Key: seq.Key(), State: seqd.Reserved, ExpiresAt: time.Unix(int64(o.TTL.Seconds()), 0)}
	}
	return r, false, nil
}

func (b *book) Return(numbers *seqd.Sequence, _ error) {
	b.returned = slices.AppendSeq(b.returned, numbers.Numbers())
	b.keys = append(b.keys, numbers.Key())
}

func (b *book) Find(_ context.Context, id string, seq *seqd.Sequence) (seqd.Reservation, error) {
	if id != "r1" || b.reserved == nil {
		return seqd.Reservation{}, seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %s", id)
	}
	seq.In(b.period)
	seq.Add(b.reserved[0], len(b.reserved), 1)
	return seqd.Reservation{ID: id, State: seqd.Reserved}, nil
}

func (b *book) Confirm(ctx context.Context, s seqd.Settlement, seq *seqd.Sequence) (seqd.Reservation, error) {
	r, err := b.Find(ctx, s.ID, seq)
	r.State = seqd.Confirmed
	return r, err
}

func (b *book) Release(_ context.Context, s seqd.Settlement) error {
	b.released = append(b.released, s)
	return nil
}

func (b *book) Void(_ context.Context, v seqd.Voiding) error {
	b.voided = append(b.voided, v)
	return nil
}

func (b *book) Account(_ context.Context, q seqd.AccountQuery) (seqd.Account, error) {
	return seqd.Account{First: 1, Last: b.last.Load(), Gaps: b.gaps, Next: q.After}, nil
}

func (b *book) Keys(_ context.Context, after string, limit int) ([]string, error) {
	return []string{after, fmt.Sprint(limit)}, nil
}

// invoices is an issuer with a keyed biz type of a ledger.
func invoices(t *testing.T, b *book, keyed bool, plugins ...seqd.BoundPlugin) (*issuer.Issuer, *tally) {
	t.Helper()
	observed := &tally{}
	d := order(b, plugins...)
	d.BizType.Settings = keyedSettings{keyed}
	return newIssuer(t, issuer.Options{Observer: observed}, d), observed
}

func TestCheckKey(t *testing.T) {
	for _, good := range []string{"a", "0", "tenant-42", "A.b_c-d", string(slices.Repeat([]byte("k"), seqd.MaxKeyLength))} {
		if err := seqd.CheckKey(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", ".a", "_a", "a/b", "a b", "a@b", "é", "a\x00", string(slices.Repeat([]byte("k"), seqd.MaxKeyLength+1))} {
		must.Code(t, seqd.CheckKey(bad), seqd.CodeInvalidKey)
	}
	must.Equal(t, seqd.CounterOf("invoice", "tenant-42"), "invoice/tenant-42")
	must.Equal(t, seqd.CounterOf("invoice", ""), "invoice")
	for id, want := range map[string]string{"4f3a": "", "4f3a.2026": "", "4f3a..k1": "k1", "4f3a.2026.k.1": "k.1"} {
		must.Equal(t, seqd.ReservationKey(id), want, "the key of %s", id)
	}
}

// TestKeys checks that a call names a key exactly if its biz type is keyed, and that the strategy
// gets it, also in a pipeline.
func TestKeys(t *testing.T) {
	ctx := t.Context()
	b := &book{}
	is, _ := invoices(t, b, true)
	for _, key := range []string{"", "/", "-x"} {
		must.Code(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Key: key}), seqd.CodeInvalidKey)
	}
	call := &seqd.Call{BizType: "order", Count: 1, Key: "a"}
	if err := is.Issue(ctx, call); err != nil || call.Sequence.Key() != "a" {
		t.Fatalf("%v, key %q", err, call.Sequence.Key())
	}
	calls := make([]*seqd.Call, 5)
	for k, key := range []string{"a", "a", "b", "", "a"} {
		calls[k] = &seqd.Call{BizType: "order", Count: 1, Key: key}
	}
	errs := make([]error, len(calls))
	is.IssueAll(ctx, calls, errs)
	for k, call := range calls {
		if call.Key == "" {
			must.Code(t, errs[k], seqd.CodeInvalidKey)
		} else if errs[k] != nil || call.Sequence.Key() != call.Key || call.Sequence.Len() != 1 {
			t.Errorf("call %d: %v, %d numbers of %q", k, errs[k], call.Sequence.Len(), call.Sequence.Key())
		}
	}
	if want := []string{"a", "a", "b", "a"}; !slices.Equal(b.keys, want) {
		t.Errorf("the strategy was asked for %q, want %q", b.keys, want)
	}
	if keys, err := is.Keys(ctx, "order", "a", 7); err != nil || !slices.Equal(keys, []string{"a", "7"}) {
		t.Error(keys, err)
	}

	plain, _ := invoices(t, &book{}, false)
	must.Code(t, plain.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Key: "a"}), seqd.CodeInvalidKey)
	must.Code(t, must.Err(plain.Account(ctx, "order", seqd.AccountQuery{Key: "a", Limit: 1})), seqd.CodeInvalidKey)
	must.Code(t, must.Err(plain.ParseOf(ctx, "order", "1", "a")), seqd.CodeInvalidKey)
	must.Code(t, must.Err(plain.Keys(ctx, "order", "", 1)), seqd.CodeInvalidRequest)
	none, errs := []*seqd.Call{{BizType: "order", Count: 1}, {BizType: "order", Count: 1}}, make([]error, 2)
	is.IssueAll(t.Context(), none, errs)
	for _, err := range errs {
		must.Code(t, err, seqd.CodeInvalidKey)
	}
}

// TestReserve checks what a reservation passes to the ledger and back.
func TestReserve(t *testing.T) {
	ctx := t.Context()
	b := &book{}
	is, _ := invoices(t, b, false, seqd.BoundPlugin{Name: "show", Rewrites: true, Quick: true, Plugin: &hooks{after: prefix("INV-")}})
	call := &seqd.Call{BizType: "order", Count: 2, Want: seqd.ReservedNumbers, TTL: time.Minute, Caller: seqd.Caller{Name: "shop"}}
	must.Do(t, is.Issue(ctx, call))
	if got := call.Sequence.IDs(); !slices.Equal(got, []string{"INV-1", "INV-2"}) || call.Reservation.ID != "r1" {
		t.Errorf("%q, %+v", got, call.Reservation)
	}
	if o := b.orders[0]; !o.Reserve || o.TTL != time.Minute || o.Caller.Name != "shop" || o.Count != 2 {
		t.Errorf("%+v", o)
	}
	for name, do := range map[string]func(*seqd.Call) error{
		"find":    func(c *seqd.Call) error { return is.Find(ctx, c, "r1") },
		"confirm": func(c *seqd.Call) error { return is.Confirm(ctx, c, "r1", false) },
	} {
		call := &seqd.Call{BizType: "order"}
		if err := do(call); err != nil || !call.Replayed || !slices.Equal(call.Sequence.IDs(), []string{"INV-1", "INV-2"}) {
			t.Errorf("%s: %v, %q", name, err, call.Sequence.IDs())
		}
	}
	b.period = 20261120 // such numbers may look like others now
	if err := is.Find(ctx, call, "r1"); err != nil || call.Sequence.Len() > 0 || call.Replayed {
		t.Errorf("numbers of another reset: %v, %q", err, call.Sequence.IDs())
	}
	must.Code(t, is.Find(ctx, &seqd.Call{BizType: "order"}, "r2"), seqd.CodeUnknownReservation)
	must.Code(t, is.Find(ctx, &seqd.Call{BizType: "other"}, "r1"), seqd.CodeUnknownBizType)

	other := newIssuer(t, issuer.Options{}, order(&counting{}))
	must.Code(t, other.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Want: seqd.ReservedNumbers}), seqd.CodeInvalidRequest)
	must.Code(t, other.Confirm(ctx, &seqd.Call{BizType: "order"}, "r1", false), seqd.CodeInvalidRequest)
	if other.KeepsAnswers("order") || !is.KeepsAnswers("order") || is.KeepsAnswers("other") {
		t.Error("KeepsAnswers is wrong")
	}
}

// TestReturn checks that numbers of a ledger that no caller was told go back.
func TestReturn(t *testing.T) {
	ctx := t.Context()
	broken := errors.New("broken")
	b := &book{}
	fail := seqd.BoundPlugin{Name: "fail", Quick: true, Plugin: &hooks{after: func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Reset() // the numbers go back all the same
		return broken
	}}}
	is, observed := invoices(t, b, true, fail)
	must.Code(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 3, Key: "a"}), seqd.CodeInternal)
	if want := []int64{1, 2, 3}; !slices.Equal(b.returned, want) || b.keys[len(b.keys)-1] != "a" {
		t.Errorf("returned %v for %q", b.returned, b.keys)
	}
	must.Code(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Key: "a", Want: seqd.ReservedNumbers}), seqd.CodeInternal)
	if len(b.released) != 1 || b.released[0].ID != "r1" || !b.released[0].Admin || len(b.returned) != 3 {
		t.Errorf("released %+v, returned %v", b.released, b.returned)
	}
	// A repeated request gets what its key has: it must not go back.
	must.Code(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Key: "a", Once: "x"}), seqd.CodeInternal)
	if len(b.returned) != 3 || len(b.released) != 1 || observed.issued.Load() != 0 {
		t.Errorf("returned %v, released %+v, issued %d", b.returned, b.released, observed.issued.Load())
	}
	calls := []*seqd.Call{{BizType: "order", Count: 1, Key: "b"}, {BizType: "order", Count: 1, Key: "b"}}
	is.IssueAll(ctx, calls, make([]error, 2))
	if want := []int64{1, 2, 3, 6, 7}; !slices.Equal(b.returned, want) {
		t.Errorf("after a pipeline: returned %v, want %v", b.returned, want)
	}
}

// replacedBook is a ledger that another one replaces while it is asked for a reservation.
type replacedBook struct {
	book
	replace func()
}

func (b *replacedBook) Find(context.Context, string, *seqd.Sequence) (r seqd.Reservation, _ error) {
	b.replace()
	return r, seqd.Errorf(seqd.CodeStopping, "closed")
}

// TestReplacedLedger checks that a request goes on with the ledger that takes the place of its own.
func TestReplacedLedger(t *testing.T) {
	first := &replacedBook{replace: func() {}}
	is := newIssuer(t, issuer.Options{}, order(first))
	call := &seqd.Call{BizType: "order"}
	must.Code(t, is.Find(t.Context(), call, "r1"), seqd.CodeStopping)
	first.replace = func() { put(t, is, &book{reserved: []int64{4}}) }
	if err := is.Find(t.Context(), call, "r1"); err != nil || call.Sequence.First() != 4 {
		t.Errorf("%d, %v", call.Sequence.First(), err)
	}
}

// TestReplay checks that a repeated request runs only the plugins that change how numbers are
// shown, and counts nothing.
func TestReplay(t *testing.T) {
	ctx := t.Context()
	ran := 0
	count := seqd.BoundPlugin{Name: "count", Order: 2, Quick: true, Plugin: &hooks{after: func(context.Context, *seqd.Call) error { ran++; return nil }}}
	show := seqd.BoundPlugin{Name: "show", Order: 1, Rewrites: true, Plugin: &hooks{after: prefix("INV-")}}
	is, observed := invoices(t, &book{}, false, count, show)
	call := &seqd.Call{BizType: "order"}
	for k := range 3 {
		call.Count, call.Once = 1, "x"
		if err := is.Issue(ctx, call); err != nil || call.Replayed != (k > 0) || call.Sequence.IDs()[0] != "INV-1" {
			t.Errorf("%d: %v, replayed %v, %q", k, err, call.Replayed, call.Sequence.IDs())
		}
	}
	if ran != 1 || observed.issued.Load() != 1 {
		t.Errorf("the plugin ran %d times, %d numbers were counted", ran, observed.issued.Load())
	}
	other := newIssuer(t, issuer.Options{}, order(&counting{}))
	must.Code(t, other.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Once: "x"}), seqd.CodeStarting)
	full := seqd.Errorf(seqd.CodeOverloaded, "too much is kept")
	must.Code(t, other.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Once: "x", AnswerKept: true, NoAnswer: full}), full.Code)

	// A caller who would keep the answer learns whether the ledger has.
	for biz, is := range map[string]*issuer.Issuer{"with the ledger": is, "": other} {
		call := &seqd.Call{BizType: "order", Count: 1, Once: "y", AnswerKept: true}
		if err := is.Issue(ctx, call); err != nil || call.AnswerKept != (biz == "") {
			t.Errorf("%v, kept by the caller: %v, want it kept %s", err, call.AnswerKept, cmp.Or(biz, "by the caller"))
		}
	}
}

// reshaped is the claim of a biz type that had another shape.
type reshaped struct{}

func (reshaped) Check(context.Context) (bool, error) { return false, nil }
func (reshaped) Record(context.Context) error        { return nil }
func (reshaped) Reshaped() bool                      { return true }

// TestRecall checks that a biz type which had another shape looks for what was given then, and
// issues for a repeated request only if its caller looks where it keeps answers.
func TestRecall(t *testing.T) {
	ctx := t.Context()
	for name, strategy := range map[string]seqd.Strategy{"ledger": &book{}, "other": &counting{}} {
		d := order(strategy)
		d.Claim = reshaped{}
		d.Recall = func(_ context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
			switch o.Once {
			case "of a day":
				seq.In(20261120)
				fallthrough
			case "given":
				seq.Add(900, o.Count, 1)
				return r, true, nil
			}
			return r, false, nil
		}
		is := newIssuer(t, issuer.Options{}, d)
		if is.KeepsAnswers("order") {
			t.Errorf("%s: it has all answers", name)
		}
		must.Code(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Once: "given"}), seqd.CodeStarting)
		err := is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Once: "of a day", AnswerKept: true})
		if must.Code(t, err, seqd.CodeConflict, name); !strings.Contains(err.Error(), "from 900 on of 2026-11-20") {
			t.Errorf("%s: %v", name, err)
		}
		for once, want := range map[string]int64{"given": 900, "new": 1} {
			call := &seqd.Call{BizType: "order", Count: 1, Once: once, AnswerKept: true}
			if err := is.Issue(ctx, call); err != nil || call.Sequence.First() != want || call.Replayed != (want == 900) {
				t.Errorf("%s, %s: %v, %v, replayed: %v", name, once, err, call.Sequence.IDs(), call.Replayed)
			}
			// what was found stays where it is: only there is known whether the numbers still are
			// the request's
			if kept := name == "other" && once == "new"; call.AnswerKept != kept {
				t.Errorf("%s, %s: kept by the caller: %v", name, once, call.AnswerKept)
			}
		}
		if name == "ledger" { // a request that is not repeated needs no earlier answers
			must.Report(t, is.Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Want: seqd.ReservedNumbers}))
		}
		d = order(&counting{})
		d.Follows = func(context.Context) error { panic("no") }
		must.Code(t, newIssuer(t, issuer.Options{}, d).Issue(ctx, &seqd.Call{BizType: "order", Count: 1, Once: "x", AnswerKept: true}), seqd.CodeInternal)
	}
}

// TestVoid checks that an ID names the number, and that what it does not show comes from the
// caller.
func TestVoid(t *testing.T) {
	ctx := t.Context()
	b := &book{}
	read := func(shown string) (seqd.Reading, error) {
		switch shown {
		case "k":
			return seqd.Reading{Shown: "7", Key: "a", Period: 20260000}, nil
		case "wrong":
			return seqd.Reading{Shown: "7", Invalid: true}, nil
		}
		return seqd.Reading{Shown: shown}, nil
	}
	is, _ := invoices(t, b, true, seqd.BoundPlugin{Name: "show", Rewrites: true, Plugin: &reading{hooks{read: read}}})
	for _, test := range []struct {
		id   string
		v    seqd.Voiding
		want seqd.Code
	}{
		{id: "k"},
		{id: "k", v: seqd.Voiding{Key: "a", Period: 20260000}},
		{id: "7", v: seqd.Voiding{Key: "a", Period: 20260000}},
		{id: "7", want: seqd.CodeInvalidKey},
		{id: "k", v: seqd.Voiding{Key: "b"}, want: seqd.CodeInvalidKey},
		{id: "k", v: seqd.Voiding{Period: 20250000}, want: seqd.CodeInvalidRequest},
		{id: "wrong", v: seqd.Voiding{Key: "a"}, want: seqd.CodeInvalidID},
		{id: "x", v: seqd.Voiding{Key: "a"}, want: seqd.CodeInvalidID},
	} {
		b.voided = nil
		err := is.Void(ctx, "order", test.id, test.v)
		if test.want != "" {
			must.Code(t, err, test.want)
			continue
		}
		if want := (seqd.Voiding{Key: "a", Period: 20260000, Number: 7}); err != nil || !slices.Equal(b.voided, []seqd.Voiding{want}) {
			t.Errorf("%+v: %v, %+v", test, err, b.voided)
		}
	}
	must.Code(t, must.Err(is.Account(ctx, "order", seqd.AccountQuery{})), seqd.CodeInvalidKey)
	if a, err := is.Account(ctx, "order", seqd.AccountQuery{Key: "a", After: 5}); err != nil || a.Next != 5 {
		t.Error(a, err)
	}
}

func TestSplitCounter(t *testing.T) {
	for name, want := range map[string]struct {
		bizType, key, digits string
		ok                   bool
	}{
		"order": {"order", "", "", true}, "order@2026": {"order", "", "2026", true},
		"order/t-1.x_": {"order", "t-1.x_", "", true}, "order/t@20261120": {"order", "t", "20261120", true},
		"order/": {"order", "", "", false}, "order/@2026": {"order", "", "2026", false}, "order@": {"order", "", "", false},
		"order/t@": {"order", "t", "", false}, "": {"", "", "", false}, "@2026": {"", "", "2026", false}, "/t": {"", "t", "", false},
	} {
		bizType, key, digits, ok := seqd.SplitCounter(name)
		if bizType != want.bizType || key != want.key || digits != want.digits || ok != want.ok {
			t.Errorf("%q: %q, %q, %q, %t", name, bizType, key, digits, ok)
		}
		if made := seqd.CounterOf(bizType, key); ok && digits == "" && made != name {
			t.Errorf("%q is made into %q", name, made)
		}
	}
	name := seqd.Period(20261100).Counter(seqd.CounterOf("order", "t"))
	_, key, digits, ok := seqd.SplitCounter(name)
	period, read := seqd.ResetMonthly.Parse(digits)
	if !ok || !read || key != "t" || period != 20261100 {
		t.Errorf("%q: %q, %v, %t, %t", name, key, period, ok, read)
	}
}

// TestAccountIDs checks that gaps have the IDs of their key, unless these show when they were made.
func TestAccountIDs(t *testing.T) {
	for name, c := range map[string]struct {
		show func(*seqd.Call) string
		want string
	}{
		"by key": {func(c *seqd.Call) string { return c.Sequence.Key() + "-" }, "de-"},
		"by day": {func(c *seqd.Call) string { return c.Sequence.Made().Format("01-") }, ""},
		"not":    {func(*seqd.Call) string { return "" }, ""},
	} {
		shown := &hooks{after: func(ctx context.Context, call *seqd.Call) error {
			if name == "not" {
				return errOff
			}
			return prefix(c.show(call))(ctx, call)
		}}
		counted := &hooks{after: func(context.Context, *seqd.Call) error { t.Error("a plugin that shows nothing ran"); return nil }}
		is, _ := invoices(t, &book{gaps: []seqd.NumberGap{{From: 2, To: 4}}}, true, seqd.BoundPlugin{Name: "show", Rewrites: true, Quick: true, Plugin: shown},
			seqd.BoundPlugin{Name: "count", Quick: true, Plugin: counted})
		a, err := is.Account(t.Context(), "order", seqd.AccountQuery{Key: "de", Limit: 10})
		if err != nil || len(a.Gaps) == 0 {
			t.Fatalf("%s: %+v, %v", name, a, err)
		}
		g, from, to := a.Gaps[0], "", ""
		if c.want != "" {
			from, to = fmt.Sprint(c.want, g.From), fmt.Sprint(c.want, g.To)
		}
		if g.FromID != from || g.ToID != to {
			t.Errorf("%s: %+v", name, g)
		}
	}
}
