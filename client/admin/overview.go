package admin

import (
	"context"
	"time"

	"github.com/seqd/seqd/client"
)

// Overview is what happens in the cluster. Lists by interval begin with the oldest interval; nil
// means that nobody has told anything.
type Overview struct {
	At time.Time `json:"at"`
	// Until is the end of the newest interval, and IntervalMS the length of an interval in
	// milliseconds.
	Until      time.Time `json:"until"`
	IntervalMS int       `json:"intervalMs"`
	// Complete is false if the store is away, and the figures are those of the node that answers.
	Complete bool `json:"complete"`
	// Metrics is false if no node counts.
	Metrics bool `json:"metrics"`
	// Numbers and Refused are per second.
	Numbers []*float64 `json:"numbers"`
	Refused []*float64 `json:"refused"`
	// Latency is how long half of the calls took at most, and 99 of 100, in milliseconds.
	Latency struct {
		P50MS []*float64 `json:"p50Ms"`
		P99MS []*float64 `json:"p99Ms"`
	} `json:"latency"`
	Refusals []OverviewRefusal `json:"refusals"`
	Busiest  []OverviewBizType `json:"busiest"`
	InHand   []OverviewInHand  `json:"inHand"`
	RunsOut  []OverviewEnd     `json:"runsOut"`
	// BizTypes is how many biz types there are, by state.
	BizTypes struct {
		Total    int `json:"total"`
		Ready    int `json:"ready"`
		Degraded int `json:"degraded"`
		Unready  int `json:"unready"`
		Disabled int `json:"disabled"`
	} `json:"bizTypes"`
	Nodes []OverviewNode `json:"nodes"`
}

// OverviewRefusal is how many requests were refused with a code: per second in the last minute, and
// in all intervals.
type OverviewRefusal struct {
	Code      string  `json:"code"`
	PerSecond float64 `json:"perSecond"`
	Total     int64   `json:"total"`
}

// OverviewBizType is what happened to a biz type, or to all that have the name _other together.
type OverviewBizType struct {
	BizType string `json:"bizType"`
	// NumbersPerSecond and RefusedPerSecond are those of the last minute.
	NumbersPerSecond float64 `json:"numbersPerSecond"`
	RefusedPerSecond float64 `json:"refusedPerSecond"`
	// Points are numbers per second in intervals of 15 seconds.
	Points []*float64 `json:"points"`
}

// OverviewInHand is what a biz type can issue without the store, at the node where that ends first.
type OverviewInHand struct {
	BizType string  `json:"bizType"`
	Numbers float64 `json:"numbers"`
	// LastsMS is how long they last, in milliseconds; nil for ever.
	LastsMS *float64 `json:"lastsMs"`
	// Step is how many were fetched at once.
	Step float64 `json:"step"`
}

// OverviewEnd is something that is used up one day.
type OverviewEnd struct {
	BizType string `json:"bizType"`
	Plugin  string `json:"plugin"`
	// What is numbers, display, timestamps, machineIds, keys or reservations.
	What string `json:"what"`
	// Registry is the registry of machine IDs that it is about, if any.
	Registry string `json:"registry"`
	// LastsMS is how long it lasts, in milliseconds, nil for ever or if there is no rate. Share is how
	// much of it is used, nil if that is not known.
	LastsMS *float64 `json:"lastsMs"`
	Share   *float64 `json:"share"`
	// Resets is true if numbers reset before they are used up.
	Resets bool `json:"resets"`
}

// OverviewNode is a node with what it tells of itself.
type OverviewNode struct {
	Node
	// State is ready, degraded, unready, stopping or gone, or "" if the node does not tell.
	State   string           `json:"state"`
	Reasons []OverviewReason `json:"reasons"`
	// Figures are nil if the node does not tell.
	Figures *OverviewFigures `json:"figures"`
}

// OverviewReason is why a biz type cannot issue on a node, or is degraded.
type OverviewReason struct {
	BizType string `json:"bizType"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// OverviewFigures are the figures of a node. Those that are nil are not known.
type OverviewFigures struct {
	At time.Time `json:"at"`
	// NumbersPerSecond and RefusedPerSecond are those of the newest interval, P50MS and P99MS those
	// of the last minute, in milliseconds.
	NumbersPerSecond *float64 `json:"numbersPerSecond"`
	RefusedPerSecond *float64 `json:"refusedPerSecond"`
	P50MS            *float64 `json:"p50Ms"`
	P99MS            *float64 `json:"p99Ms"`
	InFlight         int64    `json:"inFlight"`
	Connections      int64    `json:"connections"`
}

// Overview returns what happened in the cluster in the last 15 minutes.
func (a *Admin) Overview(ctx context.Context) (o Overview, err error) {
	if _, err = a.ask(ctx, client.Request{Op: "show the overview", Path: "/overview"}, &o); err != nil {
		return Overview{}, err
	}
	if len(o.Nodes) == 0 {
		return Overview{}, errNoList
	}
	return o, nil
}
