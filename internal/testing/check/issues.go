package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// issue is a set of numbers that were issued once: an answer, or all equal answers to one
// idempotency key. They were issued at some time from start to end.
type issue struct {
	*call             // the first answer
	start, end  int64 // hide the fields of call
	low, high   int64 // the smallest and the largest number, 0 if unknown
	alone       bool  // it belongs to one call that is no job, and so to one process
	firstEnding *call // the call that end belongs to
}

// counter identifies a counter. Its numbers are unique, and order, if promised, is promised within
// it.
type counter struct {
	bizType *bizType
	of      string // the key, if the biz type is keyed
	period  string
}

func (i *issue) counter() counter { return counter{i.bizType, i.of, i.period} }

// String formats the name of a counter as the store does.
func (c counter) String() string {
	name := c.bizType.Name
	if c.of != "" {
		name += "/" + c.of
	}
	if c.period != "" {
		name += "@" + c.period
	}
	return name
}

// issues returns what was issued, sorted by start, and checks idempotency.
//
// Idempotency: all answers for the same key of a biz type are equal, on every node, unless Redis
// loses the key (docs/IDEMPOTENCY.md, docs/API.md). If two answers differ, Redis must have been
// able to lose the first before the second: its server died, restarted, was flushed, was failed
// over, or was one of two primaries. An answer that is marked as a replay must be equal to an
// earlier one, unless that one never arrived.
func (h *evidence) issues(r *Report) []issue {
	var all []issue
	byKey := make(map[[3]string][]*call)
	var keys [][3]string
	for i := range h.calls {
		c := &h.calls[i]
		if c.kind == record.Idempotent {
			k := [3]string{c.bizType.Name, c.of, c.key}
			if byKey[k] == nil {
				keys = append(keys, k)
			}
			byKey[k] = append(byKey[k], c)
			continue
		}
		if c.answered() {
			all = append(all, issue{call: c, start: c.start, end: c.end, alone: c.kind != record.Job, firstEnding: c})
		}
	}
	for _, k := range keys {
		all = append(all, h.answersOf(r, byKey[k])...)
	}
	all = append(all, h.confirmed()...)
	for i := range all {
		all[i].span()
		r.Numbers += max(record.Runs(all[i].runs).Numbers(), int64(len(all[i].texts)))
		r.Issued[all[i].bizType.Name] += max(record.Runs(all[i].runs).Numbers(), int64(len(all[i].texts)))
	}
	slices.SortStableFunc(all, func(a, b issue) int { return cmp.Compare(a.start, b.start) })
	return all
}

// span sets the smallest and the largest number.
func (i *issue) span() {
	for n, r := range i.runs {
		if n == 0 || r.First < i.low {
			i.low = r.First
		}
		i.high = max(i.high, r.Last())
	}
}

// answersOf returns the different answers to one key. calls are sorted by start.
func (h *evidence) answersOf(r *Report, calls []*call) (different []issue) {
	for _, c := range calls {
		if !c.answered() {
			continue
		}
		i := slices.IndexFunc(different, func(d issue) bool { return equal(d.call, c) })
		if i < 0 {
			// It may have been issued for any of the calls so far, even for one without an answer.
			different = append(different, issue{call: c, start: calls[0].start, end: c.end, alone: len(calls) == 1 && !c.replayed, firstEnding: c})
			continue
		}
		if d := &different[i]; c.end < d.end {
			d.end, d.firstEnding = c.end, c
		}
	}
	for i := 1; i < len(different); i++ {
		was, now := different[i-1].call, different[i].call
		if h.keyLost(was.bizType, min(was.start, now.start), max(was.end, now.end)) {
			r.Changed++
			continue
		}
		h.fail(r, RuleIdempotency, was.bizType.Name, 1, now.end, "one key got two answers, and nothing had lost the first", was, now)
	}
	return different
}

// equal reports whether two answers have the same IDs. If an ID shows number and period, both must
// be equal.
func equal(a, b *call) bool {
	return a.period == b.period && slices.Equal(a.runs, b.runs) && slices.Equal(a.texts, b.texts)
}

// keyLost reports whether Redis may have lost, within a span, a key that was stored within or
// before it. The answers of gapless biz types are in the store.
func (h *evidence) keyLost(b *bizType, from, to int64) bool {
	if b.Strategy == record.Gapless {
		return h.storeLost(from, to)
	}
	for _, f := range h.faults {
		if f.LosesKeys && f.Begin <= to && f.End+int64(h.options.LogDelay) >= from {
			return true
		}
	}
	return touches(h.changesOfPrimary(), from, to)
}

// checkForms requires that every answer has as many IDs as requested (docs/API.md "Issue numbers"),
// each in the display form of its biz type (docs/PLUGINS.md), and all of one period.
func (h *evidence) checkForms(r *Report) {
	for _, b := range h.badForms {
		h.fail(r, RuleForm, b.bizType, 1, 0, b.why)
	}
	if more := int64(h.badCount - len(h.badForms)); more > 0 {
		r.Counts[RuleForm] += more
	}
	for i := range h.calls {
		c := &h.calls[i]
		if !c.answered() || c.malformed {
			continue
		}
		if wrong := c.wrong(); wrong != "" {
			h.fail(r, RuleForm, c.bizType.Name, 1, c.end, wrong, c)
		}
		if got := max(record.Runs(c.runs).Numbers(), int64(len(c.texts))); got > int64(c.asked) || got < int64(c.asked) && c.kind != record.Job { // which may be cancelled
			h.fail(r, RuleCount, c.bizType.Name, 1, c.end, fmt.Sprintf("%d were asked for and %d came", c.asked, got), c)
		}
	}
}

// greatest is the largest number of a segment (DESIGN §3 "exact in JavaScript").
const greatest = 1<<53 - 1

// wrong returns what is wrong with an answer by itself: it cannot be read as one of its biz type,
// or has numbers that the biz type cannot have (docs/CONFIGURATION.md "segment.start").
func (c *call) wrong() string {
	if c.code != "" {
		return "an answer that is " + c.code
	}
	least, most := int64(0), int64(math.MaxInt64)
	if c.bizType.Strategy != record.Snowflake {
		least, most = max(1, c.bizType.Start), greatest
	}
	for _, run := range c.runs {
		if run.First < least || run.Last() > most || run.Last() < run.First {
			return fmt.Sprintf("impossible numbers: %s", show([]record.Run{run}))
		}
	}
	return ""
}

// checkRecord requires that the record is sufficient for the other rules: it is complete, and if
// Redis was broken and biz types use it, the roles of its servers were recorded.
func (h *evidence) checkRecord(r *Report) {
	if (h.torn || !h.done) && !h.options.Unfinished {
		h.fail(r, RuleRecord, "", 1, h.end, "the record does not come to an end: the laboratory ended before its run did")
	}
	redis := slices.ContainsFunc(h.faults, func(f record.Fault) bool { return f.Redis })
	strict := slices.ContainsFunc(h.world.BizTypes, func(b record.BizType) bool { return b.Ordering == record.Strict && !b.NoOrder })
	if redis && strict && len(h.servers) == 0 {
		h.fail(r, RuleRecord, "", 1, h.end, "Redis was broken, and the record does not say when which server was the primary")
	}
}

// checkGuard requires that no node skips numbers of the cursor because it has issued higher ones
// (DESIGN §3 "Guard": "alarm"). Only two primaries explain that: they count separately, and a node
// may be redirected from one to the other. The last answer may arrive as late as the time-out for
// Redis. A node must also not find that the store lost acknowledged allocations, unless the
// laboratory has restored an older copy or made the store lose writes.
func (h *evidence) checkGuard(r *Report) {
	splits := h.splits()
	for _, l := range h.lines {
		if l.What == record.Restored && !h.wentBack(l.At) {
			h.fail(r, RuleGuard, base(l.BizType), 1, l.At, fmt.Sprintf("%s.%d says: %s", l.Node, l.Life, l.Text))
		}
		if l.What == record.Guarded && !touches(splits, h.logged(l)-int64(redisTimeout), l.At) {
			h.fail(r, RuleGuard, base(l.BizType), 1, l.At, fmt.Sprintf("%s.%d says: %s", l.Node, l.Life, l.Text))
		}
	}
}

// wentBack reports whether an older copy of the store was restored, or the store lost writes,
// before a time.
func (h *evidence) wentBack(at int64) bool {
	return slices.ContainsFunc(h.faults, func(f record.Fault) bool { return (f.StoreBack || f.StoreLost) && f.Begin <= at })
}

// redisTimeout is the longest time that a node waits for Redis.
const redisTimeout = 5 * time.Second

// base returns the biz type in the name of a counter, which is followed by the key and the period.
func base(counter string) string {
	name, _, _ := strings.Cut(counter, "@")
	name, _, _ = strings.Cut(name, "/")
	return name
}
