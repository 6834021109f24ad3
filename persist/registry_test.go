package persist_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

func someRegistry() persist.Registry {
	return persist.Registry{
		Name: "order",
		Set:  &persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms", Floor: 7, Ahead: 5000},
		Slots: []persist.Slot{
			{ID: 0, Key: "a", Token: "t", Until: persist.MaxNumber, Reserved: 1, RenewedAt: 2},
			{ID: persist.MaxSlotID, Key: "b", Until: 3},
		},
	}
}

func TestRegistriesSurviveEncoding(t *testing.T) {
	for _, want := range []persist.Registry{someRegistry(), {Name: "ü"}, {Name: "x", Slots: someRegistry().Slots}} {
		data := must.Get(persist.Encode(want))(t)
		if got, err := persist.Decode[persist.Registry](data); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestBadRegistries(t *testing.T) {
	for name, change := range map[string]func(*persist.Registry){
		"no name":           func(r *persist.Registry) { r.Name = "" },
		"no UTF-8":          func(r *persist.Registry) { r.Name = "\xff" },
		"bad set":           func(r *persist.Registry) { r.Set.Floor = -1 },
		"bad slot":          func(r *persist.Registry) { r.Slots[1].Until = -1 },
		"the same ID twice": func(r *persist.Registry) { r.Slots[1].ID = 0 },
		"descending":        func(r *persist.Registry) { r.Slots[0], r.Slots[1] = r.Slots[1], r.Slots[0] },
	} {
		r := someRegistry()
		change(&r)
		must.Is(t, r.Validate(), persist.ErrInvalid, "%s", name)
	}
}

// A swap gives another value; what it began with stays.
func TestSwappedOnlyComputes(t *testing.T) {
	r := someRegistry()
	old, set := r.Slots[0], *r.Set
	next := old
	next.Until, set.Floor = 5, 9
	for _, swap := range []persist.SlotSwap{
		{OldSet: r.Set, NewSet: &set, OldSlot: &old, NewSlot: &next},
		{OldSet: r.Set, NewSlot: &persist.Slot{ID: 5, Key: "c"}},
	} {
		after, made := r.Swapped(swap)
		if !made || reflect.DeepEqual(after, r) || !reflect.DeepEqual(r, someRegistry()) || after.Validate() != nil {
			t.Errorf("%v, %+v became %+v", made, r, after)
		}
	}
	if after, made := r.Swapped(persist.SlotSwap{OldSet: r.Set, NewSet: &set, Source: "x"}); made || !reflect.DeepEqual(after, r) {
		t.Errorf("%v, %+v", made, after)
	}
}
