package top

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// page is what is shown. Rates are per second, times in seconds; what is not known is null.
type page struct {
	At       time.Time `json:"at"`
	Interval float64   `json:"interval"`
	// Complete is false if there may be nodes that are not known.
	Complete bool          `json:"complete"`
	Nodes    []nodeLine    `json:"nodes"`
	BizTypes []bizTypeLine `json:"bizTypes"`
	// LeftOut is how many biz types the page does not show.
	LeftOut int `json:"leftOut"`
}

type nodeLine struct {
	ID       string            `json:"id"`
	Addr     string            `json:"addr"`
	Host     string            `json:"host"`
	Version  string            `json:"version"`
	State    string            `json:"state"`
	Detail   string            `json:"detail,omitempty"`
	Backends map[string]string `json:"backends"`
	Up       *float64          `json:"up"`

	Numbers     *float64 `json:"numbersPerSecond"`
	Requests    *float64 `json:"requestsPerSecond"`
	Refused     *float64 `json:"refusedPerSecond"`
	P50         *float64 `json:"p50"`
	P99         *float64 `json:"p99"`
	InFlight    *float64 `json:"inFlight"`
	Connections *float64 `json:"connections"`
}

type bizTypeLine struct {
	Name    string             `json:"name"`
	Numbers float64            `json:"numbersPerSecond"`
	Refused float64            `json:"refusedPerSecond"`
	Reasons map[string]float64 `json:"reasons,omitempty"`
	Step    *float64           `json:"step"`
	Lasts   *float64           `json:"lasts"`
	Left    *float64           `json:"left"`
	// Trouble is what a node says of it in /readyz.
	Trouble string `json:"trouble,omitempty"`
}

// newPage compares two samples. Nodes that are new or have restarted have no rates yet.
func newPage(before, after *sample) *page {
	p := &page{At: after.at, Interval: after.at.Sub(before.at).Seconds(), Complete: after.complete, Nodes: []nodeLine{}}
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
		return cmp.Or(cmp.Compare(b.Numbers, a.Numbers), cmp.Compare(b.Refused, a.Refused), strings.Compare(a.Name, b.Name))
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
	line := nodeLine{ID: n.ID, Addr: n.url, Host: n.Host, Version: n.Build, Backends: make(map[string]string)}
	line.State, line.Detail = n.state()
	for name, b := range n.Backends {
		line.Backends[name] = b.State
	}
	if n.metrics == nil {
		return line
	}
	line.Up, line.InFlight, line.Connections = new(n.at.Sub(time.Unix(0, int64(n.metrics.started*1e9))).Seconds()), &n.metrics.inFlight, &n.metrics.connections
	if before == nil {
		return line
	}
	seconds := n.at.Sub(before.at).Seconds()
	rate := func(b, a float64) *float64 { return new(max(a-b, 0) / seconds) }
	line.Numbers = rate(total(before.metrics.issued), total(n.metrics.issued))
	line.Requests = rate(before.metrics.requests, n.metrics.requests)
	line.Refused = rate(before.metrics.refused, n.metrics.refused)
	line.P50 = finite(quantile(0.50, before.metrics.buckets, n.metrics.buckets))
	line.P99 = finite(quantile(0.99, before.metrics.buckets, n.metrics.buckets))
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
			lines[name] = &bizTypeLine{Name: name}
		}
		return lines[name]
	}
	for _, b := range n.ready.BizTypes {
		at(b.Name).Trouble = string(b.Code)
	}
	if n.metrics == nil {
		return
	}
	for name := range n.metrics.issued {
		line := at(name)
		line.Step = most(line.Step, n.metrics.step, name)
		line.Lasts = least(line.Lasts, n.metrics.lasts, name)
		line.Left = least(line.Left, n.metrics.left, name)
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
		return b.Name == otherBizTypes && b.Numbers == 0 && b.Refused == 0
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
