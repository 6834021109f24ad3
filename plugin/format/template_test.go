package format

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestTemplateErrors(t *testing.T) {
	for _, test := range []struct{ template, check, key, want string }{
		{"", "", "template", "byte 0: the template ends without {seq}"},
		{"INV-", "", "template", "byte 4: the template ends without {seq}"},
		{"{seq}{seq}", "", "template", "byte 5: the template has this part already"},
		{"{seq}{check}-{check}", "luhn", "template", "byte 13: the template has this part already"},
		{"A{check}{seq}", "luhn", "template", "byte 1: {check} is before {seq}"},
		{"{seq}{check}", "", "template", "byte 5: {check} needs an algorithm"},
		{"{seq}", "damm", "template", "byte 5: the template ends without {check}, and check is damm"},
		{"{seq}{check}", "crc", "check", `"crc" is not one of ["luhn" "damm" "mod97"]`},
		{"{seq:r36}{check}", "luhn", "check", "luhn counts decimal digits only"},
		{"{seq:08r16}{check}", "damm", "check", "in radix 16"},
		{"{seq}/{seq}", "", "template", `byte 5: "/" cannot stand in an ID`},
		{"A B{seq}", "", "template", `byte 1: " " cannot`},
		{"{seq}\n", "", "template", `byte 5: "\n" cannot`},
		{"é{seq}", "", "template", `byte 0: "\xc3" cannot`},
		{"{seq}\x7f", "", "template", `byte 5: "\x7f" cannot`},
		{`"{seq}`, "", "template", `byte 0: "\"" cannot`},
		{`{seq}?`, "", "template", `byte 5: "?" cannot`},
		{"{date:2006/01}{seq}", "", "template", `byte 10: "/" cannot`},
		{"{date:2006 01}{seq}", "", "template", `byte 10: " " cannot`},
		{"{date:yyyyMMdd}{seq}", "", "template", "byte 6: {date:yyyyMMdd}, or a part of it, shows the same on every day: write {date:20060102};"},
		{"{date:YYYY-MM-DD}{seq}", "", "template", "byte 6: {date:YYYY-MM-DD}, or a part of it, shows the same on every day: write {date:2006-01-02};"},
		{"{date:DD.MM.YY}{seq}", "", "template", "byte 6: {date:DD.MM.YY}, or a part of it, shows the same on every day: write {date:02.01.06};"},
		{"{date:%Y%m%d}{seq}", "", "template", "byte 6: {date:%Y%m%d}, or a part of it, shows the same on every day: write {date:20060102};"},
		{"{date:%y}{seq}", "", "template", "byte 6: {date:%y}, or a part of it, shows the same on every day: write {date:06};"},
		{"{date:Ymd}{seq}", "", "template", "byte 6: {date:Ymd}, or a part of it, shows the same on every day: write {date:20060102};"},
		{"{date:yyyymmddhhmmss}{seq}", "", "template", "byte 6: {date:yyyymmddhhmmss}, or a part of it, shows the same on every day: write {date:20060102150405};"},
		{"{date:2006MM}{seq}", "", "template", "byte 6: {date:2006MM}, or a part of it, shows the same on every day: write {date:200601};"},
		{"{date:HHmm}{seq}", "", "template", "byte 6: {date:HHmm}, or a part of it, shows the same on every day: write {date:1504};"},
		{"{date:-}{seq}", "", "template", "byte 6: {date:-}, or a part of it, shows the same on every day: write {date:20060102};"},
		{"{date:Q}{seq}", "", "template", "byte 6: {date:Q}, or a part of it, shows the same on every day: write {date:20060102};"},
		{"{date:}{seq}", "", "template", `byte 0: "{date:}" is not one of the parts`},
		{"{date}{seq}", "", "template", `byte 0: "{date}" is not one of the parts`},
		{"{seq}{check:luhn}", "luhn", "template", `byte 5: "{check:luhn}" is not one of the parts`},
		{"{Seq}", "", "template", `byte 0: "{Seq}" is not one of the parts`},
		{"a{}", "", "template", `byte 1: "{}" is not one of the parts`},
		{"ab{seq", "", "template", "byte 2: this brace is not closed"},
		{"{seq}{", "", "template", "byte 5: this brace is not closed"},
		{"{seq}}", "", "template", "byte 5: this brace closes nothing"},
		{"{{{{seq}", "", "template", "byte 7: this brace closes nothing"},
		{"{seq:}", "", "template", "byte 5: a padding such as 06 or a radix such as r36 is missing"},
		{"{seq:6}", "", "template", `byte 5: "6" is not a padding`},
		{"{seq:0}", "", "template", `byte 5: "0" is not a padding`},
		{"{seq:00}", "", "template", `byte 5: "00" is not a padding`},
		{"{seq:006}", "", "template", `byte 5: "006" is not a padding`},
		{"{seq:065}", "", "template", `byte 5: "065" is not a padding`},
		{"{seq:0-1}", "", "template", `byte 5: "0-1" is not a padding`},
		{"{seq:099999999999999999999}", "", "template", "is not a padding"},
		{"{seq:r}", "", "template", `byte 5: "r" is not one of the radixes`},
		{"{seq:r8}", "", "template", `byte 5: "r8" is not one of the radixes`},
		{"{seq:08r032}", "", "template", `byte 7: "r032" is not one of the radixes`},
		{"{seq:r36r36}", "", "template", `byte 5: "r36r36" is not one of the radixes`},
		{strings.Repeat("a", 252) + "{seq}", "", "template", "byte 256: a template has at most 256 bytes"},
	} {
		problems := (&Settings{Template: test.template, Check: test.check}).Validate()
		if len(problems) != 1 || problems[0].Key != test.key || !strings.Contains(problems[0].Text, test.want) {
			t.Errorf("%q, %q: %v, want %s: %s", test.template, test.check, problems, test.key, test.want)
		}
	}
}

func TestGoodTemplates(t *testing.T) {
	for template, want := range map[string]string{
		"{seq}":                            "255",
		"{seq:r10}":                        "255",
		"{seq:06}":                         "000255",
		"{seq:03}":                         "255",
		"{seq:02}":                         "255",
		"{seq:r16}":                        "FF",
		"{seq:08r32}":                      "0000007Z",
		"{seq:r36}":                        "73",
		"{seq:r62}":                        "47",
		"{{seq}}-{{{seq}}}":                "{seq}-{255}",
		"}}{seq}{{":                        "}255{",
		"{seq:064}":                        strings.Repeat("0", 61) + "255",
		strings.Repeat("a", 251) + "{seq}": strings.Repeat("a", 251) + "255",
		"!'()*+,-.:;<=>@[]^_`|~$&{seq}":    "!'()*+,-.:;<=>@[]^_`|~$&255",
		"{date:2006}.{seq}.{date:0102}}}{date:15}": "2026.255.1121}12",
	} {
		p := mustPlugin(t, Settings{Template: template}, never(), 0)
		must.Equal(t, show(t, p, 0, 255), want, "%s shows", template)
		if r, err := p.Read(t.Context(), want, seqd.Counter{}); err != nil || r.Shown != "255" || r.Invalid {
			t.Errorf("%s: %s reads as %+v, %v", template, want, r, err)
		}
	}
}

// TestDocumented checks the examples of docs/plugins/format.md.
func TestDocumented(t *testing.T) {
	for _, test := range []struct{ template, check, want string }{
		{"INV-{date:20060102}-{seq:06}{check}", "luhn", "INV-20261121-0000428"},
		{"{seq:08r32}", "", "0000001A"},
		{"{{{seq:03}}}", "", "{042}"},
		{"T{seq:06r62}-{check}", "mod97", "T00000g-34"},
	} {
		must.Equal(t, show(t, mustPlugin(t, Settings{test.template, test.check}, never(), 0), 0, 42), test.want, "%s shows", test.template)
	}
}

// TestRadixes checks that every radix writes every number in one way and reads it back.
func TestRadixes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for radix, alphabet := range alphabets {
		must.Equal(t, len(alphabet), radix, "the digits of radix %d", radix)
		for _, width := range []int{1, 7, 64} {
			u := numeral{width, alphabet}
			numbers := []uint64{0, 1, 9, 10, 31, 32, 61, 62, 1<<53 - 1, math.MaxInt64, math.MaxUint64 - 1, math.MaxUint64}
			for range 1000 {
				numbers = append(numbers, random.Uint64()>>random.IntN(64))
			}
			for _, n := range numbers {
				text := string(u.append(nil, n))
				if got, ok := u.parse(text); !ok || got != n || len(text) < width {
					t.Fatalf("radix %d, width %d: %d is shown as %s and read as %d, %v", radix, width, n, text, got, ok)
				}
				digits := strings.ToUpper(strconv.FormatUint(n, min(radix, 36)))
				if radix <= 36 && radix != 32 && text != strings.Repeat("0", max(0, width-len(digits)))+digits {
					t.Fatalf("radix %d: %d is shown as %s", radix, n, text)
				}
				for _, other := range []string{"0" + text, text + "*", " " + text, text + text + text} {
					if again, ok := u.parse(other); ok && (other == "0"+text || again == n) {
						t.Fatalf("radix %d, width %d: %s is read as %d", radix, width, other, again)
					}
				}
			}
			if _, ok := u.parse(""); ok {
				t.Error("nothing is read as a number")
			}
		}
	}
}

func TestDecimal(t *testing.T) {
	for _, test := range []struct {
		text  string
		width int
		want  uint64
		ok    bool
	}{
		{"0", 0, 0, true}, {"12", 0, 12, true}, {"012", 0, 0, false}, {"012", 3, 12, true}, {"12", 3, 0, false}, {"0012", 3, 0, false}, {"", 0, 0, false},
		{"18446744073709551615", 0, math.MaxUint64, true}, {"18446744073709551616", 0, 0, false}, {"99999999999999999999", 20, 0, false},
		{"-1", 0, 0, false}, {"1a", 0, 0, false}, {"a1", 2, 0, false}, {strings.Repeat("0", 39) + "7", 40, 7, true},
	} {
		d := decimal{test.width}
		n, ok := d.value([]byte(test.text))
		if ok != test.ok || ok && n != test.want {
			t.Errorf("%q in %d digits is %d, %v", test.text, test.width, n, ok)
		}
		if text, fits := d.text(n); ok && (!fits || text != test.text) {
			t.Errorf("%d in %d digits is %q, %v", n, test.width, text, fits)
		}
	}
}
