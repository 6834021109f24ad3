package snowflake

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Tests of registries that are put back to an older copy while nodes know newer leases.

// putBack is a registry that can be put back, and that can fail changes of its bootstrap part
// alone.
type putBack struct {
	*registry
	failing  atomic.Int64 // how many such changes fail from now on
	granting atomic.Bool  // all other changes fail
}

func (r *putBack) Slots() persist.SlotStore { return r }

func (r *putBack) Swap(ctx context.Context, name string, swap persist.SlotSwap) (bool, error) {
	if swap.NewSlot == nil && swap.OldSet != nil && r.failing.Load() > 0 {
		r.failing.Add(-1)
		return false, errAway
	}
	if swap.NewSlot != nil && r.granting.Load() {
		return false, errAway
	}
	return r.registry.Swap(ctx, name, swap)
}

// older puts the registry back to its current bootstrap part and no slots.
func (r *putBack) older(t *testing.T, name string) {
	t.Helper()
	table := must.Get(r.behind().Slots().Look(t.Context(), name))(t)
	copied := memory.New(time.Now)
	if ok, err := copied.Slots().Swap(t.Context(), name, persist.SlotSwap{NewSet: table.Set}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	r.other.Store(copied)
}

// portFor returns a port whose instance prefers that one of the machine IDs 0 and 1.
func portFor(t *testing.T, id int64) string {
	t.Helper()
	for _, port := range []string{"3", "4", "5", "6", "7", "8", "9"} {
		m := member{key: "seqd." + port + ".167772161", last: 1}
		if slot, _, _ := m.choose(persist.SlotTable{Set: &persist.SlotSet{}}, 0); slot.ID == id {
			return port
		}
	}
	t.Fatal("no port")
	return ""
}

// TestLostLeaseIsCovered checks that a holder that lost its lease in a registry that was put back
// raises the floor before it takes another machine ID, even if the change fails at first. Otherwise
// the node that has that machine ID, and has not noticed yet, would be granted times that the
// holder uses.
func TestLostLeaseIsCovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &putBack{registry: newRegistry(true)}
		two := func(s *Settings) { s.BitsMachine = 1 }
		b := instanceWith(t, r, time.Now, "2", two)
		closes(t, b)
		_ = b.Init(t.Context(), true)
		time.Sleep(9500 * time.Millisecond)
		a := instanceWith(t, r, time.Now, portFor(t, b.machineID()), two) // it gets the other one
		ready(t, a)
		one(t, a)
		one(t, b)
		time.Sleep(3600 * time.Millisecond) // A renews at ….5, B at ….0
		floor := slots(t, a, r.registry).Set.Floor
		r.older(t, a.held().registry.name)
		r.failing.Store(1)
		for range 3000 {
			time.Sleep(time.Millisecond)
			x, errX := try(a)
			y, errY := try(b)
			if errX == nil && errY == nil && x == y {
				t.Fatalf("%d was issued by both", x)
			}
		}
		if now := slots(t, a, r.registry).Set.Floor; now == floor || r.failing.Load() != 0 {
			t.Errorf("the floor was %d and is %d; %d failures are left", floor, now, r.failing.Load())
		}
	})
}

// TestDebtOutlivesAFailure checks that the floor is raised although the registry could not be read
// at first.
func TestDebtOutlivesAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{registry: newRegistry(true)}
		s := instanceWith(t, r, time.Now, "1", nil)
		closes(t, s)
		_ = s.Init(t.Context(), true)
		time.Sleep(20500 * time.Millisecond)
		floor := slots(t, s, r.registry).Set.Floor
		(&putBack{registry: r.registry}).older(t, s.held().registry.name)
		r.fails.Store(r.calls.Load() + 2) // the first look after that of the renewal
		time.Sleep(5 * time.Second)
		if now := slots(t, s, r.registry).Set.Floor; now == floor || r.calls.Load() < r.fails.Load() {
			t.Errorf("the floor was %d and is %d", floor, now)
		}
	})
}

// TestResumeOnARegistryThatWasPutBack checks that a restart whose file has a lease that the
// registry does not know raises the floor, and uses no time again although its clock was set back.
func TestResumeOnARegistryThatWasPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &putBack{registry: newRegistry(true)}
		var back atomic.Int64 // how far the clock was set back
		clock := func() time.Time { return time.Now().Add(-time.Duration(back.Load()) * time.Millisecond) }
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir = 10*time.Second, dir }
		a := instanceWith(t, r, clock, "1", offline)
		_ = a.Init(t.Context(), true)
		time.Sleep(30500 * time.Millisecond) // no crash coincides with a renewal
		n := one(t, a)
		crash(a)
		floor := slots(t, a, r.registry).Set.Floor
		r.older(t, a.held().registry.name)
		r.failing.Store(1)
		back.Store(1)
		again := instanceWith(t, r, clock, "1", offline)
		closes(t, again)
		if err := again.Init(t.Context(), true); err == nil || again.machineID() >= 0 {
			t.Errorf("it has a machine ID, %v, although the floor is not set", err)
		}
		time.Sleep(1100 * time.Millisecond)
		if now := slots(t, a, r.registry).Set.Floor; now == floor {
			t.Errorf("the floor is still %d", floor)
		}
		time.Sleep(20 * time.Second)
		if m := one(t, again); m <= n {
			t.Errorf("%d follows %d", m, n)
		}
	})
}

// TestNothingIsOwedForWhatWasNotGranted checks that a lease that may never have been granted does
// not count as a sign that the registry was put back.
func TestNothingIsOwedForWhatWasNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &putBack{registry: newRegistry(true)}
		r.granting.Store(true)
		a := instanceWith(t, r, time.Now, "1", nil)
		_ = a.Init(t.Context(), true)
		time.Sleep(20 * time.Second)
		floor := slots(t, a, r.registry).Set.Floor
		must.Do(t, a.Close(t.Context()))
		if now := slots(t, a, r.registry).Set.Floor; now != floor {
			t.Errorf("the floor was %d and is %d", floor, now)
		}
	})
}

// TestMoveOnWithoutLease checks that a lease that is gone when its holder moves on is owed to the
// registry, until that has a floor above it.
func TestMoveOnWithoutLease(t *testing.T) {
	r := newRegistry(true)
	h := instance(t, r, "1", nil).held()
	var log strings.Builder
	h.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	lost := lease{id: 3, token: "t", until: h.env.ms() + 3000}
	h.tenure.set(lost, lost.until)
	h.moveOn()
	if h.debt.owed != lost || h.tenure.held() || !strings.Contains(log.String(), "could not be released") {
		t.Errorf("it owes %+v, logged %s", h.debt.owed, &log)
	}
	must.Do(t, h.debt.cover(t.Context())) // a new registry has such a floor
	if table := must.Get(r.Look(t.Context(), h.registry.name))(t); table.Set.Floor <= lost.until || h.debt.owed.token != "" {
		t.Errorf("the floor is %d, and it owes %+v", table.Set.Floor, h.debt.owed)
	}
}

// TestCoveredAtTheEnd checks that a holder that is stopped before its next renewal raises the floor
// of a registry that was put back, or says that it could not.
func TestCoveredAtTheEnd(t *testing.T) {
	for _, fails := range []int64{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			r := &putBack{registry: newRegistry(true)}
			a, o := instanceWith(t, r, time.Now, "1", nil), hears{kinds: make(chan seqd.EventKind, 10)}
			var log strings.Builder
			a.held().env.Observer, a.held().env.Log = o, slog.New(slog.NewTextHandler(&log, nil))
			_ = a.Init(t.Context(), true)
			time.Sleep(20500 * time.Millisecond)
			floor := slots(t, a, r.registry).Set.Floor
			r.older(t, a.held().registry.name)
			r.failing.Store(fails)
			must.Do(t, a.Close(t.Context()))
			if now, said := slots(t, a, r.registry).Set.Floor, strings.Contains(log.String(), "seqd restored"); (now == floor) != (fails > 0) || said != (fails > 0) {
				t.Errorf("%d fail: the floor was %d and is %d, logged %s", fails, floor, now, &log)
			}
			if fails == 0 {
				o.wants(t, seqd.EventStoreBehind)
			}
		})
	}
}

// TestSkewed checks how far the clocks may be apart.
func TestSkewed(t *testing.T) {
	m := member{maxSkew: 2000}
	for _, test := range []struct {
		before, after int64
		ok            bool
	}{{2000, 2500, true}, {2001, 2500, false}, {-2500, -2000, true}, {-2500, -2001, false}} {
		if err := m.skewed(someTime+test.before, someTime+test.after, persist.SlotTable{Now: someTime}); (err == nil) != test.ok {
			t.Errorf("read from %d to %d: %v", test.before, test.after, err)
		}
	}
}

func TestCovered(t *testing.T) {
	m := member{horizon: 5000, maxSkew: 2000, floored: true}
	now := int64(someTime)
	lost := lease{id: 1, token: "t", lower: now - 1000, until: now + 3000, reserved: now + 3000}
	above := now + m.ahead()
	for name, test := range map[string]struct {
		floor int64
		slot  *persist.Slot
		want  int64 // 0 for no change
	}{
		"gone":                    {floor: now - 1000, want: above},
		"older":                   {floor: now - 1000, slot: &persist.Slot{ID: 1, Until: now + 2999, Reserved: now + 3000}, want: above},
		"reserves less":           {floor: now - 1000, slot: &persist.Slot{ID: 1, Until: now + 3000, Reserved: now + 2999}, want: above},
		"taken by another":        {floor: now - 1000, slot: &persist.Slot{ID: 1, Until: now + 9000, Reserved: now + 9000}},
		"a floor since":           {floor: now + 3001},
		"a floor that it ends at": {floor: now + 3000, want: above},
		"a floor just now":        {floor: above},
	} {
		t.Run(name, func(t *testing.T) {
			table := persist.SlotTable{Now: now, Set: &persist.SlotSet{Floor: test.floor, Ahead: m.ahead()}}
			if test.slot != nil {
				table.Slots = []persist.Slot{*test.slot}
			}
			got := int64(0)
			if swap := m.covered(table, lost); swap != nil {
				got = swap.NewSet.Floor
			}
			must.Equal(t, got, test.want, "floor %d, want %d", got-now, test.want-now)
		})
	}
}

// TestRenewalKeepsWhatIsReserved checks that a renewal never reserves less under the same token,
// which the file would refuse.
func TestRenewalKeepsWhatIsReserved(t *testing.T) {
	m := member{layout: "l", key: "k", last: 1, horizon: 5000, maxSkew: 2000, offline: 60_000, floored: true}
	// granted at someTime
	l := lease{id: 0, token: "t", lower: 1, until: someTime + 5000, reserved: someTime + 65_000}
	table := persist.SlotTable{Now: someTime + 1000, Set: &persist.SlotSet{Layout: "l", Ahead: m.ahead()}, Slots: []persist.Slot{
		// put back by one renewal
		{ID: 0, Key: "k", Token: "t", Until: someTime + 4000, Reserved: someTime + 64_000},
	}}
	// the clock was set back, within maxSkew
	swap, next, err := m.renew(table, l, someTime-500, l.until)
	must.Do(t, err)
	if next.reserved < l.reserved || swap.NewSlot.Reserved != next.reserved {
		t.Errorf("reserved goes from %d to %d under one token, on record %d", l.reserved, next.reserved, swap.NewSlot.Reserved)
	}
	must.Equal(t, *swap.OldSlot, table.Slots[0], "it expects")
}

// TestChoose checks the order in which machine IDs are taken.
func TestChoose(t *testing.T) {
	m := member{key: "k", last: 3}
	scatter, _, _ := m.choose(persist.SlotTable{Set: &persist.SlotSet{}}, someTime)
	var table persist.SlotTable
	for id := range int64(4) {
		table.Slots = append(table.Slots, persist.Slot{ID: id, Key: "x", RenewedAt: 100 + (id-scatter.ID+4)%4})
	}
	table.Set = &persist.SlotSet{}
	wants := func(what string, ahead int64, granted bool) {
		t.Helper()
		if slot, was, ok := m.choose(table, someTime); !ok || slot.ID != (scatter.ID+ahead)%4 || was != granted {
			t.Errorf("%s: machine ID %d (granted: %t), and the key hashes to %d", what, slot.ID, was, scatter.ID)
		}
	}
	own := &table.Slots[(scatter.ID+3)%4]
	own.Key = "k"
	wants("its own", 3, true)
	own.Key = "x"
	wants("the one that its key hashes to", 0, true)
	table.Slots[scatter.ID].Token, table.Slots[scatter.ID].Until = "t", 1
	wants("that was unused for longest", 1, true)
	table.Slots = slices.Delete(table.Slots, 0, 4)
	table.Slots = append(table.Slots, persist.Slot{ID: scatter.ID, Token: "t", Until: 1, RenewedAt: 1})
	wants("never granted, from the hash on", 1, false)
}

// TestSpent checks that what an earlier process used of a machine ID is not granted again, although
// the registry does not know of it.
func TestSpent(t *testing.T) {
	m := member{layout: "l", key: "k", first: 3, last: 3, horizon: 5000, maxSkew: 2000, spent: spent{3, someTime + 1000}}
	_, l, err := m.acquire(persist.SlotTable{Now: someTime, Set: &persist.SlotSet{Layout: "l", Ahead: m.ahead()}}, someTime)
	if err != nil || l.lower != someTime+1000 {
		t.Errorf("granted above %d, %v", l.lower, err)
	}
	m.first, m.last = 2, 3
	if _, l, err = m.acquire(persist.SlotTable{Now: someTime, Set: &persist.SlotSet{Layout: "l", Ahead: m.ahead()}}, someTime); err != nil || l.id != 2 {
		t.Errorf("machine ID %d, %v: the other one can be used at once", l.id, err)
	}
}

// A lease that waits for the floor of its registry says so, and not that a clock was set back: also
// if the machine ID was released before its lease began, or the lease ended when the floor was set.
func TestFloorIsTheReason(t *testing.T) {
	m := member{layout: "l", key: "k", last: 1, horizon: 3000, maxSkew: 1000, floored: true}
	table := persist.SlotTable{Now: someTime}
	swap := must.Get(m.prepare(table))(t)
	table.Set = swap.NewSet
	for range 3 {
		taken, l, err := m.acquire(table, table.Now)
		if err != nil || l.lower < table.Set.Floor || !l.floored {
			t.Fatalf("%+v, %v", l, err)
		}
		table.Now++
		table.Slots = []persist.Slot{*taken.NewSlot}
		released := must.Get(m.release(table, l, 0))(t)
		table.Slots[0] = *released.NewSlot
	}
	table = persist.SlotTable{
		Now: someTime, Set: &persist.SlotSet{Layout: "l", Floor: someTime + 10}, Lag: 1000,
		Slots: []persist.Slot{{ID: 1, Key: "k", Token: "t", Until: someTime + 20, Reserved: someTime + 20}},
	}
	if _, l, err := m.renew(table, lease{id: 1, token: "t", until: someTime + 20, reserved: someTime + 20}, someTime, 0); err != nil || l.lower != someTime+20 || !l.floored {
		t.Errorf("%+v, %v", l, err)
	}
}
