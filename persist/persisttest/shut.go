package persisttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seqd/seqd/persist"
)

// testShut shuts the store, if it is a [persist.Shutter]: no number, document or registry changes until it
// is unshut. What is there can be read.
func testShut(s *suite) {
	shutter, ok := s.store.(persist.Shutter)
	if !ok {
		return
	}
	ctx := s.Context()
	s.must(s.store.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 10, Step: 10}))
	table, err := s.store.Slots().Look(ctx, "r")
	s.must(err)
	grant := persist.SlotSwap{NewSlot: &persist.Slot{ID: 3, Key: "k"}, Source: table.Source}
	ledger := persist.Document{Kind: persist.LedgerKind, Key: "bill", Revision: 1, Body: "{}"}
	write, fence := s.store.Documents().Create, ""
	fenced, isFenced := s.store.(persist.Fenced)
	if isFenced {
		f, err := fenced.Fence(ctx)
		s.must(err)
		fence = f.Current
	}
	put := func(d persist.Document) error {
		if isFenced {
			return persist.PutFenced(ctx, fenced, d, fence)
		}
		return persist.Put(ctx, s.store.Documents(), d)
	}
	s.must(put(ledger))
	cluster := persist.Document{Kind: persist.ClusterKind, Key: persist.ClusterKey, Revision: 1, Body: "moved"}
	s.must(write(ctx, cluster))
	other := cluster
	other.Body = "undone"
	s.wants(shutter.Shut(ctx, other), persist.ErrConflict)
	answer := persist.Document{Kind: "answer", Key: "a", Revision: 1}
	s.must(write(ctx, answer))
	answer.Revision = 2
	for range 2 { // it can be repeated
		s.must(shutter.Shut(ctx, cluster))
	}
	next := ledger
	next.Revision, next.Body = 2, "[]"
	s.wants(shutter.Unshut(ctx, other), persist.ErrConflict)
	made, swapErr := s.store.Slots().Swap(ctx, "r", grant)
	gave, backErr := s.store.Counters().GiveBack(ctx, "order", persist.Range{First: 6, Last: 10})
	if made || gave {
		s.Errorf("a lease was granted (%v) or numbers given back (%v): %v, %v", made, gave, swapErr, backErr)
	}
	_, taken := s.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 5})
	for what, err := range map[string]error{
		"allocate": taken, "create": s.store.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 1}),
		"create a ledger": put(persist.Document{Kind: persist.LedgerKind, Key: "new", Revision: 1, Body: "{}"}), "write a ledger": put(next),
		"create a document": s.store.Documents().Create(ctx, persist.Document{Kind: "answer", Key: "new", Revision: 1}), "update a document": s.store.Documents().Update(ctx, answer),
	} {
		if err == nil {
			s.Errorf("%s: the store is shut, and did it", what)
		}
	}
	if _, err := s.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		s.Errorf("whoever starts does not learn why: %v", err)
	}
	for range 2 {
		s.must(shutter.Unshut(ctx, cluster))
	}
	r, err := s.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 5})
	if err != nil || r.First != 11 {
		s.Errorf("after that it gives %+v, %v", r, err)
	}
	s.must(put(next))
	s.must(s.store.Documents().Update(ctx, answer))
	if made, err := s.store.Slots().Swap(ctx, "r", grant); err != nil || !made {
		s.Errorf("after that it leases: %v, %v", made, err)
	}
	if _, err := s.store.Counters().Read(ctx, "new"); !errors.Is(err, persist.ErrNotFound) {
		s.Errorf("a counter that was created while the store was shut: %v", err)
	}
}

// testFill creates counters at once, if the store is a [persist.CounterFiller].
func testFill(s *suite) {
	filler, ok := s.store.(persist.CounterFiller)
	if !ok {
		return
	}
	ctx, list := s.Context(), []persist.Counter{}
	for i := range int64(1500) {
		list = append(list, persist.Counter{BizTag: fmt.Sprintf("tenant/ü%d\x00", i), Max: i, Step: 1 + i, Timestamp: i, Epoch: []string{"", persist.StoreEpoch}[i%2]})
	}
	s.must(filler.FillCounters(ctx, list))
	for _, want := range []persist.Counter{list[0], list[777], list[1499]} {
		if got, err := s.store.Counters().Read(ctx, want.BizTag); err != nil || got != want {
			s.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	s.wants(filler.FillCounters(ctx, []persist.Counter{{BizTag: "new", Step: 1}, list[5]}), persist.ErrExists)
	s.wants(filler.FillCounters(ctx, []persist.Counter{{BizTag: "bad"}}), persist.ErrInvalid)
	ended, end := context.WithCancel(ctx)
	end()
	s.wants(filler.FillCounters(ended, []persist.Counter{{BizTag: "late", Step: 1}}), context.Canceled)
}
