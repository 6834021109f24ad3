package check

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

func TestSnowflake(t *testing.T) {
	stories{
		{"on time", func(s *story) { s.call(100, 110, "a", user, flakes(105, 3, 0, 10)) }, ""},
		{"from before the call", func(s *story) { s.call(100, 110, "a", user, flakes(94, 3, 0, 1)) }, RuleSnowflakeTime},
		{"from after the call", func(s *story) { s.call(100, 110, "a", user, flakes(116, 3, 0, 1)) }, RuleSnowflakeTime},
		{"as far off as clocks are known", func(s *story) {
			s.call(100, 110, "a", user, flakes(95, 3, 0, 1))
			s.call(100, 110, "b", user, flakes(115, 4, 0, 1))
		}, ""},
		{"by the node's clock", func(s *story) {
			s.turn(10, "a", time.Hour)
			s.call(100, 110, "a", user, flakes(105+3600_000, 3, 0, 1))
		}, ""},
		{"not by another node's", func(s *story) {
			s.turn(10, "b", time.Hour)
			s.call(100, 110, "a", user, flakes(105+3600_000, 3, 0, 1))
		}, RuleSnowflakeTime},
		{"by the clock before and after it was turned", func(s *story) {
			s.turn(105, "a", time.Hour)
			s.call(100, 110, "a", user, flakes(103, 3, 0, 1))
			s.call(100, 110, "a", user, flakes(107+3600_000, 3, 0, 1))
		}, ""},
		{"not by a clock of long ago", func(s *story) {
			s.turn(10, "a", time.Hour)
			s.turn(20, "a", 0)
			s.call(100, 110, "a", user, flakes(105+3600_000, 3, 0, 1))
		}, RuleSnowflakeTime},
		{"the wall clock was set right", func(s *story) {
			s.turn(10, "", 40*time.Millisecond)
			s.call(100, 110, "a", user, flakes(145, 3, 0, 1))
		}, ""},
		{"a machine ID after another", func(s *story) {
			s.call(100, 110, "a", user, flakes(105, 3, 0, 1))
			s.call(100, 110, "b", user, flakes(106, 3, 0, 1))
		}, ""},
		{"a machine ID at one time in two processes", func(s *story) {
			s.call(100, 110, "a", user, flakes(105, 3, 0, 1))
			s.call(100, 110, "b", user, flakes(105, 3, 1, 1))
		}, RuleMachine},
		{"a machine ID within a batch of another process", func(s *story) {
			s.call(100, 110, "a", user, flakes(103, 3, 0, 4096), flakes(107, 3, 0, 10))
			s.call(100, 110, "b", user, flakes(105, 3, 1, 1))
		}, RuleMachine},
		{"a machine ID in turn", func(s *story) {
			s.call(100, 110, "a", user, flakes(104, 3, 0, 1))
			s.call(100, 110, "b", user, flakes(105, 3, 0, 1))
			s.call(100, 110, "a", user, flakes(106, 3, 0, 1))
		}, RuleMachine},
		{"a machine ID in turn, by a new lease", func(s *story) {
			s.call(100, 101, "a", user, flakes(101, 3, 0, 1))
			s.call(102, 103, "b", user, flakes(103, 3, 0, 1))
			s.line(104, "a", "", record.GotMachine).Machine = 3
			s.call(105, 110, "a", user, flakes(106, 3, 0, 1))
		}, ""},
		{"a machine ID in turn, by a new lease of another", func(s *story) {
			s.call(100, 101, "a", user, flakes(101, 3, 0, 1))
			s.call(102, 103, "b", user, flakes(103, 3, 0, 1))
			s.line(104, "a", "", record.GotMachine).Machine = 4
			s.call(105, 110, "a", user, flakes(106, 3, 0, 1))
		}, RuleMachine},
		{"one process, two biz types", func(s *story) {
			s.call(100, 110, "a", user, flakes(105, 3, 0, 1))
			s.call(100, 110, "a", account, flakes(105, 3, 1, 1))
		}, ""},
	}.run(t)
}

func TestPeriods(t *testing.T) {
	stories{
		{"the day", func(s *story) { s.texts(0, 1, "a", invoice, "INV-2026-11-21-1") }, ""},
		{"another day", func(s *story) { s.texts(0, 1, "a", invoice, "INV-2026-11-22-1") }, RulePeriod},
		{"the day of the node's clock", func(s *story) {
			s.turn(0, "a", 12*time.Hour)
			s.texts(100, 101, "a", invoice, "INV-2026-11-22-1")
		}, ""},
		{"the day before, at the turn", func(s *story) {
			s.turn(0, "a", 12*time.Hour-500*time.Millisecond)
			s.texts(499, 501, "a", invoice, "INV-2026-11-21-1")
			s.texts(499, 501, "a", invoice, "INV-2026-11-22-1")
		}, ""},
		{"the day before, after the turn", func(s *story) {
			s.turn(0, "a", 12*time.Hour-500*time.Millisecond)
			s.texts(510, 511, "a", invoice, "INV-2026-11-21-1")
		}, RulePeriod},
		{"two days in one answer", func(s *story) {
			s.turn(0, "a", 12*time.Hour-500*time.Millisecond)
			s.texts(400, 600, "a", invoice, "INV-2026-11-21-1", "INV-2026-11-22-1")
		}, RuleForm},
	}.run(t)
}
