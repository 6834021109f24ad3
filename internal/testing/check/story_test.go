package check

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
)

// ms is a millisecond in the times of a record.
const ms = int64(time.Millisecond)

// began is the wall clock at time 0 of all stories, and epoch the epoch of snowflake.
var (
	began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Biz types of stories.
const (
	order   = "order"   // strict, degrade
	bill    = "bill"    // strict, reject
	lot     = "lot"     // per-node
	slip    = "slip"    // strict, ordered by the store
	user    = "user"    // snowflake
	account = "account" // snowflake, with the machine IDs of user
	invoice = "invoice" // daily, the number can be read
	invite  = "invite"  // the number cannot be read
)

func world() record.World {
	segment := record.BizType{Strategy: record.Segment, Ordering: record.Strict, OnRedisDown: record.Degrade, Start: 1, Step: 10, MaxStep: 10, Reserve: 1}
	snowflake := record.BizType{Strategy: record.Snowflake, Group: "store", Epoch: epoch.UnixMilli(), BitsMachine: 10, BitsSequence: 12}
	named := func(b record.BizType, name string, change func(*record.BizType)) record.BizType {
		b.Name = name
		if change != nil {
			change(&b)
		}
		return b
	}
	return record.World{Seed: 7, Began: began.UnixNano(), Nodes: []string{"a", "b", "c"}, BizTypes: []record.BizType{
		named(segment, order, nil),
		named(segment, bill, func(b *record.BizType) { b.OnRedisDown = record.Reject }),
		named(segment, lot, func(b *record.BizType) { b.Ordering, b.OnRedisDown = record.PerNode, "" }),
		named(segment, slip, func(b *record.BizType) { b.Sequencer, b.OnRedisDown = record.Store, "" }),
		named(segment, invoice, func(b *record.BizType) {
			b.Reset, b.Display = record.Daily, `INV-(?P<period>\d{4}-\d\d-\d\d)-(?P<number>\d+)`
		}),
		named(segment, invite, func(b *record.BizType) { b.Display = `[a-z]+` }),
		named(snowflake, user, nil),
		named(snowflake, account, nil),
	}}
}

// story builds a record. Times are in ms.
type story struct{ entries []record.Entry }

// newStory starts a record with three nodes and two Redis servers, a primary and its replica.
func newStory() *story {
	w := world()
	s := &story{entries: []record.Entry{{World: &w}}}
	for _, node := range w.Nodes {
		s.add(record.Entry{Life: &record.Life{Node: node, Life: 1, Ready: 1}})
	}
	s.server(0, "r1", record.Primary)
	s.server(0, "r2", record.Replica)
	return s
}

func (s *story) add(e record.Entry) { s.entries = append(s.entries, e) }

// call adds an answered call of the first life of a node.
func (s *story) call(from, to int64, node, bizType string, runs ...record.Run) *record.Call {
	c := &record.Call{
		Start: from * ms, End: to * ms, Node: node, Life: 1, BizType: bizType, Kind: record.Batch, Asked: int(record.Runs(runs).Numbers()), Status: 200, Runs: runs,
	}
	s.add(record.Entry{Call: c})
	return c
}

// texts adds an answered call whose IDs are rewritten.
func (s *story) texts(from, to int64, node, bizType string, texts ...string) *record.Call {
	c := s.call(from, to, node, bizType)
	c.Texts, c.Asked = texts, len(texts)
	return c
}

// post adds an answered call with a key.
func (s *story) post(from, to int64, node, bizType, key string, runs ...record.Run) *record.Call {
	c := s.call(from, to, node, bizType, runs...)
	c.Kind, c.Key = record.Idempotent, key
	return c
}

// fails removes the answer of a call.
func fails(c *record.Call, asked int) {
	c.Status, c.Code, c.Asked, c.Runs = 0, "timeout", asked, nil
}

// parse adds a call that parses an ID, and its answer.
func (s *story) parse(at int64, bizType, id string, number int64, answer record.Parsed) *record.Call {
	c := s.call(at, at+1, "a", bizType, record.Run{First: number, Count: 1, Step: 1})
	answer.Valid = true
	c.Kind, c.Texts, c.Parsed = record.Parse, []string{id}, &answer
	return c
}

func (s *story) line(at int64, node, bizType, what string) *record.Line {
	l := &record.Line{At: at * ms, Node: node, Life: 1, BizType: bizType, What: what}
	s.add(record.Entry{Line: l})
	return l
}

func (s *story) server(at int64, name, role string) {
	s.add(record.Entry{Server: &record.Server{At: at * ms, Name: name, Role: role}})
}

// replid adds the replication ID of a primary.
func (s *story) replid(at int64, name, id string) {
	s.add(record.Entry{Server: &record.Server{At: at * ms, Name: name, Role: record.Primary, Replid: id}})
}

// fault adds a fault; what sets what it breaks.
func (s *story) fault(from, to int64, class, target string, what func(*record.Fault)) {
	f := &record.Fault{ID: len(s.entries), Class: class, Target: target, Begin: from * ms, End: to * ms}
	if what != nil {
		what(f)
	}
	s.add(record.Entry{Fault: f})
}

// ends ends the first life of a node.
func (s *story) ends(at int64, node, how string) {
	s.add(record.Entry{Life: &record.Life{Node: node, Life: 1, Ready: 1, End: at * ms, How: how}})
}

func (s *story) turn(at int64, node string, by time.Duration) {
	s.add(record.Entry{Offset: &record.Offset{At: at * ms, Node: node, Nanoseconds: int64(by)}})
}

// check completes and checks a story.
func (s *story) check(tb testing.TB) *Report {
	tb.Helper()
	var last int64
	for _, e := range s.entries {
		if e.Call != nil {
			last = max(last, e.Call.End)
		}
	}
	return must.Get(Entries(append(s.entries, record.Entry{Done: &record.Done{At: last + 1000*ms}}), Options{}))(tb)
}

// numbers returns consecutive numbers.
func numbers(first, count int64) record.Run { return record.Run{First: first, Count: count, Step: 1} }

// flakes returns numbers of a machine ID at a time of the story, in ms.
func flakes(at, machine, sequence, count int64) record.Run {
	return record.Run{First: (began.UnixMilli()+at-epoch.UnixMilli())<<22 | sequence<<10 | machine, Count: count, Step: 1 << 10}
}

// want compares the counted violations.
func want(tb testing.TB, r *Report, counts map[string]int64) {
	tb.Helper()
	must.Equal(tb, fmt.Sprint(r.Counts), fmt.Sprint(counts), "%s\nthe violations", r)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
