package check

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
)

// breaksRedis, losesRedis, … say what a fault does.
func breaksRedis(f *record.Fault) { f.Redis = true }
func losesRedis(f *record.Fault)  { f.Redis, f.LosesKeys = true, true }
func breaksStore(f *record.Fault) { f.Store = true }
func pauses(f *record.Fault)      { f.Paused = true }

type stories []struct {
	name  string
	tell  func(s *story)
	rules string // that are broken, once each, or as often as they stand here
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
	if want := "chaos: seed 7, 1s, 210 numbers, 3 calls, 0 faults of 0 classes, 60 duplicates, 60 violations"; r.Line() != want {
		t.Errorf("got  %s\nwant %s", r.Line(), want)
	}
}

func TestOrder(t *testing.T) {
	stories{
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
		{"the guard was needed", func(s *story) { s.line(5, "a", order, record.Guarded) }, RuleOrderProcess},
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

// onItsOwn is a node that issues on its own from 1000 to 2000.
func onItsOwn(s *story, node string) {
	s.fault(700, 1900, "redis away", "r1", breaksRedis)
	s.line(1000, node, order, record.OnItsOwn)
	s.line(2000, node, order, record.Back)
}

func TestOrderIsSuspendedWhileNodesAreOnTheirOwn(t *testing.T) {
	stories{
		{"smaller within", func(s *story) {
			onItsOwn(s, "a")
			s.call(1100, 1101, "a", order, numbers(20, 1))
			s.call(1200, 1201, "b", order, numbers(5, 1))
		}, ""},
		{"of a biz type that rejects", func(s *story) {
			onItsOwn(s, "a")
			s.call(1100, 1101, "a", bill, numbers(20, 1))
			s.call(1200, 1201, "b", bill, numbers(5, 1))
		}, RuleOrderNodes},
		{"before", func(s *story) {
			onItsOwn(s, "a")
			s.call(100, 101, "a", order, numbers(20, 1))
			s.call(400, 499, "b", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"as long as the log may take before", func(s *story) {
			onItsOwn(s, "a")
			s.call(100, 101, "a", order, numbers(20, 1))
			s.call(400, 500, "b", order, numbers(5, 1))
		}, ""},
		{"after", func(s *story) {
			onItsOwn(s, "a")
			s.call(1100, 1101, "a", order, numbers(20, 1))
			s.call(2001, 2002, "b", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"after, going on above it", func(s *story) {
			onItsOwn(s, "a")
			s.call(1100, 1101, "a", order, numbers(20, 1))
			s.call(1200, 1201, "b", order, numbers(5, 1))
			s.call(2001, 2002, "b", order, numbers(21, 1))
		}, ""},
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
			s.call(1000, 1001, "a", order, numbers(20, 1))
			s.call(1100, 1101, "b", order, numbers(5, 1))
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
			s.add(record.Entry{Sample: &record.Sample{At: 2500 * ms, Node: "a", Life: 1, Status: 200, States: map[string]string{order: redisUnavailable}}})
			s.add(record.Entry{Sample: &record.Sample{At: 3000 * ms, Node: "a", Life: 1, Status: 200}})
			s.call(3001, 3002, "b", order, numbers(20, 1))
			s.call(3003, 3004, "c", order, numbers(5, 1))
		}, RuleOrderNodes},
		{"the same, not passed", func(s *story) {
			s.fault(700, 1900, "redis away", "r1", breaksRedis)
			s.line(1000, "a", order, record.OnItsOwn)
			s.call(1100, 1101, "a", order, numbers(10, 1))
			s.add(record.Entry{Sample: &record.Sample{At: 3000 * ms, Node: "a", Life: 1, Status: 200}})
			s.call(3003, 3004, "c", order, numbers(5, 1))
		}, ""},
	}.run(t)
}

// split is two primaries from 2000 to 3000.
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
		{"smaller within", func(s *story) {
			split(s)
			s.call(2100, 2101, "a", bill, numbers(20, 1))
			s.call(2200, 2201, "b", bill, numbers(5, 1))
		}, ""},
		{"before, when the second was last seen to be a replica", func(s *story) {
			split(s)
			s.call(1500, 1501, "a", bill, numbers(20, 1))
			s.call(1998, 1999, "b", bill, numbers(5, 1))
		}, RuleOrderNodes},
		{"after, not yet passed", func(s *story) {
			split(s)
			s.call(2100, 2101, "a", bill, numbers(20, 1))
			s.call(5000, 5001, "b", bill, numbers(5, 1))
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
			s.call(2100, 2101, "a", bill, numbers(20, 1))
			s.call(2200, 2201, "b", bill, numbers(5, 1))
		}, RuleOrderNodes},
		{"a change of primaries between two looks", func(s *story) {
			s.fault(900, 3000, "failover", "r1", losesRedis)
			s.server(2000, "r1", record.Primary)
			s.server(2000, "r2", record.Replica)
			s.server(2500, "r1", record.Replica)
			s.server(2500, "r2", record.Primary)
			s.call(2100, 2101, "a", bill, numbers(20, 1))
			s.call(2200, 2201, "b", bill, numbers(5, 1))
		}, ""},
	}.run(t)
}

// runs adds what a server says of itself, with how many scripts it has run.
func (s *story) runs(at int64, name, role string, scripts int64) {
	s.add(record.Entry{Server: &record.Server{At: at * ms, Name: name, Role: role, Scripts: scripts}})
}

// twoPrimaries is r1, which serves until ended, and r2, which calls itself a primary from 2000 on and serves from begun on.
func twoPrimaries(s *story, ended, begun int64) {
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
	smaller := func(s *story, at int64) {
		s.call(at, at+1, "a", bill, numbers(20, 1))
		s.call(at+2, at+3, "b", bill, numbers(5, 1))
	}
	stories{
		{"both serve", func(s *story) { twoPrimaries(s, 4000, 2500); smaller(s, 3000) }, ""},
		{"the second does not serve yet", func(s *story) { twoPrimaries(s, 4000, 2500); smaller(s, 2300) }, RuleOrderNodes},
		{"the second may have begun", func(s *story) { twoPrimaries(s, 4000, 2500); smaller(s, 2401) }, ""},
		{"the second never serves", func(s *story) { twoPrimaries(s, 9000, 9000); smaller(s, 3000) }, RuleOrderNodes},
		{"the second serves when the first has ceased to", func(s *story) { twoPrimaries(s, 2200, 2500); smaller(s, 2450) }, RuleOrderNodes},
		{"the first has ceased to, and what it issued was not passed", func(s *story) {
			twoPrimaries(s, 3000, 2500)
			s.call(2990, 2991, "a", bill, numbers(20, 1))
			s.call(3200, 3201, "b", bill, numbers(5, 1))
		}, ""},
		{"the first has ceased to, and what it issued was passed", func(s *story) {
			twoPrimaries(s, 3000, 2500)
			s.call(2990, 2991, "a", bill, numbers(20, 1))
			s.call(3200, 3201, "b", bill, numbers(21, 1))
			s.call(3202, 3203, "c", bill, numbers(5, 1))
		}, RuleOrderNodes},
	}.run(t)
}

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

func TestSkipped(t *testing.T) {
	// Three lives hold two segments of 10 each, and the cursor four; in two seconds each node replaces its standby range twice.
	stories{
		{"what is in hand", func(s *story) { s.call(0, 1, "a", order, numbers(161, 1)) }, ""},
		{"more than that", func(s *story) { s.call(0, 1, "a", order, numbers(162, 1)) }, RuleSkipped},
		{"with reject there are no standby ranges", func(s *story) { s.call(0, 1, "a", bill, numbers(102, 1)) }, RuleSkipped},
		{"per-node", func(s *story) { s.call(0, 1, "a", lot, numbers(61, 1)) }, ""},
		{"per-node, more than that", func(s *story) { s.call(0, 1, "a", lot, numbers(62, 1)) }, RuleSkipped},
		{"a call that got nothing", func(s *story) {
			fails(s.call(0, 1, "b", order), 5)
			s.call(0, 1, "a", order, numbers(166, 1))
		}, ""},
		{"a process more", func(s *story) {
			s.ends(5, "a", record.Killed)
			s.add(record.Entry{Life: &record.Life{Node: "a", Life: 2, Begin: 10 * ms}})
			s.call(20, 21, "a", order, numbers(181, 1)).Life = 2
		}, ""},
		{"a cursor begun anew", func(s *story) {
			s.line(5, "a", order, record.Begun)
			s.call(20, 21, "a", order, numbers(201, 1))
		}, ""},
		{"another counter's cursor begun anew", func(s *story) {
			s.line(5, "a", bill, record.Begun)
			s.call(20, 21, "a", order, numbers(201, 1))
		}, RuleSkipped},
		{"start was raised", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH start=700000", Status: 200}})
			s.call(20, 21, "a", order, numbers(700_000, 1))
		}, ""},
		{"start was raised, and that was refused", func(s *story) {
			s.call(0, 1, "a", order, numbers(1, 10))
			s.add(record.Entry{Call: &record.Call{Start: 2 * ms, End: 3 * ms, Node: "a", BizType: order, Kind: record.Admin, Key: "PATCH start=700000", Status: 503}})
			s.call(20, 21, "a", order, numbers(700_000, 1))
		}, RuleSkipped},
		{"a store that loses answers", func(s *story) {
			s.fault(0, 2000, "lost replies", "m", breaksStore)
			s.call(20, 21, "a", order, numbers(101+3*3*10+4*3*10*10, 1))
		}, ""},
	}.run(t)
}

func TestWhatARecordMustTell(t *testing.T) {
	s := newStory()
	s.call(0, 1, "a", order, numbers(1, 1))
	r, err := Entries(s.entries, Options{})
	if err != nil {
		t.Fatal(err)
	}
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
			t.Errorf("%s is taken", name)
		}
	}
}

func TestShownAndCounted(t *testing.T) {
	s := newStory()
	s.fault(0, 5, "kill", "a", nil)
	for i := range int64(50) {
		s.call(2*i, 2*i+1, "a", order, numbers(100-i, 1))
	}
	r, err := Entries(s.entries, Options{Shown: 3, Unfinished: true})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, map[string]int64{RuleOrderProcess: 49, RuleOrderNodes: 49})
	if len(r.Violations) != 6 || r.Total() != 98 || len(r.Violations[0].Calls) != 2 {
		t.Errorf("%d shown of %d", len(r.Violations), r.Total())
	}
	if got := r.Violations[0].Faults; len(got) != 1 || !strings.HasPrefix(got[0], "kill of a [0.000000, 0.005000]") {
		t.Errorf("faults %q", got)
	}
}

func TestAvailability(t *testing.T) {
	s := newStory()
	one := int64(0)
	answer := func(at int64, node string, well bool) {
		one++
		c := s.call(at, at+1, node, order, numbers(one, 1))
		if !well {
			fails(c, 1)
			c.Status, c.Code = 503, "redis_unavailable"
		}
	}
	for at := int64(0); at < 3000; at += 10 {
		answer(at, "a", at < 1000 || at >= 2500)
		answer(at+5, "b", true)
	}
	s.fault(1000, 2000, "cut", "a", nil)
	s.fault(1500, 2000, "slow", "m", nil)
	r := s.check(t)
	want(t, r, map[string]int64{})
	by := make(map[string]Availability)
	for _, a := range r.ByClass {
		by[a.Class] = a
	}
	cut := by["cut"]
	if cut.Faults != 1 || cut.Asked != 200 || cut.Answered != 100 || cut.Refused != 100 {
		t.Errorf("%+v", cut)
	}
	if cut.NodeGap != time.Second || cut.GapNode != "a" || cut.Gap != 10*time.Millisecond || cut.Recovery != 501*time.Millisecond || cut.Never != 0 {
		t.Errorf("%+v", cut)
	}
	if both := by["cut + slow"]; both.Asked != 100 || by["slow"].Asked != both.Asked || by["slow"].Recovery != cut.Recovery {
		t.Errorf("%+v, %+v", both, by["slow"])
	}
	if none := by[NoFault]; none.Asked != 600-cut.Asked || none.Answered != none.Asked-50 {
		t.Errorf("%+v", none)
	}
	if !maps.Equal(r.Refusals, map[string]int{"redis_unavailable": 150}) {
		t.Errorf("%v", r.Refusals)
	}
	for _, want := range []string{"cut + slow", "50.00%", "no numbers: redis_unavailable: 150 calls", "1s a"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("no %q in\n%s", want, r)
		}
	}
}
