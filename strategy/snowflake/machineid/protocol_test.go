package machineid

import (
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// someTime is the present of the tests, in ms since the Unix epoch.
const someTime = 1_795_000_000_000

// cluster is the ID of the tests' cluster.
const cluster = "0123456789abcdef0123456789abcdef"

// TestRegistryWithoutCluster checks that a registry written before the cluster was recorded gets
// it, and keeps the rest.
func TestRegistryWithoutCluster(t *testing.T) {
	m := Member{Layout: "l", Cluster: cluster, Horizon: 5000, MaxSkew: 2000, Floored: true}
	set := persist.SlotSet{Incarnation: Drawn(), Layout: "l", Ahead: 20_000, Floor: 7}
	swap, err := m.Prepare(persist.SlotTable{Now: someTime, Set: &set})
	if err != nil || swap == nil {
		t.Fatal(swap, err)
	}
	if set.Cluster = cluster; *swap.NewSet != set {
		t.Errorf("got %+v", *swap.NewSet)
	}
	for _, m.Cluster = range []string{cluster, ""} { // nor does a node that does not know it take it out
		if swap, err = m.Prepare(persist.SlotTable{Now: someTime, Set: &set}); err != nil || swap != nil {
			t.Errorf("cluster %q, again: %+v, %v", m.Cluster, swap, err)
		}
	}
}

func TestRegistryOfAnotherLayout(t *testing.T) {
	m := Member{Layout: "a"}
	must.Is(t, must.Err(m.Prepare(persist.SlotTable{Set: &persist.SlotSet{Layout: "b"}})), ErrLayout)
	// seqd restored keeps the layout, and a floor is never lowered
	table := persist.SlotTable{Now: 1000, Set: &persist.SlotSet{Layout: "b", Ahead: 100, Floor: 5000}}
	if swap := m.Refloor(table, "anew"); swap.NewSet.Layout != "b" || swap.NewSet.Floor != 5000 || swap.NewSet.Incarnation != "anew" {
		t.Errorf("%+v", swap.NewSet)
	}
	if swap := m.Covered(table, Lease{Until: 6000}); swap != nil {
		t.Errorf("a floor that was just set becomes %+v", swap.NewSet)
	}
}

// TestSkewed checks how far the clocks may be apart.
func TestSkewed(t *testing.T) {
	m := Member{MaxSkew: 2000}
	for _, test := range []struct {
		before, after int64
		ok            bool
	}{{2000, 2500, true}, {2001, 2500, false}, {-2500, -2000, true}, {-2500, -2001, false}} {
		if err := m.Skewed(someTime+test.before, someTime+test.after, persist.SlotTable{Now: someTime}); (err == nil) != test.ok {
			t.Errorf("read from %d to %d: %v", test.before, test.after, err)
		}
	}
}

func TestCovered(t *testing.T) {
	m := Member{Horizon: 5000, MaxSkew: 2000, Floored: true}
	now := int64(someTime)
	lost := Lease{ID: 1, Token: "t", Lower: now - 1000, Until: now + 3000, Reserved: now + 3000}
	above := now + m.Ahead()
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
			table := persist.SlotTable{Now: now, Set: &persist.SlotSet{Floor: test.floor, Ahead: m.Ahead()}}
			if test.slot != nil {
				table.Slots = []persist.Slot{*test.slot}
			}
			got := int64(0)
			if swap := m.Covered(table, lost); swap != nil {
				got = swap.NewSet.Floor
			}
			must.Equal(t, got, test.want, "floor %d, want %d", got-now, test.want-now)
		})
	}
}

// TestRenewalKeepsWhatIsReserved checks that a renewal never reserves less under the same token,
// which the file would refuse.
func TestRenewalKeepsWhatIsReserved(t *testing.T) {
	m := Member{Layout: "l", Key: "k", Last: 1, Horizon: 5000, MaxSkew: 2000, Offline: 60_000, Floored: true}
	// granted at someTime
	l := Lease{ID: 0, Token: "t", Lower: 1, Until: someTime + 5000, Reserved: someTime + 65_000}
	table := persist.SlotTable{Now: someTime + 1000, Set: &persist.SlotSet{Layout: "l", Ahead: m.Ahead()}, Slots: []persist.Slot{
		// put back by one renewal
		{ID: 0, Key: "k", Token: "t", Until: someTime + 4000, Reserved: someTime + 64_000},
	}}
	// the clock was set back, within maxSkew
	swap, next, err := m.Renew(table, l, someTime-500, l.Until)
	must.Do(t, err)
	if next.Reserved < l.Reserved || swap.NewSlot.Reserved != next.Reserved {
		t.Errorf("reserved goes from %d to %d under one token, on record %d", l.Reserved, next.Reserved, swap.NewSlot.Reserved)
	}
	must.Equal(t, *swap.OldSlot, table.Slots[0], "it expects")
}

// TestChoose checks the order in which machine IDs are taken.
func TestChoose(t *testing.T) {
	m := Member{Key: "k", Last: 3}
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
	m := Member{Layout: "l", Key: "k", First: 3, Last: 3, Horizon: 5000, MaxSkew: 2000, Spent: Spent{3, someTime + 1000}}
	table := persist.SlotTable{Now: someTime, Set: &persist.SlotSet{Layout: "l", Ahead: m.Ahead()}}
	_, l, err := m.Acquire(table, someTime)
	if lower, free := m.Begin(table, someTime); err != nil || l.Lower != someTime+1000 || lower != l.Lower || !free {
		t.Errorf("granted above %d, %v; it would begin above %d (free: %t)", l.Lower, err, lower, free)
	}
	m.First, m.Last = 2, 3
	if _, l, err = m.Acquire(table, someTime); err != nil || l.ID != 2 {
		t.Errorf("machine ID %d, %v: the other one can be used at once", l.ID, err)
	}
}

// A lease that waits for the floor of its registry says so, and not that a clock was set back: also
// if the machine ID was released before its lease began, or the lease ended when the floor was set.
func TestFloorIsTheReason(t *testing.T) {
	m := Member{Layout: "l", Key: "k", Last: 1, Horizon: 3000, MaxSkew: 1000, Floored: true}
	table := persist.SlotTable{Now: someTime}
	swap := must.Get(m.Prepare(table))(t)
	table.Set = swap.NewSet
	for range 3 {
		taken, l, err := m.Acquire(table, table.Now)
		if err != nil || l.Lower < table.Set.Floor || !l.Floored {
			t.Fatalf("%+v, %v", l, err)
		}
		table.Now++
		table.Slots = []persist.Slot{*taken.NewSlot}
		released := must.Get(m.Release(table, l, 0))(t)
		table.Slots[0] = *released.NewSlot
	}
	table = persist.SlotTable{
		Now: someTime, Set: &persist.SlotSet{Layout: "l", Floor: someTime + 10}, Lag: 1000,
		Slots: []persist.Slot{{ID: 1, Key: "k", Token: "t", Until: someTime + 20, Reserved: someTime + 20}},
	}
	if _, l, err := m.Renew(table, Lease{ID: 1, Token: "t", Until: someTime + 20, Reserved: someTime + 20}, someTime, 0); err != nil || l.Lower != someTime+20 || !l.Floored {
		t.Errorf("%+v, %v", l, err)
	}
}
