// Package stats is the plugin that counts what a biz type issued and refused. It shows totals since
// this node opened the biz type, and rates over the last 1, 5 and 15 minutes, at GET
// /biz-types/{name}/stats. Each node counts for itself.
//
// [Stats] is the plugin and [Report] is what it shows. counter.go computes rates.
package stats

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// name is the name of the plugin and of its resource.
const name = "stats"

func init() {
	plugin.Register(plugin.Factory{
		Name: name,
		Help: "Counts what this node issued and refused for the biz type, in total and " +
			"over the last 1, 5 and 15 minutes.",
		Order:    950,
		Quick:    true,
		Ranges:   true, // it counts the numbers of a range when the range is handed out
		Settings: func() any { return &struct{}{} },
		Check:    check,
		New: func(env plugin.Env, bizType seqd.BizType, _ seqd.PluginBinding) (seqd.Plugin, error) {
			return New(bizType.Name, env.Now), nil
		},
	})
}

// check refuses a second binding, which would show the same at the same path.
func check(bizType seqd.BizType, _ seqd.PluginBinding) []seqd.Problem {
	named := func(b seqd.PluginBinding) bool { return b.Name == name }
	first := slices.IndexFunc(bizType.Plugins, named)
	if first < 0 || !slices.ContainsFunc(bizType.Plugins[first+1:], named) {
		return nil
	}
	return []seqd.Problem{{Key: "name", Text: name + " is bound more than once to " + bizType.Name + "; once is enough"}}
}

// Stats is the plugin of one biz type. It is safe for concurrent use.
type Stats struct {
	seqd.NopPlugin
	bizType string
	counter counter
}

var (
	_ seqd.Plugin          = (*Stats)(nil)
	_ seqd.RejectedHandler = (*Stats)(nil)
	_ seqd.Resource        = (*Stats)(nil)
	_ seqd.Idler           = (*Stats)(nil)
)

// New returns a plugin that counts from now on.
func New(bizType string, now func() time.Time) *Stats {
	s := &Stats{bizType: bizType}
	s.counter.init(now)
	return s
}

// After counts what was issued. It allocates only 2 KiB at the first request.
func (s *Stats) After(_ context.Context, call *seqd.Call) error {
	s.counter.issue(call.Count)
	return nil
}

// Rejected counts a refusal by any plugin or the strategy.
func (s *Stats) Rejected(_ context.Context, _ *seqd.Call, err *seqd.Error) {
	s.counter.reject(err.Code)
}

// Idle implements [seqd.Idler]. The totals restart with the plugin, and say since when they count;
// the rates must not.
func (s *Stats) Idle() bool { return s.counter.quiet() }

// ResourceName implements [seqd.Resource].
func (s *Stats) ResourceName() string { return name }

// Report is what [Stats.Show] returns.
type Report struct {
	BizType string `json:"bizType"`
	// Since is when this node started to count: when it opened the biz type.
	Since time.Time `json:"since"`
	// Issued is the number of issued numbers, in Requests requests.
	Issued   int64 `json:"issued"`
	Requests int64 `json:"requests"`
	// Refused is the number of refused requests, by code.
	Refused map[seqd.Code]int64 `json:"refused"`
	Rates   Rates               `json:"rates"`
	// LastAt is when numbers were last issued, nil if never.
	LastAt *time.Time `json:"lastAt,omitempty"`
}

// Rates are the rates over the three windows.
type Rates struct {
	OneMinute      Rate `json:"1m"`
	FiveMinutes    Rate `json:"5m"`
	FifteenMinutes Rate `json:"15m"`
}

// Rate is per second.
type Rate struct {
	Issued   float64 `json:"issued"`
	Requests float64 `json:"requests"`
	Refused  float64 `json:"refused"`
}

// Show returns a [Report]. It takes no query parameters: any is an error with
// [seqd.CodeInvalidRequest].
func (s *Stats) Show(_ context.Context, query url.Values) (any, error) {
	for parameter := range query {
		return nil, seqd.Errorf(seqd.CodeInvalidRequest, "there is no query parameter %.40q; stats takes none", parameter)
	}
	report := s.counter.report()
	report.BizType = s.bizType
	return report, nil
}
