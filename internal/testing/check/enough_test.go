package check

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
)

// ofLength is a story whose world has a duration, as in the laboratory.
func ofLength() *story {
	s := newStory()
	s.entries[0].World.Duration = int64(time.Minute)
	return s
}

// everything adds a fault, and answers from every node and for every biz type.
func (s *story) everything() {
	s.fault(0, 1, "pause", "a", pauses)
	s.call(0, 1, "a", order, numbers(1, 1))
	s.call(0, 1, "b", bill, numbers(1, 1))
	s.call(0, 1, "c", lot, numbers(1, 1))
	s.call(0, 1, "c", slip, numbers(1, 1))
	s.call(0, 1, "a", user, flakes(0, 1, 0, 1))
	s.call(0, 1, "a", account, flakes(0, 1, 1, 1))
	s.texts(0, 1, "a", invoice, "INV-2026-11-21-1")
	s.texts(0, 1, "a", invite, "x")
}

func TestTooLittle(t *testing.T) {
	s := ofLength()
	s.everything()
	want(t, s.check(t), map[string]int64{})

	fails(s.call(2, 3, "a", order), 1)
	s.call(2, 3, "a", order).Code = "canceled" // ended by the load itself
	fails(s.entries[len(s.entries)-1].Call, 1)
	want(t, s.check(t), map[string]int64{})

	for range 200 { // one fault after the other
		fails(s.call(0, 1, "a", order), 1)
	}
	want(t, s.check(t), map[string]int64{})
	for range fewAsked - 2 {
		fails(s.call(4, 5, "a", order), 1)
	}
	want(t, s.check(t), map[string]int64{})
	for range 2 {
		fails(s.call(4, 5, "a", order), 1)
	}
	want(t, s.check(t), map[string]int64{RuleRecord: 1})

	s = ofLength()
	want(t, s.check(t), map[string]int64{RuleRecord: 4}) // three nodes, no fault
	for range manyCalls {
		s.call(1, 1, "a", order).Code = "canceled"
		fails(s.entries[len(s.entries)-1].Call, 1)
	}
	want(t, s.check(t), map[string]int64{RuleRecord: 13}) // eight biz types too, and no answer
	r := must.Get(Entries(s.entries, Options{Unfinished: true}))(t)
	want(t, r, map[string]int64{})
	if !r.CutShort || !strings.Contains(r.String(), "cut short") {
		t.Error("the report does not say that the record was cut short")
	}
}

// Callers of every protocol must get numbers, if the run is long.
func TestProtocolsAreUsed(t *testing.T) {
	s := ofLength()
	s.everything()
	s.entries[0].World.Protocols = []string{record.RESP, record.CosID}
	s.call(2, 3, "a", order, numbers(2, 3)).Protocol = record.RESP
	fails(s.call(2, 3, "a", order), 1)
	s.entries[len(s.entries)-1].Call.Protocol = record.CosID
	want(t, s.check(t), map[string]int64{})
	for i := range int64(manyCalls) {
		s.call(4, 5, "b", order, numbers(10+i, 1))
	}
	r := s.check(t)
	want(t, r, map[string]int64{RuleRecord: 1})
	if got := r.ByProtocol[record.RESP]; got != (Served{Answers: 1, Numbers: 3}) || !strings.Contains(r.String(), "by resp: 3 numbers in 1 answers") {
		t.Errorf("%+v", got)
	}
}

func TestOrderHasToBeChecked(t *testing.T) {
	for _, c := range []struct {
		until int64
		want  map[string]int64
	}{{2950, map[string]int64{RuleRecord: 1}}, {2850, map[string]int64{}}} {
		s := ofLength()
		s.everything()
		s.line(500, "a", order, record.OnItsOwn)
		for i := range int64(2000) {
			s.call(1000+i, 1000+i, "b", order, numbers(10+i, 1))
		}
		s.line(c.until, "a", order, record.Back)
		want(t, s.check(t), c.want)
	}
}

func TestFindings(t *testing.T) {
	s := newStory()
	s.add(record.Entry{Finding: &record.Finding{At: 5, Text: "a ended by itself"}})
	want(t, s.check(t), map[string]int64{RuleProcess: 1})
}

func TestOfNumbers(t *testing.T) {
	s := newStory()
	s.add(record.Entry{Finding: &record.Finding{At: 5, Text: "a ended by itself"}})
	c := s.call(0, 1, "a", order)
	c.Status, c.Code = 500, "internal"
	if r := s.check(t); r.Total() != 2 || r.OfNumbers() != 0 {
		t.Errorf("%d of %d", r.OfNumbers(), r.Total())
	}
	s.call(0, 1, "a", order, numbers(1, 1))
	s.call(0, 1, "b", order, numbers(1, 1))
	if r := s.check(t); r.Total() != 3 || r.OfNumbers() != 1 {
		t.Errorf("%d of %d", r.OfNumbers(), r.Total())
	}
}

func TestRefusals(t *testing.T) {
	refused := func(status int, code string) func(*story) {
		return func(s *story) {
			c := s.call(0, 1, "a", order)
			c.Status, c.Code, c.Asked = status, code, 1
		}
	}
	change := func(s *story, status int, code string) {
		s.add(record.Entry{Call: &record.Call{Start: 1, End: 2, Node: "a", BizType: order, Kind: record.Admin, Key: "POST /disable", Status: status, Code: code}})
	}
	stories{
		{"starting", refused(503, "starting"), ""},
		{"internal", refused(500, "internal"), RuleRefusal},
		{"a panic", refused(500, "plugin_panic"), RuleRefusal},
		{"no code", refused(503, ""), RuleRefusal},
		{"another status", refused(500, "starting"), RuleRefusal},
		{"wrong, which it was not", refused(400, "invalid_count"), RuleRefusal},
		{"exhausted", refused(409, "exhausted"), RuleRefusal},
		{"disabled by nobody", refused(409, "disabled"), RuleRefusal},
		{"disabled", func(s *story) { refused(409, "disabled")(s); change(s, 200, "") }, ""},
		{"another shape", refused(409, "conflict"), RuleRefusal},
		{"another shape, after one was forced", func(s *story) {
			refused(409, "conflict")(s)
			s.add(record.Entry{Call: &record.Call{Start: 0, End: 1, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH increment=3", Status: 503, Code: "store_unavailable"}})
		}, ""},
		{"a token that is not known", refused(401, "unauthorized"), RuleRefusal},
		{"the same while the store is restored", func(s *story) {
			refused(401, "unauthorized")(s)
			s.fault(0, 1, "disk", "store", func(f *record.Fault) { f.StoreLost = true })
		}, ""},
		{"a change that conflicts", func(s *story) { change(s, 409, "conflict") }, ""},
		{"a change that is a defect", func(s *story) { change(s, 500, "internal") }, RuleRefusal},
		{"a parse that is a defect", func(s *story) {
			c := s.parse(0, order, "5", 5, record.Parsed{})
			c.Status, c.Code = 500, "internal"
		}, RuleRefusal},
	}.run(t)
}

func TestAnswersThatBrokeOff(t *testing.T) {
	half := func(s *story, first int64) {
		c := s.call(0, 1, "a", lot, numbers(first, 5))
		c.Status, c.Code, c.Asked = 0, "reset", 10
	}
	stories{
		{"nobody else has its numbers", func(s *story) { half(s, 1); s.call(2, 3, "b", lot, numbers(6, 1)) }, ""},
		{"another one has one of them", func(s *story) { half(s, 1); s.call(2, 3, "b", lot, numbers(5, 1)) }, RuleDuplicate},
		{"it is in no order", func(s *story) { half(s, 7); s.call(2, 3, "a", lot, numbers(1, 1)) }, ""},
	}.run(t)
}

func TestNumbersThatCannotBe(t *testing.T) {
	stories{
		{"none", func(s *story) { s.call(0, 1, "a", order, numbers(0, 1)) }, RuleForm},
		{"below", func(s *story) { s.call(0, 1, "a", lot, numbers(-5, 2)) }, RuleForm},
		{"the greatest", func(s *story) { s.call(0, 1, "a", user, numbers(greatest, 1)) }, RuleSnowflakeTime},
		{"unreadable", func(s *story) { s.call(0, 1, "a", order, numbers(1, 1)).Code = "unreadable" }, RuleForm},
	}.run(t)
}
