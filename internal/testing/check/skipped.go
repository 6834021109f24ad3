package check

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// checkSkipped requires that no more numbers are skipped than documented. Numbers between a
// counter's start and the highest number issued may be skipped for these reasons:
//
//   - a call that got no numbers, or a replay, may have skipped as many as it asked for
//     (docs/PROMISES.md "what was in flight");
//   - a chunk of a job is skipped if it was issued, and the job's owner could not write that: once at any
//     time (a simulated store loses a write now and then), twice for a fault, and at each attempt while the
//     store fails (docs/JOBS.md "at most one such chunk is skipped"); Job calls that got nothing stand for those of a job that was lost;
//   - a process ended: with ordering per-node its two buffers; with strict its standby range and
//     the range to start the cursor with; after a clean stop only what could not be returned
//     because another node has allocated since (docs/PROMISES.md); a change of a biz type ends its
//     strategy in the same way on each node;
//   - with degrade: standby ranges, which are replaced when the cursor has passed them, at most one
//     a second on each node, with numbers for ten seconds or at least 100 (DESIGN §3 "Redis away");
//   - a node was on its own: also its two buffers (docs/CLUSTER.md "its own range or two
//     segments");
//   - a cursor was started again or moved up: its content, at most 2 + reserveSegments segments,
//     and a range that another node brought for the same purpose (docs/CLUSTER.md "A lost Redis
//     skips what the cursor held");
//   - a range of unknown outcome: while a back end fails, one of the smallest size for each attempt
//     in each place that fetches ranges on each node; attempts are a second apart, except the first
//     ones (DESIGN §3 "Any error or time-out means the range is abandoned");
//   - the record names ranges whose answers were lost: a simulated store knows them;
//   - a process drops what it took first of a period, because the store did not say after that whether
//     the period was purged;
//   - start was raised by a change, even one that was not answered, or by seqd raise;
//   - a change forced an increment, which skips numbers on purpose, and as many more of each range;
//   - an older copy of the store was restored: the numbers in hand and in the cursor
//     (docs/operations/restore.md: what waits counts as issued);
//   - the store lost writes in a failover: the gap, once because of the fence and once because a
//     node saw higher numbers, and the numbers in hand and in the cursor;
//   - the run ended: as for a process that ended, and the cursor.
//
// If the store orders the numbers, nothing waits anywhere, except while a change made the ordering
// per-node. Then only calls that got no numbers, changes and restores skip any, and takes of
// unknown outcome, whose callers share another take.
//
// Keys are left out: nodes close and open them all the time.
//
// A segment has at most maxStep numbers, or as many as callers that waited together asked for. The
// bound is computed from the record, so it is small for a run without faults.
func (h *evidence) checkSkipped(r *Report, issues []issue) {
	byCounter := make(map[counter][]*issue)
	for n := range issues {
		i := &issues[n]
		if i.bizType.Strategy == record.Segment && len(i.bizType.Keys) == 0 && !i.bizType.opaque() && len(i.runs) > 0 {
			byCounter[i.counter()] = append(byCounter[i.counter()], i)
		}
	}
	for c, all := range byCounter {
		s := Skipped{BizType: c.bizType.Name, Period: c.period, Bound: h.spaced(c.bizType, h.boundOf(c, all))}
		var highest int64
		for _, i := range all {
			s.Issued += record.Runs(i.runs).Numbers()
			highest = max(highest, i.high)
		}
		s.Skipped = highest - max(1, c.bizType.Start) + 1 - s.Issued
		r.Skipped = append(r.Skipped, s)
		if s.Skipped > s.Bound {
			h.fail(r, RuleSkipped, s.BizType, 1, h.end, fmt.Sprintf("%d of %d numbers %s were skipped, and the record explains %d", s.Skipped, s.Skipped+s.Issued, c.period, s.Bound))
		}
	}
	slices.SortFunc(r.Skipped, func(a, b Skipped) int {
		return cmp.Or(cmp.Compare(a.BizType, b.BizType), cmp.Compare(a.Period, b.Period))
	})
}

// firstAttempts is how many attempts are in the first second of a failure, as pauses grow from 20
// ms.
const firstAttempts = 7

// attempts is how many attempts each place makes during a fault.
func attempts(f record.Fault) int64 {
	return firstAttempts + (f.End-f.Begin)/int64(time.Second) + 1
}

// fetchers is how many places of a node fetch ranges of a counter: the refill, the standby range,
// the range to start the cursor with, and the local buffer.
const fetchers = 4

// boundOf returns how many numbers of a counter may have been skipped.
func (h *evidence) boundOf(c counter, all []*issue) (bound int64) {
	b := c.bizType
	if b.Sequencer == record.Store {
		return h.boundOfStore(c, all)
	}
	segment := max(b.MaxStep, b.Step, h.mostWaiting(b))
	step := b.Step
	if step == 0 {
		step = segment // not recorded
	}
	strict := b.Ordering == record.Strict
	cursor, ended := int64(0), 2*segment
	if strict {
		cursor = (3 + b.Reserve) * segment
	}
	bound += cursor + h.unanswered(b) + h.unheard(b) + h.chunks(b)
	if b.OnRedisDown == record.Degrade {
		bound += int64(len(h.world.Nodes)) * (h.end/int64(time.Second) + 1) * h.standby(b)
	}
	for range h.lives {
		bound += ended // running processes hold as much at the end of the run
	}
	for _, a := range h.admins {
		if a.bizType == b && a.mayHaveChanged() {
			bound += ended*int64(len(h.world.Nodes)) + cursor + h.raised(a, all)
		}
	}
	for _, l := range h.lines {
		switch {
		case base(l.BizType) != b.Name:
		case l.What == record.OnItsOwn:
			bound += 2 * segment
		case l.What == record.Begun, l.What == record.MovedUp:
			bound += cursor
		case l.What == record.Restored:
			bound += gapOf(b)
		}
	}
	for _, f := range h.faults {
		if (f.LosesKeys || f.StoreBack) && strict {
			bound += cursor // the log line may have been lost with a process
		}
		if f.StoreBack || f.StoreLost {
			bound += ended * int64(len(h.world.Nodes))
		}
		if f.StoreLost {
			bound += cursor + 2*gapOf(b)
		}
		if f.Redis && strict || f.Store {
			bound += fetchers * int64(len(h.world.Nodes)) * attempts(f) * step
		}
	}
	return bound
}

// gapOf is the most that is skipped above a store that lost numbers.
func gapOf(b *bizType) int64 { return max(b.RestoreGap, 10*max(b.MaxStep, b.Step)) }

// boundOfStore is boundOf of a counter whose numbers the store orders.
func (h *evidence) boundOfStore(c counter, all []*issue) (bound int64) {
	b := c.bizType
	bound = h.unanswered(b) + h.unheard(b) + h.chunks(b)
	if c.period != "" { // a process drops its first take of a period if the store does not say whether that was purged
		bound += int64(len(h.lives)) * h.mostWaiting(b)
	}
	for _, f := range h.faults {
		if f.Unordered == b.Name && !f.IfRedis { // each node had two buffers meanwhile
			bound += 2 * max(b.MaxStep, b.Step, h.mostWaiting(b)) * int64(len(h.world.Nodes))
		}
		if f.Store {
			bound += int64(len(h.world.Nodes)) * attempts(f) * h.mostWaiting(c.bizType)
		}
		if f.StoreLost {
			bound += 2 * gapOf(c.bizType)
		}
	}
	for _, a := range h.admins {
		if a.bizType == c.bizType && a.mayHaveChanged() {
			bound += h.raised(a, all)
		}
	}
	for _, l := range h.lines {
		if l.What == record.Restored && base(l.BizType) == c.bizType.Name {
			bound += gapOf(c.bizType)
		}
	}
	return bound
}

// standby returns the size of the largest standby range of a node: ten seconds at the rate of the
// busiest second, at least 100 and at most maxStep.
func (h *evidence) standby(b *bizType) int64 {
	seconds := make(map[int64]int64)
	busiest := int64(0)
	for n := range h.calls {
		if c := &h.calls[n]; c.bizType == b && c.kind != record.Range {
			second := c.end / int64(time.Second)
			seconds[second] += int64(c.asked)
			busiest = max(busiest, seconds[second])
		}
	}
	return min(max(100, 10*busiest), max(b.MaxStep, b.Step))
}

// mostWaiting returns the largest total that concurrent calls of a biz type asked for, and jobs. A
// range is not taken together with others.
func (h *evidence) mostWaiting(b *bizType) (most int64) {
	type change struct{ at, by int64 }
	var changes []change
	chunk := int64(0)
	for n := range h.calls {
		switch c := &h.calls[n]; {
		case c.bizType != b || c.kind == record.Range:
		case c.kind == record.Job:
			chunk = max(chunk, chunkOf(c))
		default:
			changes = append(changes, change{c.start, int64(c.asked)}, change{c.end, -int64(c.asked)})
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	var now int64
	for _, c := range changes {
		now += c.by
		most = max(most, now)
	}
	return most + jobsAtOnce*chunk
}

const (
	jobsAtOnce = 2 // the default of jobs.atOnce
	mostChunk  = 100_000
)

// chunkOf returns how many numbers a job issues at once.
func chunkOf(c *call) int64 { return min(int64(c.asked), mostChunk) }

// chunks returns how many numbers of a biz type jobs may have skipped.
func (h *evidence) chunks(b *bizType) (numbers int64) {
	for n := range h.calls {
		c := &h.calls[n]
		if c.bizType != b || c.kind != record.Job {
			continue
		}
		numbers += chunkOf(c)
		for _, f := range h.faults {
			times := int64(2)
			if f.Store {
				times = attempts(f)
			}
			if f.Begin <= c.end && f.End >= c.start {
				numbers += times * chunkOf(c)
			}
		}
	}
	return numbers
}

// unanswered returns how many numbers the calls of a biz type asked for that got no new numbers.
func (h *evidence) unanswered(b *bizType) (asked int64) {
	for n := range h.calls {
		if c := &h.calls[n]; c.bizType == b && (!c.answered() || c.replayed) {
			asked += int64(c.asked)
		}
	}
	return asked
}

// unheard returns how many numbers of a biz type the store gave without an answer that arrived.
func (h *evidence) unheard(b *bizType) (numbers int64) {
	for _, l := range h.lines {
		if l.What == record.Unheard && base(l.BizType) == b.Name {
			numbers += l.Last - l.First + 1
		}
	}
	return numbers
}

var incrementSetTo = regexp.MustCompile(`increment=([0-9]+)`)

// spaced returns how many numbers may have been skipped, given how many if there was no increment. A
// range for one number has as many as the largest increment.
func (h *evidence) spaced(b *bizType, bound int64) int64 {
	largest, first := h.increments(b)
	bound *= largest
	for n := range h.calls {
		if c := &h.calls[n]; c.bizType == b && c.end >= first {
			bound += int64(c.asked+1) * (largest - 1)
		}
	}
	return bound
}

// increments returns the largest increment that changes forced, 1 for none, and when the first one was
// asked for.
func (h *evidence) increments(b *bizType) (largest, first int64) {
	largest, first = 1, forever
	for _, a := range h.admins {
		m := incrementSetTo.FindStringSubmatch(a.what)
		if a.bizType != b || m == nil {
			continue
		}
		increment, err := strconv.ParseInt(m[1], 10, 64)
		if err == nil && increment > 1 { // also if there is no answer
			largest, first = max(largest, increment), min(first, a.start)
		}
	}
	return largest, first
}

// mayHaveChanged reports whether a change was made, or its answer does not say that it was not.
func (a *admin) mayHaveChanged() bool { return a.answered() || a.status == 0 || a.status >= 500 }

var startSetTo = regexp.MustCompile(`start=([0-9]+)`)

// raised returns how many numbers were skipped by changes of start.
func (h *evidence) raised(a admin, all []*issue) int64 {
	m := startSetTo.FindStringSubmatch(a.what)
	if m == nil {
		return 0
	}
	start, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, start-highestOf(all, func(i *issue) bool { return i.end < a.start }))
}
