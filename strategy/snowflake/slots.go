package snowflake

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// slotRegistry is the registry of machine IDs as one member of the protocol uses it. Only the run
// goroutine of the holder uses it, with these exceptions: the survey goroutine and measurements use
// what mu guards, and everybody may read what never changes, which is all of Member except Reach
// and Spent.
type slotRegistry struct {
	machineid.Member
	slots persist.SlotStore
	env   *environment
	// check returns why the registry cannot be used as it is configured. It may be nil.
	check func(context.Context) error
	// naming says whether the store names this registry.
	naming *naming
	name   string
	title  string // the name for operators

	// surveyed is when the whole registry was last read while a lease is held.
	surveyed time.Time
	surveys  sync.WaitGroup

	mu   sync.Mutex // guards seen
	seen seen
}

// attempt limits the duration of one read and one change of the registry.
const attempt = 5 * time.Second

// look reads the registry. It returns an error if the clocks are too far apart.
func (r *slotRegistry) look(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	before := r.env.ms()
	t, err := r.slots.Look(ctx, r.name, ids...)
	if err != nil {
		return t, err
	}
	after := r.env.ms()
	r.compared(before, after, t)
	if len(ids) == 0 {
		r.counted(t)
	}
	return t, r.Skewed(before, after, t)
}

// prepared reads the registry after making the changes that its bootstrap part needs. What the node
// knows by then says how far leases reach: biz types come at any time, on other nodes too.
//
// With ids the caller renews a lease. If the registry has a bootstrap part and the store does not
// answer, the caller goes on: whoever leased the machine ID, this process or an earlier one, has
// asked the store which registry counts.
func (r *slotRegistry) prepared(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	for {
		r.Reach = max(r.Reach, holders.reach(r))
		t, err := r.look(ctx, ids...)
		if err == nil && t.Set == nil {
			// without a bootstrap part, only all slots show whether the registry is new
			t, err = r.look(ctx)
		}
		if err != nil {
			return t, err
		}
		swap, err := r.Prepare(t)
		if err != nil {
			return t, err
		}
		incarnation, settled, err := r.naming.settle(ctx, t)
		if err != nil && (t.Set == nil || len(ids) == 0 || !away(err)) {
			return t, err
		}
		if reach := r.naming.reaches(0); err == nil && reach > r.Reach { // Prepare did not know that
			r.Reach, settled = reach, false
		}
		if err == nil && !settled {
			continue
		}
		if incarnation != "" {
			again := r.Refloor(t, incarnation)
			swap = &again
		}
		if swap == nil {
			r.Reach = max(r.Reach, t.Set.Ahead)
			return t, nil
		}
		made, err := r.swap(ctx, *swap)
		if err != nil {
			return t, err
		}
		if made && swap.NewSet.Floor > 0 && (swap.OldSet == nil || swap.NewSet.Floor > swap.OldSet.Floor) {
			r.env.Log.Warn("the registry of machine IDs is new or may have lost something: leases begin later, except those that have not ended",
				"registry", r.name, "from", at(swap.NewSet.Floor+1))
		}
	}
}

// swap makes a change, and reports whether it was made.
func (r *slotRegistry) swap(ctx context.Context, swap persist.SlotSwap) (made bool, err error) {
	return r.slots.Swap(ctx, r.name, swap)
}

// behind reports that the registry was put back to an older copy.
func (r *slotRegistry) behind(id, floor int64) {
	r.env.Log.Error("the registry of machine IDs was put back to an older copy; new leases begin above everything that it may have granted",
		"registry", r.name, "machineId", id, "from", at(floor+1))
	r.env.event(seqd.EventStoreBehind, nil)
}

// compared notes the difference between the clocks. The registry was read between before and after;
// half-way is the best estimate.
func (r *slotRegistry) compared(before, after int64, t persist.SlotTable) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.offset, r.seen.hasOffset = float64(before-t.Now+after-t.Now)/2, true
}

// counted notes how many machine IDs are leased. t has all slots.
func (r *slotRegistry) counted(t persist.SlotTable) {
	used := r.Used(t)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen.used, r.seen.free, r.seen.hasUsed = used, int(r.Last-r.First+1)-used, true
}

// lastSeen returns what was last seen, for measurements.
func (r *slotRegistry) lastSeen() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// survey reads the whole registry from time to time, in the background, to count. Renewals do not
// wait for it, and its errors do not matter.
func (r *slotRegistry) survey(ctx context.Context) {
	if time.Since(r.surveyed) < surveyPause {
		return
	}
	r.surveyed = time.Now()
	r.surveys.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, attempt)
		defer cancel()
		if t, err := r.slots.Look(ctx, r.name); err == nil {
			r.counted(t)
		}
	})
}
