package check

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
)

// breaksRedis, losesRedis, … set what a fault does.
func breaksRedis(f *record.Fault) { f.Redis = true }
func losesRedis(f *record.Fault)  { f.Redis, f.LosesKeys = true, true }
func breaksStore(f *record.Fault) { f.Store = true }
func pauses(f *record.Fault)      { f.Paused = true }

type stories []struct {
	name  string
	tell  func(s *story)
	rules string // the rules that are broken, each once, or as often as listed
}

func (all stories) run(t *testing.T) {
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			s := newStory()
			test.tell(s)
			r := s.check(t)
			counts := map[string]int64{}
			for rule := range strings.SplitSeq(test.rules, ", ") {
				if rule != "" {
					counts[rule]++
				}
			}
			want(t, r, counts)
		})
	}
}

func TestForms(t *testing.T) {
	stories{
		{"no form of it", func(s *story) { s.texts(0, 1, "a", invite, "x", "Y") }, RuleForm},
		{"nothing around it", func(s *story) { s.texts(0, 1, "a", invoice, "INV-2026-11-21-1.") }, RuleForm},
		{"a number that is none", func(s *story) { s.texts(0, 1, "a", invoice, "INV-2026-11-21-99999999999999999999") }, RuleForm},
		{"fewer than asked for", func(s *story) { s.call(0, 1, "a", order, numbers(1, 3)).Asked = 4 }, RuleCount},
		{"more than asked for", func(s *story) { s.texts(0, 1, "a", invite, "x", "y").Asked = 1 }, RuleCount},
	}.run(t)
}

func TestParse(t *testing.T) {
	flake := flakes(105, 3, 9, 1)
	said := record.Parsed{Time: began.UnixMilli() + 105, Machine: 3, Sequence: 9}
	other := said
	other.Sequence++
	stories{
		{"a number", func(s *story) { s.parse(0, order, "5", 5, record.Parsed{}) }, ""},
		{"another number", func(s *story) { s.parse(0, order, "5", 6, record.Parsed{}) }, RuleParse},
		{"not valid", func(s *story) { s.parse(0, order, "5", 5, record.Parsed{}).Parsed.Valid = false }, RuleParse},
		{"refused", func(s *story) {
			c := s.parse(0, order, "5", 5, record.Parsed{})
			c.Status, c.Code = 400, "invalid_id"
		}, RuleParse},
		{"not answered", func(s *story) {
			c := s.parse(0, order, "5", 5, record.Parsed{})
			c.Status, c.Code = 503, "starting"
		}, ""},
		{"a format", func(s *story) { s.parse(0, invoice, "INV-2026-11-21-7", 7, record.Parsed{Period: "2026-11-21"}) }, ""},
		{"another number of a format", func(s *story) { s.parse(0, invoice, "INV-2026-11-21-7", 8, record.Parsed{Period: "2026-11-21"}) }, RuleParse},
		{"another period", func(s *story) { s.parse(0, invoice, "INV-2026-11-21-7", 7, record.Parsed{Period: "2026-11-22"}) }, RuleParse},
		{"snowflake", func(s *story) { s.parse(0, user, decimal(flake.First), flake.First, said) }, ""},
		{"another sequence", func(s *story) { s.parse(0, user, decimal(flake.First), flake.First, other) }, RuleParse},
		{"opaque", func(s *story) {
			s.parse(0, invite, "x", 1, record.Parsed{})
			s.parse(0, invite, "y", 2, record.Parsed{})
			s.parse(5, invite, "x", 1, record.Parsed{})
		}, ""},
		{"one ID, two numbers", func(s *story) {
			s.parse(0, invite, "x", 1, record.Parsed{})
			s.parse(5, invite, "x", 3, record.Parsed{})
		}, RuleParse},
		{"two IDs, one number", func(s *story) {
			s.parse(0, invite, "x", 1, record.Parsed{})
			s.parse(5, invite, "y", 1, record.Parsed{})
		}, RuleParse},
	}.run(t)
}

func TestWhatARecordMustTell(t *testing.T) {
	s := newStory()
	s.call(0, 1, "a", order, numbers(1, 1))
	r, err := Entries(s.entries, Options{})
	must.Do(t, err)
	want(t, r, map[string]int64{RuleRecord: 1})
	if r, err = Entries(s.entries, Options{Unfinished: true}); err != nil {
		t.Fatal(err)
	}
	want(t, r, map[string]int64{})

	s = newStory()
	s.entries = s.entries[:len(s.entries)-2] // the servers
	s.fault(0, 1, "flush", "r1", losesRedis)
	want(t, s.check(t), map[string]int64{RuleRecord: 1})
}

func TestRecordsThatAreRefused(t *testing.T) {
	whole := newStory()
	for name, entries := range map[string][]record.Entry{
		"nothing":             nil,
		"no world":            whole.entries[1:],
		"two worlds":          {whole.entries[0], whole.entries[0]},
		"an unknown biz type": {whole.entries[0], {Call: &record.Call{BizType: "nothing"}}},
		"an end before":       {whole.entries[0], {Call: &record.Call{BizType: order, Start: 2, End: 1}}},
		"a biz type twice":    {{World: &record.World{BizTypes: append(world().BizTypes, world().BizTypes[0])}}},
		"a wrong pattern":     {{World: &record.World{BizTypes: []record.BizType{{Name: "x", Strategy: record.Snowflake, Display: "("}}}}},
		"no layout":           {{World: &record.World{BizTypes: []record.BizType{{Name: "x", Strategy: record.Snowflake}}}}},
		"no strategy":         {{World: &record.World{BizTypes: []record.BizType{{Name: "x"}}}}},
		"no ordering":         {{World: &record.World{BizTypes: []record.BizType{{Name: "x", Strategy: record.Segment}}}}},
		"no time zone":        {{World: &record.World{BizTypes: []record.BizType{{Name: "x", Strategy: record.Segment, TimeZone: "Nowhere"}}}}},
	} {
		if _, err := Entries(entries, Options{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestShownAndCounted(t *testing.T) {
	s := newStory()
	s.fault(0, 5, "kill", "a", nil)
	for i := range int64(50) {
		s.call(2*i, 2*i+1, "a", order, numbers(100-i, 1))
	}
	r := must.Get(Entries(s.entries, Options{Shown: 3, Unfinished: true}))(t)
	want(t, r, map[string]int64{RuleOrderProcess: 49, RuleOrderNodes: 49})
	if line := "violations of order over nodes: 49 (order 49)\n"; !strings.Contains(r.String(), line) {
		t.Errorf("%q is not in\n%s", line, r)
	}
	if len(r.Violations) != 6 || r.Total() != 98 || len(r.Violations[0].Calls) != 2 {
		t.Errorf("%d shown of %d", len(r.Violations), r.Total())
	}
	if got := r.Violations[0].Faults; len(got) != 1 || !strings.HasPrefix(got[0], "kill of a [0.000000, 0.005000]") {
		t.Errorf("faults %q", got)
	}
}
