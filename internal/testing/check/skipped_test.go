package check

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

func TestSkipped(t *testing.T) {
	// Three lives hold two segments of 10 each, and the cursor four; in two seconds each node
	// replaces its standby range twice.
	stories{
		{"what is in hand", func(s *story) { s.call(0, 1, "a", order, numbers(161, 1)) }, ""},
		{"more than that", func(s *story) { s.call(0, 1, "a", order, numbers(162, 1)) }, RuleSkipped},
		{"with reject there are no standby ranges", func(s *story) { s.call(0, 1, "a", bill, numbers(102, 1)) }, RuleSkipped},
		{"per-node", func(s *story) { s.call(0, 1, "a", lot, numbers(61, 1)) }, ""},
		{"per-node, more than that", func(s *story) { s.call(0, 1, "a", lot, numbers(62, 1)) }, RuleSkipped},
		{"by the store, nothing", func(s *story) { s.call(0, 1, "a", slip, numbers(1, 1)) }, ""},
		{"by the store, one without a reason", func(s *story) { s.call(0, 1, "a", slip, numbers(2, 1)) }, RuleSkipped},
		{"by the store, a call that got nothing", func(s *story) {
			fails(s.call(0, 1, "b", slip), 5)
			s.ends(5, "b", record.Killed)
			s.call(0, 1, "a", slip, numbers(6, 1))
		}, ""},
		{"by the store, more than the call asked for", func(s *story) {
			fails(s.call(0, 1, "b", slip), 5)
			s.ends(5, "b", record.Killed)
			s.call(0, 1, "a", slip, numbers(7, 1))
		}, RuleSkipped},
		{"by the store, takes of unknown outcome", func(s *story) {
			s.fault(0, 10, "cut", "m", breaksStore) // three nodes, eight attempts of two numbers each
			s.call(20, 21, "a", slip, numbers(49, 2))
		}, ""},
		{"by the store, more than that", func(s *story) {
			s.fault(0, 10, "cut", "m", breaksStore)
			s.call(20, 21, "a", slip, numbers(50, 2))
		}, RuleSkipped},
		{"by the store, a chunk of a job that was lost", func(s *story) {
			lost := s.call(0, 1, "b", slip)
			fails(lost, 5)
			jobOf(lost)
			jobOf(s.call(0, 21, "a", slip, numbers(6, 1)))
		}, ""},
		{"by the store, a chunk of a job", func(s *story) { jobOf(s.call(0, 1, "a", slip, numbers(6, 5))) }, ""},
		{"by the store, more than a chunk of a job", func(s *story) { jobOf(s.call(0, 1, "a", slip, numbers(7, 5))) }, RuleSkipped},
		{"by the store, three chunks of a job for a fault", func(s *story) {
			s.fault(0, 10, "kill", "b", func(*record.Fault) {})
			jobOf(s.call(5, 21, "a", slip, numbers(16, 5)))
		}, ""},
		{"by the store, more than that", func(s *story) {
			s.fault(0, 10, "kill", "b", func(*record.Fault) {})
			jobOf(s.call(5, 21, "a", slip, numbers(17, 5)))
		}, RuleSkipped},
		{"by the store, more chunks of a job after the fault", func(s *story) {
			s.fault(0, 10, "kill", "b", func(*record.Fault) {})
			jobOf(s.call(15, 21, "a", slip, numbers(11, 5)))
		}, RuleSkipped},
		{"by the store, two buffers of three nodes", func(s *story) {
			s.fault(0, 10, "ordering", "", func(f *record.Fault) { f.Unordered = slip })
			s.call(20, 21, "a", slip, numbers(61, 1))
		}, ""},
		{"by the store, more than the buffers", func(s *story) {
			s.fault(0, 10, "ordering", "", func(f *record.Fault) { f.Unordered = slip })
			s.call(20, 21, "a", slip, numbers(62, 1))
		}, RuleSkipped},
		{"by the store, answers that were lost", func(s *story) {
			l := s.line(5, "", slip, record.Unheard)
			l.First, l.Last = 1, 4
			s.call(20, 21, "a", slip, numbers(5, 1))
		}, ""},
		{"by the store, more than that", func(s *story) {
			l := s.line(5, "", slip, record.Unheard)
			l.First, l.Last = 1, 4
			s.call(20, 21, "a", slip, numbers(6, 1))
		}, RuleSkipped},
		{"a call that got nothing", func(s *story) {
			fails(s.call(0, 1, "b", order), 5)
			s.call(0, 1, "a", order, numbers(166, 1))
		}, ""},
		{"a process more", func(s *story) {
			s.ends(5, "a", record.Killed)
			s.add(record.Entry{Life: &record.Life{Node: "a", Life: 2, Begin: 10 * ms}})
			s.call(20, 21, "a", order, numbers(181, 1)).Life = 2
		}, ""},
		{"a cursor started again", func(s *story) {
			s.line(5, "a", order, record.Begun)
			s.call(20, 21, "a", order, numbers(201, 1))
		}, ""},
		{"another counter's cursor started again", func(s *story) {
			s.line(5, "a", bill, record.Begun)
			s.call(20, 21, "a", order, numbers(201, 1))
		}, RuleSkipped},
		{"a store that was put back", func(s *story) {
			s.fault(0, 10, "restore", "a", putsBack)
			s.call(20, 21, "a", bill, numbers(201, 1))
		}, ""},
		{"a store that was put back, more than that", func(s *story) {
			s.fault(0, 10, "restore", "a", putsBack)
			s.call(20, 21, "a", bill, numbers(202, 1))
		}, RuleSkipped},
		{"start was raised", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH start=700000", Status: 200}})
			s.call(20, 21, "a", order, numbers(700_000, 1))
		}, ""},
		{"start was raised, and that was refused", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH start=700000", Status: 409, Code: "conflict"}})
			s.call(20, 21, "a", order, numbers(700_000, 1))
		}, RuleSkipped},
		{"start was raised, and nobody knows", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH start=700000", Status: 503, Code: "store_unavailable"}})
			s.call(20, 21, "a", order, numbers(700_000, 1))
		}, ""},
		{"an increment was forced", func(s *story) {
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: slip, Kind: record.Admin, Key: "PATCH?force=true increment=3 offset=1", Status: 200}})
			s.call(20, 21, "a", slip, numbers(5, 1))
		}, ""},
		{"an increment was forced, and more was skipped", func(s *story) {
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: slip, Kind: record.Admin, Key: "PATCH?force=true increment=3 offset=1", Status: 200}})
			s.call(20, 21, "a", slip, numbers(6, 1))
		}, RuleSkipped},
		{"a store that loses answers", func(s *story) {
			s.fault(0, 2000, "lost replies", "m", breaksStore)
			s.call(20, 21, "a", order, numbers(101+3*3*10+4*3*10*10, 1))
		}, ""},
	}.run(t)
}

func jobOf(c *record.Call) { c.Kind = record.Job }
