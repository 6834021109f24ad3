package sim

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

var (
	// The biz types that operators change. The load itself changes others, and other actions the rest.
	segments  = []string{"order", "tiny", "huge", "fenced", "local", "invoice", "ledger", "receipt", "bulk", "parcel", "shelf"}
	books     = []string{"bill", "credit", "voucher", "rent"}
	keyed     = []string{"parcel", "shelf", "rent"}
	changeful = append([]string{"user", "guest", "device", "invite", "audit", "limited", load.CosIDName}, append(segments, books...)...)

	limits = []string{`{"maxReserved":10}`, `{"maxReserved":40}`, `{"onRelease":"void"}`, `{"onRelease":"reuse"}`, `{"reservationTTL":"2s"}`}
	tunes  = []string{`{"step":1}`, `{"targetDuration":"1s"}`, `{"targetDuration":"30m"}`, `{"threshold":0.1}`, `{"threshold":1}`, `{"reserveSegments":0}`}
	spaces = []string{`{"increment":2,"offset":1}`, `{"increment":3,"offset":0}`, `{"increment":5,"offset":4}`}
	lives  = []string{`{"liveKeys":1}`, `{"liveKeys":20}`}
)

// itsTarget stands for the target in the marks of a kind.
const itsTarget = "the target"

// definitionKinds change definitions while nodes may not learn of it at once. They overlap neither
// restores nor failovers, which may undo what was changed.
var definitionKinds = []kind{
	{name: "limits-changed", weight: 3, holds: "definition", targets: books, ways: limits, least: short, most: long, after: 45 * time.Second, begin: patch, end: define},
	{name: "live-keys-changed", weight: 2, holds: "definition", targets: keyed, ways: lives, least: short, most: long, after: 45 * time.Second, begin: patch, end: define},
	{name: "tuned", weight: 3, holds: "definition", targets: segments, ways: tunes, least: short, most: long, after: 45 * time.Second, begin: patch, end: define},
	{name: "disabled", weight: 3, holds: "definition", targets: changeful, least: blink, most: some, after: 45 * time.Second,
		begin: func(w *World, f *fault) { w.insist(f, f.planned.target, http.MethodPost, "/disable", "") },
		end:   func(w *World, f *fault) { w.insist(f, f.planned.target, http.MethodPost, "/enable", "") }},
	// while a biz type is deleted and created again, a node may have either of the two; by force,
	// because there may be results of jobs
	{name: "deleted", weight: 3, holds: "definition", targets: changeful, least: blink, most: some, after: time.Minute, marks: record.Fault{Unordered: itsTarget},
		begin: func(w *World, f *fault) { w.insist(f, f.planned.target, http.MethodDelete, "?force=true", "") },
		end:   func(w *World, f *fault) { define(w, f); time.Sleep(allKnow) }},
	// of biz types of which nobody takes ranges: those have no increment
	{name: "increment-forced", weight: 3, holds: "definition", targets: []string{"audit", "limited"}, ways: spaces, least: short, most: long, after: time.Minute, marks: record.Fault{Unordered: itsTarget},
		begin: func(w *World, f *fault) { w.insist(f, f.planned.target, http.MethodPatch, "?force=true", f.way) },
		end: func(w *World, f *fault) {
			w.insist(f, f.planned.target, http.MethodPatch, "?force=true", `{"increment":1,"offset":0}`)
			time.Sleep(allKnow)
		}},
	{name: "raised", weight: 3, holds: "definition", targets: append(books, segments...), ways: []string{"0", "10", "500"}, after: 45 * time.Second, begin: raise},
	// meanwhile biz types cannot be disabled, deleted or given another shape
	{name: "mixed-definitions", weight: 1, holds: "seqd settings@ definition@all", targets: nodeNames, least: short, most: long, after: time.Minute,
		begin: func(w *World, f *fault) { w.node(f).restartFrom("config", w.bizTypes) },
		end:   func(w *World, f *fault) { w.node(f).restartFrom("", "") }},

	{name: "strategy-changed", weight: 1, holds: "definition", targets: []string{"bulk"}, least: short, most: some, after: 4 * time.Minute, marks: record.Fault{Unordered: itsTarget},
		begin: func(w *World, f *fault) { w.changeStrategy(f, `{"strategy":"gapless"}`) },
		end:   func(w *World, f *fault) { w.changeStrategy(f, w.load.Definition(f.planned.target, nil)) }},
}

// changeStrategy follows docs/GAPLESS.md "Disabling, and changing the strategy".
func (w *World) changeStrategy(f *fault, body string) {
	name := f.planned.target
	w.insist(f, name, http.MethodPost, "/disable", "")
	time.Sleep(22 * time.Second)
	w.insist(f, name, http.MethodPut, "?force=true", body)
	w.insist(f, name, http.MethodPost, "/enable", "")
}

// restartFrom restarts the node with definitions from another place. bizTypes are those of its
// configuration, "" for the usual ones.
func (n *node) restartFrom(place, bizTypes string) {
	n.configure("SEQD_BIZTYPES", bizTypes)
	n.restartWith("SEQD_BIZTYPESFROM", place)
}

// restartWith restarts the node with a setting.
func (n *node) restartWith(key, value string) {
	n.stop()
	n.configure(key, value)
	n.start()
}

// patch changes a definition as the way says.
func patch(w *World, f *fault) {
	w.insist(f, f.planned.target, http.MethodPatch, "", f.way)
}

// define makes a definition what it is in the configuration.
func define(w *World, f *fault) {
	w.insist(f, f.planned.target, http.MethodPut, "", w.load.Definition(f.planned.target, nil))
}

// raise runs seqd raise for all counters of a biz type. The new number is above all that the store
// knows. Nodes may not notice the raise.
func raise(w *World, f *fault) {
	var by int64
	if _, err := fmt.Sscan(f.way, &by); err != nil {
		panic(err) // the ways are numbers
	}
	began := w.journal.Now()
	w.operate(f, "raise "+f.planned.target, func(ctx context.Context, cfg *config.Config) error {
		return ops.RaiseBy(ctx, cfg, ops.By{BizType: f.planned.target, Gap: by}, ops.How{Beside: true}, func(counter string, r ops.Raised) {
			w.tellRaised(counter, r)
			w.journal.Call(&record.Call{Start: began, End: w.journal.Now(), Node: nodeNames[0], BizType: base(counter), Kind: record.Admin, Key: fmt.Sprintf("raise start=%d", r.After), Status: http.StatusOK})
		})
	})
}
