// Package gaplesstest is the suite that the strategy gapless passes on each store.
package gaplesstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless"
)

// Run runs the suite. open returns two handles of one new, empty store, as two nodes have them.
// They may be the same.
func Run(t *testing.T, open func(t *testing.T) (one, two persist.Store)) {
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"numbers of two nodes have no gap", (*world).twoNodes},
		{"a reservation ends once", (*world).endsOnce},
		{"a repeated request gets the same numbers", (*world).once},
		{"the lowest released number is next", (*world).reuse},
		{"released numbers become void", (*world).void},
		{"a crash loses nothing", (*world).crash},
		{"an expired reservation is reclaimed", (*world).expire},
		{"lost answers leave no gap", (*world).lostAnswers},
		{"everything at once", (*world).random},
		{"keys count on their own", (*world).keys},
	} {
		t.Run(test.name, func(t *testing.T) {
			one, two := open(t)
			settings := gapless.DefaultSettings()
			settings.AcquireTimeout = time.Minute // for a machine that is slow
			test.run(&world{T: t, stores: []persist.Store{one, two}, settings: settings})
		})
	}
}

func (w *world) twoNodes() {
	nodes := []*gapless.Strategy{w.node(0), w.node(1)}
	var told collect
	var callers sync.WaitGroup
	const each, of = 8, 25
	for i := range 2 * each {
		callers.Go(func() {
			for range of {
				told.add(w.issue(nodes[i%2], 1+i%3)...)
			}
		})
	}
	callers.Wait()
	w.whole(nodes[0], "", told.list)
	if a := w.account(nodes[1], ""); len(a.Gaps) != 0 || a.First != 1 {
		w.Errorf("there are gaps: %+v", a)
	}
}

func (w *world) endsOnce() {
	a, b := w.node(0), w.node(1)
	for range 20 {
		id, list := w.reserve(a, 2, time.Minute)
		var codes [4]seqd.Code
		var both sync.WaitGroup
		for i, end := range []func() seqd.Code{
			func() seqd.Code { _, code := w.confirm(a, id); return code },
			func() seqd.Code { return w.release(b, id) },
			func() seqd.Code { _, code := w.confirm(b, id); return code },
			func() seqd.Code { return w.release(a, id) },
		} {
			both.Go(func() { codes[i] = end() })
		}
		both.Wait()
		confirmed, released := codes[0] == "" && codes[2] == "", codes[1] == "" && codes[3] == ""
		switch {
		case confirmed && codes[1] == seqd.CodeReservationConfirmed && codes[3] == codes[1]:
			again, code := w.confirm(b, id)
			want(w, "confirmed again", again, list)
			want(w, "confirmed again", code, "")
		case released && codes[0] == seqd.CodeReservationReleased && codes[2] == codes[0]:
		default:
			w.Fatalf("confirm, release, confirm, release: %q", codes)
		}
	}
}

func (w *world) once() {
	a, b := w.node(0), w.node(1)
	for i := range 10 {
		var answers [4][]int64
		var callers sync.WaitGroup
		for j, node := range []*gapless.Strategy{a, b, a, b} {
			callers.Go(func() {
				var seq seqd.Sequence
				if _, _, err := node.HandOut(w.Context(), seqd.Order{Count: 3, Once: fmt.Sprint("k", i)}, &seq); err != nil {
					w.Error(err)
				}
				answers[j] = numbers(&seq)
			})
		}
		callers.Wait()
		want(w, "the same key", answers, [4][]int64{answers[0], answers[0], answers[0], answers[0]})
	}
	if acc := w.account(a, ""); acc.Issued != 30 || acc.Last != 30 {
		w.Errorf("%+v", acc)
	}
	var seq seqd.Sequence
	_, _, err := b.HandOut(w.Context(), seqd.Order{Count: 4, Once: "k0"}, &seq)
	want(w, "another count", seqd.CodeOf(err), seqd.CodeIdempotencyKeyReused)
	r, _, err := b.HandOut(w.Context(), seqd.Order{Count: 1, Reserve: true, Once: "r"}, &seq)
	if err != nil {
		w.Fatal(err)
	}
	seq.Reset()
	again, replayed, err := a.HandOut(w.Context(), seqd.Order{Count: 1, Reserve: true, Once: "r"}, &seq)
	if err != nil || !replayed || again.ID != r.ID {
		w.Errorf("reserved %s, and again %s, %v, %v", r.ID, again.ID, replayed, err)
	}
}

func (w *world) reuse() {
	a, b := w.node(0), w.node(1)
	w.issue(a, 2)
	first, _ := w.reserve(a, 3, 0) // 3 4 5
	w.issue(b, 1)                  // 6
	want(w, "released", w.release(b, first), "")
	want(w, "released numbers", in(w.account(a, ""), seqd.GapReleased), []int64{3, 4, 5})
	want(w, "issued next", w.issue(a, 2), []int64{3, 4})
	want(w, "issued next", w.issue(b, 2), []int64{5, 7})
}

func (w *world) void() {
	w.settings.OnRelease = gapless.Void
	a, b := w.node(0), w.node(1)
	id, _ := w.reserve(a, 2, 0) // 1 2
	want(w, "released", w.release(b, id), "")
	want(w, "issued next", w.issue(a, 2), []int64{3, 4})
	v := seqd.Voiding{Number: 3, Reason: "torn", Caller: seqd.Caller{Name: "ann"}}
	for range 2 {
		if err := b.Void(w.Context(), v); err != nil {
			w.Fatal(err)
		}
		v.Reason = "another reason"
	}
	v.Number = 5
	want(w, "a number that was never issued", seqd.CodeOf(b.Void(w.Context(), v)), seqd.CodeInvalidID)
	acc := w.account(a, "")
	want(w, "void", in(acc, seqd.GapVoid), []int64{1, 2, 3})
	last := acc.Gaps[len(acc.Gaps)-1]
	if last.Reason != "torn" || last.By != "ann" || last.At.IsZero() {
		w.Errorf("%+v", last)
	}
}

func (w *world) crash() {
	var told []int64
	var open []string
	for i := range 5 {
		s := w.crashing(i % 2)
		told = append(told, w.issue(s, 3)...)
		id, _ := w.reserve(s, 1, time.Hour)
		open = append(open, id)
	}
	s := w.node(0)
	for _, id := range open {
		list, code := w.confirm(s, id)
		want(w, "confirmed after a crash", code, "")
		told = append(told, list...)
	}
	w.whole(s, "", told)
}

func (w *world) expire() {
	a, b := w.node(0), w.node(1)
	id, _ := w.reserve(a, 2, time.Second)
	kept, _ := w.reserve(a, 1, time.Hour)
	time.Sleep(1100 * time.Millisecond) // the store's clock cannot be set
	if err := b.Reclaim(w.Context(), "", 0); err != nil {
		w.Fatal(err)
	}
	_, code := w.confirm(a, id)
	want(w, "confirmed too late", code, seqd.CodeReservationExpired)
	want(w, "released after the expiry", w.release(b, id), "")
	want(w, "released by expiry", in(w.account(a, ""), seqd.GapReleased), []int64{1, 2})
	var seq seqd.Sequence
	r, err := b.Find(w.Context(), id, &seq)
	if err != nil || r.State != seqd.Expired {
		w.Errorf("%+v, %v", r, err)
	}
	_, code = w.confirm(b, kept)
	want(w, "confirmed in time", code, "")
	await.True(w, "somebody is told of the expiry", func() bool { return len(w.expired.all()) > 0 })
	want(w, "told of", w.expired.all(), []string{id})
}

// lostAnswers lets writes fail before or after they were made, and callers leave who wait for long.
// What callers were told is issued, and what nobody was told is released at last.
func (w *world) lostAnswers() {
	w.faults = []*faults{{}, {}}
	nodes := []*gapless.Strategy{w.node(0), w.node(1)}
	for _, f := range w.faults {
		f.set(4)
	}
	var told collect
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for range 40 {
				var seq seqd.Sequence
				ctx, leave := context.WithTimeout(w.Context(), 300*time.Millisecond)
				if nodes[i%2].Generate(ctx, 1, &seq) == nil {
					told.add(numbers(&seq)...)
				}
				leave()
			}
		})
	}
	callers.Wait()
	for _, f := range w.faults {
		f.set(0)
	}
	told.add(w.recovered(nodes[0])...)
	told.add(w.recovered(nodes[1])...)
	w.settled(nodes[1], told.list)
}

// random does everything on two nodes at once.
func (w *world) random() {
	nodes := []*gapless.Strategy{w.node(0), w.node(1)}
	var told collect
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range 40 {
				w.step(r, nodes, &told)
			}
		})
	}
	callers.Wait()
	w.settled(nodes[0], told.list)
	if reserved := in(w.account(nodes[1], ""), seqd.GapReserved); len(reserved) > 0 {
		w.Errorf("%v are still reserved", reserved)
	}
}

// step does one random thing. What callers have at last goes to told.
func (w *world) step(r *rand.Rand, nodes []*gapless.Strategy, told *collect) {
	node := func() *gapless.Strategy { return nodes[r.IntN(len(nodes))] }
	switch r.IntN(3) {
	case 0:
		told.add(w.issue(node(), 1+r.IntN(3))...)
		return
	case 1: // a call that failed after the strategy
		var seq seqd.Sequence
		if err := node().Generate(w.Context(), 1+r.IntN(2), &seq); err != nil {
			w.Error(err)
			return
		}
		node().Return(&seq, errors.New("a plugin failed"))
		return
	}
	id, list := w.reserve(node(), 1+r.IntN(3), time.Hour)
	if r.IntN(2) == 0 {
		want(w, "released", w.release(node(), id), "")
		return
	}
	got, code := w.confirm(node(), id)
	want(w, "confirmed", code, "")
	want(w, "confirmed", got, list)
	told.add(got...)
}

func (w *world) keys() {
	w.settings.Keyed, w.settings.LiveKeys, w.settings.MaxKeys = true, 4, 11
	a, b := w.node(0), w.node(1)
	var racers sync.WaitGroup
	for i := range 16 { // who do not know of each other
		racers.Go(func() {
			var seq seqd.Sequence
			seq.For("tenant-0")
			id, _, err := []*gapless.Strategy{a, b}[i%2].HandOut(w.Context(), seqd.Order{Count: 1, Reserve: true}, &seq)
			if err == nil {
				err = a.Release(w.Context(), seqd.Settlement{ID: id.ID})
			}
			want(w, "a new key", err, nil)
		})
	}
	racers.Wait()
	told := make(map[string][]int64)
	for i := range 60 {
		key := fmt.Sprint("tenant-", i%10)
		var seq seqd.Sequence
		seq.For(key)
		if err := []*gapless.Strategy{a, b}[i/10%2].Generate(w.Context(), 1, &seq); err != nil {
			w.Fatal(err)
		}
		told[key] = append(told[key], numbers(&seq)...)
	}
	var all []string
	for key, list := range told {
		want(w, key, list, []int64{1, 2, 3, 4, 5, 6})
		w.whole(a, key, list)
		all = append(all, key)
	}
	slices.Sort(all)
	keys, err := b.Keys(w.Context(), "", 100)
	want(w, "keys", keys, all)
	want(w, "keys", err, nil)
	keys, _ = b.Keys(w.Context(), all[2], 3)
	want(w, "a page of keys", keys, all[3:6])
	places := func(want int64) {
		await.True(w, "each key has one place", func() bool {
			c, err := w.stores[0].Counters().Read(w.Context(), bizType+"/")
			return err == nil && c.Max == want
		})
	}
	places(10)
	var seq seqd.Sequence
	seq.For("new")
	r, _, err := a.HandOut(w.Context(), seqd.Order{Count: 1, Reserve: true}, &seq)
	if err != nil || r.Key != "new" {
		w.Fatal(r, err)
	}
	_, code := w.confirm(b, r.ID)
	want(w, "confirmed", code, "")
	seq.Reset()
	seq.For("too-many")
	want(w, "a key too many", seqd.CodeOf(b.Generate(w.Context(), 1, &seq)), seqd.CodeTooManyKeys)
	places(11)
}
