package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// layoutTime returns the time in a number, in ms since the Unix epoch. The layout is time,
// sequence, machine (DESIGN §4 "Layout").
func (b *bizType) layoutTime(number int64) int64 {
	return b.Epoch + number>>(b.BitsMachine+b.BitsSequence)
}

func (b *bizType) layoutMachine(number int64) int64 { return number & (1<<b.BitsMachine - 1) }

func (b *bizType) layoutSequence(number int64) int64 {
	return number >> b.BitsMachine & (1<<b.BitsSequence - 1)
}

// use records that a process issued numbers of some times with a machine ID.
type use struct {
	process
	from, to int64 // in numbers: ms since the Unix epoch
	issue    int32
}

// machine is a machine ID of biz types that share machine IDs.
type machine struct {
	group string
	id    int64
}

// checkSnowflake applies the rules of snowflake: times and machine IDs.
func (h *evidence) checkSnowflake(r *Report, issues []issue) {
	uses := make(map[machine][]use)
	for n := range issues {
		i := &issues[n]
		if i.bizType.Strategy != record.Snowflake || len(i.runs) == 0 {
			continue
		}
		h.checkTime(r, i)
		if !i.alone || i.life == 0 {
			continue // the process that issued them is unknown
		}
		for _, run := range i.runs {
			b := i.bizType
			m := machine{b.Group, b.layoutMachine(run.First)}
			u := use{process{i.node, i.life}, b.layoutTime(run.First), b.layoutTime(run.Last()), int32(n)}
			if all := uses[m]; len(all) > 0 && all[len(all)-1].issue == u.issue && all[len(all)-1].to <= u.from {
				all[len(all)-1].to = u.to
				continue
			}
			uses[m] = append(uses[m], u)
		}
	}
	for m, all := range uses {
		h.checkMachine(r, issues, m, all)
	}
}

// checkTime requires that the node's clock showed the time in a number during the call (PROMISES
// "by time", DESIGN §4: numbers use the node's clock, and no time that it has not reached). So
// if the clocks of nodes agree, their numbers are in order to the millisecond. The node's clock is
// the wall clock plus an offset; Options say how exactly it is known.
func (h *evidence) checkTime(r *Report, i *issue) {
	b := i.bizType
	first, last := b.layoutTime(i.low), b.layoutTime(i.high)
	least, most := h.nodeClock(i.node, i.start, i.end)
	if !i.alone {
		for _, node := range h.world.Nodes {
			low, high := h.nodeClock(node, i.start, i.end)
			least, most = min(least, low), max(most, high)
		}
	}
	switch {
	case first < least:
		h.fail(r, RuleSnowflakeTime, b.Name, 1, i.end, fmt.Sprintf("%d is of %s, and the node's clock said %s or more", i.low, at(first), at(least)), i.call)
	case last > most:
		h.fail(r, RuleSnowflakeTime, b.Name, 1, i.end, fmt.Sprintf("%d is of %s, and the node's clock said %s or less", i.high, at(last), at(most)), i.call)
	}
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// checkMachine requires that two processes never use one machine ID for the same millisecond, and
// do not alternate without a new lease. Leases of one machine ID never overlap, and a lease is one
// interval over all its renewals (DESIGN §4, U5). A process that registers again, which it logs,
// starts another interval.
func (h *evidence) checkMachine(r *Report, issues []issue, m machine, all []use) {
	slices.SortFunc(all, func(a, b use) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	latest := make(map[process]use) // the last use of each process so far
	var furthest use                // the use with the latest end
	for n, u := range all {
		one, two := &issues[furthest.issue], &issues[u.issue]
		before, again := latest[u.process]
		switch {
		case n == 0 || u.process == furthest.process:
		case u.from <= furthest.to:
			text := fmt.Sprintf("machine ID %d made numbers of %s in two processes", m.id, at(u.from))
			h.fail(r, RuleMachine, two.bizType.Name, 1, two.end, text, one.call, two.call)
		case again && !h.registered(u.process, m, issues[before.issue].start, two.end):
			text := fmt.Sprintf("machine ID %d was used by %s.%d, by %s.%d and by %s.%d again, without a new lease",
				m.id, u.node, u.life, furthest.node, furthest.life, u.node, u.life)
			h.fail(r, RuleMachine, two.bizType.Name, 1, two.end, text, issues[before.issue].call, one.call, two.call)
		}
		latest[u.process] = u
		if n == 0 || u.to > furthest.to {
			furthest = u
		}
	}
}

// registered reports whether a process logged within a span that it got a machine ID.
func (h *evidence) registered(p process, m machine, from, to int64) bool {
	return slices.ContainsFunc(h.lines, func(l record.Line) bool {
		return l.What == record.GotMachine && l.Node == p.node && l.Life == p.life && l.Machine == m.id && l.At >= from && l.At <= to+int64(h.options.LogDelay)
	})
}

// putRight returns how often a process got a machine ID, up to then, after its clock was set back
// by so much that waiting would be no use: it may issue lower numbers with it (docs/SNOWFLAKE.md
// "Clocks").
func (h *evidence) putRight(p process, then int64) (times int) {
	const noUse = int64(5 * time.Second) // horizon
	last := int64(0)
	for _, l := range h.lines {
		if l.What != record.GotMachine || l.Node != p.node || l.Life != p.life || l.At > then {
			continue
		}
		was := int64(0)
		for _, o := range h.offsets[p.node] {
			if o.At >= last && o.At <= l.At && was-o.Nanoseconds > noUse {
				times++
			}
			was = o.Nanoseconds
		}
		last = l.At
	}
	return times
}
