package snowflake

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// registry is a store whose registry can be away, and whose clock can be off.
type registry struct {
	persist.Store
	shared bool
	away   atomic.Bool
	hangs  atomic.Bool                  // looks get no answer
	skew   atomic.Int64                 // ms
	other  atomic.Pointer[memory.Store] // replaces Store's registries, if not nil
}

// behind returns the store that has the registries.
func (r *registry) behind() persist.Store {
	if other := r.other.Load(); other != nil {
		return other
	}
	return r.Store
}

func (r *registry) Shared() bool             { return r.shared }
func (r *registry) Slots() persist.SlotStore { return r }

var errAway = errors.New("away")

func (r *registry) Look(ctx context.Context, name string, ids ...int64) (persist.SlotTable, error) {
	if r.away.Load() {
		return persist.SlotTable{}, errAway
	}
	if r.hangs.Load() {
		<-ctx.Done()
		return persist.SlotTable{}, errAway
	}
	t, err := r.behind().Slots().Look(ctx, name, ids...)
	t.Now += r.skew.Load()
	return t, err
}

func (r *registry) Swap(ctx context.Context, name string, swap persist.SlotSwap) (bool, error) {
	if r.away.Load() {
		return false, errAway
	}
	return r.behind().Slots().Swap(ctx, name, swap)
}

func (r *registry) Drop(ctx context.Context, name string) error {
	return r.behind().Slots().Drop(ctx, name)
}

func newRegistry(shared bool) *registry {
	return &registry{Store: memory.New(time.Now), shared: shared}
}

// cluster is the ID of the tests' cluster.
const cluster = "0123456789abcdef0123456789abcdef"

// instance returns a strategy of an instance that listens on a port.
func instance(t *testing.T, r *registry, port string, change func(*Settings)) *Strategy {
	t.Helper()
	return instanceWith(t, r, time.Now, port, change)
}

// instanceWith is instance with any store and clock.
func instanceWith(t *testing.T, store persist.Store, now func() time.Time, port string, change func(*Settings)) *Strategy {
	t.Helper()
	return made(t, strategy.Env{
		Store: store, Now: now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:" + port, Cluster: cluster,
	}, change)
}

// made returns the strategy of a biz type.
func made(t *testing.T, env strategy.Env, change func(*Settings)) *Strategy {
	t.Helper()
	s := DefaultSettings()
	s.Epoch = "1999-12-31T00:00:00Z"
	s.StateDir = filepath.Join(t.TempDir(), "state")
	s.AdvertiseIP = "10.0.0.1"
	if change != nil {
		change(&s)
	}
	if problems := s.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return must.Get(New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: &s}))(t)
}

// ready initialises a strategy and closes it at the end of the test.
func ready(t *testing.T, s *Strategy) {
	t.Helper()
	must.Do(t, s.Init(t.Context(), true))
	closes(t, s)
}

func closes(t *testing.T, s *Strategy) {
	t.Cleanup(func() { _ = s.Close(context.Background()) })
}

func (s *Strategy) machineID() int64 {
	id, ok := s.Details()["machineId"].(int64)
	if !ok {
		return -1
	}
	return id
}

func one(t *testing.T, s *Strategy) int64 {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), 1, &seq))
	return seq.First()
}

// try makes one number, which may fail.
func try(s *Strategy) (int64, error) {
	var seq seqd.Sequence
	if err := s.Generate(context.Background(), 1, &seq); err != nil {
		return 0, err
	}
	return seq.First(), nil
}

func cannot(t *testing.T, s *Strategy, want seqd.Code) {
	t.Helper()
	var seq seqd.Sequence
	if err := s.Generate(t.Context(), 1, &seq); seqd.CodeOf(err) != want {
		t.Fatalf("got %v, want %s", err, want)
	}
}

// slots reads the registry.
func slots(t *testing.T, s *Strategy, r *registry) persist.SlotTable {
	t.Helper()
	return must.Get(r.behind().Slots().Look(t.Context(), s.held().registry.name))(t)
}

func TestLeaseIsRenewedAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", nil)
		must.Do(t, s.Init(t.Context(), true))
		before := one(t, s)
		time.Sleep(time.Minute)
		n := one(t, s)
		p, err := s.Parse(n)
		if err != nil || n <= before || !p.Time.Equal(time.Now().Truncate(time.Millisecond)) || *p.MachineID != s.machineID() {
			t.Errorf("%d is read as %+v, %v", n, p, err)
		}
		if p, err := s.Parse(-1); err == nil {
			t.Errorf("-1 is read as %+v", p)
		}
		must.Do(t, s.Close(t.Context()))
		cannot(t, s, seqd.CodeStopping)
		slot := slots(t, s, r).Slots[0]
		if slot.Token != "" || slot.Until != time.Now().UnixMilli() {
			t.Errorf("what is on record after a clean stop: %+v", slot)
		}
		again := instance(t, r, "1", nil)
		ready(t, again) // in the same millisecond in which the other stopped
		must.Equal(t, again.machineID(), slot.ID, "the machine ID")
		if after := one(t, again); after <= n {
			t.Errorf("%d follows %d", after, n)
		}
	})
}

func TestSharedRegistryBeginsWithItsFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := instance(t, newRegistry(true), "1", nil)
		closes(t, s)
		err := s.Init(t.Context(), true)
		if e := seqd.AsError(err); e.Code != seqd.CodeStarting || e.RetryAfter < 9*time.Second || e.RetryAfter > 9*time.Second+time.Millisecond {
			t.Errorf("got %v, retry after %s", err, e.RetryAfter)
		}
		time.Sleep(9*time.Second + time.Millisecond)
		must.Report(t, s.Init(t.Context(), true))
		one(t, s)
	})
}

func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		small := func(s *Settings) { s.BitsMachine = 1 }
		first, second, third := instance(t, r, "1", small), instance(t, r, "2", small), instance(t, r, "3", small)
		ready(t, second)
		must.Do(t, first.Init(t.Context(), true))
		if first.machineID() == second.machineID() {
			t.Fatal("two have the same machine ID")
		}
		closes(t, third)
		if err := third.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeNoMachineID || !strings.Contains(err.Error(), "all from 0 to 1; this node stands by") {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Minute)
		if third.Health() == nil {
			t.Fatal("healthy without a machine ID")
		}
		id := first.machineID()
		must.Do(t, first.Close(t.Context()))
		time.Sleep(time.Second + time.Millisecond)
		if err := third.Health(); err != nil || third.machineID() != id {
			t.Errorf("machine ID %d, %v; want %d", third.machineID(), err, id)
		}
	})
}

// TestTokenTakenByAnother checks that a holder stops at once if another instance took its slot, and
// gets another machine ID.
func TestTokenTakenByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", nil)
		ready(t, s)
		before := one(t, s)
		id := s.machineID()
		table := slots(t, s, r)
		stolen := table.Slots[0]
		stolen.Token, stolen.Key, stolen.Until = "another", "seqd.9.1", stolen.Until+60_000
		if ok, err := r.Swap(t.Context(), s.held().registry.name, persist.SlotSwap{OldSet: table.Set, OldSlot: &table.Slots[0], NewSlot: &stolen}); err != nil || !ok {
			t.Fatal(ok, err)
		}
		time.Sleep(time.Second + time.Millisecond)
		if s.machineID() == id {
			t.Fatal("it still has the machine ID")
		}
		if after := one(t, s); after <= before {
			t.Errorf("%d follows %d", after, before)
		}
	})
}

func TestRegistryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", nil)
		ready(t, s)
		r.away.Store(true)
		time.Sleep(3 * time.Second)
		one(t, s)
		if s.Degraded() == nil {
			t.Error("not degraded although the lease cannot be renewed")
		}
		time.Sleep(3 * time.Second)
		cannot(t, s, seqd.CodeNoMachineID)
		if s.Health() == nil {
			t.Error("healthy after the lease")
		}
		r.away.Store(false)
		time.Sleep(time.Second + time.Millisecond)
		one(t, s)
		if s.Degraded() != nil || s.Health() != nil {
			t.Errorf("%v, %v", s.Degraded(), s.Health())
		}
		r.hangs.Store(true)
		time.Sleep(1200 * time.Millisecond) // a renewal has begun, and leaves time for another
		r.hangs.Store(false)
		time.Sleep(5 * time.Second)
		one(t, s)
	})
}

func TestClockIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		r.skew.Store(-3000)
		s := instance(t, r, "1", nil)
		closes(t, s)
		if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeNoMachineID || !strings.Contains(err.Error(), "maxSkew") {
			t.Fatalf("got %v", err)
		}
		r.skew.Store(-1000)
		time.Sleep(2 * time.Second)
		one(t, s)
		r.skew.Store(3000)
		time.Sleep(7 * time.Second)
		cannot(t, s, seqd.CodeNoMachineID)
	})
}

// TestHolderEndsBeforeInit checks that a strategy gets a new holder if its holder ended before
// Init, because its only other user was closed.
func TestHolderEndsBeforeInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		same := func(s *Settings) { s.StateDir = dir }
		first, second, third := instance(t, r, "1", same), instance(t, r, "1", same), instance(t, r, "1", same)
		ready(t, first)
		must.Do(t, first.Close(t.Context()))
		ready(t, second)
		ready(t, third)
		if one(t, second) == one(t, third) || second.machineID() != third.machineID() {
			t.Error("they do not share a generator")
		}
	})
}

// TestWhatWasNeverInitialisedMakesWay checks that a definition that was never initialised, such as
// one whose shape was refused, does not conflict with one with other settings.
func TestWhatWasNeverInitialisedMakesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(true)
		dir := t.TempDir()
		reserving := func(offline time.Duration) func(*Settings) {
			return func(s *Settings) { s.StateDir, s.OfflineStart = dir, offline }
		}
		refused := instance(t, r, "1", reserving(time.Minute))
		must.Do(t, refused.Close(t.Context()))
		closes(t, instance(t, r, "1", reserving(2*time.Minute)))
	})
}

// TestReservationOfBefore checks that a node whose offlineStart was switched off invalidates its
// reservation, but not that of another biz type of the process.
func TestReservationOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		with := func(offline time.Duration) *Strategy {
			return instance(t, r, "1", func(s *Settings) { s.StateDir, s.OfflineStart = dir, offline })
		}
		reserves := func(s *Strategy) bool {
			_, _, err := statefile.Peek(dir, s.held().file.name)
			return err == nil
		}
		a, b := with(time.Minute), with(0)
		_ = a.Init(t.Context(), true)
		time.Sleep(1500 * time.Millisecond)
		ready(t, b)
		if !reserves(a) {
			t.Error("the reservation of another biz type is gone")
		}
		crash(a)
		crash(b)
		ready(t, with(0))
		if reserves(a) {
			t.Error("the reservation is still there")
		}
	})
}

// TestBizTypesShareAMachineID checks that biz types with the same settings share a generator, and
// that one of them may end first.
func TestBizTypesShareAMachineID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		same := func(s *Settings) { s.StateDir = dir }
		a, b := instance(t, r, "1", same), instance(t, r, "1", same)
		other := instance(t, r, "1", func(s *Settings) { s.StateDir, s.MaxWaitRollback = dir, time.Millisecond })
		for _, s := range []*Strategy{a, b, other} {
			must.Do(t, s.Init(t.Context(), true))
		}
		if a.held() != b.held() || a.machineID() == other.machineID() {
			t.Errorf("machine IDs %d, %d and %d", a.machineID(), b.machineID(), other.machineID())
		}
		list := []int64{one(t, a), one(t, b), one(t, other)}
		slices.Sort(list)
		must.Equal(t, len(slices.Compact(list)), 3, "the same number twice: %v", list)
		for _, s := range []*Strategy{a, other} {
			must.Do(t, s.Close(t.Context()))
		}
		one(t, b)
		cannot(t, a, seqd.CodeStopping)
		must.Do(t, b.Close(t.Context()))
		for _, slot := range slots(t, a, r).Slots {
			must.Equal(t, slot.Token, "", "still held: %+v", slot)
		}
	})
}

// TestBizTypeGetsAnotherGenerator checks that the numbers of a biz type increase although it is
// closed, gets other settings, and the clock is set back meanwhile: whether or not other biz types
// have those settings, or had the former ones.
func TestBizTypeGetsAnotherGenerator(t *testing.T) {
	for _, others := range [][]time.Duration{nil, {0}, {time.Millisecond}, {0, time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			var clock hands
			clock.ms.Store(time.Now().UnixMilli())
			env := strategy.Env{
				Store: memory.New(clock.now), Now: clock.now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{},
				Addr: "127.0.0.1:1", Cluster: cluster, Left: new(sync.Map),
			}
			dir := t.TempDir()
			with := func(wait time.Duration) *Strategy {
				s := made(t, env, func(s *Settings) { s.StateDir, s.MaxWaitRollback = dir, wait })
				ready(t, s)
				return s
			}
			for _, wait := range others {
				with(wait)
			}
			s := with(0)
			last := one(t, s)
			for n := range 3 {
				must.Do(t, s.Close(t.Context()))
				clock.ms.Add(-100)
				s = with(time.Duration((n+1)%2) * time.Millisecond)
				cannot(t, s, seqd.CodeClockRollback)
				clock.ms.Add(101)
				next := one(t, s)
				if next <= last {
					t.Errorf("others %v: %d follows %d", others, next, last)
				}
				last = next
			}
		})
	}
}

// pair returns two strategies of one holder.
func pair(t *testing.T) (a, b *Strategy) {
	r, dir := newRegistry(false), t.TempDir()
	same := func(s *Settings) { s.StateDir = dir }
	return instance(t, r, "1", same), instance(t, r, "1", same)
}

// TestCloseWhileACallerWaits checks that a caller who has waited for its numbers gets none if the
// biz type was closed meanwhile: it may have issued from another generator since.
func TestCloseWhileACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		ready(t, a)
		ready(t, b)
		waiting := make(chan error)
		go func() {
			var seq seqd.Sequence
			waiting <- a.Generate(t.Context(), 5000, &seq) // of two milliseconds
		}()
		synctest.Wait()
		must.Do(t, a.Close(t.Context()))
		must.Code(t, <-waiting, seqd.CodeStopping)
		one(t, b)
	})
}

// TestCloseWithoutInit checks that closing a strategy whose Init was never called, as after a
// conflict of shapes, does not affect the holder that others use.
func TestCloseWithoutInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		ready(t, a)
		for range 2 {
			must.Report(t, b.Close(t.Context()))
		}
		one(t, a)
		must.Code(t, b.Init(t.Context(), true), seqd.CodeStopping, "after Close")
		c := instance(t, a.held().env.Store.(*registry), "1", func(s *Settings) { s.StateDir = a.held().settings.StateDir })
		must.Do(t, c.Init(t.Context(), true))
		for range 2 {
			must.Report(t, c.Close(t.Context()))
		}
		one(t, a)
	})
}

// TestInitOfAnEndedHolder checks that a holder that ended before it began does not begin any more.
func TestInitOfAnEndedHolder(t *testing.T) {
	s := instance(t, newRegistry(false), "1", nil)
	must.Do(t, s.held().worker.end(t.Context()))
	must.Code(t, s.Init(t.Context(), true), seqd.CodeStopping)
	must.Do(t, s.Close(t.Context()))
}

// TestStopBeforeTheFirstAttempt checks that who waits for the first attempt to get a machine ID waits
// no longer if the holder is stopped before it makes one.
func TestStopBeforeTheFirstAttempt(t *testing.T) {
	h := instance(t, newRegistry(false), "1", nil).held()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.run(ctx)
	for what, end := range map[string]chan struct{}{"the first attempt": h.worker.first, "the goroutine": h.worker.done} {
		select {
		case <-end:
		default:
			t.Fatalf("nobody is told that %s has ended", what)
		}
	}
	must.Code(t, h.ready(t.Context()), seqd.CodeStarting)
}

// TestCloseInVain checks that Close says if the machine ID could not be given up in time, and that
// nothing is issued then.
func TestCloseInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := instanceWith(t, &far{newRegistry(false)}, time.Now, "1", nil)
		ready(t, s)
		time.Sleep(s.held().settings.RenewInterval + time.Millisecond) // in the middle of a renewal
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.Is(t, s.Close(ctx), context.DeadlineExceeded)
		must.Code(t, s.held().tenure.gen.take(t.Context(), 1, new(seqd.Sequence)), seqd.CodeStopping, "then it issues")
		time.Sleep(time.Second)
	})
}

func TestFixedMachineID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		fixed := func(s *Settings) { s.MachineID = "7" }
		s, twin := instance(t, r, "1", fixed), instance(t, r, "2", fixed)
		ready(t, s)
		closes(t, twin)
		if err := twin.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeNoMachineID || !strings.Contains(err.Error(), "7 is held by seqd.1.167772161") {
			t.Errorf("got %v", err)
		}
		must.Equal(t, s.machineID(), 7, "machine ID")
	})
}

// TestOffline checks that a node with a reservation continues without the registry, even after
// restarts, and never uses a time twice.
func TestOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		offline := func(s *Settings) { s.StateDir, s.OfflineStart = dir, time.Minute }
		s := instance(t, r, "1", offline)
		must.Do(t, s.Init(t.Context(), true))
		id := s.machineID()
		last := one(t, s)
		r.away.Store(true)
		time.Sleep(500 * time.Millisecond) // so that no crash coincides with a renewal
		for range 2 {                      // twice
			time.Sleep(20 * time.Second)
			n := one(t, s)
			if n <= last || s.machineID() != id {
				t.Fatalf("%d follows %d, machine ID %d", n, last, s.machineID())
			}
			last = n
			crash(s)
			s = instance(t, r, "1", offline)
			// it begins above what the other may have used
			if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeClockRollback {
				t.Fatalf("got %v", err)
			}
			time.Sleep(5500 * time.Millisecond)
			if s.Degraded() == nil {
				t.Error("not degraded without the registry")
			}
		}
		time.Sleep(12 * time.Second)
		last = one(t, s)            // to its very end
		time.Sleep(8 * time.Second) // 65 s have passed
		cannot(t, s, seqd.CodeNoMachineID)
		crash(s)
		s = instance(t, r, "1", offline)
		closes(t, s)
		if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeStoreUnavailable || !strings.Contains(err.Error(), "ended at") {
			t.Fatalf("got %v", err)
		}
		r.away.Store(false)
		time.Sleep(2 * time.Second)
		if n := one(t, s); n <= last {
			t.Errorf("%d follows %d", n, last)
		}
		must.Equal(t, s.machineID(), id, "the machine ID")
	})
}

// TestAloneBounds checks how far a node goes on its reservation without the registry, after a
// restart and after a renewal that failed, when it is at some time, as ms after the end of the
// reservation.
func TestAloneBounds(t *testing.T) {
	for now, want := range map[int64]int64{-20_000: -15_000, -5001: -1, -5000: 0, 0: 0, 1: -30_000} {
		r := newRegistry(true)
		r.away.Store(true)
		clock := func() time.Time { return time.UnixMilli(someTime + now) }
		s := instanceWith(t, r, clock, "1", func(s *Settings) { s.OfflineStart = time.Minute })
		closes(t, s)
		h := s.held()
		saved := statefile.State{MachineID: 3, Token: "t", Lower: someTime - 50_000, Until: someTime - 40_000, Progress: someTime - 30_000, Reserved: someTime}
		err := h.resume(t.Context(), saved)
		_, l, bound := h.tenure.now()
		if (err == nil) != (now <= 0) || err == nil && (l.Lower != saved.Progress || bound != someTime+want) {
			t.Errorf("resumed at %d: from %d to %d, %v", now, l.Lower-someTime, bound-someTime, err)
		}
		h.tenure.set(machineid.Lease{ID: 3, Token: "t", Reserved: someTime}, someTime-30_000)
		if now > 0 {
			want = 0
		}
		must.Report(t, h.goAlone())
		if _, _, bound := h.tenure.now(); bound != someTime+want {
			t.Errorf("at %d it goes on to %d", now, bound-someTime)
		}
		must.Get(h.file.open(&h.registry.Member))(t)
		must.Do(t, h.file.handle.Close())
		if err := h.resume(t.Context(), saved); errors.Is(err, errFile) != (now <= 0) {
			t.Errorf("resumed at %d without the file: %v", now, err)
		}
	}
}

// crash ends a strategy as if its process ended: nothing is released.
func crash(s *Strategy) {
	h := s.held()
	h.tenure.gen.stop(errStopping)
	holders.Lock()
	delete(holders.of, s.key)
	holders.Unlock()
	h.tenure.mu.Lock()
	h.tenure.lease = machineid.Lease{}
	h.tenure.mu.Unlock()
	h.worker.stop()
	<-h.worker.done
}
