package figures

import (
	"math"
	"strconv"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// overview is the answer of GET /overview.
type overview struct {
	At string `json:"at"`
	// Until is the end of the newest interval.
	Until string `json:"until"`
	// IntervalMS is the length of an interval in milliseconds.
	IntervalMS int `json:"intervalMs"`
	// Complete is false if the store is away and only this node is known.
	Complete bool `json:"complete"`
	// Metrics is false if no node counts.
	Metrics bool `json:"metrics"`
	// Numbers and Refused are per second in each interval, the oldest first.
	Numbers  curve     `json:"numbers"`
	Refused  curve     `json:"refused"`
	Latency  latency   `json:"latency"`
	Refusals []refusal `json:"refusals"`
	Busiest  []busy    `json:"busiest"`
	InHand   []inHand  `json:"inHand"`
	RunsOut  []runsOut `json:"runsOut"`
	BizTypes census    `json:"bizTypes"`
	Nodes    []node    `json:"nodes"`
}

// latency is how long half of the calls of an interval took at most, and 99 of 100, in
// milliseconds.
type latency struct {
	P50 curve `json:"p50Ms"`
	P99 curve `json:"p99Ms"`
}

// refusal is how many requests were refused with a code.
type refusal struct {
	Code seqd.Code `json:"code"`
	// PerSecond is that of the last minute, Total that of all intervals.
	PerSecond amount `json:"perSecond"`
	Total     int64  `json:"total"`
}

// busy is what happened to a biz type.
type busy struct {
	BizType string `json:"bizType"`
	// NumbersPerSecond and RefusedPerSecond are those of the last minute.
	NumbersPerSecond amount `json:"numbersPerSecond"`
	RefusedPerSecond amount `json:"refusedPerSecond"`
	// Points are numbers per second in each wide interval.
	Points curve `json:"points"`
}

// inHand is what a biz type can issue without the store, at the node where that ends first.
type inHand struct {
	BizType string `json:"bizType"`
	Numbers amount `json:"numbers"`
	LastsMS amount `json:"lastsMs"`
	Step    amount `json:"step"`
}

// runsOut is something of a biz type that is used up one day.
type runsOut struct {
	BizType string `json:"bizType"`
	Plugin  string `json:"plugin"`
	What    what   `json:"what"`
	// Registry is that of machine IDs, if What is about one.
	Registry string `json:"registry,omitempty"`
	// LastsMS is how long it lasts, in milliseconds, Share how much of it is used.
	LastsMS amount `json:"lastsMs"`
	Share   amount `json:"share"`
	// Resets is true if it is not used up at the current rate, because numbers reset before.
	Resets bool `json:"resets,omitempty"`
}

// what can run out.
type what string

const (
	numbersEnd      what = "numbers"
	displayEnds     what = "display"
	timestampsEnd   what = "timestamps"
	machineIDsEnd   what = "machineIds"
	keysEnd         what = "keys"
	reservationsEnd what = "reservations"
)

// census is how many biz types are held, by state.
type census struct {
	Total    int `json:"total"`
	Ready    int `json:"ready"`
	Degraded int `json:"degraded"`
	Unready  int `json:"unready"`
	Disabled int `json:"disabled"`
}

// node is a node of the cluster.
type node struct {
	admin.Node
	// State is missing if the node does not tell it.
	State   state          `json:"state,omitempty"`
	Reasons []admin.Reason `json:"reasons"`
	Figures *nodeFigures   `json:"figures,omitempty"`
}

// state is the state of a node.
type state string

const (
	nodeReady    state = "ready"
	nodeDegraded state = "degraded"
	nodeUnready  state = "unready"
	nodeStopping state = "stopping"
	nodeGone     state = "gone"
)

// nodeFigures are the figures of one node.
type nodeFigures struct {
	At string `json:"at"`
	// NumbersPerSecond and RefusedPerSecond are those of the newest interval, P50 and P99 those of
	// the last minute.
	NumbersPerSecond amount `json:"numbersPerSecond"`
	RefusedPerSecond amount `json:"refusedPerSecond"`
	P50              amount `json:"p50Ms"`
	P99              amount `json:"p99Ms"`
	InFlight         int64  `json:"inFlight"`
	Connections      int64  `json:"connections"`
}

// amount is a number with four significant digits. NaN and infinity are null.
type amount float64

// MarshalJSON implements [json.Marshaler].
func (a amount) MarshalJSON() ([]byte, error) { return a.append(nil), nil }

func (a amount) append(to []byte) []byte {
	v := float64(a)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(to, "null"...)
	case math.Abs(v) >= 1000 || v == math.Trunc(v):
		return strconv.AppendFloat(to, v, 'f', decimals(v), 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 3, 64), 64)
	return strconv.AppendFloat(to, rounded, 'g', -1, 64)
}

// decimals is 1 for a number that is not whole.
func decimals(v float64) int {
	if v == math.Trunc(v) {
		return 0
	}
	return 1
}

// unknown is an amount that is not known.
var unknown = amount(math.NaN())

// UnmarshalJSON implements [json.Unmarshaler].
func (a *amount) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*a = unknown
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	*a = amount(v)
	return err
}

// curve is a list of amounts.
type curve []amount

// MarshalJSON implements [json.Marshaler].
func (c curve) MarshalJSON() ([]byte, error) {
	text := make([]byte, 1, 8*len(c)+2)
	text[0] = '['
	for i, v := range c {
		if i > 0 {
			text = append(text, ',')
		}
		text = v.append(text)
	}
	return append(text, ']'), nil
}

// flat returns a curve of which nothing is known.
func flat(n int) curve {
	c := make(curve, n)
	for i := range c {
		c[i] = unknown
	}
	return c
}
