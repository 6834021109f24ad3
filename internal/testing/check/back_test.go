package check

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

func TestBack(t *testing.T) {
	away := func(from, to int64) func(*story) {
		return func(s *story) {
			s.line(from, "a", order, record.OnItsOwn)
			s.line(to, "a", order, record.Back)
			s.call(to, to+1, "a", order, numbers(1, 1))
		}
	}
	stories{
		{"a minute", away(1000, 61_000), ""},
		{"two minutes", away(1000, 121_000), RuleBack},
		{"two minutes, and Redis was away meanwhile", func(s *story) {
			s.fault(500, 20_000, "kill", "r1", breaksRedis)
			s.fault(30_000, 60_000, "cut", "m", breaksStore)
			away(1000, 121_000)(s)
		}, ""},
		{"two minutes, and Redis was away before and after", func(s *story) {
			s.fault(0, 400, "kill", "r1", breaksRedis)
			s.fault(121_000, 180_000, "kill", "r1", breaksRedis)
			away(1000, 121_000)(s)
		}, RuleBack},
		{"for good", func(s *story) {
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(200_000, 200_001, "a", order, numbers(1, 1))
		}, RuleBack},
		{"until it ended", func(s *story) {
			s.line(1000, "a", order, record.OnItsOwn)
			s.ends(30_000, "a", record.Stopped)
			s.call(200_000, 200_001, "b", order, numbers(1, 1))
		}, ""},
	}.run(t)
}
