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

// This file decides, and does nothing else: no clock, no I/O. What it is given is what was seen;
// what it returns is a change that is made only where all of that is still so. All times are in ms
// since the Unix epoch.
//
// Invariant U5: the intervals that are granted on one machine ID never overlap. A lease is the
// interval (lower, until]. The record of the ID holds the highest until that was ever granted on
// it, and whoever gets the ID next begins above that; so it does not matter whose clock is wrong,
// who was paused and who believes to hold what.

var (
	// errStandby means that every machine ID is held by somebody.
	errStandby = errors.New("every machine ID that this node may use is held")
	// errLost means that the lease is not on record any more: somebody else may hold the ID.
	errLost = errors.New("the machine ID is held by another node, or its record is gone")
	// errLayout means that the registry belongs to nodes that make numbers in another way.
	errLayout = errors.New("the registry of machine IDs belongs to another layout")
	// errCluster means that the registry is that of another cluster: what is granted there says
	// nothing about this one's numbers.
	errCluster = errors.New("the registry of machine IDs belongs to another cluster")
	// errSkew means that the node's clock is too far off the registry's.
	errSkew = errors.New("the clock is off")
)

// member is what an instance registers with.
type member struct {
	layout  string
	cluster string // "" where none is known
	key     string // app.port.ip
	// first and last are the machine IDs it may hold.
	first, last int64
	horizon     int64 // how far ahead of its clock its lease reaches
	maxSkew     int64 // how far its clock may be off the registry's
	offline     int64 // for how long it reserves times beyond its lease; 0 for not at all
	// reach is how far ahead of the registry's clock a lease of any member of this process on the
	// registry can reach; at least ahead.
	reach int64
	// floored is whether a registry that is new may have been an older one that was lost: not where
	// nobody else can reach it.
	floored bool
	// spent is what an earlier process may have used, although the registry does not know of it.
	spent spent
}

// spent is the times of a machine ID up to one.
type spent struct{ id, until int64 }

// of returns up to where the times of a machine ID may have been used, 0 where nothing is known.
func (s spent) of(id int64) int64 {
	if s.id != id {
		return 0
	}
	return s.until
}

// ahead is how far ahead of the registry's clock its lease can reach. The second maxSkew is for a
// registry whose clock was set back since.
func (m *member) ahead() int64 { return m.horizon + 2*m.maxSkew + m.offline }

// lease is the right to use a machine ID with the times of an interval.
type lease struct {
	id    int64
	token string
	// lower and until bound the interval: lower is outside, until is inside, and on record.
	lower, until int64
	// reserved is how far the interval may be extended without asking, by whoever has the token; at
	// most until where that is off.
	reserved int64
	// floored is whether the interval begins where it does because of the registry's floor, and not
	// because of times that were used.
	floored bool
}

// drawn returns 128 random bits in hexadecimal digits.
func drawn() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// prepare returns the change that the bootstrap part needs before anything can be granted or
// renewed, or nil when it needs none.
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
		if m.floored || len(t.Slots) > 0 { // one that is new has no slots
			next.Floor = floor(t, next.Ahead)
		}
	case set.Source != t.Source: // grants may have been lost
		next.Incarnation = set.Incarnation
		next.Floor = max(set.Floor, floor(t, next.Ahead))
	case set.Ahead < next.Ahead, // before anything is granted that reaches further
		set.Cluster != next.Cluster:
		next.Incarnation, next.Floor = set.Incarnation, set.Floor
	default:
		return nil, nil
	}
	return &persist.SlotSwap{OldSet: set, NewSet: &next, Source: t.Source}, nil
}

// part returns the bootstrap part that a registry must have, but for its incarnation and its floor.
func (m *member) part(t persist.SlotTable) persist.SlotSet {
	next := persist.SlotSet{Layout: m.layout, Source: t.Source, Ahead: max(m.ahead(), m.reach), Cluster: m.cluster}
	if t.Set != nil {
		next.Ahead = max(next.Ahead, t.Set.Ahead)
		next.Cluster = cmp.Or(next.Cluster, t.Set.Cluster)
	}
	return next
}

// refloor returns the change that gives a registry which was restored from a backup a new floor,
// and the time from which it grants then.
func (m *member) refloor(t persist.SlotTable) (swap persist.SlotSwap, from int64) {
	next := m.part(t)
	next.Incarnation = drawn()
	if t.Set != nil {
		next.Layout, next.Floor = t.Set.Layout, t.Set.Floor
	}
	next.Floor = max(next.Floor, floor(t, next.Ahead))
	return persist.SlotSwap{OldSet: t.Set, NewSet: &next, Source: t.Source}, next.Floor + 1
}

// floor is above every lease that can have been granted so far.
func floor(t persist.SlotTable, ahead int64) int64 { return t.Now + ahead + t.Lag }

// acquire chooses a machine ID and returns the change that takes it and the lease that this gives.
// now is the node's clock. The error is errStandby when none is free. The bootstrap part needs no
// change.
func (m *member) acquire(t persist.SlotTable, now int64) (swap persist.SlotSwap, l lease, err error) {
	slot, granted, ok := m.choose(t, now)
	if !ok {
		return swap, l, m.standby(t)
	}
	lower := max(slot.Until, slot.Reserved, m.spent.of(slot.ID))
	l = lease{id: slot.ID, token: drawn(), lower: max(lower, t.Set.Floor), floored: t.Set.Floor > lower}
	if sabotage.Off(sabotage.LeaseBegin) {
		l.lower = 0
	}
	now = m.bounded(t, now)
	l.until = max(l.lower, now+m.horizon)
	return m.grant(t, slot, granted, &l, now), l, nil
}

// standby says who holds what this node wants.
func (m *member) standby(t persist.SlotTable) error {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == m.first })
	if m.first < m.last || i < 0 {
		return fmt.Errorf("%w: all from %d to %d; this node stands by", errStandby, m.first, m.last)
	}
	return fmt.Errorf("%w: %d is held by %s; this node stands by", errStandby, m.first, t.Slots[i].Key)
}

// bounded is the clock that a grant goes by: one that jumped ahead since it was compared must not
// make a lease that no floor covers.
func (m *member) bounded(t persist.SlotTable, now int64) int64 { return min(now, t.Now+m.maxSkew) }

// grant returns the change that records a lease. old is what the slot was; granted is whether there
// was one. What the lease reserves is never less than it was.
func (m *member) grant(t persist.SlotTable, old persist.Slot, granted bool, l *lease, now int64) persist.SlotSwap {
	l.reserved = max(l.reserved, old.Reserved, l.until)
	// from now on, and not beyond an until that a floor put far ahead: the next floor would not
	// cover that
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

// choose returns the slot to take: the instance's own last one, else the one that its key hashes
// to, else the one that was unused for longest. A slot whose times are used up to beyond now comes
// after all others. granted is whether the slot was ever granted, ok whether there is a free one.
func (m *member) choose(t persist.SlotTable, now int64) (slot persist.Slot, granted, ok bool) {
	size := m.last - m.first + 1
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(m.key)) // it never fails
	scatter := m.first + int64(hash.Sum64()%uint64(size))
	type candidate struct {
		persist.Slot
		granted bool
		rank    [3]int64 // the smallest wins
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
			c.rank[0] = used // the sooner it can be used
		}
		switch {
		case c.granted && c.Key == m.key:
			c.rank[1] = -2
		case id == scatter:
			c.rank[1] = -1
		}
		c.rank[2] = c.RenewedAt
		if !c.granted { // never used: the first behind the one that the key hashes to, so that many who come at once do not all want the same
			c.rank[2] = (id-scatter+size)%size - size
		}
		candidates = append(candidates, c)
	}
	if len(candidates) == 0 {
		return slot, false, false
	}
	best := slices.MinFunc(candidates, func(a, b candidate) int { return slices.CompareFunc(a.rank[:], b.rank[:], cmp.Compare[int64]) })
	return best.Slot, best.granted, true
}

// over is the time before which a lease has ended for certain.
func (m *member) over(t persist.SlotTable) int64 {
	if t.Source != "" {
		// after a failover the clock may be behind that of the server that knew the lease
		return t.Now - m.maxSkew
	}
	return t.Now
}

// leased reports whether nobody else may take a slot.
func leased(s persist.Slot, over int64) bool { return s.Token != "" && s.Until >= over }

// used is how many of the machine IDs that this member may hold are leased. t has all slots.
func (m *member) used(t persist.SlotTable) (n int) {
	over := m.over(t)
	for _, s := range t.Slots {
		if s.ID >= m.first && s.ID <= m.last && leased(s, over) {
			n++
		}
	}
	return n
}

// renew returns the change that extends a lease and what the lease is after it. progress is the
// highest time that was used or may be used already. The error is errLost when the lease is not on
// record. The bootstrap part needs no change.
func (m *member) renew(t persist.SlotTable, l lease, now, progress int64) (persist.SlotSwap, lease, error) {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.id })
	if i < 0 || t.Slots[i].Token != l.token {
		return persist.SlotSwap{}, l, errLost
	}
	slot := t.Slots[i]
	used := max(slot.Until, l.until, progress)
	set := m.noticed(t, slot, l)
	next := lease{id: l.id, token: l.token, lower: l.lower, reserved: l.reserved, floored: l.floored}
	// Since the floor was set others may have been granted what is below it, where what was on
	// record then was lost. Only a lease that stands goes on below it without a break: nobody else
	// got the ID. It must be the one that the holder knows of that stands, since the one on record
	// may be a renewal that it did not hear of, and that began with a break; and it must stand for
	// as long as a server that was replaced may go on granting.
	if l.lower < set.Floor && min(slot.Until, l.until) < t.Now+t.Lag {
		next.lower, next.floored = max(used, set.Floor), set.Floor > used
	}
	now = m.bounded(t, now)
	next.until = max(used, next.lower, now+m.horizon)
	swap := m.grant(t, slot, true, &next, now)
	swap.NewSet = changed(t.Set, set)
	return swap, next, nil
}

// covered returns the change that gives the registry a floor above a lease that it does not know,
// or nil where there is one, or none is needed: it was put back to an older copy, and others may
// have lost more than this node.
//
// Only a floor above all of the lease was set after it was granted, and so covers whatever else was
// granted until then. One that the lease begins or ends with was there before, and others may have
// been granted more since.
func (m *member) covered(t persist.SlotTable, l lease) *persist.SlotSwap {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.id })
	if i >= 0 && !older(t.Slots[i], l) || t.Set == nil || t.Set.Floor > max(l.until, l.reserved) {
		return nil
	}
	set := *t.Set
	set.Floor = max(set.Floor, floor(t, set.Ahead))
	if set == *t.Set { // set just now
		return nil
	}
	return &persist.SlotSwap{OldSet: t.Set, NewSet: &set, Source: t.Source}
}

// older reports whether a slot is from before a lease was granted. Whoever has it, it never knows
// less than that: all but a put back registry goes up.
func older(slot persist.Slot, l lease) bool {
	return slot.Until < l.until || slot.Reserved < l.reserved
}

// noticed returns the bootstrap part, with a new floor when the slot shows that the registry was
// put back to an older copy: other nodes may have lost more than this one.
func (m *member) noticed(t persist.SlotTable, slot persist.Slot, l lease) persist.SlotSet {
	set := *t.Set
	if older(slot, l) {
		set.Floor = max(set.Floor, floor(t, set.Ahead))
	}
	return set
}

// changed returns the new bootstrap part for a swap, nil when it is the old one.
func changed(old *persist.SlotSet, set persist.SlotSet) *persist.SlotSet {
	if set == *old {
		return nil
	}
	return &set
}

// release returns the change that gives a machine ID up. last is the highest time that was used
// with it; the generator is closed. The error is errLost when the lease is not on record.
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

// skewed returns why a clock is too far off the registry's: the registry was looked at between
// before and after.
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
