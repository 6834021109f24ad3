package check

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

func TestOrder(t *testing.T) {
	stories{
		{"in a call, of a biz type whose order is not promised", func(s *story) {
			s.entries[0].World.BizTypes[0].NoOrder = true
			s.call(0, 1, "a", order, numbers(5, 2), numbers(1, 2))
			s.call(2, 3, "a", order, numbers(3, 2))
		}, RuleOrderInCall},
		{"a range is in no order with others", func(s *story) {
			s.call(0, 1, "a", order, numbers(50, 100)).Kind = record.Range
			s.call(2, 3, "a", order, numbers(5, 2))
			s.call(4, 5, "b", order, numbers(20, 10)).Kind = record.Range
			s.call(6, 7, "a", lot, numbers(50, 100)).Kind = record.Range
			s.call(8, 9, "a", lot, numbers(5, 2))
		}, ""},
		{"but within itself", func(s *story) {
			s.call(0, 1, "a", order, numbers(5, 2), numbers(1, 2)).Kind = record.Range
		}, RuleOrderInCall},
		{"and calls around it are in order", func(s *story) {
			s.call(0, 1, "a", order, numbers(5, 2))
			s.call(2, 3, "a", order, numbers(50, 100)).Kind = record.Range
			s.call(4, 5, "b", order, numbers(3, 2)).Protocol = record.RESP
		}, RuleOrderNodes},
		{"the store went back", func(s *story) { s.line(5, "a", order, record.Restored) }, RuleGuard},
		{"in a call", func(s *story) { s.call(0, 1, "a", order, numbers(5, 2), numbers(1, 2)) }, RuleOrderInCall},
		{"in a call, with a gap", func(s *story) { s.call(0, 1, "a", order, numbers(1, 2), numbers(5, 2)) }, ""},
		{"in a call without any order to read", func(s *story) { s.texts(0, 1, "a", invite, "z", "a") }, ""},
		{"per node, over its processes", func(s *story) {
			s.call(0, 1, "a", lot, numbers(5, 2))
			s.call(2, 3, "a", lot, numbers(3, 2)).Life = 2
			s.call(4, 5, "b", lot, numbers(8, 2))
			s.call(6, 7, "b", lot, numbers(7, 1)).Life = 2
		}, RuleOrderNode + ", " + RuleOrderNode},
		{"overlapping calls", func(s *story) {
			s.call(0, 5, "a", lot, numbers(5, 2))
			s.call(1, 3, "a", lot, numbers(3, 2))
		}, ""},
		{"touching calls", func(s *story) {
			s.call(0, 5, "a", order, numbers(5, 2))
			s.call(5, 6, "b", order, numbers(3, 2))
		}, ""},
		{"over nodes", func(s *story) {
			s.call(0, 5, "a", order, numbers(5, 2))
			s.call(6, 7, "b", order, numbers(3, 2))
		}, RuleOrderNodes},
		{"over nodes, with reject", func(s *story) {
			s.call(0, 5, "a", bill, numbers(5, 2))
			s.call(6, 7, "b", bill, numbers(3, 2))
		}, RuleOrderNodes},
		{"an early high one, a long call, a late low one", func(s *story) {
			s.call(0, 1, "a", order, numbers(20, 1))
			s.call(0, 90, "b", order, numbers(1, 1))
			s.call(80, 81, "c", order, numbers(19, 1))
		}, RuleOrderNodes},
		{"over nodes, where it is per node", func(s *story) {
			s.call(0, 5, "a", lot, numbers(5, 2))
			s.call(6, 7, "b", lot, numbers(3, 2))
		}, ""},
		{"over nodes, on other days", func(s *story) {
			s.turn(0, "b", -24*time.Hour)
			s.texts(0, 5, "a", invoice, "INV-2026-11-21-5")
			s.texts(6, 7, "b", invoice, "INV-2026-11-20-3")
		}, ""},
		{"over nodes, on one day", func(s *story) {
			s.texts(0, 5, "a", invoice, "INV-2026-11-21-5")
			s.texts(6, 7, "b", invoice, "INV-2026-11-21-3")
		}, RuleOrderNodes},
		{"a key's numbers, issued by the call that got no answer", func(s *story) {
			fails(s.post(0, 5, "a", order, "k"), 1)
			s.call(6, 7, "b", order, numbers(5, 1))
			s.post(8, 9, "b", order, "k", numbers(1, 1)).Replayed = true
		}, ""},
		{"a key's numbers, in one call", func(s *story) {
			s.call(6, 7, "b", order, numbers(5, 1))
			s.post(8, 9, "a", order, "k", numbers(1, 1))
		}, RuleOrderNodes},
		{"a key's numbers, replayed later", func(s *story) {
			s.post(0, 1, "a", order, "k", numbers(1, 1))
			s.call(6, 7, "b", order, numbers(5, 1))
			s.post(8, 9, "b", order, "k", numbers(1, 1)).Replayed = true
		}, ""},
		{"of snowflake per process", func(s *story) {
			s.call(0, 9, "a", user, flakes(8, 3, 0, 1))
			s.call(10, 12, "a", user, flakes(6, 4, 0, 1))
		}, RuleOrderProcess},
		{"of snowflake after a clock was put right", func(s *story) {
			s.turn(1, "a", time.Hour)
			s.line(1, "a", "", record.GotMachine).Machine = 3
			s.call(2, 3, "a", user, flakes(3_600_002, 3, 0, 1))
			s.turn(4, "a", 0)
			s.line(5, "a", "", record.GotMachine).Machine = 4
			s.call(10, 12, "a", user, flakes(11, 4, 0, 1))
		}, ""},
		{"the guard was needed", func(s *story) { s.line(5, "a", order, record.Guarded) }, RuleGuard},
	}.run(t)
}

func TestOrderPerProcess(t *testing.T) {
	s := newStory()
	s.fault(0, 5000, "redis away", "r1", breaksRedis)
	s.line(0, "a", order, record.OnItsOwn)
	s.call(100, 101, "a", order, numbers(5, 1))
	s.call(102, 103, "a", order, numbers(3, 1))
	s.line(4000, "a", order, record.Back)
	want(t, s.check(t), map[string]int64{RuleOrderProcess: 1})
}

// falls adds a number from node a, and a smaller one from node b, after it.
func (s *story) falls(bizType string, first, then int64) {
	s.call(first, first+1, "a", bizType, numbers(20, 1))
	s.call(then, then+1, "b", bizType, numbers(5, 1))
}

// onItsOwn adds a node that issues on its own from 1000 to 2000.
func onItsOwn(s *story, node string) {
	s.fault(700, 1900, "redis away", "r1", breaksRedis)
	s.line(1000, node, order, record.OnItsOwn)
	s.line(2000, node, order, record.Back)
}

// yesterdayToo adds a node that issues numbers of today on its own from 1000 to 3000, and those of
// yesterday until 2000 and again from 3500 to 5000.
func yesterdayToo(s *story) {
	s.fault(700, 4000, "redis away", "r1", breaksRedis)
	const yesterday, today = "invoice@20261120", "invoice@20261121"
	s.line(1000, "a", yesterday, record.OnItsOwn)
	s.line(1001, "a", today, record.OnItsOwn)
	s.line(2000, "a", yesterday, record.Back)
	s.add(record.Entry{Sample: &record.Sample{At: 2100 * ms, Node: "a", Life: 1, Status: 200}})
	s.line(3000, "a", today, record.Back)
	s.line(3500, "a", yesterday, record.OnItsOwn)
	s.line(5000, "a", yesterday, record.Back)
}

func TestOrderIsSuspendedWhileNodesAreOnTheirOwn(t *testing.T) {
	stories{
		{"smaller within", func(s *story) { onItsOwn(s, "a"); s.falls(order, 1100, 1200) }, ""},
		{"of a biz type that rejects", func(s *story) { onItsOwn(s, "a"); s.falls(bill, 1100, 1200) }, RuleOrderNodes},
		{"before", func(s *story) {
			onItsOwn(s, "a")
			s.call(100, 101, "a", order, numbers(20, 1))
			s.call(400, 499, "b", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"as long as the log may take before", func(s *story) {
			onItsOwn(s, "a")
			s.call(100, 500, "a", order, numbers(20, 1))
			s.call(501, 502, "b", order, numbers(5, 1))
		}, ""},
		{"before, and heard of within, from nodes that are not on their own", func(s *story) {
			onItsOwn(s, "a")
			s.call(100, 101, "a", order, numbers(20, 1))
			s.call(400, 500, "b", order, numbers(5, 1))
		}, RuleOrderCursor},
		{"within, from nodes that are not on their own", func(s *story) {
			onItsOwn(s, "a")
			s.call(1100, 1101, "c", order, numbers(20, 1))
			s.call(1200, 1201, "b", order, numbers(5, 1))
		}, RuleOrderCursor},
		{"after", func(s *story) { onItsOwn(s, "a"); s.falls(order, 1100, 2001) }, RuleOrderNodes},
		{"after, going on above it", func(s *story) {
			onItsOwn(s, "a")
			s.falls(order, 1100, 1200)
			s.call(2001, 2002, "b", order, numbers(21, 1))
		}, ""},
		{"of this counter, and not of another one of the biz type", func(s *story) {
			yesterdayToo(s)
			s.texts(2500, 2501, "a", invoice, "INV-2026-11-21-20")
			s.texts(2600, 2601, "b", invoice, "INV-2026-11-21-5")
		}, ""},
		{"of another counter", func(s *story) {
			yesterdayToo(s)
			s.texts(4000, 4001, "a", invoice, "INV-2026-11-21-20")
			s.texts(4100, 4101, "b", invoice, "INV-2026-11-21-5")
		}, RuleOrderNodes},
		{"a node that died, until the cursor has passed", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(1100, 1101, "a", order, numbers(20, 1))
			s.ends(1500, "a", record.Killed)
			s.call(5000, 5001, "b", order, numbers(5, 1))
			s.call(6000, 6001, "b", order, numbers(21, 1))
		}, ""},
		{"a node that died, and the cursor has passed", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(1100, 1101, "a", order, numbers(20, 1))
			s.ends(1500, "a", record.Killed)
			s.call(5000, 5001, "b", order, numbers(21, 1))
			s.call(6000, 6001, "c", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"a node that died without having issued anything", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.ends(1500, "a", record.Killed)
			s.call(5000, 5001, "b", order, numbers(20, 1))
			s.call(6000, 6001, "c", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"a node that died before it could say so", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.call(1000, 1001, "a", order, numbers(20, 1))
			s.ends(1100, "a", record.Killed)
			s.call(1200, 1201, "b", order, numbers(5, 1))
		}, ""},
		{"a node that died long after it would have said so", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.falls(order, 1000, 1100)
			s.ends(1700, "a", record.Killed)
		}, RuleOrderNodes},
		{"a node that died while nothing was wrong", func(s *story) {
			s.call(1000, 1001, "a", order, numbers(20, 1))
			s.ends(1100, "a", record.Killed)
			s.call(1200, 1201, "b", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"a node that stopped has said so", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.call(1000, 1001, "a", order, numbers(20, 1))
			s.ends(1100, "a", record.Stopped)
			s.call(1200, 1201, "b", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"a node that was paused before it was heard", func(s *story) {
			s.fault(700, 9000, "redis away", "r1", breaksRedis)
			s.fault(1000, 8000, "pause", "a", pauses)
			s.call(900, 950, "a", order, numbers(20, 1))
			s.call(960, 970, "b", order, numbers(5, 1))
			s.line(8001, "a", order, record.OnItsOwn)
			s.line(9100, "a", order, record.Back)
		}, ""},
		{"another node's pause explains nothing", func(s *story) {
			s.fault(700, 9000, "redis away", "r1", breaksRedis)
			s.fault(1000, 8000, "pause", "b", pauses)
			s.call(900, 950, "a", order, numbers(20, 1))
			s.call(960, 970, "b", order, numbers(5, 1))
			s.line(8001, "a", order, record.OnItsOwn)
			s.line(9100, "a", order, record.Back)
		}, RuleOrderNodes},
		{"a strategy that was replaced says nothing more, but readyz does", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(1100, 1101, "a", order, numbers(10, 1))
			s.add(record.Entry{Sample: &record.Sample{At: 2500 * ms, Node: "a", Life: 1, Status: 200, States: map[string]string{order: "redis_unavailable"}}})
			s.add(record.Entry{Sample: &record.Sample{At: 2600 * ms, Node: "a", Life: 1, Status: 200, States: map[string]string{order: "store_unavailable"}}})
			s.call(2650, 2651, "a", order, numbers(15, 1))
			s.call(2700, 2701, "b", order, numbers(11, 1))
			s.call(2800, 2801, "b", order, numbers(12, 1))
			s.add(record.Entry{Sample: &record.Sample{At: 3000 * ms, Node: "a", Life: 1, Status: 200}})
			s.call(3001, 3002, "b", order, numbers(20, 1))
			s.call(3003, 3004, "c", order, numbers(7, 1))
		}, RuleOrderNodes},
		{"its successor is on its own as well, later", func(s *story) {
			s.fault(700, 9000, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.add(record.Entry{Sample: &record.Sample{At: 3000 * ms, Node: "a", Life: 1, Status: 200}})
			s.call(3001, 3002, "b", order, numbers(5, 1))
			s.line(6000, "a", order, record.OnItsOwn)
			s.call(6100, 6101, "a", order, numbers(20, 1))
			s.call(6200, 6201, "b", order, numbers(6, 1))
		}, ""},
		{"the same, not passed", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(1100, 1101, "a", order, numbers(10, 1))
			s.add(record.Entry{Sample: &record.Sample{At: 3000 * ms, Node: "a", Life: 1, Status: 200}})
			s.call(3003, 3004, "c", order, numbers(5, 1))
		}, ""},
	}.run(t)
}

// split adds two primaries from 2000 to 3000.
func split(s *story) {
	s.fault(900, 3000, "partition", "r1", losesRedis)
	s.server(1000, "r1", record.Silent)
	s.server(2000, "r2", record.Replica)
	s.server(2500, "r2", record.Primary)
	s.server(2900, "r1", record.Primary)
	s.server(3000, "r1", record.Replica)
}

func TestOrderIsSuspendedDuringASplitBrain(t *testing.T) {
	stories{
		{"smaller within", func(s *story) { split(s); s.falls(bill, 2100, 2200) }, ""},
		{"the guard was needed within", func(s *story) {
			split(s)
			s.line(2900, "a", bill, record.Guarded)
		}, ""},
		{"the guard was needed long after", func(s *story) {
			split(s)
			s.line(9000, "a", bill, record.Guarded)
		}, RuleGuard},
		{"before, when the second was last seen to be a replica", func(s *story) {
			split(s)
			s.falls(bill, 1500, 1998)
		}, RuleOrderNodes},
		{"after, not yet passed", func(s *story) {
			split(s)
			s.falls(bill, 2100, 5000)
			s.call(6000, 6001, "b", bill, numbers(21, 1))
		}, ""},
		{"after it was passed", func(s *story) {
			split(s)
			s.call(2100, 2101, "a", bill, numbers(20, 1))
			s.call(5000, 5001, "b", bill, numbers(21, 1))
			s.call(6000, 6001, "b", bill, numbers(5, 1))
		}, RuleOrderNodes + ", " + RuleOrderProcess},
		{"a primary that was killed splits nothing", func(s *story) {
			s.fault(900, 3000, "kill", "r1", losesRedis)
			s.server(1000, "r1", record.Gone)
			s.server(2000, "r2", record.Replica)
			s.server(2500, "r2", record.Primary)
			s.falls(bill, 2100, 2200)
		}, RuleOrderNodes},
		{"a change of primaries between two looks", func(s *story) {
			s.fault(900, 3000, "failover", "r1", losesRedis)
			s.server(2000, "r1", record.Primary)
			s.server(2000, "r2", record.Replica)
			s.server(2500, "r1", record.Replica)
			s.server(2500, "r2", record.Primary)
			s.falls(bill, 2100, 2200)
		}, ""},
	}.run(t)
}

// unordered makes a fault suspend the order over nodes of a biz type.
func unordered(bizType string) func(*record.Fault) {
	return func(f *record.Fault) { f.Unordered = bizType }
}

func TestOrderIsSuspendedWhileOperatorsChangeWhatItRestsOn(t *testing.T) {
	stories{
		{"two servers", func(s *story) { s.fault(1000, 2000, "two", "a", unordered(record.Every)); s.falls(bill, 1500, 1502) }, ""},
		{"two servers, before", func(s *story) { s.fault(1000, 2000, "two", "a", unordered(record.Every)); s.falls(bill, 990, 992) }, RuleOrderNodes},
		{"two servers, after", func(s *story) { s.fault(1000, 2000, "two", "a", unordered(record.Every)); s.falls(bill, 2001, 2003) }, RuleOrderNodes},
		{"two servers, not passed after", func(s *story) {
			s.fault(1000, 2000, "two", "a", unordered(record.Every))
			s.falls(bill, 1500, 2001)
		}, RuleOrderNodes},
		{"two servers, per process", func(s *story) {
			s.fault(1000, 2000, "two", "a", unordered(record.Every))
			s.call(1500, 1501, "a", bill, numbers(20, 1))
			s.call(1502, 1503, "a", bill, numbers(5, 1))
		}, RuleOrderProcess},
		{"two servers, the same number", func(s *story) {
			s.fault(1000, 2000, "two", "a", unordered(record.Every))
			s.call(1500, 1501, "a", bill, numbers(20, 1))
			s.call(1500, 1503, "b", bill, numbers(20, 1))
		}, RuleDuplicate},
		{"two servers, while nodes are on their own", func(s *story) {
			onItsOwn(s, "c")
			s.fault(1000, 2000, "two", "a", unordered(record.Every))
			s.falls(order, 1500, 1502)
		}, ""},
		{"another ordering", func(s *story) { s.fault(1000, 2000, "other", "", unordered(bill)); s.falls(bill, 1500, 1502) }, ""},
		{"another ordering of another biz type", func(s *story) { s.fault(1000, 2000, "other", "", unordered(order)); s.falls(bill, 1500, 1502) }, RuleOrderNodes},
		{"another ordering, not passed after", func(s *story) {
			s.fault(1000, 2000, "other", "", unordered(bill))
			s.falls(bill, 1500, 2001)
		}, RuleOrderNodes},
	}.run(t)
}

// No fault of Redis or of the store excuses a broken order of what the store orders.
func TestOrderByTheStoreIsNeverSuspended(t *testing.T) {
	// one got nothing, which explains the numbers between
	explained := func(s *story) { fails(s.call(0, 1, "c", slip), 50) }
	smaller := func(s *story) {
		explained(s)
		s.falls(slip, 1500, 1502)
	}
	for name, fault := range map[string]func(*record.Fault){
		"Redis is away": breaksRedis, "Redis loses everything": losesRedis, "the store is away": breaksStore, "a pause": pauses, "a backup": putsBack,
		"two servers": unordered(record.Every), "another biz type": unordered(order),
	} {
		stories{
			{name, func(s *story) {
				s.fault(1000, 2000, "fault", "m", fault)
				s.line(1200, "a", slip, record.OnItsOwn) // it cannot be
				smaller(s)
			}, RuleOrderNodes},
			{name + ", in order", func(s *story) {
				explained(s)
				s.fault(1000, 2000, "fault", "m", fault)
				s.call(1500, 1501, "a", slip, numbers(20, 1))
				s.call(1502, 1503, "b", slip, numbers(21, 1))
			}, ""},
		}.run(t)
	}
	stories{
		{"two primaries", func(s *story) {
			explained(s)
			split(s)
			s.falls(slip, 2100, 2200)
		}, RuleOrderNodes},
		{"nothing is broken", smaller, RuleOrderNodes},
		{"another sequencer", func(s *story) { s.fault(1000, 2000, "other", "", unordered(slip)); smaller(s) }, ""},
		{"another sequencer, not passed after", func(s *story) {
			s.fault(1000, 1501, "other", "", unordered(slip))
			smaller(s)
		}, RuleOrderNodes},
		{"another sequencer, while Redis is well", func(s *story) {
			s.fault(1000, 2000, "other", "", func(f *record.Fault) { f.Unordered, f.IfRedis = slip, true })
			smaller(s)
		}, RuleOrderNodes},
		{"another sequencer, while Redis is away", func(s *story) {
			s.fault(1000, 2000, "other", "", func(f *record.Fault) { f.Unordered, f.IfRedis = slip, true })
			s.fault(1100, 1200, "redis away", "r1", breaksRedis)
			smaller(s)
		}, ""},
		{"after another sequencer, per process", func(s *story) {
			explained(s)
			s.fault(1000, 2000, "other", "", unordered(slip))
			s.call(1500, 1501, "a", slip, numbers(20, 1))
			s.call(1502, 1503, "a", slip, numbers(5, 1))
		}, RuleOrderProcess},
	}.run(t)
}

func putsBack(f *record.Fault) { f.StoreBack = true }

func TestAStoreThatWasPutBack(t *testing.T) {
	stories{
		{"nodes notice", func(s *story) {
			s.fault(1000, 2000, "restore", "a", putsBack)
			s.line(1500, "a", order, record.Restored)
			s.line(9000, "a", order, record.Restored)
		}, ""},
		{"nodes notice before", func(s *story) {
			s.fault(1000, 2000, "restore", "a", putsBack)
			s.line(900, "a", order, record.Restored)
		}, RuleGuard},
		{"order holds all the same", func(s *story) {
			s.fault(1000, 2000, "restore", "a", putsBack)
			s.falls(order, 900, 2100)
		}, RuleOrderNodes},
		{"and no number comes twice", func(s *story) {
			s.fault(1000, 2000, "restore", "a", putsBack)
			s.call(900, 901, "a", lot, numbers(20, 1))
			s.call(2100, 2101, "b", lot, numbers(20, 1))
		}, RuleDuplicate},
	}.run(t)
}

// runs adds a server's role and the number of scripts that it has run.
func (s *story) runs(at int64, name, role string, scripts int64) {
	s.add(record.Entry{Server: &record.Server{At: at * ms, Name: name, Role: role, Scripts: scripts}})
}

// serveTwo adds r1, which serves until ended, and r2, which is a primary from 2000 on and serves
// from begun on.
func serveTwo(s *story, ended, begun int64) {
	s.fault(900, 3000, "partition", "r1", losesRedis)
	one, two := int64(5), int64(0)
	for at := int64(1000); at <= 5000; at += 100 {
		if at <= ended {
			one++
		}
		if at >= begun {
			two++
		}
		s.runs(at, "r1", record.Primary, one)
		role := record.Replica
		if at >= 2000 {
			role = record.Primary
		}
		s.runs(at, "r2", role, two)
	}
}

func TestAPrimaryThatServesNobodySplitsNothing(t *testing.T) {
	stories{
		{"both serve", func(s *story) { serveTwo(s, 4000, 2500); s.falls(bill, 3000, 3002) }, ""},
		{"the second does not serve yet", func(s *story) { serveTwo(s, 4000, 2500); s.falls(bill, 2300, 2302) }, RuleOrderNodes},
		{"the second may have begun", func(s *story) { serveTwo(s, 4000, 2500); s.falls(bill, 2401, 2403) }, ""},
		{"the second never serves", func(s *story) { serveTwo(s, 9000, 9000); s.falls(bill, 3000, 3002) }, RuleOrderNodes},
		{"the second serves when the first has ceased to", func(s *story) { serveTwo(s, 2200, 2500); s.falls(bill, 2450, 2452) }, RuleOrderNodes},
		{"the first has ceased to, and what it issued was not passed", func(s *story) {
			serveTwo(s, 3000, 2500)
			s.falls(bill, 2990, 3200)
		}, ""},
		{"the first has ceased to, and what it issued was passed", func(s *story) {
			serveTwo(s, 3000, 2500)
			s.call(2990, 2991, "a", bill, numbers(20, 1))
			s.call(3200, 3201, "b", bill, numbers(21, 1))
			s.call(3202, 3203, "c", bill, numbers(5, 1))
		}, RuleOrderNodes},
	}.run(t)
}
