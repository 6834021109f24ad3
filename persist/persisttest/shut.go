package persisttest

import (
	"errors"

	"github.com/seqd/seqd/persist"
)

// testShut shuts the store, if it is a [persist.Shutter]: no number, ledger or registry changes until it
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
	s.must(write(ctx, persist.Document{Kind: persist.ClusterKind, Key: persist.ClusterKey, Revision: 1, Body: "moved"}))
	for range 2 { // it can be repeated
		s.must(shutter.Shut(ctx))
	}
	next := ledger
	next.Revision, next.Body = 2, "[]"
	made, swapErr := s.store.Slots().Swap(ctx, "r", grant)
	gave, backErr := s.store.Counters().GiveBack(ctx, "order", persist.Range{First: 6, Last: 10})
	if made || gave {
		s.Errorf("a lease was granted (%v) or numbers given back (%v): %v, %v", made, gave, swapErr, backErr)
	}
	_, taken := s.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 5})
	for what, err := range map[string]error{
		"allocate": taken, "create": s.store.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 1}),
		"create a ledger": put(persist.Document{Kind: persist.LedgerKind, Key: "new", Revision: 1, Body: "{}"}), "write a ledger": put(next),
	} {
		if err == nil {
			s.Errorf("%s: the store is shut, and did it", what)
		}
	}
	if _, err := s.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey); err != nil {
		s.Errorf("whoever starts does not learn why: %v", err)
	}
	for range 2 {
		s.must(shutter.Unshut(ctx))
	}
	r, err := s.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 5})
	if err != nil || r.First != 11 {
		s.Errorf("after that it gives %+v, %v", r, err)
	}
	s.must(put(next))
	if made, err := s.store.Slots().Swap(ctx, "r", grant); err != nil || !made {
		s.Errorf("after that it leases: %v, %v", made, err)
	}
	if _, err := s.store.Counters().Read(ctx, "new"); !errors.Is(err, persist.ErrNotFound) {
		s.Errorf("a counter that was created while the store was shut: %v", err)
	}
}
