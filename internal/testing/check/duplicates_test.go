package check

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
)

func TestDuplicates(t *testing.T) {
	stories{
		{"none", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.call(2, 3, "b", order, numbers(11, 1))
		}, ""},
		{"over nodes", func(s *story) {
			s.call(0, 4, "a", lot, numbers(1, 10))
			s.call(2, 3, "b", lot, numbers(10, 5))
		}, RuleDuplicate},
		{"within a larger range, which is not the one just before", func(s *story) {
			s.call(0, 9, "a", lot, numbers(1, 100))
			s.call(0, 9, "b", lot, numbers(101, 5))
			s.call(0, 9, "c", lot, numbers(50, 1))
		}, RuleDuplicate},
		{"within a range that its holder issues from", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 1000)).Kind = record.Range
			s.call(2, 3, "b", order, numbers(1001, 1)).Protocol = record.RESP
			s.call(4, 5, "c", lot, numbers(1, 1000)).Kind = record.Range
			s.call(6, 7, "b", lot, numbers(500, 1)).Protocol = record.RESP
		}, RuleDuplicate},
		{"after deleting and making it again", func(s *story) {
			s.call(0, 1, "a", lot, numbers(1, 1))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: lot, Kind: record.Admin, Key: "DELETE", Status: 204}})
			s.call(4, 5, "b", lot, numbers(1, 1))
		}, RuleDuplicate},
		{"of other biz types", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.call(0, 1, "a", bill, numbers(1, 10))
		}, ""},
		{"in two lives", func(s *story) {
			s.call(0, 9, "a", lot, numbers(7, 1))
			s.call(0, 9, "a", lot, numbers(7, 1)).Life = 2
		}, RuleDuplicate},
		{"snowflake", func(s *story) {
			s.call(0, 9, "a", user, flakes(5, 3, 0, 10))
			s.call(0, 9, "a", user, flakes(5, 3, 9, 10))
		}, RuleDuplicate},
		{"snowflake, of biz types that share machine IDs", func(s *story) {
			s.call(0, 9, "a", user, flakes(5, 3, 0, 10))
			s.call(0, 9, "a", account, flakes(5, 3, 0, 1))
		}, RuleDuplicate},
		{"snowflake, the same time on other machines", func(s *story) {
			s.call(0, 9, "a", user, flakes(5, 3, 0, 10))
			s.call(0, 9, "b", user, flakes(5, 4, 0, 10))
		}, ""},
		{"of an odd distance", func(s *story) {
			s.call(0, 9, "a", lot, record.Run{First: 10, Count: 3, Step: 7})
			s.call(0, 9, "b", lot, numbers(18, 6))
		}, ""},
		{"of an odd distance, hit", func(s *story) {
			s.call(0, 9, "a", lot, record.Run{First: 10, Count: 3, Step: 7})
			s.call(0, 9, "b", lot, numbers(18, 7))
		}, RuleDuplicate},
		{"of one day", func(s *story) {
			s.texts(0, 9, "a", invoice, "INV-2026-11-21-1", "INV-2026-11-21-2")
			s.texts(0, 9, "b", invoice, "INV-2026-11-21-2")
		}, RuleDuplicate},
		{"of another day", func(s *story) {
			s.turn(0, "b", 24*time.Hour)
			s.texts(0, 9, "a", invoice, "INV-2026-11-21-1", "INV-2026-11-21-2")
			s.texts(0, 9, "b", invoice, "INV-2026-11-22-1", "INV-2026-11-22-2")
		}, ""},
		{"whose numbers cannot be read", func(s *story) {
			s.texts(0, 9, "a", invite, "x", "y")
			s.texts(20, 29, "b", invite, "z", "x")
		}, RuleDuplicate},
		{"other texts", func(s *story) {
			s.texts(0, 9, "a", invite, "x", "y")
			s.texts(20, 29, "b", invite, "z", "xx")
		}, ""},
		{"an answer given again", func(s *story) {
			s.post(0, 9, "a", order, "k", numbers(1, 2))
			s.post(10, 12, "b", order, "k", numbers(1, 2)).Replayed = true
			s.post(10, 12, "b", order, "l", numbers(3, 2))
		}, ""},
		{"the same numbers for two keys", func(s *story) {
			s.post(0, 9, "a", order, "k", numbers(1, 1))
			s.post(1, 12, "b", order, "l", numbers(1, 1))
		}, RuleDuplicate},
		{"the same key of two biz types", func(s *story) {
			s.post(0, 9, "a", order, "k", numbers(1, 1))
			s.post(1, 12, "b", bill, "k", numbers(2, 1))
		}, ""},
	}.run(t)
}

func TestDuplicatesAreCounted(t *testing.T) {
	s := newStory()
	s.call(0, 9, "a", lot, numbers(1, 100))
	s.call(0, 9, "b", lot, numbers(51, 100))
	s.call(0, 9, "c", lot, numbers(91, 10))
	r := s.check(t)
	if r.Duplicates != 60 || r.Counts[RuleDuplicate] != 60 || r.Numbers != 210 {
		t.Errorf("%d duplicates of %d numbers, want 60 of 210: %v", r.Duplicates, r.Numbers, r.Counts)
	}
	if text := r.String(); !strings.Contains(text, "51 and 49 more were issued twice") || !strings.Contains(text, "batch of 100: 100 numbers 51 … 150") {
		t.Error(text)
	}
	must.Equal(t, r.Line(), "chaos: seed 7, 1s, 210 numbers, 3 calls, 0 faults of 0 classes, 60 duplicates, 60 violations", "the line")
}
