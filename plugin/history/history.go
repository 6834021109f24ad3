// Package history is the plugin that records what was issued, when and to whom: one record per
// answered request, written in batches to the store or to rotating files. Issuing never waits for a
// write. A setting says what happens if records arrive faster than they are written.
//
// [Plugin] is what a biz type binds. Its records go through a pipe: a queue (queue.go) and its
// writer (pipe.go), shared by biz types with equal settings. Files are written and read in files.go
// and read.go. To add a target, implement [persist.HistoryStore] and open it in join.
package history

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
)

// name is the name of the plugin in a binding.
const name = "history"

func init() {
	plugin.Register(plugin.Factory{
		Name:  name,
		Help:  "Records what was issued, to whom and when, in the store or in files.",
		Order: 900, // after the plugins that change how numbers are displayed
		Quick: true,
		Settings: func() any {
			s := DefaultSettings()
			return &s
		},
		Check: check,
		Purge: purgeDeleted,
		New: func(env plugin.Env, b seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error) {
			return New(env, b, binding)
		},
	})
}

// check refuses a second history in one chain: both would answer at the same path.
func check(bizType seqd.BizType, _ seqd.PluginBinding) []seqd.Problem {
	bound := 0
	for _, binding := range bizType.Plugins {
		if binding.Name == name {
			bound++
		}
	}
	if bound < 2 {
		return nil
	}
	return []seqd.Problem{{Key: "name", Text: "history appears twice; a biz type can have only one"}}
}

// Plugin keeps the history of one biz type. It is safe for concurrent use.
type Plugin struct {
	seqd.NopPlugin
	bizType string
	pipe    *pipe
	dropped atomic.Int64
}

var (
	_ seqd.Plugin   = (*Plugin)(nil)
	_ seqd.Closer   = (*Plugin)(nil)
	_ seqd.Resource = (*Plugin)(nil)
	_ seqd.Measurer = (*Plugin)(nil)
)

// New returns the plugin of one binding. Under to: file it opens the file, and returns an error if
// that fails.
func New(env plugin.Env, bizType seqd.BizType, binding seqd.PluginBinding) (*Plugin, error) {
	p, err := join(env, *binding.Settings.(*Settings), bizType.Name)
	if err != nil {
		return nil, err
	}
	return &Plugin{bizType: bizType.Name, pipe: p}, nil
}

// Before refuses the request if there is no room for its record, under reject and block. That is
// before numbers are spent on it.
func (h *Plugin) Before(ctx context.Context, _ *seqd.Call) error { return h.pipe.room(ctx) }

// After queues the record. Under reject and block it fails if other requests took the room
// meanwhile.
func (h *Plugin) After(ctx context.Context, call *seqd.Call) error {
	c := &call.Caller
	e := queued{bizType: h.bizType, caller: seqd.Caller{Name: cut(c.Name), Addr: cut(c.Addr), RequestID: cut(c.RequestID)}}
	e.take(&call.Sequence)
	err := h.pipe.put(ctx, &e)
	if err == errDropped {
		h.dropped.Add(1)
		return nil
	}
	return err
}

// Measure implements [seqd.Measurer]: the queue, which biz types with the same settings share, and
// the records of this biz type that were dropped.
func (h *Plugin) Measure(tell func(seqd.Measurement)) {
	tell(seqd.Measurement{Gauge: seqd.GaugeQueued, Value: float64(h.pipe.depth())})
	tell(seqd.Measurement{Gauge: seqd.GaugeQueueSize, Value: float64(h.pipe.settings.Queue)})
	tell(seqd.Measurement{Gauge: seqd.GaugeDropped, Value: float64(h.dropped.Load())})
}

// Close writes what is queued when the last biz type that shares the queue is closed. Its error
// says how many records were not written before ctx ended.
func (h *Plugin) Close(ctx context.Context) error { return h.pipe.leave(ctx, h.bizType) }

// Limits of a record.
const (
	fewIDs   = 10  // display forms that are all kept; of more, the first and the last
	mostText = 256 // bytes of a string
	mostRuns = 32
)

// queued is a record in the queue. It contains nothing that belongs to the call.
type queued struct {
	bizType     string
	key         string // "" if the biz type is not keyed
	time        int64  // ms since the Unix epoch
	n           uint64
	first, last int64
	count       int
	runs        []persist.HistoryRun // none for a single run
	id          string               // how a single number is displayed, "" for decimal digits
	ids         []string             // how several numbers are displayed
	caller      seqd.Caller
}

// take copies what was issued. For a single number it allocates once if the display form is not
// decimal, else never.
func (e *queued) take(seq *seqd.Sequence) {
	runs := seq.Runs()
	end := runs[len(runs)-1]
	e.key = seq.Key()
	e.first, e.last, e.count = seq.First(), end.First+int64(end.Count-1)*end.Stride, seq.Len()
	if len(runs) > 1 {
		e.runs = make([]persist.HistoryRun, 0, min(len(runs), mostRuns))
		for _, r := range runs[:cap(e.runs)] {
			e.runs = append(e.runs, persist.HistoryRun(r))
		}
	}
	switch {
	case !seq.Shown():
	case e.count == 1:
		for shown := range seq.Displays() {
			e.id = cut(string(shown))
		}
	default:
		e.ids = shownAs(seq)
	}
}

// shownAs returns the display forms, or the first and the last if there are many.
func shownAs(seq *seqd.Sequence) []string {
	ids := make([]string, 0, min(seq.Len(), fewIDs))
	i := 0
	for shown := range seq.Displays() {
		i++
		if seq.Len() <= fewIDs || i == 1 || i == seq.Len() {
			ids = append(ids, cut(string(shown)))
		}
	}
	return ids
}

// cut truncates a string to the limit.
func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.Clone(text[:mostText])
}

// record returns the record as it is stored.
func (e *queued) record(origin uint64) persist.HistoryRecord {
	id := persist.HistoryID(e.time, origin, e.n)
	at, _ := persist.HistoryTime(id) // HistoryID cuts a time before 1970
	r := persist.HistoryRecord{
		ID: id, BizType: e.bizType, Key: e.key, Time: at, First: e.first, Last: e.last, Count: e.count, Runs: e.runs,
		Caller: text(e.caller.Name), Addr: text(e.caller.Addr), RequestID: text(e.caller.RequestID),
	}
	for _, id := range e.ids {
		r.IDs = append(r.IDs, text(id))
	}
	if e.id != "" {
		r.IDs = []string{text(e.id)}
	}
	return r
}

// text replaces what is not UTF-8, which some stores reject.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
