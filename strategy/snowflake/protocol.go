package snowflake

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

// This file is the protocol by which nodes lease machine IDs. Its functions only decide: they read
// no clock and do no I/O. They get what was seen in the registry, and return a change that is made
// by compare-and-set: only if everything they saw is still the same. All times are in ms since the
// Unix epoch.
//
// Invariant U5: the intervals that are granted on one machine ID never overlap. A lease is the
// interval (lower, until], and its holder makes numbers with times in it only. The slot of the
// machine ID records the highest until that was ever granted, and how far its holder may extend the
// lease without the registry (reserved). The next holder of the machine ID begins above both. So it
// does not matter whose clock is wrong, which process was paused, or who believes that it holds the
// machine ID: two nodes never make the same number.
//
// A registry can lose what it confirmed, by a failover or a restore. Then it gets a floor: a time
// above everything that may have been granted. From then on every lease begins above the floor,
// except a lease that has not ended.

var (
	// errStandby means that other nodes hold every machine ID that this node may use.
	errStandby = errors.New("every machine ID that this node may use is held")
	// errLost means that the lease is not on record any more. Another node may hold the machine ID.
	errLost = errors.New("the machine ID is held by another node, or its record is gone")
	// errLayout means that the registry belongs to nodes with another layout of numbers.
	errLayout = errors.New("the registry of machine IDs belongs to another layout")
	// errCluster means that the registry belongs to another cluster, so its grants do not protect
	// the numbers of this one.
	errCluster = errors.New("the registry of machine IDs belongs to another cluster")
	// errSkew means that the node's clock is too far from the registry's.
	errSkew = errors.New("the clock is off")
)

// member is a participant of the protocol: the identity and the settings of an instance.
type member struct {
	layout  string
	cluster string // "" if unknown
	key     string // app.port.ip
	// first and last are the machine IDs that it may hold.
	first, last int64
	horizon     int64 // how far a lease reaches beyond the node's clock
	maxSkew     int64 // how far the clock may be from the registry's
	offline     int64 // how far it reserves times beyond its lease; 0 for no reservation
	// reach is the largest ahead of all members of this process on the registry, and of those that
	// the registry had on record.
	reach int64
	// floored is true if a new registry may be one that was lost, and so needs a floor. It is false
	// if only this process can reach the registry.
	floored bool
	// spent is what an earlier process may have used without the registry's knowledge.
	spent spent
}

// spent is the times of a machine ID up to until.
type spent struct{ id, until int64 }

// of returns the highest time of a machine ID that may have been used, 0 if nothing is known.
func (s spent) of(id int64) int64 {
	if s.id != id {
		return 0
	}
	return s.until
}

// ahead returns how far a lease can reach beyond the registry's clock. The second maxSkew allows
// for a registry whose clock was set back.
func (m *member) ahead() int64 { return m.horizon + 2*m.maxSkew + m.offline }

// lease is the right to use a machine ID with the times of an interval.
type lease struct {
	id    int64
	token string
	// lower and until bound the interval (lower, until]. until is on record.
	lower, until int64
	// reserved is how far the holder of the token may extend the interval without the registry. It
	// is at most until without a reservation.
	reserved int64
	// floored is true if a floor of the registry is why the lease begins at lower, and not a time
	// that was used.
	floored bool
}

// drawn returns 128 random bits in hexadecimal digits.
func drawn() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// prepare returns the change that the bootstrap part of the registry needs before anything is
// granted or renewed, or nil if it needs none.
func (m *member) prepare(t persist.SlotTable) (*persist.SlotSwap, error) {
	set := t.Set
	if set != nil && set.Layout != m.layout {
		return nil, fmt.Errorf("%w: %s; this node has %s", errLayout, set.Layout, m.layout)
	}
	if set != nil && set.Cluster != "" && m.cluster != "" && set.Cluster != m.cluster {
		return nil, fmt.Errorf("%w: %s; this node's is %s", errCluster, set.Cluster, m.cluster)
	}
	next := m.part(t)
	switch {
	case set == nil:
		next.Incarnation = drawn()
		if m.floored || len(t.Slots) > 0 { // a new registry has no slots
			next.Floor = floor(t, next.Ahead)
		}
	case set.Source != t.Source: // the registry may have lost grants
		next.Incarnation = set.Incarnation
		next.Floor = max(set.Floor, floor(t, next.Ahead))
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
func (m *member) part(t persist.SlotTable) persist.SlotSet {
	next := persist.SlotSet{Layout: m.layout, Source: t.Source, Ahead: max(m.ahead(), m.reach), Cluster: m.cluster}
	if t.Set != nil {
		next.Ahead = max(next.Ahead, t.Set.Ahead)
		next.Cluster = cmp.Or(next.Cluster, t.Set.Cluster)
	}
	return next
}

// refloor returns the change that gives a registry another incarnation, and a floor above all that
// it can have granted.
func (m *member) refloor(t persist.SlotTable, incarnation string) persist.SlotSwap {
	next := m.part(t)
	next.Incarnation = incarnation
	if t.Set != nil {
		next.Layout, next.Floor = t.Set.Layout, t.Set.Floor
	}
	next.Floor = max(next.Floor, floor(t, next.Ahead))
	return persist.SlotSwap{OldSet: t.Set, NewSet: &next, Source: t.Source}
}

// floor returns a time above every lease that can have been granted so far.
func floor(t persist.SlotTable, ahead int64) int64 { return t.Now + ahead + t.Lag }

// acquire chooses a machine ID, and returns the change that leases it and the lease. now is the
// node's time. It returns errStandby if none is free. prepare must have returned nil.
func (m *member) acquire(t persist.SlotTable, now int64) (swap persist.SlotSwap, l lease, err error) {
	slot, granted, ok := m.choose(t, now)
	if !ok {
		return swap, l, m.standby(t)
	}
	lower := max(slot.Until, slot.Reserved, m.spent.of(slot.ID))
	// They are equal if the machine ID was released before its lease began: then the floor is the
	// reason, too.
	l = lease{id: slot.ID, token: drawn(), lower: max(lower, t.Set.Floor), floored: t.Set.Floor >= lower}
	if sabotage.Off(sabotage.LeaseBegin) {
		l.lower = 0
	}
	now = m.bounded(t, now)
	l.until = max(l.lower, now+m.horizon)
	return m.grant(t, slot, granted, &l, now), l, nil
}

// standby returns an errStandby that says who holds the machine IDs.
func (m *member) standby(t persist.SlotTable) error {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == m.first })
	if m.first < m.last || i < 0 {
		return fmt.Errorf("%w: all from %d to %d; this node stands by", errStandby, m.first, m.last)
	}
	return fmt.Errorf("%w: %d is held by %s; this node stands by", errStandby, m.first, t.Slots[i].Key)
}

// bounded returns the time for a grant. It limits a clock that jumped ahead after it was compared
// with the registry's, so that the floor always covers the lease.
func (m *member) bounded(t persist.SlotTable, now int64) int64 { return min(now, t.Now+m.maxSkew) }

// grant returns the change that records a lease, and sets what the lease reserves, which never
// decreases. old is the slot before; granted is false if the machine ID was never granted.
func (m *member) grant(t persist.SlotTable, old persist.Slot, granted bool, l *lease, now int64) persist.SlotSwap {
	l.reserved = max(l.reserved, old.Reserved, l.until)
	// The reservation counts from now. If it counted from an until that a floor moved far ahead,
	// the next floor would not cover it.
	if m.offline > 0 {
		l.reserved = max(l.reserved, now+m.horizon+m.offline)
	}
	swap := persist.SlotSwap{OldSet: t.Set, Source: t.Source, NewSlot: &persist.Slot{
		ID: l.id, Key: m.key, Token: l.token, Until: l.until, Reserved: l.reserved, RenewedAt: t.Now,
	}}
	if granted {
		swap.OldSlot = &old
	}
	return swap
}

// choose returns the slot to take: the instance's own previous one, else the one that its key
// hashes to, else the one that was unused for longest. A slot whose times are used up to beyond now
// comes after all others. granted is false if the slot was never granted. ok is false if no slot is
// free.
func (m *member) choose(t persist.SlotTable, now int64) (slot persist.Slot, granted, ok bool) {
	size := m.last - m.first + 1
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(m.key)) // it never fails
	scatter := m.first + int64(hash.Sum64()%uint64(size))
	type candidate struct {
		persist.Slot
		granted bool
		rank    [3]int64 // the lowest wins
	}
	over := m.over(t)
	candidates := make([]candidate, 0, size)
	known := t.Slots
	for id := m.first; id <= m.last; id++ {
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
		if used := max(c.Until, c.Reserved, m.spent.of(id)); used > max(now, t.Set.Floor) {
			c.rank[0] = used // the earlier it can be used, the better
		}
		switch {
		case c.granted && c.Key == m.key:
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

// over returns the time before which a lease has certainly ended.
func (m *member) over(t persist.SlotTable) int64 {
	if t.Source != "" {
		// After a failover, also one that lost nothing, this clock may be behind that of the server
		// that granted the lease.
		return t.Now - m.maxSkew
	}
	return t.Now
}

// leased reports whether a slot is taken.
func leased(s persist.Slot, over int64) bool { return s.Token != "" && s.Until >= over }

// used returns how many of the machine IDs that this member may hold are leased. t has all slots.
func (m *member) used(t persist.SlotTable) (n int) {
	over := m.over(t)
	for _, s := range t.Slots {
		if s.ID >= m.first && s.ID <= m.last && leased(s, over) {
			n++
		}
	}
	return n
}

// renew returns the change that extends a lease, and the extended lease. progress is the highest
// time that may have been used already. It returns errLost if the lease is not on record. prepare
// must have returned nil.
func (m *member) renew(t persist.SlotTable, l lease, now, progress int64) (persist.SlotSwap, lease, error) {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.id })
	if i < 0 || t.Slots[i].Token != l.token {
		return persist.SlotSwap{}, l, errLost
	}
	slot := t.Slots[i]
	used := max(slot.Until, l.until, progress)
	set := m.noticed(t, slot, l)
	next := lease{id: l.id, token: l.token, lower: l.lower, reserved: l.reserved, floored: l.floored}
	// If the registry lost grants, others may have been granted times below the floor that was set
	// then. The lease may continue below the floor without a break only if it has not ended,
	// because then nobody else got the machine ID. What counts is the end of the lease that the
	// holder knows: the one on record may be a later renewal, of which the holder did not hear, and
	// which began with a break. It must not end before a server that was replaced stops granting
	// (Lag).
	if l.lower < set.Floor && min(slot.Until, l.until) < t.Now+t.Lag {
		next.lower, next.floored = max(used, set.Floor), true // without a floor it had no break
	}
	now = m.bounded(t, now)
	next.until = max(used, next.lower, now+m.horizon)
	swap := m.grant(t, slot, true, &next, now)
	swap.NewSet = changed(t.Set, set)
	return swap, next, nil
}

// covered returns the change that raises the floor of a registry above a lease that it does not
// know. It returns nil if the registry has such a floor or needs none. A registry that does not
// know the lease was put back to an older copy, and other nodes may have lost more than this one.
//
// A floor above the whole lease was set after the lease was granted, so it also covers whatever
// else was granted until then. A lower floor is older than the lease, and does not cover what was
// granted after it.
func (m *member) covered(t persist.SlotTable, l lease) *persist.SlotSwap {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.id })
	if i >= 0 && !older(t.Slots[i], l) || t.Set == nil || t.Set.Floor > max(l.until, l.reserved) {
		return nil
	}
	set := *t.Set
	set.Floor = max(set.Floor, floor(t, set.Ahead))
	if set == *t.Set { // it was just set
		return nil
	}
	return &persist.SlotSwap{OldSet: t.Set, NewSet: &set, Source: t.Source}
}

// older reports whether a slot is older than a lease of its machine ID. In a registry that was not
// put back, slots only increase, also over changes of their holders.
func older(slot persist.Slot, l lease) bool {
	return slot.Until < l.until || slot.Reserved < l.reserved
}

// noticed returns the bootstrap part. If the slot shows that the registry was put back to an older
// copy, it raises the floor, because other nodes may have lost more than this one.
func (m *member) noticed(t persist.SlotTable, slot persist.Slot, l lease) persist.SlotSet {
	set := *t.Set
	if older(slot, l) {
		set.Floor = max(set.Floor, floor(t, set.Ahead))
	}
	return set
}

// changed returns the new bootstrap part for a swap, nil if it equals the old one.
func changed(old *persist.SlotSet, set persist.SlotSet) *persist.SlotSet {
	if set == *old {
		return nil
	}
	return &set
}

// release returns the change that releases a machine ID. last is the highest time that was used;
// the generator must be stopped. It returns errLost if the lease is not on record.
func (m *member) release(t persist.SlotTable, l lease, last int64) (persist.SlotSwap, error) {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.id })
	if i < 0 || t.Slots[i].Token != l.token {
		return persist.SlotSwap{}, errLost
	}
	slot := t.Slots[i]
	used := max(last, l.lower)
	swap := persist.SlotSwap{OldSet: t.Set, OldSlot: &slot, Source: t.Source, NewSlot: &persist.Slot{
		ID: l.id, Key: m.key, Until: used, Reserved: used, RenewedAt: t.Now,
	}}
	if t.Set != nil {
		swap.NewSet = changed(t.Set, m.noticed(t, slot, l))
	}
	return swap, nil
}

// skewed returns an error if the clocks are too far apart. The registry was read between before and
// after.
func (m *member) skewed(before, after int64, t persist.SlotTable) error {
	ahead, behind := before-t.Now, t.Now-after
	switch {
	case ahead > m.maxSkew:
		return fmt.Errorf("%w: it is %d ms ahead of that of the registry of machine IDs, more than maxSkew (%d ms)", errSkew, ahead, m.maxSkew)
	case behind > m.maxSkew:
		return fmt.Errorf("%w: it is %d ms behind that of the registry of machine IDs, more than maxSkew (%d ms)", errSkew, behind, m.maxSkew)
	}
	return nil
}
