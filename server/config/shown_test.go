package config_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

type fixed struct {
	number int64
	period seqd.Period
}

// Whatever chain the configuration lets pass, two numbers have two IDs, and each is read back.
func TestShown(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	accepted := 0
	for round := range 60 {
		reset := pick("never", "daily", "monthly", "yearly")
		zone := pick("UTC", "Asia/Shanghai", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu", "Europe/Dublin", "America/New_York")
		var template strings.Builder
		seqAt := r.IntN(4)
		for i := range 5 {
			if i == seqAt {
				template.WriteString(pick("{seq}", "{seq:06}", "{seq:r16}", "{seq:r32}", "{seq:03r36}", "{seq:r62}", "{seq:02}"))
				continue
			}
			template.WriteString(pick("", "-", "1", "A", "0", "{{", "}}", "{date:2006}", "{date:01}", "{date:02}", "{date:20060102}", "{date:06}", "{date:0601}", "{date:002}",
				"{date:Mon}", "{date:Jan}", "{date:15}", "{date:04}", "{date:05}", "{date:PM}", "{date:2006-01-02}", "{date:01-02-2006}"))
		}
		check := pick("", "", "luhn", "damm", "mod97")
		if check != "" {
			template.WriteString("{check}" + pick("", "Z", "9"))
		}
		order := []string{fmt.Sprintf("{name: format, template: %q, check: %q}", template.String(), check)}
		digits := ""
		if r.IntN(2) == 0 {
			digits = pick("digits: 1", "digits: 2", "digits: 3", "bits: 5", "bits: 10", "digits: 19", "bits: 63", "digits: 8")
			o := fmt.Sprintf("{name: obfuscate, %s, key: aaaabbbb%d, order: %s}", digits, r.IntN(3), pick("100", "200", "300"))
			if r.IntN(2) == 0 {
				order = append(order, o)
			} else {
				order = append([]string{o}, order...)
			}
		}
		text := fmt.Sprintf("bizTypes: [{name: a, reset: %s, timeZone: %s, plugins: [%s]}]", reset, zone, strings.Join(order, ", "))
		c, err := config.LoadYAML([]byte(text), config.Sources{})
		if err != nil {
			continue
		}
		accepted++
		b := c.BizTypes[0]
		clock := time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC)
		env := plugin.Env{Now: func() time.Time { return clock }, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
		var chain []seqd.Plugin
		for _, binding := range plugin.Chain(b) {
			f, _ := plugin.Lookup(binding.Name)
			p := must.Get(f.New(env, b, binding))(t)
			chain = append(chain, p)
		}
		seen := map[string]fixed{}
		cal := seqd.TraitsOf(b.Settings).Calendar
		numbers := []int64{}
		for n := range int64(130) {
			numbers = append(numbers, n+1)
		}
		for range 60 {
			numbers = append(numbers, r.Int64N(1<<uint(1+r.IntN(53)))+1)
		}
		days := 1
		if cal.Reset != seqd.ResetNever {
			days = 30
		}
		for d := range days {
			at := time.Date(2000, 1, 1, 12, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(36524))
			if d%3 == 0 {
				at = clock.AddDate(0, 0, d)
			}
			period := cal.Now(at)
			for _, n := range numbers {
				clock = clock.Add(time.Duration(r.IntN(7200)) * time.Second)
				call := &seqd.Call{BizType: "a", Count: 1}
				call.Sequence.Add(n, 1, 1)
				call.Sequence.In(period)
				bad := false
				for _, p := range chain {
					if err := p.After(t.Context(), call); err != nil {
						must.Code(t, err, seqd.CodeExhausted, "%s", text)
						bad = true
						break
					}
				}
				if bad {
					continue
				}
				id := call.Sequence.IDs()[0]
				f := fixed{n, period}
				if o, twice := seen[id]; twice && o != f {
					t.Fatalf("round %d: %s: %s is %v and %v", round, text, id, o, f)
				}
				seen[id] = f
				shown, readPeriod := id, seqd.Period(0)
				for i := len(chain) - 1; i >= 0; i-- {
					reading, err := chain[i].(seqd.Reader).Read(t.Context(), shown, seqd.Counter{})
					if err != nil || reading.Invalid {
						t.Fatalf("round %d: %s: %s: %v %v", round, text, id, err, reading)
					}
					shown = reading.Shown
					if reading.Period != 0 {
						readPeriod = reading.Period
					}
				}
				if shown != fmt.Sprint(n) || cal.Reset != seqd.ResetNever && readPeriod != period {
					t.Fatalf("round %d: %s: %s is %v and reads as %s of %s", round, text, id, f, shown, readPeriod)
				}
			}
		}
	}
	if accepted < 5 {
		t.Errorf("only %d chains were accepted", accepted)
	}
}
