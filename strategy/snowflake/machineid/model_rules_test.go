package machineid

import (
	"slices"

	"github.com/seqd/seqd/persist"
)

// rule is one rule of the protocol. A test can switch each off, to show that it is needed and that
// the model notices.
type rule int

// Rules.
const (
	// the registry makes a change only if everything is as it was seen
	compareAndSet   rule = iota
	lowerRecorded        // a lease begins above the recorded until and reserved
	lowerReserved        // it begins above reserved, and not only above until
	lowerUntil           // it begins above until, and not only above reserved
	floorNew             // a new registry has a floor
	floorDropped         // so has one whose bootstrap part was dropped
	floorSource          // one whose source changed gets a new floor
	lagInFloor           // the floor includes Lag
	noticedOlder         // a holder that finds an older copy raises the floor
	breakAfterEnd        // a lease that had ended continues above the floor only
	stopsAtUntil         // the generator stops at until
	stopsAtLost          // the generator stops when the token was seen to have changed
	progressFirst        // progress without the registry is on disk before its use
	restartAbove         // a restart begins above until and progress of its file
	invalidateFirst      // the file is invalidated before the release
	closeFirst           // the generator is stopped before the release
	aheadRaised          // Ahead is raised before a lease is granted that reaches further
	skewGuard            // a clock that is too far off is refused
	// a renewal continues without a break only if the lease that its holder knows has not ended,
	// not only the one on record
	standsKnown
	// after a possible failover, a machine ID is taken over only if its lease has been over for the
	// taker's maxSkew
	standMargin
	// reserved is offlineStart beyond now + horizon, and not beyond an until that is far ahead
	reservedBound
	// a grant uses the node's time, up to maxSkew ahead of the registry's
	nowBound
	// a lease older than the floor continues without a break only if it lasts for at least Lag
	splitStand
	// a node whose lease the registry does not know any more raises the floor above it before it
	// takes another
	coverOwed
	coverAnew    // even if the lease ends with an existing floor
	reservedKept // a renewal reserves no less than the lease that it extends
	// a restart whose lease is not on record uses nothing of its machine ID that its file names
	spentKept
	// the registry compares the source with that which the sender of a change saw
	sourceCompared
	sourceNew // a server that takes over has a source that no server ever had

	// Limits, which ADR 11 describes: no rule of the protocol covers these. TestLimits shows what
	// breaks.

	aheadKept // a registry that nodes with different settings used keeps the largest Ahead
	// a bootstrap part is made only if nobody made one since the registry was read
	freshPart
	rulesInAll
	firstLimit = aheadKept
)

var ruleNames = [rulesInAll]string{
	compareAndSet:   "compare and set",
	lowerRecorded:   "lower above until and reserved",
	lowerReserved:   "lower above reserved",
	lowerUntil:      "lower above until",
	floorNew:        "floor of a new registry",
	floorDropped:    "floor after the bootstrap part was dropped",
	floorSource:     "floor after a changed source",
	lagInFloor:      "Lag in the floor",
	noticedOlder:    "notice an older copy",
	breakAfterEnd:   "break after the lease ended",
	stopsAtUntil:    "generator stops at until",
	stopsAtLost:     "generator stops when the token changed",
	progressFirst:   "progress on disk before use",
	restartAbove:    "restart above until and progress",
	invalidateFirst: "invalidate the file before the release",
	closeFirst:      "close the generator before the release",
	aheadRaised:     "raise Ahead before granting",
	skewGuard:       "skew guard",
	standsKnown:     "break after the known lease ended",
	standMargin:     "take over only after maxSkew",
	reservedBound:   "reserved bound by the clock",
	nowBound:        "clock bound by the registry's",
	coverOwed:       "cover a lost lease",
	coverAnew:       "cover a lost lease that ends with the floor",
	reservedKept:    "reserved does not go down",
	spentKept:       "restart above its file without its lease",
	sourceCompared:  "compare the source",
	sourceNew:       "a source does not come back",
	aheadKept:       "Ahead is not lost",
	splitStand:      "an old lease stands for Lag",
	freshPart:       "no bootstrap part by an old look",
}

func (r rule) String() string { return ruleNames[r] }

// without says which rules are off, and which kind of violation is looked for; "" means all.
type without struct {
	rules
	only string
	// quiet is whether the registry keeps its source if it is put back to an older copy, and nobody is
	// excused for not noticing that. trusting is whether nodes are not doubtful there.
	quiet, trusting bool
}

type rules [rulesInAll]bool

func leaveOut(only string, out ...rule) (w without) {
	w.only = only
	for _, r := range out {
		w.rules[r] = true
	}
	return w
}

// The methods of Member without the rules that are off.

// prepares is Member.Prepare.
func (n *node) prepares(t persist.SlotTable) (*persist.SlotSwap, error) {
	out := &n.w.out.rules
	swap, err := n.Prepare(t)
	if err != nil || swap == nil {
		return swap, err
	}
	set, old := swap.NewSet, t.Set
	if old == nil {
		n.w.events[setMade]++
		if n.w.wiped() && out[floorNew] || !n.w.wiped() && out[floorDropped] {
			set.Floor = 0
		}
	} else if old.Source != t.Source {
		n.w.events[sourceSeen]++
		if out[floorSource] {
			set.Floor = old.Floor
		}
	} else if out[aheadRaised] {
		return nil, nil
	}
	if out[lagInFloor] && set.Floor == floor(t, set.Ahead) {
		set.Floor -= t.Lag
	}
	return swap, nil
}

// wiped reports whether the registry is empty.
func (w *world) wiped() bool { return w.registry.known == [len(w.registry.known)]bool{} }

// unbound removes the limits of a grant.
func (n *node) unbound(swap *persist.SlotSwap, l *Lease, now int64) {
	out := &n.w.out.rules
	if out[nowBound] {
		l.Until = max(l.Until, now+n.Horizon)
		swap.NewSlot.Until = l.Until
		l.Reserved = max(l.Reserved, l.Until)
	}
	if n.Offline > 0 {
		if out[nowBound] {
			l.Reserved = max(l.Reserved, now+n.Horizon+n.Offline)
		}
		if out[reservedBound] {
			l.Reserved = max(l.Reserved, l.Until+n.Offline)
		}
	}
	swap.NewSlot.Reserved = l.Reserved
}

// takes is Member.Acquire.
func (n *node) takes(t persist.SlotTable, now int64) (persist.SlotSwap, Lease, error) {
	out := &n.w.out.rules
	if out[standMargin] {
		t.Now += n.MaxSkew
	}
	swap, l, err := n.Acquire(t, now)
	if err != nil {
		return swap, l, err
	}
	lower := n.above(t)
	if old := swap.OldSlot; old != nil && !out[lowerRecorded] {
		if !out[lowerUntil] {
			lower = max(lower, old.Until)
		}
		if !out[lowerReserved] {
			lower = max(lower, old.Reserved)
		}
	}
	if lower < l.Lower { // a rule is off
		l.Lower, l.Until = lower, max(lower, n.Member.bounded(t, now)+n.Horizon)
		swap.NewSlot.Until = l.Until
	}
	n.unbound(&swap, &l, now)
	return swap, l, nil
}

// extends is Member.Renew.
func (n *node) extends(t persist.SlotTable, l Lease, now, progress int64) (persist.SlotSwap, Lease, error) {
	out := &n.w.out.rules
	seen := l
	lag := t.Lag
	if out[splitStand] {
		t.Lag = 0
	}
	if out[noticedOlder] {
		for _, s := range t.Slots {
			if s.ID == l.ID && s.Until < l.Until {
				progress = max(progress, l.Until)
				seen.Until = s.Until
			}
			if s.ID == l.ID {
				seen.Reserved = min(seen.Reserved, s.Reserved)
			}
		}
	}
	swap, next, err := n.Renew(t, seen, now, progress)
	if err != nil {
		return swap, next, err
	}
	if swap.NewSet != nil && out[splitStand] {
		swap.NewSet.Floor += lag
	}
	slot, _ := slotOf(t, l.ID)
	if out[reservedKept] {
		next.Reserved = max(slot.Reserved, next.Until)
		if n.Offline > 0 {
			next.Reserved = max(next.Reserved, n.Member.bounded(t, now)+n.Horizon+n.Offline)
		}
	}
	if out[standsKnown] && slot.Until >= t.Now+t.Lag {
		next.Lower = l.Lower
	}
	if next.Lower != l.Lower {
		n.w.events[broke]++
		if out[breakAfterEnd] {
			next.Lower = l.Lower
		}
	}
	n.unbound(&swap, &next, now)
	return swap, next, nil
}

// stands reports whether a lease has not ended.
func (n *node) stands(t persist.SlotTable, l Lease) bool {
	now := t.Now
	if l.Lower < t.Set.Floor && !n.w.out.rules[splitStand] {
		now += t.Lag
	}
	return slices.ContainsFunc(t.Slots, func(s persist.Slot) bool {
		return s.ID == l.ID && s.Until >= now && (l.Until >= now || n.w.out.rules[standsKnown])
	})
}

// gives is Member.Release.
func (n *node) gives(t persist.SlotTable, l Lease, last int64) (persist.SlotSwap, error) {
	swap, err := n.Release(t, l, last)
	if err == nil && n.w.out.rules[noticedOlder] {
		swap.NewSet = nil
	}
	return swap, err
}

// covers is Member.Covered.
func (n *node) covers(t persist.SlotTable, l Lease) *persist.SlotSwap {
	if n.w.out.rules[coverAnew] && t.Set.Floor >= l.Until {
		return nil
	}
	return n.Member.Covered(t, l)
}
