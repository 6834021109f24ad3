package snowflake

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// failing is a registry of which one operation fails.
type failing struct {
	*registry
	calls, fails atomic.Int64 // fails is the number of the operation, from 1; 0 for none
	how          failure
}

// failure is what becomes of the operation that fails.
type failure int

const (
	notMade    failure = iota // it is not carried out
	unanswered                // only the answer is lost
	contested                 // it is a change, and somebody else was faster; looks do not count
)

func (f *failing) Slots() persist.SlotStore { return f }

// do counts an operation, and carries it out unless it fails.
func (f *failing) do(op func() error) error {
	if f.calls.Add(1) != f.fails.Load() {
		return op()
	}
	switch f.how {
	case unanswered:
		_ = op()
	case contested:
		return nil
	}
	return errAway
}

func (f *failing) Look(ctx context.Context, name string, ids ...int64) (t persist.SlotTable, err error) {
	if f.how == contested {
		return f.registry.Look(ctx, name, ids...)
	}
	failed := f.do(func() error { t, err = f.registry.Look(ctx, name, ids...); return err })
	if failed != nil {
		t = persist.SlotTable{}
	}
	return t, failed
}

func (f *failing) Swap(ctx context.Context, name string, swap persist.SlotSwap) (made bool, err error) {
	failed := f.do(func() error { made, err = f.registry.Swap(ctx, name, swap); return err })
	return made && failed == nil, failed
}

// A node whose lease was granted although it got no answer continues with that lease, or releases
// it when it stops.
func TestPendingLease(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := &failing{registry: newRegistry(true), how: unanswered}
			r.fails.Store(6) // two looks, the bootstrap part, a look, another one once the registry is named, the lease
			s := instanceWith(t, r, time.Now, "1", nil)
			closes(t, s)
			must.Code(t, s.Init(t.Context(), true), seqd.CodeStoreUnavailable)
			before := slots(t, s, r.registry).Slots
			if stops {
				must.Do(t, s.Close(t.Context()))
			}
			time.Sleep(2 * time.Second)
			after := slots(t, s, r.registry).Slots
			if stops && (len(after) != 1 || after[0].Token != "") ||
				!stops && (len(before) != 1 || len(after) != 1 || after[0].Token != before[0].Token || s.machineID() != after[0].ID) {
				t.Errorf("stops %t: %+v, and then %+v; the node has %d", stops, before, after, s.machineID())
			}
		})
	}
}

// A renewal that fails is tried again after a tenth of the horizon, and each change is logged once.
func TestFailedRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{registry: newRegistry(false)}
		s := instanceWith(t, r, time.Now, "1", nil)
		var log strings.Builder
		s.held().env.Log = slog.New(slog.NewTextHandler(&log, nil))
		ready(t, s)
		time.Sleep(s.held().settings.RenewInterval - time.Millisecond)
		r.fails.Store(r.calls.Load() + 2) // the change, after the look
		for i, want := range []struct {
			after        time.Duration
			fails        bool
			failed, back int
		}{{time.Millisecond, true, 1, 0}, {s.held().settings.Horizon / 10, false, 1, 1}, {s.held().settings.RenewInterval, false, 1, 1}} {
			time.Sleep(want.after)
			synctest.Wait()
			failed, back := strings.Count(log.String(), "cannot be renewed"), strings.Count(log.String(), "answers again")
			if err := s.held().tenure.degraded(); (err != nil) != want.fails || failed != want.failed || back != want.back {
				t.Errorf("%d: %v, logged %s", i, err, &log)
			}
			s.OnRecord(fmt.Sprint(i)) // without a file it is only remembered
		}
	})
}

// A registry that cannot be read is not changed.
func TestNothingIsChangedUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{registry: newRegistry(true)}
		r.fails.Store(1)
		s := instanceWith(t, r, time.Now, "1", nil)
		closes(t, s)
		must.Code(t, s.Init(t.Context(), true), seqd.CodeStoreUnavailable)
		if table := slots(t, s, r.registry); table.Set != nil || r.calls.Load() != 1 {
			t.Errorf("%d operations, and %+v", r.calls.Load(), table)
		}
	})
}

// A registry of one process whose bootstrap part was dropped gets a floor if it has any machine ID,
// also if that is not the one that is asked for.
func TestPreparedLooksAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", nil)
		ready(t, s)
		other := (s.machineID() + 1) % 1024
		must.Do(t, r.Drop(t.Context(), s.held().registry.name))
		table, err := s.held().registry.prepared(t.Context(), other)
		if err != nil || table.Set == nil || table.Set.Floor == 0 || len(table.Slots) != 0 {
			t.Errorf("%+v, %v", table, err)
		}
	})
}

// Nobody gets a machine ID from a registry that the store does not name, or if the store cannot say
// which it names. Who holds one already renews it while the store is away, and only then.
func TestPreparedIsNamed(t *testing.T) {
	s := instance(t, newRegistry(true), "1", nil)
	closes(t, s)
	r := &s.held().registry
	must.Get(r.prepared(t.Context()))(t)
	documents := &brokenDocuments{Documents: memory.New(time.Now).Documents()}
	other := naming{documents: documents, registry: "machineIds", now: time.Now, used: new(atomic.Pointer[string])}
	must.Do(t, other.force(t.Context(), named{Incarnation: machineid.Drawn(), Source: "elsewhere"}))
	r.naming = &naming{documents: documents, registry: "machineIds", now: time.Now, used: new(atomic.Pointer[string])}
	for _, ids := range [][]int64{nil, {5}} {
		documents.err = nil
		must.Is(t, must.Err(r.prepared(t.Context(), ids...)), errUnnamed, "IDs %v of another registry", ids)
		documents.err = persist.ErrUnavailable
		if _, err := r.prepared(t.Context(), ids...); (err == nil) != (len(ids) > 0) {
			t.Errorf("IDs %v without the store: %v", ids, err)
		}
	}
}

// brokenDocuments cannot be read while err is not nil.
type brokenDocuments struct {
	persist.Documents
	err error
}

func (d *brokenDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if d.err != nil {
		return persist.Document{}, d.err
	}
	return d.Documents.Read(ctx, kind, key)
}

// Operators are warned if leases begin later because of a floor, and of nothing else that the
// bootstrap part gets.
func TestNewFloorIsLogged(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := instance(t, newRegistry(shared), "1", nil)
		closes(t, s)
		r := &s.held().registry
		var log strings.Builder
		r.env.Log = slog.New(slog.NewTextHandler(&log, nil))
		for _, test := range []struct {
			reach int64
			warns bool
		}{{0, shared}, {60_000, false}} {
			log.Reset()
			r.Reach = test.reach
			table, err := r.prepared(t.Context())
			if err != nil || table.Set.Ahead < test.reach || (log.Len() > 0) != test.warns {
				t.Errorf("shared %t, %+v, %v, logged %q", shared, *table.Set, err, log.String())
			}
		}
	}
}

// The parts of the node that the strategy needs are there, or New says what is missing.
func TestNewNeeds(t *testing.T) {
	for want, change := range map[string]func(*strategy.Env, *Settings){
		`"nowhere"`:     func(env *strategy.Env, _ *Settings) { env.Addr = "nowhere" },
		`"127.0.0.1:x"`: func(env *strategy.Env, _ *Settings) { env.Addr = "127.0.0.1:x" },
		"redis.addrs":   func(_ *strategy.Env, s *Settings) { s.Registry = registryRedis },
		"epoch: ":       func(_ *strategy.Env, s *Settings) { s.Epoch = "never" },
		"stateDir: ":    func(_ *strategy.Env, s *Settings) { s.OfflineStart, s.reach = time.Minute, &seqd.Reach{Folder: "here"} },
	} {
		s := instance(t, newRegistry(true), "1", nil)
		closes(t, s)
		env, settings := s.held().env.Env, *s.held().settings
		env.Store = newRegistry(true) // another holder
		change(&env, &settings)
		if _, err := New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: &settings}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if _, err := New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: 5}); err == nil {
			t.Error("settings that are a number are accepted")
		}
		settings.Epoch, settings.OfflineStart = s.held().settings.Epoch, 0
		env.Redis, env.Addr = redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), "127.0.0.1:1"
		for registry, checked := range map[string]bool{registryStore: false, registryRedis: true} {
			settings.Registry = registry
			s := must.Get(New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: &settings}))(t)
			closes(t, s)
			must.Equal(t, s.held().registry.check != nil, checked, "the registry %s is checked", registry)
		}
		_ = env.Redis.Close()
	}
}

// The address that identifies a node is that of its settings, of its listener or of its machine.
func TestAddressOfTheNode(t *testing.T) {
	for _, test := range []struct{ configured, host, want string }{
		{"10.0.0.1", "10.0.0.2", "10.0.0.1"}, {"", "10.0.0.2", "10.0.0.2"}, {"", "::ffff:10.0.0.2", "10.0.0.2"}, {"", "fe80::1%eth0", "fe80::1"},
	} {
		must.Equal(t, ownIP(test.configured, test.host).String(), test.want, "configured %q, listening on %q", test.configured, test.host)
	}
	if ip := ownIP("", "0.0.0.0"); !ip.IsValid() || ip.IsUnspecified() {
		t.Errorf("a node that listens on all addresses has %s", ip)
	}
	for machine, want := range map[string]string{
		"": "127.0.0.1", "127.0.0.2/8 ::1/128 fe80::1/64 169.254.0.1/16": "127.0.0.1", "fd00::1/8 fd00::2/8": "fd00::1",
		"nonsense fd00::1/8 127.0.0.1/8 10.0.0.1/8 10.0.0.2/8": "10.0.0.1",
	} {
		var addrs []net.Addr
		for _, text := range strings.Fields(machine) {
			addrs = append(addrs, &net.UnixAddr{Name: text})
		}
		must.Equal(t, firstOf(addrs).String(), want, "of %q", machine)
	}
}

// Redis that cannot be used as it is configured is refused. If it only does not answer, a node with
// a reservation begins on that, and others wait.
func TestCheckedRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			offline time.Duration
			err     error
			code    seqd.Code
		}{
			{0, nil, ""}, {0, errAway, seqd.CodeStoreUnavailable}, {0, redisslots.ErrUnfit, seqd.CodeNoMachineID},
			{time.Minute, nil, ""}, {time.Minute, errAway, ""}, {time.Minute, redisslots.ErrUnfit, seqd.CodeNoMachineID},
		} {
			s := instance(t, newRegistry(false), "1", func(s *Settings) { s.OfflineStart = test.offline })
			s.held().registry.check = func(context.Context) error { return test.err }
			must.Code(t, s.Init(t.Context(), true), test.code, "offlineStart %v, check %v", test.offline, test.err)
			must.Report(t, s.Close(t.Context()))
		}
	})
}

// A lease of the file that is known to be lost is not used later, although the node gets no other
// one.
func TestLostReservationWhileNoneIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(true)
		dir := t.TempDir()
		fixed := func(s *Settings) { s.OfflineStart, s.StateDir, s.MachineID = time.Minute, dir, "3" }
		a := instance(t, r, "1", fixed)
		_ = a.Init(t.Context(), true)
		time.Sleep(80500 * time.Millisecond)
		one(t, a)
		crash(a)
		time.Sleep(10 * time.Second) // its lease ends
		b := instance(t, r, "2", func(s *Settings) { s.MachineID = "3" })
		closes(t, b)
		_ = b.Init(t.Context(), true)
		if b.machineID() != 3 {
			t.Fatal("the other node does not have the machine ID")
		}
		again := instance(t, r, "1", fixed)
		closes(t, again)
		must.Code(t, again.Init(t.Context(), true), seqd.CodeNoMachineID)
		r.away.Store(true)
		time.Sleep(10 * time.Second)
		if _, err := try(again); err == nil || again.machineID() >= 0 {
			t.Errorf("it continues with a lost lease, %v", err)
		}
	})
}

// While the clock is off, a node with a reservation waits, and takes no other machine ID.
func TestResumeWithAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(true)
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir = time.Minute, dir }
		a := instance(t, r, "1", offline)
		_ = a.Init(t.Context(), true)
		time.Sleep(80500 * time.Millisecond)
		id := a.machineID()
		crash(a)
		first := &onceOff{registry: r}
		again := instanceWith(t, first, time.Now, "1", offline)
		closes(t, again)
		if err := again.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeNoMachineID || again.machineID() >= 0 {
			t.Errorf("got %v, machine ID %d", err, again.machineID())
		}
		time.Sleep(2 * time.Second)
		if again.machineID() != id || len(slots(t, a, r).Slots) != 1 {
			t.Errorf("machine ID %d after %d", again.machineID(), id)
		}
	})
}

// onceOff is a registry whose clock is off when it is read for the first time.
type onceOff struct {
	*registry
	looked atomic.Bool
}

func (r *onceOff) Slots() persist.SlotStore { return r }

func (r *onceOff) Look(ctx context.Context, name string, ids ...int64) (persist.SlotTable, error) {
	t, err := r.registry.Look(ctx, name, ids...)
	if !r.looked.Swap(true) {
		t.Now += 60_000
	}
	return t, err
}

// After a restore, leases begin above all that can have been granted, whoever changes the registry
// meanwhile. It can be said again.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{registry: newRegistry(false)}
		s := instanceWith(t, r, time.Now, "1", nil)
		ready(t, s)
		bizType := seqd.BizType{Name: "user", Strategy: Name, Settings: s.held().settings}
		factory := must.Get(strategy.Lookup(Name))(t)
		before := *slots(t, s, r.registry).Set
		for range 2 {
			time.Sleep(time.Millisecond)
			done, err := factory.Restored(t.Context(), s.held().env.Env, bizType)
			set := *slots(t, s, r.registry).Set
			ahead := 5*time.Second + 2*2*time.Second
			if err != nil || !strings.HasSuffix(done, " begin at "+at(set.Floor+1)) || set.Floor != time.Now().Add(ahead).UnixMilli() || set.Incarnation == before.Incarnation {
				t.Errorf("%q, %v: %+v", done, err, set)
			}
			before = set
		}
		for n := range int64(2) { // whatever fails is said
			r.calls.Store(0)
			r.fails.Store(n + 1)
			if _, err := factory.Restored(t.Context(), s.held().env.Env, bizType); err == nil {
				t.Errorf("operation %d fails, and nobody is told", n+1)
			}
		}
		r.how = contested
		r.calls.Store(0)
		r.fails.Store(1)
		env := s.held().env.Env
		if _, err := factory.Restored(t.Context(), env, bizType); err != nil || r.calls.Load() != 2 {
			t.Errorf("%v after %d changes", err, r.calls.Load())
		}
		if _, err := factory.Restored(t.Context(), env, seqd.BizType{Settings: 1}); err == nil {
			t.Error("other settings pass")
		}
		wrong := *s.held().settings
		wrong.Epoch = "never"
		if _, err := factory.Restored(t.Context(), env, seqd.BizType{Settings: &wrong}); err == nil {
			t.Error("a wrong layout passes")
		}
		wrong = *s.held().settings
		wrong.Registry = registryRedis
		if _, err := factory.Restored(t.Context(), env, seqd.BizType{Settings: &wrong}); err == nil {
			t.Error("a registry that is not there passes")
		}
		wrong.Epoch = "never"
		for _, settings := range []any{1, &wrong} {
			must.Equal(t, shape(seqd.BizType{Settings: settings}), Name, "the shape of wrong settings")
		}
	})
}

// A node may begin without the store only if it has a reservation, and says so.
func TestAloneOnlyWithReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := filepath.Join(t.TempDir(), "state")
		s := instance(t, r, "1", func(s *Settings) { s.OfflineStart, s.StateDir = time.Hour, dir })
		must.Do(t, s.Init(t.Context(), true))
		s.OnRecord("shape")
		time.Sleep(1500 * time.Millisecond) // no crash coincides with a renewal
		crash(s)
		env, settings := s.held().env.Env, *s.held().settings
		may := func(settings any, env strategy.Env) bool {
			_, ok := aloneWith(env, seqd.BizType{Name: "user", Strategy: Name, Settings: settings}, "shape")
			return ok
		}
		if !may(&settings, env) {
			t.Fatal("it may not begin")
		}
		off, wrong := settings, settings
		off.OfflineStart, wrong.Epoch = 0, "never"
		nowhere, later := env, env
		nowhere.Addr = "nowhere"
		_, saved, err := statefile.Peek(dir, s.held().file.name)
		must.Do(t, err)
		end := env
		end.Now = func() time.Time { return time.UnixMilli(saved.Reserved) }
		later.Now = func() time.Time { return time.UnixMilli(saved.Reserved + 1) }
		if !may(&settings, end) {
			t.Error("it may not begin at the end of the reservation")
		}
		another, elsewhere, gone := settings, settings, settings
		another.BitsMachine, elsewhere.reach, gone.StateDir = 9, &seqd.Reach{Folder: "here"}, dir+"-not"
		var log strings.Builder
		env.Log = slog.New(slog.NewTextHandler(&log, nil))
		for what, ok := range map[string]bool{
			"offlineStart is off": may(&off, env), "the epoch is wrong": may(&wrong, env), "other settings": may(1, env),
			"no address": may(&settings, nowhere), "the reservation has ended": may(&settings, later), "another layout": may(&another, env),
			"the folder is out of reach": may(&elsewhere, env), "there is no file": may(&gone, env),
		} {
			if ok || log.Len() > 0 {
				t.Errorf("%s: it may begin: %t; logged %s", what, ok, &log)
			}
		}
		must.Do(t, os.WriteFile(s.held().file.path(), []byte("x"), 0o600))
		if may(&settings, env) || !strings.Contains(log.String(), "cannot be used") {
			t.Errorf("it may begin on a damaged file, or says nothing: %s", &log)
		}
	})
}

// There are no numbers before the epoch, nor in its first millisecond. A clock that was wrong at
// the start and is right since is no reason to refuse.
func TestBeforeEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		epoch := time.Now().Add(time.Minute)
		ahead.Store(int64(-time.Hour))
		s := instanceWith(t, memory.New(now), now, "1", func(s *Settings) { s.Epoch = Plain(epoch.UTC().Format(time.RFC3339)) })
		ready(t, s)
		for _, at := range []time.Time{epoch.Add(-time.Hour), epoch} {
			ahead.Store(int64(time.Until(at) - 2*time.Second))
			time.Sleep(2 * time.Second) // the lease is renewed
			ahead.Store(int64(time.Until(at)))
			if _, err := try(s); seqd.CodeOf(err) != seqd.CodeClockRollback || seqd.CodeOf(s.Health()) != seqd.CodeClockRollback {
				t.Errorf("at %s: %v, health %v", at, err, s.Health())
			}
		}
		ahead.Store(int64(time.Until(epoch.Add(time.Second))))
		time.Sleep(2 * time.Second)
		one(t, s)
	})
}

// A clock that was far ahead for a moment costs the machine ID, not the years until it comes there
// again. What shows that the clock is right now is the registry, or a clock that nobody sets; or it
// is so far behind that nobody would wait. Numbers are as after a restart: lower, and never twice.
func TestClockPutRight(t *testing.T) {
	for name, test := range map[string]struct {
		shared         bool
		before, during time.Duration // how far the clock is ahead
		fixed          bool
		moves          bool
	}{
		"embedded":               {during: 400 * 24 * time.Hour, moves: true},
		"embedded, an hour":      {during: time.Hour, moves: true},
		"shared":                 {shared: true, during: 400 * 24 * time.Hour, moves: true},
		"ahead since the start":  {before: 8 * time.Hour, during: 8 * time.Hour, moves: true},
		"less than the horizon":  {during: 4 * time.Second},
		"set back by an hour":    {before: time.Hour, during: time.Hour},
		"one machine ID for all": {during: 400 * 24 * time.Hour, fixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ahead atomic.Int64
				now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				ahead.Store(int64(test.before))
				r := &registry{Store: memory.New(now), shared: test.shared}
				s := instanceWith(t, r, now, "1", func(s *Settings) {
					if test.fixed {
						s.MachineID = "5"
					}
				})
				closes(t, s)
				_ = s.Init(t.Context(), true) // a new registry that is shared waits
				time.Sleep(time.Minute)
				first := one(t, s)
				ahead.Store(int64(test.during))
				time.Sleep(2 * time.Second)
				high := one(t, s)
				id := s.machineID()
				ahead.Store(0)
				must.Code(t, must.Err(try(s)), seqd.CodeClockRollback, "at first")
				time.Sleep(2 * time.Second)
				n, err := try(s)
				switch {
				case test.moves && (err != nil || n >= high || s.machineID() == id || test.before == 0 && n <= first || s.Health() != nil):
					t.Errorf("%d after %d and %d, %v, machine ID %d after %d", n, first, high, err, s.machineID(), id)
				case !test.moves && seqd.CodeOf(err) != seqd.CodeClockRollback:
					t.Errorf("%d after %d, %v", n, high, err)
				}
				time.Sleep(time.Minute)
				if test.moves && one(t, s) <= n {
					t.Error("it does not continue")
				}
			})
		})
	}
}

// A clock agrees with one that nobody sets up to a difference, either way.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for off, want := range map[int64]bool{-11: false, -10: true, 0: true, 10: true, 11: false} {
			var s steady
			first := s.agrees(someTime, 10)
			time.Sleep(100 * time.Millisecond)
			if got := s.agrees(someTime+100+off, 10); !first || got != want || (s.wall == someTime) == want {
				t.Errorf("off by %d ms it agrees: %t, and remembers %d", off, got, s.wall)
			}
		}
	})
}

// A node moves on although an operation of the registry fails meanwhile.
func TestMoveOnThroughFailures(t *testing.T) {
	for n := range int64(8) {
		synctest.Test(t, func(t *testing.T) {
			var ahead atomic.Int64
			now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			ahead.Store(int64(400 * 24 * time.Hour))
			r := &failing{registry: &registry{Store: memory.New(now)}}
			s := instanceWith(t, r, now, "1", nil)
			ready(t, s)
			id, high := s.machineID(), one(t, s)
			ahead.Store(0)
			r.calls.Store(0)
			r.fails.Store(n)
			time.Sleep(4 * time.Second)
			if m := one(t, s); m >= high || s.machineID() == id {
				t.Errorf("operation %d fails: %d after %d, machine ID %d after %d", n, m, high, s.machineID(), id)
			}
		})
	}
}

// So is a reservation of a process that ended while the clock was ahead.
func TestReservationOfAClockPutRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		r := &registry{Store: memory.New(now)}
		dir := t.TempDir()
		begin := func() *Strategy {
			return instanceWith(t, r, now, "1", func(s *Settings) { s.OfflineStart, s.StateDir = time.Minute, dir })
		}
		ahead.Store(int64(400 * 24 * time.Hour))
		s := begin()
		must.Do(t, s.Init(t.Context(), true))
		id, high := s.machineID(), one(t, s)
		r.away.Store(true) // it cannot release its machine ID
		_ = s.Close(t.Context())
		r.away.Store(false)
		ahead.Store(0)
		s = begin()
		closes(t, s)
		_ = s.Init(t.Context(), true)
		must.Equal(t, s.machineID(), id, "the machine ID, if it was reserved,")
		time.Sleep(3 * time.Second)
		if n := one(t, s); n >= high || s.machineID() == id {
			t.Errorf("%d after %d, machine ID %d after %d", n, high, s.machineID(), id)
		}
	})
}

// The details say what operators need, and no beginning of a lease that has none.
func TestDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", nil)
		want := func(s *Strategy, want string) {
			t.Helper()
			must.Equal(t, fmt.Sprint(s.Details()), want, "details")
		}
		want(s, "map[key:seqd.1.167772161]")
		if must.Code(t, s.Health(), seqd.CodeStarting); !s.Idle() {
			t.Error("it must stay open")
		}
		must.Do(t, s.Init(t.Context(), true))
		id := s.machineID()
		want(s, fmt.Sprintf("map[key:seqd.1.167772161 leaseUntil:2000-01-01T00:00:05.000Z machineId:%d timeLeftMs:5000]", id))
		one(t, s)
		must.Do(t, s.Close(t.Context()))
		time.Sleep(time.Second)
		again := instance(t, r, "1", nil)
		ready(t, again)
		want(again, fmt.Sprintf("map[key:seqd.1.167772161 leaseFrom:2000-01-01T00:00:00.001Z leaseUntil:2000-01-01T00:00:06.000Z machineId:%d timeLeftMs:5000]", id))
		r.away.Store(true)
		time.Sleep(time.Minute)
		want(again, fmt.Sprintf("map[key:seqd.1.167772161 leaseFrom:2000-01-01T00:00:00.001Z leaseUntil:2000-01-01T00:00:06.000Z machineId:%d timeLeftMs:0]", id))
	})
}

// What is known of a biz type stays known if its holder ends before it begins. Settings that
// conflict with those of another holder by then are refused.
func TestHolderEndsBeforeInitWithFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		offline := func(d time.Duration) func(*Settings) {
			return func(s *Settings) { s.StateDir, s.OfflineStart = dir, d }
		}
		first, second, third := instance(t, r, "1", offline(time.Hour)), instance(t, r, "1", offline(time.Hour)), instance(t, r, "1", offline(time.Hour))
		second.OnRecord("shape")
		must.Do(t, first.Init(t.Context(), true))
		must.Do(t, first.Close(t.Context()))
		must.Do(t, second.Init(t.Context(), true))
		time.Sleep(1500 * time.Millisecond)
		if !alone(second, "user", "shape") {
			t.Error("the file does not list the biz type")
		}
		must.Do(t, second.Close(t.Context()))
		other := instance(t, r, "1", offline(2*time.Hour))
		ready(t, other)
		if err := third.Init(t.Context(), true); err == nil || !strings.Contains(err.Error(), "offlineStart") {
			t.Errorf("two holders share a file: %v", err)
		}
		_ = third.Close(t.Context())
	})
}

// The registry learns from the first node of a process how far the leases of all its biz types
// reach, but not from those that use another registry.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(true)
		horizon := func(d time.Duration) func(*Settings) { return func(s *Settings) { s.Horizon = d } }
		first := instance(t, r, "1", horizon(5*time.Second))
		longer := instance(t, r, "1", horizon(20*time.Second))
		elsewhere := instance(t, newRegistry(true), "1", horizon(30*time.Second))
		layout := instance(t, r, "1", func(s *Settings) { s.Horizon, s.BitsMachine = 30*time.Second, 9 })
		for _, s := range []*Strategy{first, longer, elsewhere, layout} {
			closes(t, s)
		}
		_ = first.Init(t.Context(), true)
		must.Equal(t, slots(t, first, r).Set.Ahead, (20*time.Second + 2*2*time.Second).Milliseconds(), "the ms that leases reach")
	})
}

// Longer leases come later, and one of them is in use when the registry loses everything. A node
// that has only short ones makes the registry anew, and nobody gets a time of the long lease.
func TestReachOfLaterLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind := memory.New(time.Now)
		var processes []*registry
		begin := func(port string, change func(*Settings)) *Strategy {
			r := &registry{Store: behind, shared: true}
			processes = append(processes, r)
			s := instance(t, r, port, change)
			closes(t, s)
			_ = s.Init(t.Context(), true)
			return s
		}
		long := func(s *Settings) { s.MachineID, s.Horizon, s.RenewInterval = "7", time.Minute, 20*time.Second }
		begin("1", nil)
		time.Sleep(500 * time.Millisecond)
		holds, takes := begin("2", long), begin("3", long)
		time.Sleep(21200 * time.Millisecond) // the lease has just been renewed, and the short one is next
		empty := memory.New(time.Now)
		for _, r := range processes {
			r.other.Store(empty)
		}
		for range 40 {
			time.Sleep(time.Second)
			x, errX := try(holds)
			y, errY := try(takes)
			if errX == nil && errY == nil && x == y {
				t.Fatalf("%d was issued by both", x)
			}
		}
	})
}

// Whichever operation of the registry fails once, in whatever way: a node that begins, renews, is
// killed, begins again, and stops, makes ascending numbers, is never without a machine ID for long,
// and leaves it free at the end. With a file it keeps the machine ID, unless it could not free it
// when it stopped.
func TestOneFailure(t *testing.T) {
	for _, offline := range []time.Duration{0, 10 * time.Second} {
		each := int64(1)
		if offline > 0 { // files are slow
			each = int64(longtest.Or(9, 1))
		}
		for _, how := range []failure{notMade, unanswered, contested} {
			calls := life(t, offline, how, 0)
			for n := int64(1); n <= calls; n += each {
				t.Run(fmt.Sprintf("offline=%v,%d,%d", offline, how, n), func(t *testing.T) { life(t, offline, how, n) })
			}
		}
	}
}

// life is that of TestOneFailure. It returns how many operations there were.
func life(t *testing.T, offline time.Duration, how failure, fails int64) (calls int64) {
	synctest.Test(t, func(t *testing.T) {
		r := &failing{registry: newRegistry(offline == 0), how: how}
		r.fails.Store(fails)
		dir := t.TempDir()
		begin := func() *Strategy {
			s := instanceWith(t, r, time.Now, "1", func(s *Settings) {
				s.StateDir, s.OfflineStart, s.RenewInterval = dir, offline, 1600*time.Millisecond
			})
			_ = s.Init(t.Context(), true)
			return s
		}
		last, id, kept := int64(0), int64(-1), offline > 0
		issue := func(s *Strategy, when string) {
			t.Helper()
			n := one(t, s)
			if n <= last || kept && id >= 0 && s.machineID() != id {
				t.Errorf("%s: %d of machine ID %d follows %d of %d", when, n, s.machineID(), last, id)
			}
			last, id = n, s.machineID()
		}
		s := begin()
		time.Sleep(20 * time.Second)
		issue(s, "at first")
		time.Sleep(3500 * time.Millisecond)
		issue(s, "later")
		crash(s)
		s = begin()
		time.Sleep(20 * time.Second)
		issue(s, "after a crash")
		before := r.calls.Load()
		must.Report(t, s.Close(t.Context()))
		kept = kept && (fails <= before || fails > r.calls.Load() || how == contested)
		s = begin()
		time.Sleep(20 * time.Second)
		issue(s, "after a stop")
		must.Report(t, s.Close(t.Context()))
		calls = r.calls.Load()
		table := slots(t, s, r.registry)
		held := slices.ContainsFunc(table.Slots, func(s persist.Slot) bool { return s.Token != "" && s.Until >= time.Now().UnixMilli() })
		if held && (fails < calls-1 || how == contested) || kept && len(table.Slots) != 1 {
			t.Errorf("the machine IDs on record are %+v", table.Slots)
		}
	})
	return calls
}
