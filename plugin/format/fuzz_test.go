package format

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

var resets = []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly}

var position = regexp.MustCompile(`byte \d+: `)

// FuzzTemplate checks that a template is either refused with the position of the mistake, or
// displays every number so that it can be read back.
func FuzzTemplate(f *testing.F) {
	for i, template := range []string{
		"INV-{date:20060102}-{seq:06}{check}", "{seq}", "{seq:08r32}", "{{{seq:r62}}}", "{date:06}{seq:r36}-{date:0102}", "{seq}{check}{date:Jan06}", "{seq", "{seq:r}",
		"{key}-{seq:06}", "{key}{seq}", "{seq:r36}{check}{date:2006-01-02}{key}Z", "A{date:06}{key}-{date:0102}{seq}",
	} {
		f.Add(template, byte(i), byte(i), int64(i)*1234567, uint16(i*1000))
	}
	f.Fuzz(func(t *testing.T, template string, algorithm, reset byte, number int64, day uint16) {
		s := Settings{Template: template}
		if i := int(algorithm) % 4; i < len(algorithms) {
			s.Check = algorithms[i].name
		}
		c := seqd.Calendar{Reset: resets[int(reset)%len(resets)], Zone: time.UTC}
		at := time.Date(seqd.FirstYear, 1, 1+int(day)%36525, 23, 45, 59, 0, time.UTC)
		p, err := New(s, c, 0, func() time.Time { return at })
		if err != nil {
			if !position.MatchString(err.Error()) && !strings.HasPrefix(err.Error(), "check: ") {
				t.Errorf("%q: the error says no place: %v", template, err)
			}
			return
		}
		number = max(0, number)
		period := c.Now(at)
		name := ""
		if p.cut != nil {
			name = keys[int(day)%len(keys)]
		}
		id := showKey(t, p, period, name, number)
		r, err := p.Read(t.Context(), id, seqd.Counter{})
		shows := period
		if len(p.dates.layouts) == 0 {
			shows = 0
		}
		if err != nil || r.Invalid || r.Period != shows || r.Key != name || r.Shown != string(numeral{1, alphabets[10]}.append(nil, uint64(number))) {
			t.Errorf("%q shows %d of %s as %q, which reads as %+v, %v", template, number, period, id, r, err)
		}
		for i := range len(id) {
			if !plain(id[i]) {
				t.Errorf("%q shows %q", template, id)
			}
		}
	})
}

// FuzzRead checks that whatever Read accepts would be displayed in the same form.
func FuzzRead(f *testing.F) {
	daily := mustPlugin(f, example(), seqd.Calendar{Reset: seqd.ResetDaily, Zone: time.UTC}, 0)
	keyed := mustPlugin(f, Settings{"{seq:03r36}{date:06}-{key}{check}", "mod97"}, seqd.Calendar{Reset: seqd.ResetYearly, Zone: time.UTC}, 0)
	padded := mustPlugin(f, Settings{"{seq:08r32}-{date:06}{check}", "mod97"}, seqd.Calendar{Reset: seqd.ResetYearly, Zone: time.UTC}, 12)
	for _, id := range []string{show(f, daily, 20261121, 42), show(f, padded, 20260000, 42), showKey(f, keyed, 20260000, "a-1.7", 42), "", "INV-20260229-0000428", "INV-20261121-0000429"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		for _, p := range []*Plugin{daily, padded, keyed} {
			r, err := p.Read(t.Context(), id, seqd.Counter{})
			if err != nil {
				must.Code(t, err, seqd.CodeInvalidID, "%q", id)
				continue
			}
			n, ok := p.given.value([]byte(r.Shown))
			frame, err := p.current(r.Period, time.Time{})
			if !ok || err != nil {
				t.Fatalf("%q reads as %+v: %v", id, r, err)
			}
			again := string(p.append(nil, frame, n))
			if p.cut != nil {
				again = string(p.appendKeyed(nil, frame, r.Key, n))
			}
			if r.Invalid == (again == id) || len(again) != len(id) {
				t.Errorf("%q reads as %+v and is shown as %q", id, r, again)
			}
		}
	})
}

// randomTemplate returns a template, which may be invalid.
func randomTemplate(r *rand.Rand) Settings {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	some := func() (text string) {
		for range r.IntN(3) {
			text += pick("A", "-", "0", "12", "1")
		}
		return text
	}
	dates := strings.Split(pick(",", "{date:20060102},", "{date:0102},{date:2006}", "{date:0601},", ",{date:2006002}", "{date:06},", "{date:2006},{date:01}"), ",")
	s := Settings{Check: pick("", "luhn", "damm", "mod97")}
	before, after := pick("", "", "{key}"), pick("", "", "{key}")
	if before != "" {
		after = ""
	}
	s.Template = some() + before + dates[0] + some() + pick("{seq}", "{seq:03}", "{seq:r16}", "{seq:02r36}", "{seq:r62}", "{seq:012}") + some() + dates[1] + some()
	if s.Check == "" {
		s.Template += after
	} else {
		s.Template += pick(after+"{check}"+some(), "{check}"+some()+after)
	}
	return s
}

// keys are easily taken for parts of an ID.
var keys = []string{"a", "a1", "1", "11", "1a", "a-1", "1-1", "a-2026", "0", "00", "A", "AA", "A-", "1.", "2026", "12"}

// TestInjective checks for all accepted templates that no two triples of key, period and number have
// the same text (invariant U6).
func TestInjective(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 2026))
	good, keyed := 0, 0
	for range 2000 {
		s, c := randomTemplate(r), seqd.Calendar{Reset: resets[r.IntN(len(resets))], Zone: time.UTC}
		if c.Reset != seqd.ResetNever && !strings.Contains(s.Template, "{date:") {
			continue // the configuration refuses it
		}
		p, err := New(s, c, 0, func() time.Time { return now.AddDate(0, 0, r.IntN(400)) })
		if err != nil {
			continue
		}
		good++
		if p.cut != nil {
			keyed++
		}
		type triple struct {
			key    string
			period seqd.Period
			number int64
		}
		seen := make(map[string]triple)
		for range 200 {
			// Numbers close to each other, and of many lengths, are most likely to collide.
			number := r.Int64N(1300) >> r.IntN(10)
			if r.IntN(4) == 0 {
				number = r.Int64() >> r.IntN(60)
			}
			this := triple{"", c.Now(now.AddDate(0, 0, r.IntN(800))), number}
			if p.cut != nil {
				this.key = keys[r.IntN(len(keys))]
			}
			id := showKey(t, p, this.period, this.key, this.number)
			if other, twice := seen[id]; twice && other != this {
				t.Fatalf("%+v under %s: %s is %+v and %+v", s, c.Reset, id, this, other)
			}
			seen[id] = this
		}
	}
	if good < 300 || keyed < 50 {
		t.Errorf("only %d templates were good, %d of them with a key", good, keyed)
	}
}
