package top

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// page is what is shown. Rates are per second, times in milliseconds; what is not known is null.
type page struct {
	At         time.Time `json:"at"`
	IntervalMS float64   `json:"intervalMs"`
	// Complete is false if there may be nodes that are not known.
	Complete bool          `json:"complete"`
	Nodes    []nodeLine    `json:"nodes"`
	BizTypes []bizTypeLine `json:"bizTypes"`
	// LeftOut is how many biz types the page does not show.
	LeftOut int `json:"leftOut"`
}

type nodeLine struct {
	ID       string            `json:"id"`
	Addr     string            `json:"node"`
	Host     string            `json:"host"`
	Build    string            `json:"build"`
	State    string            `json:"state"`
	Detail   string            `json:"detail,omitempty"`
	Backends map[string]string `json:"backends"`
	UpMS     *float64          `json:"upMs"`

	Numbers     *float64 `json:"numbersPerSecond"`
	Requests    *float64 `json:"requestsPerSecond"`
	Refused     *float64 `json:"refusedPerSecond"`
	P50MS       *float64 `json:"p50Ms"`
	P99MS       *float64 `json:"p99Ms"`
	InFlight    *float64 `json:"inFlight"`
	Connections *float64 `json:"connections"`
}

type bizTypeLine struct {
	BizType string             `json:"bizType"`
	Numbers float64            `json:"numbersPerSecond"`
	Refused float64            `json:"refusedPerSecond"`
	Reasons map[string]float64 `json:"reasons,omitempty"`
	// Highest is the highest number that a node knows to have left the store.
	Highest *float64 `json:"highest"`
	Step    *float64 `json:"step"`
	LastsMS *float64 `json:"lastsMs"`
	LeftMS  *float64 `json:"leftMs"`
	// Trouble is what a node says of it in /readyz.
	Trouble string `json:"trouble,omitempty"`
}

// newPage compares two samples. Nodes that are new or have restarted have no rates yet.
func newPage(before, after *sample) *page {
	p := &page{At: after.at, IntervalMS: 1000 * after.at.Sub(before.at).Seconds(), Complete: after.complete, Nodes: []nodeLine{}}
	bizTypes := make(map[string]*bizTypeLine)
	for i := range after.nodes {
		n := &after.nodes[i]
		b := before.of(n)
		p.Nodes = append(p.Nodes, lineOf(b, n))
		n.addTo(bizTypes, b)
	}
	for _, line := range bizTypes {
		p.BizTypes = append(p.BizTypes, *line)
	}
	slices.SortFunc(p.BizTypes, func(a, b bizTypeLine) int {
		return cmp.Or(cmp.Compare(b.Numbers, a.Numbers), cmp.Compare(b.Refused, a.Refused), strings.Compare(a.BizType, b.BizType))
	})
	return p
}

// of returns the sample of the same process, or nil.
func (s *sample) of(n *nodeSample) *nodeSample {
	for i := range s.nodes {
		b := &s.nodes[i]
		if b.ID == n.ID && b.metrics != nil && n.metrics != nil && b.metrics.started == n.metrics.started && n.at.After(b.at) {
			return b
		}
	}
	return nil
}

func lineOf(before, n *nodeSample) nodeLine {
	line := nodeLine{ID: n.ID, Addr: n.url, Host: n.Host, Build: n.Build, Backends: make(map[string]string)}
	line.State, line.Detail = n.state()
	for name, b := range n.Backends {
		line.Backends[name] = b.State
	}
	if n.metrics == nil {
		return line
	}
	line.UpMS, line.InFlight, line.Connections = new(1000*n.at.Sub(time.Unix(0, int64(n.metrics.started*1e9))).Seconds()), &n.metrics.inFlight, &n.metrics.connections
	if before == nil {
		return line
	}
	seconds := n.at.Sub(before.at).Seconds()
	rate := func(b, a float64) *float64 { return new(max(a-b, 0) / seconds) }
	line.Numbers = rate(total(before.metrics.issued), total(n.metrics.issued))
	line.Requests = rate(before.metrics.requests, n.metrics.requests)
	line.Refused = rate(before.metrics.refused, n.metrics.refused)
	line.P50MS = finite(1000 * quantile(0.50, before.metrics.buckets, n.metrics.buckets))
	line.P99MS = finite(1000 * quantile(0.99, before.metrics.buckets, n.metrics.buckets))
	return line
}

// state returns the state of a node in a word, and what is wrong.
func (n *nodeSample) state() (state, detail string) {
	switch {
	case n.err != nil && n.ready.Status == "":
		return "unreachable", n.err.Error()
	case n.err != nil:
		return n.ready.Status, n.err.Error()
	case n.ready.Store != nil:
		return n.ready.Status, n.ready.Store.Detail
	}
	return n.ready.Status, n.ready.Detail
}

// addTo adds what a node says about biz types.
func (n *nodeSample) addTo(lines map[string]*bizTypeLine, before *nodeSample) {
	at := func(name string) *bizTypeLine {
		if lines[name] == nil {
			lines[name] = &bizTypeLine{BizType: name}
		}
		return lines[name]
	}
	for _, b := range n.ready.BizTypes {
		at(b.BizType).Trouble = string(b.Code)
	}
	if n.metrics == nil {
		return
	}
	for name := range n.metrics.issued {
		line := at(name)
		line.Highest = most(line.Highest, n.metrics.highest, name)
		line.Step = most(line.Step, n.metrics.step, name)
		line.LastsMS = least(line.LastsMS, n.metrics.lasts, name)
		line.LeftMS = least(line.LeftMS, n.metrics.left, name)
	}
	if before == nil {
		return
	}
	seconds := n.at.Sub(before.at).Seconds()
	for name, a := range n.metrics.issued {
		at(name).Numbers += max(a-before.metrics.issued[name], 0) / seconds
	}
	for name, reasons := range n.metrics.rejected {
		line := at(name)
		for reason, a := range reasons {
			if rate := (a - before.metrics.rejected[name][reason]) / seconds; rate > 0 {
				if line.Reasons == nil {
					line.Reasons = make(map[string]float64)
				}
				line.Reasons[reason] += rate
				line.Refused += rate
			}
		}
	}
}

// cut leaves out all biz types but the first. "_other" is always left out if nothing happens in it.
func (p *page) cut(most int) {
	p.BizTypes = slices.DeleteFunc(slices.Clone(p.BizTypes), func(b bizTypeLine) bool {
		return b.BizType == otherBizTypes && b.Numbers == 0 && b.Refused == 0
	})
	if len(p.BizTypes) > most {
		p.LeftOut += len(p.BizTypes) - most
		p.BizTypes = p.BizTypes[:most]
	}
}

// otherBizTypes is the label of biz types that have none of their own.
const otherBizTypes = "_other"

func total(m map[string]float64) (sum float64) {
	for v := range maps.Values(m) {
		sum += v
	}
	return sum
}

// finite returns a value, or nil if JSON does not have it.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// least returns the smaller one of what is known and the entry of m.
func least(known *float64, m map[string]float64, name string) *float64 {
	v, there := m[name]
	if !there || math.IsInf(v, 0) || math.IsNaN(v) || known != nil && *known <= v {
		return known
	}
	return &v
}

func most(known *float64, m map[string]float64, name string) *float64 {
	v, there := m[name]
	if !there || known != nil && *known >= v {
		return known
	}
	return &v
}
