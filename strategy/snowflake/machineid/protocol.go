// Package machineid is the protocol by which nodes lease machine IDs. Its functions only decide:
// they read no clock and do no I/O. They get what was read from the registry (persist.SlotTable),
// and return a change (persist.SlotSwap), which the store makes by compare-and-set: only if
// everything they got is still the same. All times are in ms since the Unix epoch. Two shells read
// the registry and execute the changes: the holder of package snowflake for nodes, and package
// workers of the server for other programs.
//
// Invariant U5: the intervals that are granted on one machine ID never overlap. A lease is the
// interval (lower, until], and its holder makes numbers with times in it only. The slot of the
// machine ID, which is its record in the registry, holds the highest until that was ever granted,
// and how far its holder may extend the lease without the registry (reserved). The next lease of
// the machine ID begins above both. So it does not matter whose clock is wrong, which process was
// paused, or who believes that it holds the machine ID: two nodes never make the same number.
//
//	lower  Acquire sets it to the highest of the slot's until, its reserved, and the floor. Renew
//	       leaves it as it is, except for a break after a loss: see below
//	until  Acquire and Renew set it to the node's clock + Horizon, or to lower or the until of
//	       before if that is higher. Release sets the slot's until to the highest time that was used
//
// A registry can lose what it confirmed, by a failover or a restore. Prepare sees that its Source
// has changed, and Renew that a slot is older than the lease. Then the registry gets a floor: a
// time above everything that may have been granted. From then on every lease begins above the
// floor. Renew lets a lease go on below the floor only if it cannot have ended yet. Otherwise it
// gets a break: it goes on above the floor (lower moves there), and the times between belong to
// nobody.
//
// A registry that is put back to an older copy may look as if nothing had happened, and then none of
// this protects the times that it forgot. A member that knows such a registry to be possible is
// Doubtful: each of its leases begins above everything that may have been granted, and it renews a
// lease that has ended, or that is older than the floor, with a break.
package machineid

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

var (
	// ErrStandby means that other nodes hold every machine ID that this node may use.
	ErrStandby = errors.New("every machine ID that this node may use is held")
	// ErrLost means that the lease is not on record any more. Another node may hold the machine ID.
	ErrLost = errors.New("the machine ID is held by another node, or its record is gone")
	// ErrLayout means that the registry belongs to nodes with another layout of numbers.
	ErrLayout = errors.New("the registry of machine IDs belongs to another layout")
	// ErrCluster means that the registry belongs to another cluster, so its grants do not protect
	// the numbers of this one.
	ErrCluster = errors.New("the registry of machine IDs belongs to another cluster")
	// ErrSkew means that the node's clock is too far from the registry's.
	ErrSkew = errors.New("the clock is off")
)

// Member is a participant of the protocol: the identity and the settings of an instance. Its
// durations are in ms. Its methods change neither the Member nor the registry: they return changes.
type Member struct {
	// Layout is the layout of the numbers. Members of other layouts use other registries.
	Layout  string
	Cluster string // the ID of the cluster, "" if unknown
	Key     string // of the instance: app.port.ip for a node, the caller's text for a program
	// First and Last are the machine IDs that it may hold.
	First, Last int64
	Horizon     int64 // how far a lease reaches beyond the node's clock
	MaxSkew     int64 // how far the node's clock may be from the registry's
	Offline     int64 // how far it reserves times beyond its lease; 0 for no reservation
	// Reach is the least that the registry shall record as its Ahead: the largest Ahead of all
	// members of this process on the registry, and of those that the registry had on record.
	Reach int64
	// Floored is true if a new registry needs a floor, because it may be one that was lost. A node
	// sets it to false if only this process can reach the registry.
	Floored bool
	// Doubtful is true if the registry can be put back to an older copy and keep its Source.
	Doubtful bool
	// Spent is what an earlier process may have used without a record in the registry.
	Spent Spent
}

// Spent is the times of a machine ID up to Until, in ms since the Unix epoch.
type Spent struct{ ID, Until int64 }

// of returns the highest time of a machine ID that may have been used, 0 if nothing is known.
func (s Spent) of(id int64) int64 {
	if s.ID != id {
		return 0
	}
	return s.Until
}

// Ahead returns how far a lease can reach beyond the registry's clock, in ms. The second MaxSkew
// allows for a registry whose clock was set back.
func (m *Member) Ahead() int64 { return m.Horizon + 2*m.MaxSkew + m.Offline }

// Lease is the right to use a machine ID with the times of an interval. Its times are in ms since
// the Unix epoch. The zero Lease is none.
type Lease struct {
	ID    int64
	Token string // names the lease, from its grant to its end; "" only in the zero Lease
	// Lower and Until bound the interval (Lower, Until]. Until is on record.
	Lower, Until int64
	// Reserved is how far the holder of the token may extend the interval without the registry. It
	// is at most Until without a reservation.
	Reserved int64
	// Floored is true if Lower is the floor of the registry, and not a time that was used. It has
	// nothing to do with Member.Floored.
	Floored bool
}

// Drawn returns 128 random bits in hexadecimal digits: a token, or an incarnation of a registry.
func Drawn() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// Prepare returns the change that the bootstrap part of the registry needs before anything is
// granted or renewed, or nil if it needs none. It returns ErrLayout or ErrCluster if the registry
// belongs to others. t has all slots if it has no bootstrap part.
func (m *Member) Prepare(t persist.SlotTable) (*persist.SlotSwap, error) {
	set := t.Set
	if set != nil && set.Layout != m.Layout {
		return nil, fmt.Errorf("%w: %s; this node has %s", ErrLayout, set.Layout, m.Layout)
	}
	if set != nil && set.Cluster != "" && m.Cluster != "" && set.Cluster != m.Cluster {
		return nil, fmt.Errorf("%w: %s; this node's is %s", ErrCluster, set.Cluster, m.Cluster)
	}
	next := m.part(t)
	switch {
	case set == nil:
		next.Incarnation = Drawn()
		if m.Floored || len(t.Slots) > 0 { // a new registry has no slots
			next.Floor = floor(t, next.Ahead)
		}
	case set.Source != t.Source: // the registry may have lost grants
		next.Incarnation = set.Incarnation
		next.Floor = set.Floor
		if !sabotage.Off(sabotage.LeaseFloor) {
			next = raised(t, next)
		}
	case set.Ahead < next.Ahead, // recorded before a lease is granted that reaches further
		set.Cluster != next.Cluster:
		next.Incarnation, next.Floor = set.Incarnation, set.Floor
	default:
		return nil, nil
	}
	return &persist.SlotSwap{OldSet: set, NewSet: &next, Source: t.Source}, nil
}

// part returns the bootstrap part that a registry should have, without its incarnation and its
// floor.
func (m *Member) part(t persist.SlotTable) persist.SlotSet {
	next := persist.SlotSet{Layout: m.Layout, Source: t.Source, Ahead: max(m.Ahead(), m.Reach), Cluster: m.Cluster}
	if t.Set != nil {
		next.Ahead = max(next.Ahead, t.Set.Ahead)
		next.Cluster = cmp.Or(next.Cluster, t.Set.Cluster)
	}
	return next
}

// Refloor returns the change that gives a registry another incarnation, and a floor above all that
// it can have granted.
func (m *Member) Refloor(t persist.SlotTable, incarnation string) persist.SlotSwap {
	next := m.part(t)
	next.Incarnation = incarnation
	if t.Set != nil {
		next.Layout, next.Floor = t.Set.Layout, t.Set.Floor
	}
	next = raised(t, next)
	return persist.SlotSwap{OldSet: t.Set, NewSet: &next, Source: t.Source}
}

// floor returns a time above every lease that can have been granted so far.
func floor(t persist.SlotTable, ahead int64) int64 { return t.Now + ahead + t.Lag }

// raised returns a bootstrap part after its floor was raised above every lease that can have been
// granted so far.
func raised(t persist.SlotTable, set persist.SlotSet) persist.SlotSet {
	set.Floor = max(set.Floor, floor(t, set.Ahead))
	return set
}

// slotOf returns the slot of a machine ID. ok is false if the machine ID was never granted.
func slotOf(t persist.SlotTable, id int64) (slot persist.Slot, ok bool) {
	for _, slot = range t.Slots {
		if slot.ID == id {
			return slot, true
		}
	}
	return persist.Slot{}, false
}

// Acquire chooses a machine ID, and returns the change that leases it and the lease. now is the
// node's time, in ms since the Unix epoch; t has all slots. It returns ErrStandby if no machine ID
// is free. Prepare must have returned nil.
func (m *Member) Acquire(t persist.SlotTable, now int64) (swap persist.SlotSwap, l Lease, err error) {
	slot, granted, ok := m.choose(t, now)
	if !ok {
		return swap, l, m.standby(t)
	}
	lower := m.usedUpTo(slot)
	// They are equal if the machine ID was released before its lease began: then the floor is the
	// reason, too.
	above := m.above(t)
	l = Lease{ID: slot.ID, Token: Drawn(), Lower: max(lower, above), Floored: above >= lower}
	if sabotage.Off(sabotage.LeaseBegin) {
		l.Lower = 0
	}
	now = m.bounded(t, now)
	l.Until = max(l.Lower, now+m.Horizon)
	return m.grant(t, slot, granted, &l, now), l, nil
}

// Begin returns the Lower of the lease that Acquire would return for the same t and now, in ms
// since the Unix epoch. free is false if no machine ID is free.
func (m *Member) Begin(t persist.SlotTable, now int64) (lower int64, free bool) {
	slot, _, free := m.choose(t, now)
	return max(m.usedUpTo(slot), m.above(t)), free
}

// above returns the time that leases begin above.
func (m *Member) above(t persist.SlotTable) int64 {
	if m.Doubtful && !sabotage.Off(sabotage.LeaseDoubt) {
		return raised(t, *t.Set).Floor
	}
	return t.Set.Floor
}

// usedUpTo returns the highest time that anyone may have used with a machine ID.
func (m *Member) usedUpTo(slot persist.Slot) int64 {
	return max(slot.Until, slot.Reserved, m.Spent.of(slot.ID))
}

// standby returns an ErrStandby that says who holds the machine IDs.
func (m *Member) standby(t persist.SlotTable) error {
	slot, ok := slotOf(t, m.First)
	if m.First < m.Last || !ok {
		return fmt.Errorf("%w: all from %d to %d; this node stands by", ErrStandby, m.First, m.Last)
	}
	return fmt.Errorf("%w: %d is held by %s; this node stands by", ErrStandby, m.First, slot.Key)
}

// bounded returns the node's time for a grant, which is at most MaxSkew ahead of the registry's.
// The clock may have jumped ahead after it was compared. Without the bound a floor might not cover
// the lease.
func (m *Member) bounded(t persist.SlotTable, now int64) int64 { return min(now, t.Now+m.MaxSkew) }

// grant returns the change that records a lease, and sets what the lease reserves, which never
// decreases. old is the slot before; granted is false if the machine ID was never granted.
func (m *Member) grant(t persist.SlotTable, old persist.Slot, granted bool, l *Lease, now int64) persist.SlotSwap {
	l.Reserved = max(l.Reserved, old.Reserved, l.Until)
	// The reservation counts from now. If it counted from an until that a floor moved far ahead,
	// the next floor would not cover it.
	if m.Offline > 0 {
		l.Reserved = max(l.Reserved, now+m.Horizon+m.Offline)
	}
	swap := persist.SlotSwap{OldSet: t.Set, Source: t.Source, NewSlot: &persist.Slot{
		ID: l.ID, Key: m.Key, Token: l.Token, Until: l.Until, Reserved: l.Reserved, RenewedAt: t.Now,
	}}
	if granted {
		swap.OldSlot = &old
	}
	return swap
}

// choose returns the slot to take: the one that the instance had before, else the one that its key
// hashes to, else the one that was unused for longest. A slot whose until or reserved is later than
// now comes after all others. granted is false if the slot was never granted. ok is false if no
// slot is free.
func (m *Member) choose(t persist.SlotTable, now int64) (slot persist.Slot, granted, ok bool) {
	size := m.Last - m.First + 1
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(m.Key)) // it never fails
	scatter := m.First + int64(hash.Sum64()%uint64(size))
	type candidate struct {
		persist.Slot
		granted bool
		rank    [3]int64 // the lowest wins
	}
	over := m.over(t)
	candidates := make([]candidate, 0, size)
	known := t.Slots
	for id := m.First; id <= m.Last; id++ {
		for len(known) > 0 && known[0].ID < id {
			known = known[1:]
		}
		c := candidate{Slot: persist.Slot{ID: id}}
		if c.granted = len(known) > 0 && known[0].ID == id; c.granted {
			c.Slot = known[0]
			if leased(c.Slot, over) {
				continue
			}
		}
		if used := m.usedUpTo(c.Slot); used > max(now, t.Set.Floor) {
			c.rank[0] = used // the earlier it can be used, the better
		}
		switch {
		case c.granted && c.Key == m.Key:
			c.rank[1] = -2
		case id == scatter:
			c.rank[1] = -1
		}
		c.rank[2] = c.RenewedAt
		if !c.granted { // never granted: start after the hash of the key, so that many new instances do not all choose the same
			c.rank[2] = (id - scatter - size) % size // not above 0
		}
		candidates = append(candidates, c)
	}
	if len(candidates) == 0 {
		return slot, false, false
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int { return slices.CompareFunc(a.rank[:], b.rank[:], cmp.Compare[int64]) })
	return best.Slot, best.granted, true
}

// over returns a time: a lease whose until is before it has certainly ended.
func (m *Member) over(t persist.SlotTable) int64 {
	if t.Source != "" {
		// After a failover, also one that lost nothing, this clock may be behind that of the server
		// that granted the lease.
		return t.Now - m.MaxSkew
	}
	return t.Now
}

// leased reports whether a slot is taken: it has a holder, and its until is not before over.
func leased(s persist.Slot, over int64) bool { return s.Token != "" && s.Until >= over }

// Used returns how many of the machine IDs that this member may hold are leased. t has all slots.
func (m *Member) Used(t persist.SlotTable) (n int) {
	over := m.over(t)
	for _, s := range t.Slots {
		if s.ID >= m.First && s.ID <= m.Last && leased(s, over) {
			n++
		}
	}
	return n
}

// Renew returns the change that extends a lease, and the extended lease. now is the node's time,
// and progress the highest time that may have been used already, both in ms since the Unix epoch.
// It returns ErrLost if the lease is not on record. Prepare must have returned nil.
func (m *Member) Renew(t persist.SlotTable, l Lease, now, progress int64) (persist.SlotSwap, Lease, error) {
	slot, ok := slotOf(t, l.ID)
	if !ok || slot.Token != l.Token {
		return persist.SlotSwap{}, l, ErrLost
	}
	used := max(slot.Until, l.Until, progress)
	set := m.noticed(t, slot, l)
	next := Lease{ID: l.ID, Token: l.Token, Lower: l.Lower, Reserved: l.Reserved, Floored: l.Floored}
	// If the registry lost grants, others may have been granted times below the floor that was set
	// then. The lease may continue below the floor without a break only if it has not ended,
	// because then nobody else got the machine ID. Both ends count, the one on record and the one
	// that the holder knows: the one on record may be of a later renewal, which began with a break,
	// and whose answer the holder did not get. A server that was replaced can go on granting for
	// Lag, so the lease must end later than that.
	// A doubtful member trusts neither end.
	ended, floor := min(slot.Until, l.Until) < t.Now+t.Lag, set.Floor
	if ended {
		floor = max(floor, m.above(t))
	}
	if l.Lower < floor && (ended || m.Doubtful) {
		next.Lower, next.Floored = max(used, floor), true // the break
	}
	now = m.bounded(t, now)
	next.Until = max(used, next.Lower, now+m.Horizon)
	swap := m.grant(t, slot, true, &next, now)
	swap.NewSet = changed(t.Set, set)
	return swap, next, nil
}

// Covered returns the change that raises the floor of a registry above a lease that it does not
// know. It returns nil if the registry has such a floor or needs none. A registry that does not
// know the lease was put back to an older copy, and other nodes may have lost more than this one.
//
// A floor above the whole lease was set after the lease was granted, so it also covers whatever
// else was granted until then. A lower floor is older than the lease, and does not cover what was
// granted after it.
func (m *Member) Covered(t persist.SlotTable, l Lease) *persist.SlotSwap {
	slot, ok := slotOf(t, l.ID)
	if ok && !older(slot, l) || t.Set == nil || t.Set.Floor > max(l.Until, l.Reserved) {
		return nil
	}
	set := changed(t.Set, raised(t, *t.Set))
	if set == nil { // it was just raised
		return nil
	}
	return &persist.SlotSwap{OldSet: t.Set, NewSet: set, Source: t.Source}
}

// older reports whether a slot is older than a lease of its machine ID. In a registry that was not
// put back, slots only increase, also over changes of their holders.
func older(slot persist.Slot, l Lease) bool {
	return slot.Until < l.Until || slot.Reserved < l.Reserved
}

// noticed returns the bootstrap part, with a raised floor if the slot is older than the lease. Such
// a registry was put back to an older copy, and other nodes may have lost more than this one.
func (m *Member) noticed(t persist.SlotTable, slot persist.Slot, l Lease) persist.SlotSet {
	if older(slot, l) {
		return raised(t, *t.Set)
	}
	return *t.Set
}

// changed returns the new bootstrap part for a swap, nil if it equals the old one.
func changed(old *persist.SlotSet, set persist.SlotSet) *persist.SlotSet {
	if set == *old {
		return nil
	}
	return &set
}

// Release returns the change that releases a machine ID. last is the highest time that was used, in
// ms since the Unix epoch; nothing may be used any more. It returns ErrLost if the lease is not on
// record.
func (m *Member) Release(t persist.SlotTable, l Lease, last int64) (persist.SlotSwap, error) {
	slot, ok := slotOf(t, l.ID)
	if !ok || slot.Token != l.Token {
		return persist.SlotSwap{}, ErrLost
	}
	used := max(last, l.Lower)
	swap := persist.SlotSwap{OldSet: t.Set, OldSlot: &slot, Source: t.Source, NewSlot: &persist.Slot{
		ID: l.ID, Key: m.Key, Until: used, Reserved: used, RenewedAt: t.Now,
	}}
	if t.Set != nil {
		swap.NewSet = changed(t.Set, m.noticed(t, slot, l))
	}
	return swap, nil
}

// Skewed returns ErrSkew if the clocks are more than MaxSkew apart. The registry was read between
// before and after, times of the node in ms since the Unix epoch.
func (m *Member) Skewed(before, after int64, t persist.SlotTable) error {
	ahead, behind := before-t.Now, t.Now-after
	switch {
	case ahead > m.MaxSkew:
		return fmt.Errorf("%w: it is %d ms ahead of that of the registry of machine IDs, more than maxSkew (%d ms)", ErrSkew, ahead, m.MaxSkew)
	case behind > m.MaxSkew:
		return fmt.Errorf("%w: it is %d ms behind that of the registry of machine IDs, more than maxSkew (%d ms)", ErrSkew, behind, m.MaxSkew)
	}
	return nil
}
