package check

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/seqd/seqd/internal/testing/record"
)

// window is a span of time, both ends within it.
type window struct{ from, to int64 }

const forever = int64(math.MaxInt64)

// merge sorts windows and joins those that touch.
func merge(all []window) []window {
	slices.SortFunc(all, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	var merged []window
	for _, w := range all {
		if n := len(merged); n > 0 && w.from <= merged[n-1].to {
			merged[n-1].to = max(merged[n-1].to, w.to)
			continue
		}
		merged = append(merged, w)
	}
	return merged
}

// touches reports whether a span overlaps one of the windows, which are merged.
func touches(windows []window, from, to int64) bool {
	i := sort.Search(len(windows), func(i int) bool { return windows[i].to >= from })
	return i < len(windows) && windows[i].from <= to
}

// own is a time in which a process issued numbers of a counter without the cursor.
type own struct {
	process
	window
	// it logged that it takes from the cursor again; otherwise it ended, or its strategy was
	// replaced.
	back bool
}

// suspended returns when order over all nodes is suspended for a counter, by reason. The documented
// reasons (DESIGN §3, docs/CLUSTER.md) are:
//
// Under onRedisDown: degrade, "from the first number that a node issues on its own until each such
// node is back on the cursor. If such a node died, until the cursor has passed the range that it
// issued from". A node logs both. Its log is read within Options.LogDelay, so the window begins
// that much before the line was read, or before the node was paused if a pause is in between. The
// line that it is back is logged after the advance was answered. A node that died without a log
// line may have been on its own for LogDelay, if Redis was broken then. The cursor has passed when
// a call that started after the node's end has got a number above all numbers of the node, from a
// node that is not on its own.
//
// While nodes are configured with different Redis servers, and while the ordering of a biz type is
// changed (docs/operations/changes.md). If the sequencer changes between Redis and the store,
// order holds unless Redis is broken (DESIGN §3 "Strict order from the store"). These are
// faults in the record. They last until all nodes must have noticed the end.
//
// If the store orders the numbers, only a live change of the sequencer or of the ordering suspends
// order: neither Redis nor faults of the store do.
//
// During a split brain, "until the surviving cursor passes every number issued in it". The record
// has the roles of the servers, and the cursor has passed as above.
func (h *evidence) suspended(b *bizType, all []*issue, owns []own, splits []window) (because map[string][]window) {
	because = make(map[string][]window)
	for _, f := range h.faults {
		switch {
		case f.Unordered == record.Every && b.Sequencer == record.Store:
		case f.Unordered == record.Every:
			because[twoServers] = append(because[twoServers], window{f.Begin, f.End})
		case f.Unordered == b.Name && f.IfRedis && !h.redisBroken(f):
		case f.Unordered == b.Name:
			because[otherOrdering] = append(because[otherOrdering], window{f.Begin, f.End})
		}
	}
	for _, o := range owns {
		if o.back {
			because[onTheirOwn] = append(because[onTheirOwn], o.window)
			continue
		}
		o.to = h.passed(all, owns, o.to, highestOf(all, func(i *issue) bool {
			return i.node == o.node && (i.life == o.life || i.life == 0 || !i.alone) && i.end >= o.from && i.start <= o.to
		}))
		because[goneOnTheirOwn] = append(because[goneOnTheirOwn], o.window)
	}
	for _, s := range splits {
		s.to = h.passed(all, owns, s.to, highestOf(all, func(i *issue) bool { return i.start <= s.to }))
		because[twoPrimaries] = append(because[twoPrimaries], s)
	}
	for reason, windows := range because {
		because[reason] = merge(windows)
	}
	return because
}

// redisBroken reports whether Redis was broken during a fault.
func (h *evidence) redisBroken(during record.Fault) bool {
	return slices.ContainsFunc(h.faults, func(f record.Fault) bool {
		return (f.Redis || f.LosesKeys) && f.Begin <= during.End && f.End+int64(redisTimeout) >= during.Begin
	})
}

// Why order is suspended.
const (
	onTheirOwn     = "nodes on their own"
	goneOnTheirOwn = "nodes that ended on their own"
	twoPrimaries   = "two primaries"
	twoServers     = "two Redis servers"
	otherOrdering  = "another ordering or sequencer"
)

// highestOf returns the highest number of some answers.
func highestOf(all []*issue, of func(*issue) bool) (highest int64) {
	for _, i := range all {
		if i.high > highest && of(i) {
			highest = i.high
		}
	}
	return highest
}

// passed returns when a call that started after a time is known to have got a number above another
// one from the cursor.
func (h *evidence) passed(all []*issue, owns []own, after, number int64) int64 {
	at := forever
	for _, i := range all {
		if i.start <= after || i.end >= at || i.high <= number || !i.alone || i.life == 0 {
			continue
		}
		if !slices.ContainsFunc(owns, func(o own) bool { return o.process == process{i.node, i.life} && i.end >= o.from && i.start <= o.to }) {
			at = i.end
		}
	}
	if number == 0 {
		return after // no caller got a number from it
	}
	return at
}

// owns returns when which processes issued numbers of a counter of a biz type on their own. Counters
// of other periods and keys leave the cursor, and return to it, at other times.
func (h *evidence) owns(b *bizType, counter string) (all []own) {
	if b.OnRedisDown != record.Degrade {
		return nil
	}
	open := make(map[process]int) // index in all
	// it does not log that it is back if a change replaced its strategy
	replaced := func(at int) {
		all[at].to = min(all[at].to, h.seenWell(b, all[at].process, all[at].from+2*int64(h.options.LogDelay)))
	}
	for _, l := range h.lines {
		if l.BizType != counter {
			continue
		}
		p := process{l.Node, l.Life}
		at, is := open[p]
		switch l.What {
		case record.OnItsOwn:
			if is {
				replaced(at) // the new line is from another strategy
			}
			open[p] = len(all)
			all = append(all, own{p, window{h.logged(l), h.lifeEnd(p)}, false})
		case record.Back:
			if is {
				all[at].to, all[at].back = l.At, true
				delete(open, p)
			}
		}
	}
	for _, at := range open {
		replaced(at)
	}
	return append(all, h.silent(b, all)...)
}

// logged returns the earliest time of the event in a log line.
func (h *evidence) logged(l record.Line) int64 {
	from := l.At - int64(h.options.LogDelay)
	for _, f := range h.faults {
		if f.Paused && f.Target == l.Node && f.Begin <= l.At && f.End >= from {
			from = min(from, f.Begin-int64(h.options.LogDelay))
		}
	}
	return from
}

// lifeEnd returns the end of a process.
func (h *evidence) lifeEnd(p process) int64 {
	for _, l := range h.lives {
		if l.Node == p.node && l.Life == p.life && l.End > 0 {
			return l.End
		}
	}
	return forever
}

// seenWell returns when a biz type of a process was first seen well after a time. On its own it is
// not, and has another code than that of Redis if the store is away as well.
func (h *evidence) seenWell(b *bizType, p process, after int64) int64 {
	for _, s := range h.samples {
		if s.Node == p.node && s.Life == p.life && s.At > after && s.Status == 200 && s.States[b.Name] == "" {
			return s.At
		}
	}
	return forever
}

// silent returns the ends of processes that were killed while Redis was broken, and may have been
// on their own without logging it.
func (h *evidence) silent(b *bizType, known []own) (all []own) {
	for _, l := range h.lives {
		if l.How == record.Stopped || l.End == 0 {
			continue // a process that stops writes its whole log
		}
		p, from := process{l.Node, l.Life}, h.logged(record.Line{At: l.End, Node: l.Node})
		broken := slices.ContainsFunc(h.faults, func(f record.Fault) bool { return f.Redis && f.Begin <= l.End && f.End >= from })
		if broken && !slices.ContainsFunc(known, func(o own) bool { return o.process == p && o.to >= l.End }) {
			all = append(all, own{p, window{from, l.End}, false})
		}
	}
	return all
}

// serverTime is a time in which a server may have been a primary: from the last time it was seen in
// another role until it was next seen in another role.
type serverTime struct {
	server string
	window
	// served are the spans between two samples in which it ran scripts.
	served []window
}

// primaryTimes returns when servers may have been primaries, sorted by begin.
func (h *evidence) primaryTimes() (times []serverTime) {
	type state struct {
		role    string
		at      int64
		open    int
		heardAt int64 // time of its last answer
		scripts int64 // in that answer
	}
	known := make(map[string]*state)
	for _, s := range h.servers {
		k := known[s.Name]
		if k == nil {
			k = &state{role: record.Gone}
			known[s.Name] = k
		}
		role := s.Role
		if role == record.Silent {
			role = k.role
		}
		if role == record.Primary && k.role != record.Primary {
			k.open = len(times)
			times = append(times, serverTime{s.Name, window{k.at, forever}, nil})
		}
		if answers := s.Role == record.Primary || s.Role == record.Replica; answers {
			if (role == record.Primary || k.role == record.Primary) && s.Scripts != k.scripts && s.Scripts > 0 {
				times[k.open].served = append(times[k.open].served, window{k.heardAt, s.At})
			}
			k.heardAt, k.scripts = s.At, s.Scripts
		}
		if role != record.Primary && k.role == record.Primary {
			times[k.open].to = s.At
		}
		k.role, k.at = role, s.At
	}
	return times
}

// serving returns the first and the last time at which a server ran scripts within a span, if it
// ran any. If nothing is known about scripts it returns the whole span.
func (t serverTime) serving(within window, known bool) (w window, any bool) {
	if !known {
		return within, true
	}
	for _, s := range t.served {
		if s.from <= within.to && s.to >= within.from {
			if !any {
				w.from = max(s.from, within.from)
			}
			w.to, any = min(s.to, within.to), true
		}
	}
	return w, any
}

// splits returns when two primaries may have served nodes: from when both had begun to serve, until
// one stopped. A primary that gets no requests does not count.
func (h *evidence) splits() (all []window) {
	known := slices.ContainsFunc(h.servers, func(s record.Server) bool { return s.Scripts > 0 })
	times := h.primaryTimes()
	for i, a := range times {
		for _, b := range times[i+1:] {
			both := window{max(a.from, b.from), min(a.to, b.to)}
			if a.server == b.server || both.from >= both.to {
				continue
			}
			one, first := a.serving(both, known)
			two, second := b.serving(both, known)
			if w := (window{max(one.from, two.from), min(one.to, two.to)}); first && second && w.from <= w.to {
				all = append(all, w)
			}
		}
	}
	return merge(all)
}

// changesOfPrimary returns when a server may have become a primary, after the first one, or have
// been one of two. Data of the previous primary may be lost then.
func (h *evidence) changesOfPrimary() (all []window) {
	times := h.primaryTimes()
	for i, t := range times {
		if i > 0 {
			all = append(all, window{times[i].from, t.from + int64(h.options.LogDelay)})
		}
	}
	return merge(append(append(all, h.restarts()...), h.splits()...))
}

// restarts returns when a primary may have restarted without being seen in another role: its
// replication ID changed.
func (h *evidence) restarts() (all []window) {
	known := make(map[string]record.Server)
	for _, s := range h.servers {
		if s.Role != record.Primary || s.Replid == "" {
			continue
		}
		if was, is := known[s.Name]; is && was.Replid != s.Replid {
			all = append(all, window{was.At, s.At + int64(h.options.LogDelay)})
		}
		known[s.Name] = s
	}
	return all
}
