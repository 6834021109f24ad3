package persist

import (
	"context"
	"encoding/hex"
)

// A registry of machine IDs says who holds which ID until when. Its bootstrap part says what all
// leases rest on. No backup and no failover must bring back only a part of a registry.

// SlotSet is the bootstrap part of a registry.
type SlotSet struct {
	// Incarnation is 32 hexadecimal digits, drawn at random when the part is created, when its floor
	// is raised for an operator, and when the store names the registry anew.
	Incarnation string `json:"incarnation"`
	// Layout is how a number is composed of time, sequence and machine ID. It is compared, never
	// interpreted.
	Layout string `json:"layout"`
	// Floor is the time, in ms since the Unix epoch, that every lease begins above; 0 for none.
	Floor int64 `json:"floor"`
	// Ahead is how far ahead of the registry's clock any lease can reach, in ms, of all nodes that
	// ever registered.
	Ahead int64 `json:"ahead"`
	// Source is the [SlotTable.Source] under which the part was written.
	Source string `json:"source"`
	// Cluster is the ID of the cluster that the registry belongs to; "" in registries of the first
	// versions.
	Cluster string `json:"cluster,omitempty"`
}

// Validate returns ErrInvalid and the field that is out of its range.
func (s SlotSet) Validate() error {
	raw, err := hex.DecodeString(s.Incarnation)
	switch {
	case err != nil || len(raw) != 16:
		return invalid("incarnation %q is not 32 hexadecimal digits", s.Incarnation)
	case s.Layout == "":
		return invalid("layout is empty")
	case s.Floor < 0 || s.Floor > MaxNumber:
		return invalid("floor %d is outside 0 to %d", s.Floor, MaxNumber)
	case s.Ahead < 0 || s.Ahead > MaxNumber:
		return invalid("ahead %d is outside 0 to %d", s.Ahead, MaxNumber)
	case s.Cluster != "":
		return Cluster{ID: s.Cluster}.Validate()
	}
	return nil
}

// MaxSlotID is the highest machine ID a registry can hold.
const MaxSlotID = 1<<16 - 1

// Slot is the lease of one machine ID. Times are in ms since the Unix epoch.
type Slot struct {
	// ID is the machine ID, 0 to MaxSlotID.
	ID int64 `json:"id"`
	// Key names the instance that holds the ID or held it last, as app.port.ip.
	Key string `json:"key"`
	// Token is drawn at random for each lease; "" after a clean stop.
	Token string `json:"token"`
	// Until is the highest time that anyone may have used with this ID.
	Until int64 `json:"until"`
	// Reserved is the highest time that the holder may use after a restart without asking. A holder
	// with another token begins above it.
	Reserved int64 `json:"reserved"`
	// RenewedAt is when the slot was written last, by the clock of the registry.
	RenewedAt int64 `json:"renewedAt"`
}

// Validate returns ErrInvalid and the field that is out of its range.
func (s Slot) Validate() error {
	switch {
	case s.ID < 0 || s.ID > MaxSlotID:
		return invalid("machine ID %d is outside 0 to %d", s.ID, MaxSlotID)
	case s.Key == "":
		return invalid("key is empty")
	case s.Until < 0 || s.Until > MaxNumber:
		return invalid("until %d is outside 0 to %d", s.Until, MaxNumber)
	case s.Reserved < 0 || s.Reserved > MaxNumber:
		return invalid("reserved %d is outside 0 to %d", s.Reserved, MaxNumber)
	case s.RenewedAt < 0 || s.RenewedAt > MaxNumber:
		return invalid("renewedAt %d is outside 0 to %d", s.RenewedAt, MaxNumber)
	}
	return nil
}

// SlotTable is a registry at one moment.
type SlotTable struct {
	// Set is nil if there is none: the registry is new, or its bootstrap part was dropped.
	Set *SlotSet
	// Slots are those that were asked for and were ever granted, ascending by ID.
	Slots []Slot
	// Now is the time of the registry's own clock, in ms since the Unix epoch, read after the
	// slots.
	Now int64
	// Source changes when the server may have lost writes that it has confirmed: it is the
	// replication ID of a Redis server, or the fence of a [Fenced] store. Other stores lose none, and
	// it is "".
	Source string
	// Lag is how old writes can be that such a server loses, in ms; 0 if Source is "", or if it is
	// certain that the registry has lost none.
	Lag int64
}

// SlotSwap is one atomic change of a registry, by compare-and-set: it is made only if everything is
// still as it was seen (invariant U5).
type SlotSwap struct {
	// OldSet is the bootstrap part as it was seen; nil if there was none.
	OldSet *SlotSet
	// NewSet replaces it; nil leaves it as it is.
	NewSet *SlotSet
	// OldSlot is the slot as it was seen; nil if it was never granted. It is compared only if
	// NewSlot is not nil.
	OldSlot *Slot
	// NewSlot replaces it; nil changes no slot.
	NewSlot *Slot
	// Source is that of the SlotTable. It must still be the same.
	Source string
}

// Validate returns ErrInvalid and what is out of its range.
func (s SlotSwap) Validate() error {
	if s.NewSet != nil {
		if err := s.NewSet.Validate(); err != nil {
			return err
		}
	}
	switch {
	case s.NewSet == nil && s.NewSlot == nil:
		return invalid("a swap that changes nothing")
	case s.NewSlot == nil:
		return nil
	case s.OldSlot != nil && s.OldSlot.ID != s.NewSlot.ID:
		return invalid("a swap of machine ID %d for %d", s.OldSlot.ID, s.NewSlot.ID)
	}
	return s.NewSlot.Validate()
}

// IDs returns the IDs of the records that the swap compares and sets; see [Root].
func (s SlotSwap) IDs() []int64 {
	if s.NewSlot == nil {
		return []int64{Root}
	}
	return []int64{Root, s.NewSlot.ID}
}

// SlotStore keeps registries of machine IDs. It is safe for concurrent use. Package
// strategy/snowflake/machineid decides what is in them; a driver only compares and sets.
type SlotStore interface {
	// Look returns a registry as it was at one moment during the call, with the slots of the given
	// IDs, or with all slots if none are given. A registry that does not exist is empty.
	Look(ctx context.Context, registry string, ids ...int64) (SlotTable, error)
	// Swap makes the change, durably, if everything is as the swap says it was, and reports whether
	// it did. After an error the change may have been made, or may be made later.
	Swap(ctx context.Context, registry string, swap SlotSwap) (bool, error)
	// Drop removes the bootstrap part of a registry and keeps its slots, or returns ErrNotFound. It
	// is called after a backup was restored.
	Drop(ctx context.Context, registry string) error
}
