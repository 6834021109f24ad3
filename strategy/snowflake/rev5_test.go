package snowflake

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// rev5Registry makes a registry what an older copy of it says: the same bootstrap part, other slots.
type rev5Registry struct {
	*registry
	failSwaps atomic.Int64 // how many swaps that change no slot fail without being made
}

func (r *rev5Registry) Slots() persist.SlotStore { return r }

func (r *rev5Registry) Swap(ctx context.Context, name string, swap persist.SlotSwap) (bool, error) {
	if swap.NewSlot == nil && swap.OldSet != nil && r.failSwaps.Load() > 0 {
		r.failSwaps.Add(-1)
		return false, errAway
	}
	return r.registry.Swap(ctx, name, swap)
}

// older replaces the store behind r by a copy that has the bootstrap part and the given slots alone.
func (r *rev5Registry) older(t *testing.T, name string, slots ...persist.Slot) {
	t.Helper()
	table, err := r.Store.Slots().Look(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	fresh := newRegistry(true)
	if ok, err := fresh.Store.Slots().Swap(t.Context(), name, persist.SlotSwap{NewSet: table.Set}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, slot := range slots {
		if ok, err := fresh.Store.Slots().Swap(t.Context(), name, persist.SlotSwap{OldSet: table.Set, NewSlot: &slot}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
	r.Store = fresh.Store
}

type rev5Clock struct{ by atomic.Int64 }

func (c *rev5Clock) now() time.Time {
	return time.Now().Add(time.Duration(c.by.Load()) * time.Millisecond)
}

func rev5Node(t *testing.T, store persist.Store, clock func() time.Time, port string, change func(*Settings)) *Strategy {
	t.Helper()
	s := DefaultSettings()
	s.Epoch = "1999-12-31T00:00:00Z"
	s.StateDir = filepath.Join(t.TempDir(), "state")
	s.AdvertiseIP = "10.0.0.1"
	if change != nil {
		change(&s)
	}
	env := strategy.Env{Store: store, Now: clock, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:" + port, Cluster: cluster}
	made, err := New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: &s})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Finding: the floor that a holder owes a registry that was put back is forgotten when that one swap fails, and the holder takes a machine ID below it
// at once: the one of another node that has not looked yet.
func TestRev5CoverIsForgottenWhenItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rev5Registry{registry: newRegistry(true)}
		two := func(s *Settings) { s.BitsMachine = 1 }
		b := rev5Node(t, r, time.Now, "2", two)
		closes(t, b)
		_ = b.Init(t.Context(), true)
		time.Sleep(9500 * time.Millisecond)
		// A has the ID that B's key does not hash to; find a port whose key hashes to B's ID.
		var a *Strategy
		for _, port := range []string{"3", "4", "5", "6", "7", "8", "9"} {
			probe := member{key: "seqd." + port + ".167772161", first: 0, last: 1}
			slot, _, _ := probe.choose(persist.SlotTable{Set: &persist.SlotSet{}}, 0)
			if slot.ID == b.machineID() {
				a = rev5Node(t, r, time.Now, port, two)
				break
			}
		}
		closes(t, a)
		if err := a.Init(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		one(t, a)
		one(t, b)
		time.Sleep(3600 * time.Millisecond) // A renews at ….5, B at ….0
		floor := slots(t, a, r.registry).Set.Floor
		r.older(t, a.holder.name)
		// A looks first when B's next renewal is later than A's.
		r.failSwaps.Store(1)
		lost := b.machineID()
		for range 3000 {
			time.Sleep(time.Millisecond)
			x, errX := try(a)
			y, errY := try(b)
			if errX == nil && errY == nil && x == y {
				t.Fatalf("%d was issued by both, machine ID %d; the floor stayed %d (now %d)", x, lost, floor, time.Now().UnixMilli())
			}
		}
	})
}

func try(s *Strategy) (int64, error) {
	var seq seqd.Sequence
	if err := s.Generate(context.Background(), 1, &seq); err != nil {
		return 0, err
	}
	return seq.First(), nil
}

// Finding: a restart whose file proves that the registry was put back gives it no floor, and goes on below what the file says was used: the same node
// issues a number twice when its clock is back by less than maxSkew.
func TestRev5ResumeOnRegistryPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rev5Registry{registry: newRegistry(true)}
		clock := &rev5Clock{}
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir = 10*time.Second, dir }
		a := rev5Node(t, r, clock.now, "1", offline)
		_ = a.Init(t.Context(), true)
		time.Sleep(30 * time.Second)
		n := one(t, a)
		p, _ := a.Parse(n)
		rev5Crash(t, a, r.registry)
		floor := slots(t, a, r.registry).Set.Floor
		r.older(t, a.holder.name)
		clock.by.Store(p.Time.UnixMilli() - time.Now().UnixMilli() - 1) // back, by next to nothing
		again := rev5Node(t, r, clock.now, "1", offline)
		closes(t, again)
		if err := again.Init(t.Context(), true); err != nil {
			t.Logf("init: %v", err)
		}
		if now := slots(t, a, r.registry).Set.Floor; now == floor {
			t.Errorf("the file has a lease that the registry does not know, and the floor is still %d", floor)
		}
		for range 5 {
			if m, err := try(again); err == nil && m == n {
				t.Fatalf("%d was issued before and after the restart", n)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// crash ends a holder the way a kill does: nothing is given up, the lock of the file goes.
func rev5Crash(t *testing.T, s *Strategy, r *registry) {
	t.Helper()
	r.away.Store(true)
	_ = s.Close(context.Background())
	r.away.Store(false)
}

// Finding: closing a strategy whose Init was never called (its claim is in conflict) ends the holder that others issue with.
func TestRev5CloseWithoutInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		same := func(s *Settings) { s.StateDir = dir }
		a, b := instance(t, r, "1", same), instance(t, r, "1", same)
		ready(t, a)
		one(t, a)
		_ = b.Close(t.Context())
		if _, err := try(a); err != nil {
			t.Errorf("a is open: %v", err)
		}
	})
}

// The same with Close called twice.
func TestRev5CloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		same := func(s *Settings) { s.StateDir = dir }
		a, b := instance(t, r, "1", same), instance(t, r, "1", same)
		ready(t, a)
		ready(t, b)
		_ = b.Close(t.Context())
		_ = b.Close(t.Context())
		if _, err := try(a); err != nil {
			t.Errorf("a is open: %v", err)
		}
	})
}

// Finding: what a node may issue without the store is not bound to the shape that is on record. The registry is a part of the shape since "in another registry the same
// machine ID may be held by another node".
func TestRev5AloneInAnotherShape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", func(s *Settings) { s.OfflineStart = time.Hour })
		if err := s.Init(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		env := s.holder.env
		rev5Crash(t, s, r)
		was := seqd.BizType{Name: "user", Strategy: Name, Settings: s.holder.settings}
		changed := *s.holder.settings
		changed.Registry = registryRedis
		is := seqd.BizType{Name: "user", Strategy: Name, Settings: &changed}
		if shape(was) == shape(is) {
			t.Fatal("no other shape")
		}
		if _, ok := aloneWith(env, is); ok {
			t.Errorf("it may begin without the store in the shape %q, and has issued in %q", shape(is), shape(was))
		}
	})
}

// Finding: a renewal may give a lease that reserves less than the one it extends; the file refuses that, and the node stops although the registry answers.
func TestRev5RenewalLowersReserved(t *testing.T) {
	m := member{layout: "l", key: "k", last: 1, horizon: 5000, maxSkew: 2000, offline: 60_000, floored: true}
	l := lease{id: 0, token: "t", lower: 1, until: someTime + 5000, reserved: someTime + 65_000} // granted when the clock said someTime
	table := persist.SlotTable{Now: someTime + 1000, Set: &persist.SlotSet{Layout: "l", Ahead: m.ahead()}, Slots: []persist.Slot{
		{ID: 0, Key: "k", Token: "t", Until: someTime + 4000, Reserved: someTime + 64_000}, // put back by one renewal
	}}
	_, next, err := m.renew(table, l, someTime-500, l.until) // the clock was set back, within maxSkew
	if err != nil {
		t.Fatal(err)
	}
	if next.reserved < l.reserved {
		t.Errorf("reserved goes down from %d to %d under one token", l.reserved, next.reserved)
	}
}

// Finding: the same for plugins: the numbers were issued through one, and now are not. What seqd shows was never vouched for.
func TestRev5AloneWithoutThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := DefaultSettings()
		s.Epoch, s.StateDir, s.AdvertiseIP, s.OfflineStart = "1999-12-31T00:00:00Z", t.TempDir(), "10.0.0.1", time.Hour
		env := strategy.Env{Store: newRegistry(false), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:1", Cluster: cluster}
		with := seqd.BizType{Name: "user", Strategy: Name, Settings: &s, Plugins: []seqd.PluginBinding{{Name: "obfuscate", Order: 100}}}
		made, err := New(env, with)
		if err != nil {
			t.Fatal(err)
		}
		if err := made.Init(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		crash(made)
		without := seqd.BizType{Name: "user", Strategy: Name, Settings: &s}
		if _, ok := aloneWith(env, without); ok {
			t.Error("it may begin without the store and without the plugin that every number so far went through")
		}
	})
}

// Finding: a node that began without the store takes a machine ID from the registry of whatever store answers first; the registry does not say which cluster it is of, and
// the server compares the cluster's ID apart from that, once a second.
func TestRev5RegistryOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, other := newRegistry(true), newRegistry(true)
		dir := t.TempDir()
		two := func(s *Settings) { s.BitsMachine = 1 }
		offline := func(s *Settings) { s.BitsMachine, s.OfflineStart, s.StateDir = 1, time.Minute, dir }
		b := instance(t, mine, "2", two)
		closes(t, b)
		_ = b.Init(t.Context(), true)
		port := ""
		for _, port = range []string{"3", "4", "5", "6", "7", "8", "9"} {
			probe := member{key: "seqd." + port + ".167772161", last: 1}
			if slot, _, _ := probe.choose(persist.SlotTable{Set: &persist.SlotSet{}}, 0); slot.ID == b.machineID() {
				break
			}
		}
		a := instance(t, mine, port, offline)
		_ = a.Init(t.Context(), true)
		time.Sleep(100500 * time.Millisecond) // beyond the floor, between two renewals
		one(t, a)
		one(t, b)
		crash(a)
		// The other cluster is an old one, with free machine IDs.
		set := persist.SlotSet{Incarnation: drawn(), Layout: b.holder.layout, Ahead: 1_000_000, Floor: 1}
		if ok, err := other.Swap(t.Context(), b.holder.name, persist.SlotSwap{NewSet: &set}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		// A restarts; its configuration leads to the other store now. That was away when the server opened it, so A began alone (openAlone), with the cluster that
		// the file names; when Init asks, the other store answers.
		again := instance(t, other, port, offline)
		closes(t, again)
		_ = again.Init(t.Context(), false)
		for ms := range 900 { // confirmCluster asks once a second
			x, errX := try(again)
			y, errY := try(b)
			if errX == nil && errY == nil && x == y {
				t.Errorf("%d was issued by nodes of one cluster, %d ms after the start", x, ms)
				break
			}
			time.Sleep(time.Millisecond)
		}
		// And the file, still of the cluster of before, has the other cluster's lease: without any store, the next start goes on with it.
		time.Sleep(500500 * time.Microsecond)
		crash(again)
		other.away.Store(true)
		again = instance(t, other, port, offline)
		closes(t, again)
		_ = again.Init(t.Context(), false)
		time.Sleep(8 * time.Second)
		for range 900 {
			x, errX := try(again)
			y, errY := try(b)
			if errX == nil && errY == nil && x == y {
				t.Fatalf("%d was issued by both after another start without a store", x)
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// Finding: in the same situation a holder that is running changes the registry of the other cluster: it gives that a floor.
func TestRev5FloorForAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, other := newRegistry(true), newRegistry(true)
		r := &rev5Registry{registry: mine}
		a := rev5Node(t, r, time.Now, "1", nil)
		closes(t, a)
		_ = a.Init(t.Context(), true)
		time.Sleep(20 * time.Second)
		one(t, a)
		set := persist.SlotSet{Incarnation: drawn(), Layout: a.holder.layout, Ahead: 86_400_000, Floor: 1} // nodes there have offlineStart: 1d
		if ok, err := other.Swap(t.Context(), a.holder.name, persist.SlotSwap{NewSet: &set}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		r.registry.Store = other.Store
		time.Sleep(1500 * time.Millisecond)
		if floor := slots(t, a, r.registry).Set.Floor; floor != 1 {
			t.Errorf("the other cluster's nodes that start now begin to issue at %s, in %s", at(floor), time.UnixMilli(floor).Sub(time.Now()))
		}
	})
}
