package check

import (
	"testing"

	"github.com/seqd/seqd/integration/chaos/record"
)

func TestIdempotency(t *testing.T) {
	stories{
		{"two answers", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, RuleIdempotency},
		{"two answers of texts", func(s *story) {
			c := s.texts(0, 1, "a", invite, "x")
			c.Kind, c.Key = record.Idempotent, "k"
			c = s.texts(10, 11, "b", invite, "y")
			c.Kind, c.Key = record.Idempotent, "k"
		}, RuleIdempotency},
		{"one answer for ever", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.fault(3, 4, "flush", "r1", losesRedis)
			s.post(10, 11, "b", order, "k", numbers(1, 1)).Replayed = true
		}, ""},
		{"two answers, when Redis lost the first", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.fault(3, 4, "flush", "r1", losesRedis)
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, ""},
		{"two answers, when the store was away", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.fault(3, 4, "cut", "m", breaksStore)
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, RuleIdempotency},
		{"two answers, when Redis was lost before and after", func(s *story) {
			s.fault(100, 101, "flush", "r1", losesRedis)
			s.post(1000, 1001, "a", order, "k", numbers(1, 1))
			s.post(1010, 1011, "b", order, "k", numbers(2, 1))
			s.fault(2000, 2001, "flush", "r1", losesRedis)
		}, RuleIdempotency},
		{"two answers, when another server took over", func(s *story) {
			s.post(1000, 1001, "a", order, "k", numbers(1, 1))
			s.server(2000, "r2", record.Replica)
			s.server(2500, "r2", record.Primary)
			s.post(3010, 3011, "b", order, "k", numbers(2, 1))
		}, ""},
		{"no answer, then one", func(s *story) {
			fails(s.post(0, 1, "a", order, "k"), 1)
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, ""},
	}.run(t)
}
