package persist

import (
	"slices"
	"unicode/utf8"
)

// Registry is a registry of machine IDs, or some of its slots, for drivers that store bytes. They
// keep a record for each slot and one for the bootstrap part, so that a lease is renewed at the same
// cost however many slots there are. Each record is a Registry with nothing else in it. The values of
// a Registry are never changed in place.
type Registry struct {
	Name string   `json:"name"`
	Set  *SlotSet `json:"set,omitempty"`
	// Slots are ascending by ID.
	Slots []Slot `json:"slots"`
}

// PersistID is the name.
func (r Registry) PersistID() string { return r.Name }

// Validate returns ErrInvalid and what is out of its range.
func (r Registry) Validate() error {
	if err := CheckLook(r.Name); err != nil {
		return err
	}
	if r.Set != nil {
		if err := r.Set.Validate(); err != nil {
			return err
		}
	}
	for i, slot := range r.Slots {
		if err := slot.Validate(); err != nil {
			return err
		}
		if i > 0 && slot.ID <= r.Slots[i-1].ID {
			return invalid("machine ID %d after %d", slot.ID, r.Slots[i-1].ID)
		}
	}
	return nil
}

// Root is the ID of the record with the bootstrap part. That of a slot is its machine ID.
const Root int64 = -1

// Records returns the records of a registry by their IDs: the root, and one for each slot.
func (r Registry) Records() (map[int64][]byte, error) {
	parts := map[int64]Registry{Root: {Name: r.Name, Set: r.Set}}
	for i, slot := range r.Slots {
		parts[slot.ID] = Registry{Name: r.Name, Slots: r.Slots[i : i+1]}
	}
	records := make(map[int64][]byte, len(parts))
	for id, part := range parts {
		record, err := Encode(part)
		if err != nil {
			return nil, err
		}
		records[id] = record
	}
	return records, nil
}

// Add adds what the record with an ID holds. It is called once for each record, for slots in the
// order of their IDs.
func (r *Registry) Add(id int64, record []byte) error {
	part, err := Decode[Registry](record)
	switch {
	case err != nil:
		return err
	case part.Name == r.Name && id == Root && len(part.Slots) == 0:
		r.Set = part.Set
	case part.Name == r.Name && part.Set == nil && len(part.Slots) == 1 && part.Slots[0].ID == id:
		r.Slots = append(r.Slots, part.Slots[0])
	default:
		return invalid("its record %d is another one", id)
	}
	return nil
}

// Table returns what [SlotStore.Look] returns: the slots of the given IDs, or all. The table shares
// no memory with the registry.
func (r Registry) Table(now int64, ids ...int64) SlotTable {
	t := SlotTable{Now: now}
	if r.Set != nil {
		set := *r.Set
		t.Set = &set
	}
	ids = slices.Sorted(slices.Values(ids))
	for _, slot := range r.Slots {
		if _, asked := slices.BinarySearch(ids, slot.ID); asked || len(ids) == 0 {
			t.Slots = append(t.Slots, slot)
		}
	}
	return t
}

// Swapped returns the registry as it is after a change, and true. If something is not as the change
// says it was, it returns the registry as it is, and false. It only computes.
func (r Registry) Swapped(swap SlotSwap) (Registry, bool) {
	if swap.Source != "" || !same(r.Set, swap.OldSet) {
		return r, false
	}
	next := r
	if swap.NewSlot != nil {
		at, granted := slices.BinarySearchFunc(r.Slots, swap.NewSlot.ID, func(s Slot, id int64) int { return int(s.ID - id) })
		var old *Slot
		if granted {
			old = &r.Slots[at]
		}
		if !same(old, swap.OldSlot) {
			return r, false
		}
		next.Slots = slices.Clone(r.Slots)
		if !granted {
			next.Slots = slices.Insert(next.Slots, at, Slot{})
		}
		next.Slots[at] = *swap.NewSlot
	}
	if swap.NewSet != nil {
		set := *swap.NewSet
		next.Set = &set
	}
	return next, true
}

// same reports whether two values are equal or both are nil.
func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// longestRegistry is the largest length of the name of a registry, in bytes.
const longestRegistry = 1024

// CheckLook returns ErrInvalid for a name that no registry can have and for machine IDs that none
// can hold. Drivers call it first.
func CheckLook(registry string, ids ...int64) error {
	if registry == "" || len(registry) > longestRegistry || !utf8.ValidString(registry) {
		return invalid("registry %.100q: a name has 1 to %d bytes of UTF-8", registry, longestRegistry)
	}
	for _, id := range ids {
		if id < 0 || id > MaxSlotID {
			return invalid("machine ID %d is outside 0 to %d", id, MaxSlotID)
		}
	}
	return nil
}

// CheckSwap returns ErrInvalid for a change that no registry can take. Drivers call it first. It
// refuses texts that are not UTF-8: the stored text would differ from the given one, and no later
// swap would match it.
func CheckSwap(registry string, swap SlotSwap) error {
	if err := CheckLook(registry); err != nil {
		return err
	}
	if err := swap.Validate(); err != nil {
		return err
	}
	var texts []string
	if set := swap.NewSet; set != nil {
		texts = append(texts, set.Layout, set.Source)
	}
	if slot := swap.NewSlot; slot != nil {
		texts = append(texts, slot.Key, slot.Token)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return invalid("%q is not UTF-8", text)
		}
	}
	return nil
}
