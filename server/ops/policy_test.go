package ops

import (
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// All that differs between a restore and a move, decision by decision.
func TestPolicies(t *testing.T) {
	const cluster, fence, now = "c", "7/2", int64(1_000_000)
	own, shared := facts{fence: "9/1", now: now}, facts{fence: "9/1", now: now, owner: cluster}
	for _, f := range []*facts{&own, &shared} {
		f.contents.Cluster, f.contents.Fence, f.contents.Ended = cluster, fence, now
	}
	restore := must.Get(newRestorePolicy(Restoring{Gapless: number(5), Highest: []Mark{{"named", 40}, {"bill", 30}}}))(t)
	move := &movePolicy{gaps: make(gaps)}
	epoch := persist.NewEpoch()

	counter := func(name string, most, step, failovers int64, epoch string) snapshot.Counter {
		return snapshot.Counter{Counter: persist.Counter{BizTag: name, Max: most, Step: step, Epoch: epoch}, Failovers: failovers}
	}
	for name, test := range map[string]struct {
		c                            snapshot.Counter
		restored, moved, movedShared persist.Counter
	}{
		"usual":         {counter("order", 5, 1, 0, ""), counter("order", 5+LeastGap, 1, 0, "").Counter, counter("order", 5, 1, 0, "").Counter, counter("order", 5, 1, 0, "").Counter},
		"ten steps":     {counter("order", 5, 1e6, 0, ""), counter("order", 5+1e7, 1e6, 0, "").Counter, counter("order", 5, 1e6, 0, "").Counter, counter("order", 5, 1e6, 0, "").Counter},
		"named":         {counter("named", 5, 1, 2, ""), counter("named", 40, 1, 0, "").Counter, counter("named", 5+2*LeastGap, 1, 0, "").Counter, counter("named", 5+2*LeastGap, 1, 0, "").Counter},
		"in Redis":      {counter("order", 5, 1, 0, epoch), counter("order", 5+LeastGap, 1, 0, "").Counter, counter("order", 5, 1, 0, "").Counter, counter("order", 5, 1, 0, epoch).Counter},
		"in the store":  {counter("order", 5, 1, 0, persist.StoreEpoch), counter("order", 5+LeastGap, 1, 0, persist.StoreEpoch).Counter, counter("order", 5, 1, 0, persist.StoreEpoch).Counter, counter("order", 5, 1, 0, persist.StoreEpoch).Counter},
		"failed over":   {counter("order", 5, 1, 2, epoch), counter("order", 5+3*LeastGap, 1, 0, "").Counter, counter("order", 5+2*LeastGap, 1, 0, "").Counter, counter("order", 5+2*LeastGap, 1, 0, "").Counter},
		"counts keys":   {counter("order/", 5, 1, 2, ""), counter("order/", 5, 1, 0, "").Counter, counter("order/", 5, 1, 0, "").Counter, counter("order/", 5, 1, 0, "").Counter},
		"near the last": {counter("order", seqd.MaxNumber-1, 1, 1000, ""), counter("order", seqd.MaxNumber, 1, 0, "").Counter, counter("order", seqd.MaxNumber, 1, 0, "").Counter, counter("order", seqd.MaxNumber, 1, 0, "").Counter},
	} {
		t.Run(name, func(t *testing.T) {
			must.Equal(t, restore.counter(&own, test.c), test.restored)
			must.Equal(t, restore.counter(&shared, test.c), test.restored)
			must.Equal(t, move.counter(&own, test.c), test.moved)
			must.Equal(t, move.counter(&shared, test.c), test.movedShared)
		})
	}

	for name, want := range map[string]int64{"invoice": 17, "bill": 30} {
		state := ledger.Fresh(&ledger.Policy{Start: 1}, persist.NewEpoch(), fence)
		state.Last = 12
		doc := must.Get(state.Document(name, 1))(t)
		for p, want := range map[policy]struct{ last, later int64 }{restore: {want, revisions}, move: {12, 0}} {
			next, kept, err := p.document(&own, doc)
			must.Do(t, err)
			is := must.Get(ledger.Decode(&next))(t)
			if !kept || is.Last != want.last || is.Fence != own.fence || next.Revision < doc.Revision+want.later {
				t.Errorf("%s, %T: %+v of revision %d", name, p, is, next.Revision)
			}
		}
	}
	for p, want := range map[policy]bool{restore: false, move: true} {
		_, kept, err := p.document(&own, persist.Restored{Gap: 1}.Document(1))
		must.Do(t, err)
		must.Equal(t, kept, want)
	}

	set := persist.SlotSet{Incarnation: epoch, Floor: 3, Ahead: 10, Source: fence}
	table := persist.SlotTable{Now: now + 1, Lag: 100}
	must.Equal(t, restore.registry(&own, set, table).Floor, now+111)
	must.Equal(t, move.registry(&own, set, table), set)
	set.Source = "an earlier server"
	must.Equal(t, move.registry(&own, set, table).Floor, now+11+lostLeases)
	if restore.registry(&own, set, table).Incarnation == epoch {
		t.Error("a node that knows the former registry takes the restored one for the same")
	}
}
