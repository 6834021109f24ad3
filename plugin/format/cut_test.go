package format

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// TestKeys checks which templates with a key are refused, and what the others show and read.
func TestKeys(t *testing.T) {
	for _, test := range []struct{ template, check, want string }{
		{"{key}-{seq:06}", "", "t.1-000042"},
		{"INV-{key}-{date:2006}-{seq:06}{check}", "luhn", "INV-t.1-2026-0000423"},
		{"{key}-{date:2006}{seq}", "", "t.1-202642"},
		{"{key}{date:2006-01-02}-{seq}", "", "t.12026-11-21-42"},
		{"{key}{date:2006-01-02}{seq}", "", "t.12026-11-2142"},
		{"{date:2006}{key}-{seq}", "", "2026t.1-42"},
		{"{seq}-{key}", "", "42-t.1"},
		{"{seq}{check}-{key}", "damm", "427-t.1"},
		{"{seq}7-{date:06}{key}{check}X", "mod97", "427-26t.132X"},
		{"{key}x{seq:r36}", "", "t.1x16"},
		{"{key}.{seq:r62}", "", "t.1.g"},
		{"{key}A{seq}", "", "t.1A42"},
		{"{key}A0{seq}", "", "t.1A042"},
		{"{key}{date:Jan}{seq}", "", "t.1Nov42"},
		{"{key}U{seq:r32}", "", "t.1U1A"},
	} {
		p := mustPlugin(t, Settings{test.template, test.check}, never(), 0)
		must.Equal(t, showKey(t, p, 0, "t.1", 42), test.want, "%s shows", test.template)
		if r, err := p.Read(t.Context(), test.want, seqd.Counter{}); err != nil || r.Shown != "42" || r.Key != "t.1" || r.Invalid {
			t.Errorf("%s: %s reads as %+v, %v", test.template, test.want, r, err)
		}
	}
	const one = "byte 0: nothing between {key} and {seq} shows where one ends and the other begins"
	for _, test := range []struct{ template, check, want string }{
		{"{key}{seq}", "", one + ", so IDs of two keys, such as a and a1, would be the same: put a sign that is no digit between them, as in {key}-{seq}"},
		{"{key}{seq:06}", "", one}, // a number that overflows its width is not cut
		{"{key}{seq:064}", "", one},
		{"{key}1{seq}", "", one},
		{"{key}007{seq:06}", "", one},
		{"{key}{date:20060102}{seq}", "", one},
		{"{key}A{seq:r16}", "", "put a sign that is no digit of radix 16 between them"},
		{"{key}x{seq:r62}", "", one},
		{"{key}-{date:PM}{seq:r16}", "", ""},
		{"{key}-{date:PM15}{seq:r16}", "", ""},
		{"{key}-{date:Jan02}{seq:r36}", "", ""},
		{"{seq:r16}{date:PM}-{key}", "", "byte 19: nothing"}, // an A is a digit, a P is none
		{"{seq}{key}", "", "byte 5: nothing between {seq} and {key} shows where one ends and the other begins, so IDs of two keys, such as a and 1a"},
		{"{seq}{check}{key}", "luhn", "byte 12: nothing"},
		{"{seq}{date:2006}{key}-", "", "byte 16: nothing"},
		{"-{seq:r36}Z{key}-", "", "byte 11: nothing"},
		{"{key}-{seq}-{key}", "", "byte 12: the template has this part already"},
		{"{key:06}-{seq}", "", `byte 0: "{key:06}" is not one of the parts`},
		{"{Key}-{seq}", "", `is not one of the parts {seq}, {seq:06}, {seq:r36}, {seq:08r32}, {date:2006} (the year), {date:20060102} (the day), {check} and {key}`},
	} {
		_, err := New(Settings{test.template, test.check}, calendar(t, seqd.ResetNever, "Europe/London"), 0, time.Now)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.template, err, test.want)
		}
	}
}

// TestReadKeys checks that a text that After never makes is refused.
func TestReadKeys(t *testing.T) {
	for template, ids := range map[string][]string{
		"{key}-{seq:03}": {
			"", "-", "a-", "-042", "a042", "a-42", "a-0042", ".a-042", "-a-042", "a/b-042", "a b-042", "é-042", "a-042-", "a-04x",
			strings.Repeat("k", 65) + "-042",
		},
		"{seq}-{key}":    {"", "-", "1-", "-a", "01-a", "1--a", "1-a/", "1-.a", "1a", "x-a", "1-" + strings.Repeat("k", 65)},
		"A{key}x1{seq}Z": {"Aax12", "Aax1Z", "Ax11Z", "AaxZ", "Aax22Z", "Bax12Z", "Aax12z", "AZ", "AaxZ"},
	} {
		p := mustPlugin(t, Settings{Template: template}, never(), 0)
		for _, id := range ids {
			must.Code(t, must.Err(p.Read(t.Context(), id, seqd.Counter{})), seqd.CodeInvalidID, "%s reads %q", template, id)
		}
	}
	long := strings.Repeat("k", 64)
	p := mustPlugin(t, Settings{Template: "{key}-{seq:03}"}, never(), 0)
	if r, err := p.Read(t.Context(), long+"-042", seqd.Counter{}); err != nil || r.Key != long {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestNoKey checks that numbers without a key are not shown by a template that shows it.
func TestNoKey(t *testing.T) {
	p := mustPlugin(t, Settings{Template: "{key}-{seq}"}, never(), 0)
	call := seqd.Call{Count: 1}
	call.Sequence.Add(1, 1, 1)
	if err := p.After(t.Context(), &call); err == nil {
		t.Errorf("shown as %v", call.Sequence.IDs())
	}
}

// keyedSettings are settings of a strategy.
type keyedSettings struct{ keyed bool }

func (k keyedSettings) Traits() seqd.Traits { return seqd.Traits{Keyed: k.keyed} }

// TestKeyFits checks that a template shows the key only if there is one.
func TestKeyFits(t *testing.T) {
	for _, test := range []struct {
		template, want string
		keyed          bool
	}{
		{"{key}-{seq}", "", true}, {"{seq}", "", true}, {"{seq}", "", false},
		{"A-{key}-{seq}", "byte 2: {key} has nothing to show, because order is not keyed: set keyed: true for it, or leave {key} out", false},
		{"A-{key}{seq}", "byte 2: nothing between {key} and {seq}", true},
	} {
		s := &Settings{Template: test.template}
		b := seqd.BizType{Name: "order", Settings: keyedSettings{test.keyed}, Plugins: []seqd.PluginBinding{{Name: name, Order: 200, Settings: s}}}
		problems := s.fits(b, b.Plugins[0])
		if good := test.want == ""; good != (len(problems) == 0) || !good && (len(problems) != 1 || !strings.HasPrefix(problems[0].Text, test.want)) {
			t.Errorf("%s, keyed %v: %v, want %q", test.template, test.keyed, problems, test.want)
		}
	}
}

// TestMade checks that dates show when the numbers were made, and that the dates of numbers that
// reset are those of their period.
func TestMade(t *testing.T) {
	made := time.Date(2025, 1, 2, 23, 59, 59, 999, time.UTC)
	for _, test := range []struct {
		reset  seqd.Reset
		made   time.Time
		period seqd.Period
		want   string
	}{
		{seqd.ResetNever, made, 0, "20250102-7"}, {seqd.ResetNever, time.Time{}, 0, "20261121-7"}, {seqd.ResetNever, made.Add(time.Second), 0, "20250103-7"},
		{seqd.ResetDaily, made, 20261121, "20261121-7"}, {seqd.ResetNever, made.AddDate(-100, 0, 0), 0, ""},
	} {
		p := mustPlugin(t, Settings{Template: "{date:20060102}-{seq}"}, calendar(t, test.reset, "UTC"), 0)
		for range 2 { // the second time from the frame that was kept
			call := seqd.Call{Count: 1}
			call.Sequence.Add(7, 1, 1)
			call.Sequence.In(test.period)
			call.Sequence.MadeAt(test.made)
			err := p.After(t.Context(), &call)
			if test.want == "" && seqd.CodeOf(err) != seqd.CodeClockRollback || test.want != "" && (err != nil || call.Sequence.IDs()[0] != test.want) {
				t.Errorf("%s, made %s: %v, %v, want %s", test.reset, test.made, call.Sequence.IDs(), err, test.want)
			}
		}
	}
}

// TestRefusedAreAmbiguous checks that no more is refused than has to be: for a template of a key, a
// number and text that is refused, it makes two numbers with the same ID.
func TestRefusedAreAmbiguous(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 40))
	refused := 0
	for range 2000 {
		n, text := numeral{1 + r.IntN(3), alphabets[[]int{10, 16, 32, 36, 62}[r.IntN(5)]]}, ""
		for range r.IntN(3) {
			text += []string{"1", "A", "z", "-", "U", "0"}[r.IntN(6)]
		}
		keyFirst := r.IntN(2) == 0
		shown := fmt.Sprintf("{seq:0%dr%d}", n.width, len(n.alphabet))
		template := shown + text + "{key}"
		if keyFirst {
			template = "{key}" + text + shown
		}
		if _, err := New(Settings{Template: template}, never(), 0, time.Now); err == nil {
			continue
		}
		refused++
		// a, text, 1, text, 111 with the first or the second text between key and number
		key, number := "a"+text+"1", "111"
		other, long := "a", "1"+text+"111"
		if !keyFirst {
			key, number = "1"+text+"a", "111"
			other, long = "a", "111"+text+"1"
		}
		p := &Plugin{numeral: n}
		one, ok := n.parse(number)
		two, both := n.parse(long)
		if !ok || !both {
			t.Fatalf("%s is refused, but %s is no number", template, long)
		}
		ids := [2]string{string(p.numeral.append(nil, one)) + text + key, string(p.numeral.append(nil, two)) + text + other}
		if keyFirst {
			ids = [2]string{key + text + string(p.numeral.append(nil, one)), other + text + string(p.numeral.append(nil, two))}
		}
		if ids[0] != ids[1] {
			t.Fatalf("%s is refused, but shows %v", template, ids)
		}
	}
	if refused < 300 {
		t.Errorf("only %d were refused", refused)
	}
}
