package snowflake

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
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
		m := machineid.Member{Key: "seqd." + port + ".167772161", Last: 1}
		if _, l, err := m.Acquire(persist.SlotTable{Set: &persist.SlotSet{}}, 0); err == nil && l.ID == id {
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
		must.Equal(t, slots(t, a, r.registry).Set.Floor, floor, "the floor")
	})
}

// TestMoveOnWithoutLease checks that a lease that is gone when its holder moves on is owed to the
// registry, until that has a floor above it.
func TestMoveOnWithoutLease(t *testing.T) {
	r := newRegistry(true)
	h := instance(t, r, "1", nil).held()
	var log strings.Builder
	h.env.Log = slog.New(slog.NewTextHandler(&log, nil))
	lost := machineid.Lease{ID: 3, Token: "t", Until: h.env.ms() + 3000}
	h.tenure.set(lost, lost.Until)
	h.moveOn()
	if h.debt.owed != lost || h.tenure.held() || !strings.Contains(log.String(), "could not be released") {
		t.Errorf("it owes %+v, logged %s", h.debt.owed, &log)
	}
	must.Do(t, h.debt.cover(t.Context())) // a new registry has such a floor
	if table := must.Get(r.Look(t.Context(), h.registry.name))(t); table.Set.Floor <= lost.Until || h.debt.owed.Token != "" {
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
