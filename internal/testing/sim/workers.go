package sim

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
)

// workerKinds change pools of worker IDs. They overlap no restore: a ttl that was raised after the
// backup is lost, and an operator has to wait then.
var workerKinds = []kind{
	{name: "pool-changed", weight: 2, holds: "pools@", targets: load.Pools, ways: []string{"1s", "3s", "10s", "20s", "40s"}, after: time.Minute,
		begin: func(w *World, f *fault) { w.setPool(f, f.planned.target, http.MethodPatch, "", `{"ttl":"`+f.way+`"}`) }},
	{name: "pool-remade", weight: 2, holds: "pools@", targets: load.Pools, least: blink, most: some, after: time.Minute,
		begin: func(w *World, f *fault) { w.setPool(f, f.planned.target, http.MethodDelete, "?force=true", "") },
		end:   func(w *World, f *fault) { w.setPool(f, f.planned.target, http.MethodPut, "", load.UsualPool) }},
}

// setPool requests a change of a pool from the nodes in turn until one has made it. A failover may
// have lost the pool: then it is made.
func (w *World) setPool(f *fault, pool, method, query, body string) {
	r := rand.New(rand.NewPCG(w.options.Seed, uint64(f.ID)))
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if w.load.SetPool(context.Background(), load.Pick(r, w.load.Nodes), pool, method, query, body) {
			return
		}
		if method == http.MethodPatch {
			w.load.SetPool(context.Background(), load.Pick(r, w.load.Nodes), pool, http.MethodPut, "", load.UsualPool)
		}
	}
	w.journal.Find("nobody did %s of the pool %s", method, pool)
}
