package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// inSlots runs f in a write transaction on the bucket of registries.
func inSlots(t *testing.T, s *Store, f func(b *bbolt.Bucket) error) {
	t.Helper()
	must.Do(t, s.slots.write(t.Context(), f))
}

// earlier returns a store with the registry "order" as earlier builds kept it.
func earlier(t *testing.T) (*Store, persist.Registry) {
	t.Helper()
	r := persist.Registry{Name: "order", Set: &persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "l", Floor: 9, Ahead: 5}}
	for id := range int64(300) {
		r.Slots = append(r.Slots, persist.Slot{ID: id * 7, Key: fmt.Sprint("k", id), Token: "t", Until: 1000 + id, Reserved: 2000 + id, RenewedAt: 3})
	}
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	inSlots(t, s, func(b *bbolt.Bucket) error { return put(b, r) })
	return s, r
}

// has checks that the store has the registry.
func has(t *testing.T, s *Store, want persist.Registry) {
	t.Helper()
	for _, ids := range [][]int64{nil, {7, 14, 0, 7, 9}} {
		if got := must.Get(s.Slots().Look(t.Context(), "order", ids...))(t); !reflect.DeepEqual(got, want.Table(1, ids...)) {
			t.Errorf("of the slots %v it has %+v", ids, got)
		}
	}
}

// What an earlier build wrote is read as it is, and nothing of it is lost by the change that splits
// it. From then on an earlier build refuses it.
func TestRegistryOfEarlierBuilds(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *Store, r *persist.Registry){
		"nothing changes": nil,
		"a renewal": func(t *testing.T, s *Store, r *persist.Registry) {
			next := r.Slots[2]
			next.Until = 5000
			must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", persist.SlotSwap{OldSet: r.Set, OldSlot: &r.Slots[2], NewSlot: &next}))(t), true)
			r.Slots[2] = next
		},
		"the first lease of an ID": func(t *testing.T, s *Store, r *persist.Registry) {
			next := persist.Slot{ID: 9000, Key: "new"}
			must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", persist.SlotSwap{OldSet: r.Set, NewSlot: &next}))(t), true)
			r.Slots = append(r.Slots, next)
		},
		"a floor": func(t *testing.T, s *Store, r *persist.Registry) {
			next := *r.Set
			next.Floor = 5000
			must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", persist.SlotSwap{OldSet: r.Set, NewSet: &next}))(t), true)
			r.Set = &next
		},
		"drop": func(t *testing.T, s *Store, r *persist.Registry) {
			must.Do(t, s.Slots().Drop(t.Context(), "order"))
			r.Set = nil
		},
		"a refused swap": func(t *testing.T, s *Store, r *persist.Registry) {
			must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", persist.SlotSwap{OldSet: r.Set, NewSlot: &r.Slots[2]}))(t), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := earlier(t)
			s.slots.now = func() time.Time { return time.UnixMilli(1) }
			has(t, s, r)
			whole := change == nil || name == "a refused swap"
			if change != nil {
				change(t, s, &r)
				has(t, s, r)
			}
			must.Do(t, s.Close())
			opts := Options{Path: s.path, LockTimeout: time.Second, Now: func() time.Time { return time.UnixMilli(1) }}
			must.Get(compactFile(opts))(t)
			looking := must.Get(OpenReadOnly(opts))(t)
			has(t, looking, r)
			must.Do(t, looking.Close())
			s = must.Get(Open(opts))(t)
			defer s.Close()
			has(t, s, r)
			inSlots(t, s, func(b *bbolt.Bucket) error {
				_, err := get[persist.Registry](b, "order") // as earlier builds do
				if errors.Is(err, persist.ErrNewer) == whole || (err == nil) != whole {
					t.Errorf("an earlier build: %v", err)
				}
				return nil
			})
		})
	}
}

// A renewal writes the record of its slot alone.
func TestRenewalWritesItsSlot(t *testing.T) {
	s, r := earlier(t)
	swap := persist.SlotSwap{OldSet: r.Set, OldSlot: &r.Slots[2], NewSlot: &r.Slots[2]}
	must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", swap))(t), true)
	hurt := func(id int64) {
		t.Helper()
		inSlots(t, s, func(b *bbolt.Bucket) error { return b.Bucket(nested("order")).Put(recordKey(id), []byte("7")) })
	}
	hurt(r.Slots[3].ID)
	must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", swap))(t), true, "beside a damaged slot")
	must.Get(s.Slots().Look(t.Context(), "order", r.Slots[2].ID))(t)
	must.Is(t, must.Err(s.Slots().Look(t.Context(), "order")), persist.ErrInvalid, "all slots")
	hurt(persist.Root)
	must.Is(t, must.Err(s.Slots().Swap(t.Context(), "order", swap)), persist.ErrInvalid, "a damaged root")
}

// A record that rotted is refused, whatever is done with it, and stays as it is.
func TestDamagedRegistry(t *testing.T) {
	slot := persist.Slot{ID: 1, Key: "k", Until: 7}
	whole := must.Get(persist.Encode(persist.Registry{Name: "order", Slots: []persist.Slot{slot}}))(t)
	rotten := bytes.Replace(whole, []byte("\"until\":7"), []byte("\"until\":6"), 1)
	for name, test := range map[string]struct {
		id   string
		data []byte // under the name
		one  []byte // the record of the slot
		want error
	}{
		"rotten":          {"order", rotten, nil, persist.ErrInvalid},
		"cut short":       {"order", whole[:len(whole)-1], nil, persist.ErrInvalid},
		"another's":       {"other", whole, nil, persist.ErrInvalid},
		"not a text":      {"order", []byte("7"), nil, persist.ErrInvalid},
		"newer":           {"order", []byte(`{"v":3}`), nil, persist.ErrNewer},
		"without records": {"other", splitMark, nil, persist.ErrInvalid},
		"a rotten slot":   {"order", splitMark, rotten, persist.ErrInvalid},
		"another slot":    {"order", splitMark, must.Get(persist.Encode(persist.Registry{Name: "order", Slots: []persist.Slot{{ID: 2, Key: "k"}}}))(t), persist.ErrInvalid},
		"a root":          {"order", splitMark, must.Get(persist.Encode(persist.Registry{Name: "order"}))(t), persist.ErrInvalid},
		"another name":    {"order", splitMark, must.Get(persist.Encode(persist.Registry{Name: "other", Slots: []persist.Slot{slot}}))(t), persist.ErrInvalid},
		"a newer slot":    {"order", splitMark, []byte(`{"v":2}`), persist.ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
			must.Equal(t, must.Get(s.Slots().Swap(t.Context(), "order", persist.SlotSwap{NewSlot: &slot}))(t), true)
			inSlots(t, s, func(b *bbolt.Bucket) error {
				if test.one != nil {
					must.Do(t, b.Bucket(nested("order")).Put(recordKey(1), test.one))
				}
				return b.Put([]byte(test.id), test.data)
			})
			_, look := s.Slots().Look(t.Context(), test.id)
			made, swapped := s.Slots().Swap(t.Context(), test.id, persist.SlotSwap{NewSlot: &slot})
			errs := map[string]error{"look": look, "swap": swapped}
			if test.one == nil {
				errs["drop"] = s.Slots().Drop(t.Context(), test.id)
			}
			for what, err := range errs {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.id) {
					t.Errorf("%s: %v", what, err)
				}
			}
			inSlots(t, s, func(b *bbolt.Bucket) error {
				data, one := b.Get([]byte(test.id)), b.Bucket(nested("order")).Get(recordKey(1))
				if made || !bytes.Equal(data, test.data) || test.one != nil && !bytes.Equal(one, test.one) {
					t.Errorf("made %v, now %q and %q", made, data, one)
				}
				return nil
			})
		})
	}
}
