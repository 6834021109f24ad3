package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
)

// act lets a caller ask for something.
func (w *world) act(n *simNode) {
	w.names++
	ids := slices.Sorted(maps.Keys(w.open))
	op := Op{Count: 1 + int64(w.rng.IntN(3)), Caller: "c"}
	switch dice := w.rng.IntN(20); {
	case dice < 6:
		if w.rng.IntN(2) == 0 {
			k := w.rng.IntN(6)
			op.Once, op.Count = fmt.Sprintf("k%d", k), int64(1+k%3)
		}
	case dice < 11:
		op.Kind, op.ID = Reserve, id(w.names)
		if w.rng.IntN(3) == 0 {
			k := w.rng.IntN(3)
			op.Once, op.Count = fmt.Sprintf("r%d", k), int64(1+k)
		}
	case dice < 17 && len(ids) > 0:
		op.Kind, op.ID = []Kind{Confirm, Confirm, Release, Find}[w.rng.IntN(4)], ids[w.rng.IntN(len(ids))]
	case dice == 17:
		op.Kind, op.Number, op.Reason = Void, 1+w.rng.Int64N(w.highest+2), "spoilt"
	default:
		op.Kind = Reclaim
	}
	w.submit(n, op)
}

func (w *world) step() {
	i := w.rng.IntN(len(w.nodes))
	n := w.nodes[i]
	switch dice := w.rng.IntN(100); {
	case dice < 20:
		w.act(n)
	case dice < 55:
		w.execute(n, false)
	case dice < 90:
		w.answer(n)
	case dice < 92 && len(w.late) > 0:
		k := w.rng.IntN(len(w.late))
		w.late[k]()
		w.late = slices.Delete(w.late, k, k+1)
	case dice < 94:
		w.clock += int64(w.rng.IntN(4000))
	case dice == 94:
		n.offset = []int64{0, day, -day, 3000}[w.rng.IntN(4)]
	case dice == 95 && w.rng.IntN(5) == 0:
		w.crash(i)
	case dice < 98 && len(n.waiting) > 0:
		w.abandon(n)
	}
	w.next(n)
}

func (w *world) abandon(n *simNode) {
	i := w.rng.IntN(len(n.waiting))
	r := n.waiting[i]
	if a := r.Tag.(*ask); r.Op.Kind != Return && !a.gone {
		a.gone = true
		if n.m.Abandon(r) {
			n.waiting = slices.Delete(n.waiting, i, i+1)
		}
	}
}

// settleAll lets everything come to an end.
func (w *world) settleAll() {
	for range 3000 {
		idle := len(w.late) == 0
		for _, n := range w.nodes {
			w.execute(n, true)
			w.answer(n)
			w.next(n)
			idle = idle && n.m.Idle() && len(n.inflight)+len(n.answers)+len(n.waiting) == 0
		}
		if len(w.late) > 0 {
			w.late[0]()
			w.late = w.late[1:]
		}
		if idle {
			return
		}
	}
	w.fail("it does not come to an end")
}

// finish asks for what callers gave up to know, and checks that every issued number has an owner.
func (w *world) finish() {
	w.settleAll()
	for k := range 6 {
		w.submit(w.nodes[0], Op{Count: int64(1 + k%3), Once: fmt.Sprintf("k%d", k)})
	}
	for k := range 3 {
		w.names++
		w.submit(w.nodes[0], Op{Kind: Reserve, Count: int64(1 + k), Once: fmt.Sprintf("r%d", k), ID: id(w.names)})
	}
	w.settleAll()
	for _, id := range slices.Sorted(maps.Keys(w.open)) {
		w.submit(w.nodes[0], Op{Kind: Find, ID: id})
	}
	w.settleAll()
	w.copied()
	for _, n := range slices.Sorted(maps.Keys(w.class)) {
		if w.class[n] == 'i' && w.owner[n] == "" && !w.lossy {
			w.fail("%d is issued, and nobody was told", n)
		}
		if w.owner[n] != "" && w.class[n] != 'i' && w.class[n] != 'v' {
			w.fail("%d belongs to %s and is %c", n, w.owner[n], w.class[n])
		}
	}
}

func runSeed(seed uint64, without RuleSet) error {
	w := newWorld(seed, without)
	for range 400 {
		if w.step(); w.wrong != nil {
			return w.wrong
		}
	}
	w.finish()
	return w.wrong
}

func TestRandom(t *testing.T) {
	for seed := range uint64(longtest.Or(300, 1000)) {
		if err := runSeed(seed, 0); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// With room for two writers, machines often cannot know whether a write was made. Then numbers may
// be skipped, but everything else holds.
func TestRandomForgottenWriters(t *testing.T) {
	defer func(was int) { mostWriters = was }(mostWriters)
	mostWriters = 2
	for seed := range uint64(longtest.Or(60, 300)) {
		w := newWorld(seed, 0)
		w.lossy = true
		for range 400 {
			w.step()
		}
		if w.finish(); w.wrong != nil {
			t.Fatalf("seed %d: %v", seed, w.wrong)
		}
	}
}
