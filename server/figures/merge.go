package figures

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/server/admin"
)

const (
	// mostLag is how many intervals a report may be behind for the overview to wait for it, and
	// silence from how many on the node does not report any more.
	mostLag = 2
	silence = 4
	// mostGone is how many nodes that are gone are listed.
	mostGone = 100
)

// known is what a node knows of the cluster.
type known struct {
	at       time.Time
	complete bool
	// nodes are those that are alive, reports those of all nodes, whether alive or not.
	nodes   []admin.Node
	reports []*report
	// here is what this node knows of itself, without counts if it does not count.
	here *report
	// outage is the interval that was complete when the store last failed, long ago if it never has.
	outage int64
}

// merge makes the overview. It does not modify what it gets.
func merge(k known) *overview {
	m := merger{known: k, now: intervalBefore(k.at.UnixMilli())}
	m.align()
	o := &overview{
		At: admin.Time(k.at.UnixMilli()), Until: admin.Time(endOf(m.until)), IntervalMS: intervalLength,
		Complete: k.complete, Metrics: len(k.reports) > 0,
		Numbers: m.curve(func(r *report) points { return r.Numbers }),
		Refused: m.curve(func(r *report) points { return r.Refused }),
	}
	o.Latency = m.latency()
	o.Refusals, o.Busiest = m.refusals(), m.busiest(o.Numbers)
	o.InHand, o.RunsOut, o.BizTypes = m.inHand(), m.runsOut(), m.census()
	o.Nodes = m.listed()
	return o
}

// merger merges reports.
type merger struct {
	known
	now   int64 // the interval that is complete
	until int64 // the newest interval that is shown
	last  map[*report]int64
}

// align finds the newest interval of each report, and the one that ends the overview: of which all
// nodes that still report have told.
func (m *merger) align() {
	m.until, m.last = m.now, make(map[*report]int64, len(m.reports))
	for _, r := range m.reports {
		last := min(r.Last, m.now) // the clock of a node that is ahead is not known
		m.last[r] = last
		if last >= m.now-mostLag && !r.Left {
			m.until = min(m.until, last)
		}
	}
}

// silent reports whether a node does not report any more.
func (m *merger) silent(r *report) bool { return r.Left || m.last[r] <= m.now-silence }

// at returns the index of the first of n points in a list of so many that ends at end, if the
// points end at last.
func at(last int64, n int, end int64, intervals int) int { return int(last-end) + intervals - n }

// curve adds up points of all reports, per second.
func (m *merger) curve(of func(*report) points) curve {
	c := flat(intervals)
	for _, r := range m.reports {
		add(c, of(r), m.last[r], m.until, intervalLength)
	}
	return c
}

// add adds points that end at last to a curve that ends at end. A point counts for so many ms.
func add(c curve, p points, last, end, length int64) {
	first := at(last, len(p), end, len(c))
	for i, v := range p {
		if i += first; v == missing || i < 0 || i >= len(c) {
			continue
		}
		if math.IsNaN(float64(c[i])) {
			c[i] = 0
		}
		c[i] += amount(float64(v) * 1000 / float64(length))
	}
}

// latency adds up the calls of all reports.
func (m *merger) latency() latency {
	l := latency{flat(intervals), flat(intervals)}
	var sums [intervals][mostBuckets]int64
	bounds := m.bounds()
	for _, r := range m.reports {
		if !slices.Equal(r.Bounds, bounds) {
			continue // of another version
		}
		first := at(m.last[r], intervals, m.until, intervals)
		for counts := range r.Calls.each() {
			if first >= 0 && first < intervals && counts != nil {
				for i, n := range counts {
					sums[first][i] += n
				}
			}
			first++
		}
	}
	for i := range sums {
		l.P50[i], l.P99[i] = 1000*quantile(0.50, bounds, &sums[i]), 1000*quantile(0.99, bounds, &sums[i])
	}
	return l
}

// bounds are those of this node, or else of the first report.
func (m *merger) bounds() []float64 {
	switch {
	case len(m.here.Bounds) > 0:
		return m.here.Bounds
	case len(m.reports) > 0:
		return m.reports[0].Bounds
	}
	return nil
}

// quantile returns the time that a share of the calls took at most, in seconds. It is unknown if
// there were none.
func quantile(share float64, bounds []float64, counts *[mostBuckets]int64) amount {
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return unknown
	}
	low, below := 0.0, 0.0
	for i, n := range counts {
		if i >= len(bounds) {
			break
		}
		if n > 0 && below+float64(n) >= share*float64(total) {
			return amount(low + (bounds[i]-low)*(share*float64(total)-below)/float64(n))
		}
		low, below = bounds[i], below+float64(n)
	}
	return amount(low)
}

// refusals adds up refusals by code.
func (m *merger) refusals() []refusal {
	sums := make(map[string]*refusal)
	for _, r := range m.reports {
		share := m.shown(r.Refused, m.last[r])
		for _, f := range r.Refusals {
			total := int64(math.Round(share * float64(f.Total)))
			if total == 0 {
				continue
			}
			s := entry(sums, string(f.Code))
			s.Code, s.Total = f.Code, s.Total+total
			if !m.silent(r) {
				s.PerSecond += f.PerSecond
			}
		}
	}
	return first(sums, mostRefusals, moreRefusals)
}

// shown returns which share of what points count is in the overview. That of a node that reports no
// more gets smaller, until it is too old.
func (m *merger) shown(p points, last int64) float64 {
	old, all := 0.0, 0.0
	for i, v := range p {
		if v == missing {
			continue
		}
		all += float64(v)
		if at(last, len(p), m.until, intervals)+i < 0 {
			old += float64(v)
		}
	}
	if old == 0 {
		return 1
	}
	return (all - old) / all
}

// busiest adds up what happened to biz types. numbers are those of all.
func (m *merger) busiest(numbers curve) []busy {
	sums, end := make(map[string]*busy), wideBefore(m.until)
	for _, r := range m.reports {
		for _, b := range r.Busiest {
			s := entry(sums, b.BizType)
			if s.Points == nil {
				s.BizType, s.Points = b.BizType, idle(numbers, m.until)
			}
			if !m.silent(r) {
				s.NumbersPerSecond += b.NumbersPerSecond
				s.RefusedPerSecond += b.RefusedPerSecond
			}
			add(s.Points, b.Points, wideBefore(m.last[r]), end, wide*intervalLength)
		}
	}
	return first(sums, mostListed, func(a, b busy) int {
		return busier(a.NumbersPerSecond+a.RefusedPerSecond, b.NumbersPerSecond+b.RefusedPerSecond, a.Points.sum(), b.Points.sum(), a.BizType, b.BizType)
	})
}

// idle returns the points of a biz type that did nothing: 0 in each wide interval of which numbers
// has an interval.
func idle(numbers curve, until int64) curve {
	c := flat(wideIntervals)
	for i, v := range numbers[:len(numbers)-int((until+1)%wide)] {
		// The newest wide interval ends with the last one here.
		back := (len(numbers) - int((until+1)%wide) - 1 - i) / wide
		if !math.IsNaN(float64(v)) && back < wideIntervals {
			c[wideIntervals-1-back] = 0
		}
	}
	return c
}

func (c curve) sum() (sum float64) {
	for _, v := range c {
		if !math.IsNaN(float64(v)) {
			sum += float64(v)
		}
	}
	return sum
}

// entry returns the entry of a map, which it adds if there is none.
func entry[T any](m map[string]*T, key string) *T {
	if m[key] == nil {
		m[key] = new(T)
	}
	return m[key]
}

// first returns the first entries of a map in an order.
func first[T any](m map[string]*T, most int, order func(a, b T) int) []T {
	list := make([]T, 0, len(m))
	for _, v := range m {
		list = append(list, *v)
	}
	slices.SortFunc(list, order)
	return list[:min(len(list), most)]
}

// current yields the reports of nodes that still report, and what this node knows of itself.
func (m *merger) current(yield func(*report) bool) {
	if !yield(m.here) {
		return
	}
	for _, r := range m.reports {
		if r.ID != m.here.ID && !m.silent(r) && !yield(r) {
			return
		}
	}
}

// inHand returns what lasts shortest, at the node where it does.
func (m *merger) inHand() []inHand {
	least := make(map[string]*inHand)
	for r := range m.current {
		for _, h := range r.InHand {
			if l := least[h.BizType]; l == nil || shorter(h, *l) < 0 {
				least[h.BizType] = &h
			}
		}
	}
	return first(least, mostListed, shorter)
}

func shorter(a, b inHand) int {
	return cmp.Or(cmp.Compare(a.LastsMS, b.LastsMS), cmp.Compare(a.Numbers, b.Numbers), strings.Compare(a.BizType, b.BizType))
}

// runsOut returns what runs out first.
func (m *merger) runsOut() []runsOut {
	soonest := make(map[string]*runsOut)
	for r := range m.current {
		for _, e := range r.RunsOut {
			key := strings.Join([]string{string(e.What), e.Registry, e.Plugin, e.BizType}, "\x00")
			if e.Registry != "" {
				key = strings.Join([]string{string(e.What), e.Registry}, "\x00")
			}
			if s := soonest[key]; s == nil || sooner(e, *s) < 0 {
				soonest[key] = &e
			}
		}
	}
	return worthKnowing(first(soonest, mostListed, sooner))
}

// census returns how many biz types are held: as many as on the node that holds the most, each
// state as often as where it is most frequent.
func (m *merger) census() census {
	c := m.here.BizTypes
	for r := range m.current {
		c.Total, c.Disabled = max(c.Total, r.BizTypes.Total), max(c.Disabled, r.BizTypes.Disabled)
		c.Unready, c.Degraded = max(c.Unready, r.BizTypes.Unready), max(c.Degraded, r.BizTypes.Degraded)
	}
	c.Disabled = min(c.Disabled, c.Total)
	c.Unready = min(c.Unready, c.Total-c.Disabled)
	c.Degraded = min(c.Degraded, c.Total-c.Disabled-c.Unready)
	c.Ready = c.Total - c.Disabled - c.Unready - c.Degraded
	return c
}

// listed returns the nodes: those that are alive, with what they report, and those that are gone.
func (m *merger) listed() []node {
	reports := make(map[string]*report, len(m.reports))
	for _, r := range m.reports {
		reports[r.ID] = r
	}
	reports[m.here.ID] = m.here
	var list []node
	for _, n := range m.nodes {
		list = append(list, m.node(n, reports[n.ID]))
		delete(reports, n.ID)
	}
	list = append(list, m.gone(reports, list)...)
	slices.SortFunc(list, func(a, b node) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// node returns a node that is alive.
func (m *merger) node(n admin.Node, r *report) node {
	listed := node{Node: n, Reasons: []admin.Reason{}}
	if r == nil || r != m.here && m.silent(r) {
		return listed
	}
	listed.State = r.State
	listed.Reasons = append(listed.Reasons, r.Reasons[:min(len(r.Reasons), mostListed)]...)
	if len(r.Numbers) == 0 || m.silent(r) { // it does not count, or has not yet
		return listed
	}
	listed.Figures = &nodeFigures{
		At: admin.Time(endOf(m.last[r])), NumbersPerSecond: r.Numbers.newest(), RefusedPerSecond: r.Refused.newest(),
		InFlight: r.InFlight, Connections: r.Connections,
	}
	calls := r.Calls.lately()
	listed.Figures.P50, listed.Figures.P99 = 1000*quantile(0.50, r.Bounds, &calls), 1000*quantile(0.99, r.Bounds, &calls)
	return listed
}

// newest returns the newest point, per second.
func (p points) newest() amount {
	if len(p) == 0 || p[len(p)-1] == missing {
		return unknown
	}
	return perSecond(p[len(p)-1], 1)
}

// lately returns the calls of the last minute.
func (h histogram) lately() (sum [mostBuckets]int64) {
	interval := 0
	for counts, err := range h.each() {
		if interval++; interval <= intervals-minute || err != nil {
			continue
		}
		for i, n := range counts {
			sum[i] += n
		}
	}
	return sum
}

// gone returns the nodes of which there is nothing but a report, unless they stopped or run again.
func (m *merger) gone(reports map[string]*report, alive []node) []node {
	type address struct{ host, addr string }
	taken := make(map[address]bool)
	for _, n := range alive {
		taken[address{n.Host, n.Addr}] = true
	}
	left := slices.Collect(func(yield func(*report) bool) {
		for _, r := range reports {
			if !r.Left && !yield(r) {
				return
			}
		}
	})
	slices.SortFunc(left, func(a, b *report) int {
		return cmp.Or(cmp.Compare(m.last[b], m.last[a]), strings.Compare(a.ID, b.ID))
	})
	var list []node
	for _, r := range left {
		at := address{r.Host, r.Addr}
		if taken[at] || len(list) == mostGone {
			continue
		}
		taken[at] = true
		n := admin.Node{
			ID: r.ID, Addr: r.Addr, Host: r.Host, Build: r.Build, StartedAt: r.StartedAt,
			SeenAt:     admin.Time(endOf(m.last[r])),
			MachineIDs: map[string]int64{}, Backends: map[string]admin.Backend{},
		}
		listed := m.node(n, r)
		// Nobody could report while the store was away, so all get the time to report again.
		if m.silent(r) && m.now-m.outage > silence {
			listed.State = nodeGone
		}
		list = append(list, listed)
	}
	return list
}
