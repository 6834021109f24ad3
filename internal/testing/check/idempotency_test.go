package check

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
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
		{"two answers, when Redis was only away", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.fault(3, 4, "pause", "r1", breaksRedis)
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, RuleIdempotency},
		{"two answers, when the primary began anew unseen", func(s *story) {
			s.replid(900, "r1", "x")
			s.post(1000, 1001, "a", order, "k", numbers(1, 1))
			s.replid(1100, "r1", "y")
			s.post(1200, 1201, "b", order, "k", numbers(2, 1))
		}, ""},
		{"two answers, when the primary began anew before", func(s *story) {
			s.replid(100, "r1", "x")
			s.replid(200, "r1", "y")
			s.post(1000, 1001, "a", order, "k", numbers(1, 1))
			s.replid(1100, "r1", "y")
			s.post(1200, 1201, "b", order, "k", numbers(2, 1))
		}, RuleIdempotency},
		{"the same serial of another day", func(s *story) {
			c := s.texts(0, 1, "a", invoice, "INV-2026-11-21-1")
			c.Kind, c.Key = record.Idempotent, "k"
			s.turn(500, "b", 24*time.Hour)
			c = s.texts(1000, 1001, "b", invoice, "INV-2026-11-22-1")
			c.Kind, c.Key = record.Idempotent, "k"
		}, RuleIdempotency},
		{"no answer, then one", func(s *story) {
			fails(s.post(0, 1, "a", order, "k"), 1)
			s.post(10, 11, "b", order, "k", numbers(2, 1))
		}, ""},
	}.run(t)
}
