package coordslots_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/strategy/snowflake/coordslots"
)

func TestConformance(t *testing.T) {
	persisttest.RunSlots(t, func(_ *testing.T, now func() time.Time) (persist.SlotStore, func() error) {
		store := memory.New(now)
		return coordslots.Open(coordslots.Options{Documents: store.Documents(), Clock: store}), store.Close
	})
}

var set = persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "12/10/1ms", Floor: 7, Ahead: 5000, Cluster: strings.Repeat("c3", 16)}

func slot(id, renewed int64) *persist.Slot {
	return &persist.Slot{
		ID: id, Key: strings.Repeat("a", 64) + ".65535." + strings.Repeat("9", 39), Token: strings.Repeat("f", 32),
		Until: persist.MaxNumber, Reserved: persist.MaxNumber, RenewedAt: renewed,
	}
}

// All slots of the largest layout fit into what a coordinator takes of one value.
func TestSize(t *testing.T) {
	r := persist.Registry{Name: strings.Repeat("n", 200), Set: &set}
	for id := range int64(1) << coordslots.MostBits {
		r.Slots = append(r.Slots, *slot(id, persist.MaxNumber))
	}
	body := must.Get(persist.Encode(r))(t)
	must.Get(coordination.Encode(persist.Document{Kind: "slots", Key: r.Name, Revision: 1, Body: string(body)}))(t)
}

// A coordinator that lost everything is another source. One that was only read has none.
func TestSource(t *testing.T) {
	store := memory.New(time.Now)
	open := func(o coordslots.Options) *coordslots.Slots {
		o.Documents, o.Clock = store.Documents(), store
		return coordslots.Open(o)
	}
	must.Equal(t, must.Get(open(coordslots.Options{Reading: true}).Look(t.Context(), "r"))(t).Source, "")
	must.Is(t, must.Err(coordination.ReadID(t.Context(), store.Documents())), persist.ErrNotFound)
	s := open(coordslots.Options{})
	first := must.Get(s.Look(t.Context(), "r"))(t).Source
	must.Equal(t, must.Get(s.Swap(t.Context(), "r", persist.SlotSwap{NewSet: &set, Source: "x" + first}))(t), false)
	must.Equal(t, must.Get(s.Swap(t.Context(), "r", persist.SlotSwap{NewSet: &set, Source: first}))(t), true)
	must.Equal(t, must.Get(open(coordslots.Options{Reading: true}).Look(t.Context(), "r"))(t).Source, first)

	store = memory.New(time.Now)
	s = open(coordslots.Options{})
	must.Equal(t, must.Get(s.Swap(t.Context(), "r", persist.SlotSwap{NewSet: &set, Source: first}))(t), false)
	if again := must.Get(s.Look(t.Context(), "r"))(t); again.Source == first || again.Set != nil {
		t.Errorf("after the loss: %+v", again)
	}
}

// A swap that rests on what was read long ago is not made, although nothing has changed since.
func TestPatience(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	store := memory.New(func() time.Time { return now })
	s := coordslots.Open(coordslots.Options{Documents: store.Documents(), Clock: store, Patience: time.Second})
	seen := must.Get(s.Look(t.Context(), "r"))(t)
	for _, test := range []struct {
		later time.Duration
		made  bool
	}{{1001 * time.Millisecond, false}, {time.Second, true}} {
		now = time.UnixMilli(1_000_000).Add(test.later)
		made := must.Get(s.Swap(t.Context(), "r", persist.SlotSwap{NewSet: &set, NewSlot: slot(3, seen.Now), Source: seen.Source}))(t)
		must.Equal(t, made, test.made, fmt.Sprint(test.later))
	}
}

// A document that was damaged or mixed up, or that a newer version wrote, is refused.
func TestDamaged(t *testing.T) {
	other := string(must.Get(persist.Encode(persist.Registry{Name: "other"}))(t))
	for body, want := range map[string]error{"": persist.ErrInvalid, "{}": persist.ErrInvalid, other: persist.ErrInvalid, `{"v":99}`: persist.ErrNewer} {
		store := memory.New(time.Now)
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "slots", Key: "r", Revision: 1, Body: body}))
		s := coordslots.Open(coordslots.Options{Documents: store.Documents(), Clock: store})
		_, err := s.Look(t.Context(), "r")
		source := must.Get(coordination.ReadID(t.Context(), store.Documents()))(t)
		_, swapped := s.Swap(t.Context(), "r", persist.SlotSwap{NewSet: &set, Source: source})
		for _, err := range []error{err, swapped, s.Drop(t.Context(), "r")} {
			if !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", body, err, want)
			}
		}
	}
}
