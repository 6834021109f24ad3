package check

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/seqd/seqd/internal/testing/record"
)

// machineOf gives each process its own machine ID.
func machineOf(node string, life int) int64 { return int64(node[0]-'a') + 3*int64(life) }

// simulation generates random records of a system that keeps all promises. It has a cursor that all
// nodes take from, ranges of each node, machine IDs, and nodes that are sometimes on their own or
// die. A call's numbers are taken at a moment between its start and its end.
type simulation struct {
	*story
	t       *rapid.T
	now     int64            // ms
	cursor  map[string]int64 // next number, by counter
	local   map[string]int64 // next number of a node's own range, by biz type and node
	life    map[string]int
	last    map[string]int64 // time and sequence of the last number, by machine ID
	answers map[string]record.Runs
	own     string // the node that is on its own; it is above the cursor when it returns
}

func simulate(t *rapid.T) *simulation {
	s := &simulation{story: newStory(), t: t, now: 1000, cursor: map[string]int64{}, local: map[string]int64{}, life: map[string]int{"a": 1, "b": 1, "c": 1}, last: map[string]int64{}, answers: map[string]record.Runs{}}
	for range rapid.IntRange(20, 150).Draw(t, "steps") {
		s.now += rapid.Int64Range(2, 20).Draw(t, "pause")
		s.step()
	}
	if s.own != "" {
		s.comeBack()
	}
	return s
}

func (s *simulation) node() string {
	return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(s.t, "node")
}

// step takes one random step.
func (s *simulation) step() {
	switch what := rapid.IntRange(0, 19).Draw(s.t, "what"); what {
	case 0:
		if s.own == "" {
			s.leave()
		} else {
			s.comeBack()
		}
	case 1:
		s.die()
	case 2, 3:
		s.again()
	default:
		s.issue(rapid.SampledFrom([]string{order, bill, lot, slip, invoice, user, user, account}).Draw(s.t, "biz type"))
	}
}

// issue adds a call whose numbers are taken now.
func (s *simulation) issue(bizType string) {
	node := s.node()
	from, to := s.now-rapid.Int64Range(0, 30).Draw(s.t, "before"), s.now+rapid.Int64Range(0, 30).Draw(s.t, "after")
	count := rapid.Int64Range(1, 9).Draw(s.t, "count")
	var c *record.Call
	switch bizType {
	case user, account:
		c = s.call(from, to, node, bizType, s.flakes(node, count))
	case invoice:
		first := s.take(bizType, node, count)
		var texts []string
		for n := range count {
			texts = append(texts, fmt.Sprintf("INV-2026-11-21-%04d", first+n))
		}
		c = s.texts(from, to, node, bizType, texts...)
	default:
		c = s.call(from, to, node, bizType, numbers(s.take(bizType, node, count), count))
	}
	c.Life = s.life[node]
	if s.cursorOnly(bizType) && rapid.IntRange(0, 3).Draw(s.t, "key") == 0 {
		c.Kind, c.Key = record.Idempotent, fmt.Sprint("k", len(s.entries))
		s.answers[c.Key] = c.Runs
	}
	if rapid.IntRange(0, 9).Draw(s.t, "lost") == 0 {
		fails(c, int(count))
		c.Texts = nil
	}
}

func (s *simulation) cursorOnly(bizType string) bool { return bizType == bill }

// again repeats a request with a key, whose first answer may have been lost.
func (s *simulation) again() {
	var keys []string
	for key := range s.answers {
		keys = append(keys, key)
	}
	if slices.Sort(keys); len(keys) == 0 {
		return
	}
	key, node := rapid.SampledFrom(keys).Draw(s.t, "repeated"), s.node()
	c := s.post(s.now, s.now+3, node, bill, key, s.answers[key]...)
	c.Life, c.Replayed = s.life[node], true
}

// take takes numbers from the cursor or the node's own range.
func (s *simulation) take(bizType, node string, count int64) int64 {
	switch {
	case bizType == lot:
		return s.range100(bizType, node, count)
	case bizType == order && node == s.own:
		return s.range100("own "+order, node, count)
	}
	s.cursor[bizType] = max(s.cursor[bizType], 1) + count
	return s.cursor[bizType] - count
}

// apart is how far a node's own ranges are above everything, so that the cursor does not reach them
// while the node is on its own.
const apart = 10_000

// range100 takes numbers from a node's own range of a hundred.
func (s *simulation) range100(counter, node string, count int64) int64 {
	at := counter + node
	if s.local[at] == 0 || s.local[at]%100+count > 100 {
		s.local[at] = max(s.cursor[counter], s.cursor[order])/100*100 + apart
		s.cursor[counter] = s.local[at]
	}
	s.local[at] += count
	return s.local[at] - count
}

// flakes generates numbers of the current time with the machine ID of a process.
func (s *simulation) flakes(node string, count int64) record.Run {
	machine := machineOf(node, s.life[node])
	at := fmt.Sprint(machine)
	if s.last[at]>>12 != s.now {
		s.last[at] = s.now << 12
	}
	s.last[at] += count
	return flakes(s.now, machine, s.last[at]&4095-count, count)
}

// leave makes a node issue on its own.
func (s *simulation) leave() {
	s.own = s.node()
	s.fault(s.now-300, s.now+100, "redis away", "r1", breaksRedis)
	s.line(s.now, s.own, order, record.OnItsOwn).Life = s.life[s.own]
}

// comeBack moves the cursor above all that the node has issued.
func (s *simulation) comeBack() {
	s.moveUp()
	s.now += 31 // after the end of its calls
	s.line(s.now, s.own, order, record.Back).Life = s.life[s.own]
	s.own = ""
}

// moveUp starts the cursor again above what the node issued on its own, and drops the rest of its
// range.
func (s *simulation) moveUp() {
	own := "own " + order + s.own
	s.cursor[order] = max(s.cursor[order], s.local[own])
	delete(s.local, own)
}

// die ends a process and starts another.
func (s *simulation) die() {
	node := s.node()
	if node == s.own {
		s.moveUp()
		s.own = ""
	}
	s.now += 31
	s.add(record.Entry{Life: &record.Life{Node: node, Life: s.life[node], Ready: 1, End: s.now * ms, How: record.Killed}})
	s.life[node]++
	s.add(record.Entry{Life: &record.Life{Node: node, Life: s.life[node], Begin: s.now * ms}})
	delete(s.local, lot+node)
}

// checked checks the record, and allows for the numbers that the simulation skips, which are more
// than seqd would skip.
func (s *simulation) checked() *Report {
	for i := range s.entries[0].World.BizTypes {
		s.entries[0].World.BizTypes[i].MaxStep = 2 * apart
	}
	r, err := Entries(append(slices.Clone(s.entries), record.Entry{Done: &record.Done{At: (s.now + 1000) * ms}}), Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func TestRandomHistoriesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if r := simulate(t).checked(); r.Total() > 0 {
			t.Fatalf("\n%s", r)
		}
	})
}

// mutations each break one promise, if the record allows it, and name the rule that must notice.
var mutations = []struct {
	name string
	rule string
	do   func(s *simulation, answered []*record.Call) bool
}{
	{"a number again", RuleDuplicate, func(s *simulation, answered []*record.Call) bool {
		c := rapid.SampledFrom(answered).Draw(s.t, "call")
		twin := *c
		twin.Start, twin.End, twin.Key, twin.Kind, twin.Replayed = (s.now+100)*ms, (s.now+101)*ms, "", record.Batch, false
		s.add(record.Entry{Call: &twin})
		return true
	}},
	{"one number of a batch again", RuleDuplicate, func(s *simulation, answered []*record.Call) bool {
		c := rapid.SampledFrom(answered).Draw(s.t, "call")
		if len(c.Runs) == 0 {
			return false
		}
		n := rapid.Int64Range(0, c.Runs[0].Count-1).Draw(s.t, "number")
		s.call(s.now+100, s.now+101, c.Node, c.BizType, record.Run{First: c.Runs[0].First + n*c.Runs[0].Step, Count: 1, Step: 1}).Life = c.Life
		return true
	}},
	{"another answer to a key", RuleIdempotency, func(s *simulation, answered []*record.Call) bool {
		c := s.oneOf(answered, func(c *record.Call) bool { return c.Kind == record.Idempotent })
		if c == nil {
			return false
		}
		s.post(s.now+100, s.now+101, "a", c.BizType, c.Key, numbers(s.cursor[bill]+1, int64(c.Asked)))
		return true
	}},
	{"a number below", RuleOrderNodes, func(s *simulation, answered []*record.Call) bool {
		// Below every number of a call that ended long ago; 0 was never issued.
		if !slices.ContainsFunc(answered, func(c *record.Call) bool { return c.BizType == bill }) {
			return false
		}
		s.call(s.now+500, s.now+501, "a", bill, numbers(0, 1)).Life = 99
		return true
	}},
	{"a number below on a node", RuleOrderNode, func(s *simulation, answered []*record.Call) bool {
		c := s.oneOf(answered, func(c *record.Call) bool { return c.BizType == lot })
		if c == nil {
			return false
		}
		s.call(s.now+500, s.now+501, c.Node, lot, numbers(0, 1)).Life = 99
		return true
	}},
	{"a machine ID that is another's", RuleMachine, func(s *simulation, answered []*record.Call) bool {
		c := s.oneOf(answered, func(c *record.Call) bool { return c.BizType == user })
		if c == nil {
			return false
		}
		thief := *c
		thief.Life, thief.Runs, thief.Asked = c.Life+1, record.Runs{{First: c.Runs[0].First | 4000<<10, Count: 1, Step: 1}}, 1
		s.add(record.Entry{Call: &thief})
		return true
	}},
	{"a time that was not", RuleSnowflakeTime, func(s *simulation, answered []*record.Call) bool {
		c := s.oneOf(answered, func(c *record.Call) bool { return c.BizType == user })
		if c == nil {
			return false
		}
		s.call(s.now+500, s.now+501, c.Node, user, flakes(s.now+450, 900, 0, 1)).Life = 99
		return true
	}},
	{"an ID less", RuleCount, func(s *simulation, answered []*record.Call) bool {
		c := rapid.SampledFrom(answered).Draw(s.t, "call")
		c.Asked++
		return true
	}},
}

// oneOf draws a call that fits, nil if there is none.
func (s *simulation) oneOf(calls []*record.Call, fits func(*record.Call) bool) *record.Call {
	calls = slices.DeleteFunc(slices.Clone(calls), func(c *record.Call) bool { return !fits(c) })
	if len(calls) == 0 {
		return nil
	}
	return rapid.SampledFrom(calls).Draw(s.t, "call")
}

func TestRandomMutationsAreCaught(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := simulate(t)
				var answered []*record.Call
				for i, e := range s.entries {
					if e.Call == nil || e.Call.Status != 200 {
						continue
					}
					own := *e.Call
					s.entries[i].Call = &own
					answered = append(answered, &own)
				}
				if len(answered) == 0 || !m.do(s, answered) {
					t.Skip("the record has no room for it")
				}
				if r := s.checked(); r.Counts[m.rule] == 0 {
					t.Fatalf("%s is not noticed: %v\n%s", m.name, r.Counts, r)
				}
			})
		})
	}
}
