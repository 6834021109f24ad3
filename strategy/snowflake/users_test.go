package snowflake

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// alone reports whether a biz type of an instance that crashed may start without the store.
func alone(s *Strategy, bizType, shape string) bool {
	remembered, ok := aloneWith(s.held().env.Env, seqd.BizType{Name: bizType, Strategy: Name, Settings: s.held().settings}, shape)
	return ok && remembered == cluster
}

// TestAloneInTheShapeOnRecord checks that the file lists the shape that is on record in the store
// and no other one, such as that of another registry or without a plugin.
func TestAloneInTheShapeOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		offline := func(s *Settings) { s.OfflineStart = time.Hour }
		s := instance(t, r, "1", offline)
		must.Do(t, s.Init(t.Context(), true))
		whole := shape(seqd.BizType{Settings: s.held().settings}) + " obfuscate(12)"
		time.Sleep(1300 * time.Millisecond)
		if alone(s, "user", whole) {
			t.Error("nothing was seen on record")
		}
		s.OnRecord(whole)
		time.Sleep(100 * time.Millisecond) // long before the next renewal
		crash(s)
		if !alone(s, "user", whole) {
			t.Error("it may not begin alone in the shape on record")
		}
		if changed := strings.Replace(whole, registryStore, registryRedis, 1); changed == whole || alone(s, "user", changed) {
			t.Errorf("it may begin alone in the shape %q", changed)
		}
		if without := strings.TrimSuffix(whole, " obfuscate(12)"); alone(s, "user", without) {
			t.Errorf("it may begin alone in the shape %q", without)
		}
		if alone(s, "order", whole) {
			t.Error("another biz type may begin alone")
		}
	})
}

// TestAloneOverRestarts checks that a process that could not reach the store keeps the list in the
// file, however it ends.
func TestAloneOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir, s.MachineID = time.Hour, dir, "3" }
		s := instance(t, r, "1", offline)
		s.OnRecord("shape")
		must.Do(t, s.Init(t.Context(), false))
		time.Sleep(500 * time.Millisecond)
		crash(s)
		r.away.Store(true)
		for _, end := range []func(*Strategy){crash, func(s *Strategy) { _ = s.Close(t.Context()) }} {
			s = instance(t, r, "1", offline)
			_ = s.Init(t.Context(), false)
			time.Sleep(6500 * time.Millisecond)
			one(t, s)
			end(s)
			if !alone(s, "user", "shape") {
				t.Error("forgotten")
			}
		}
	})
}

// TestNotAloneAfterAConflict checks that the biz type is removed from the file when the store has
// another shape on record, whatever the holder is doing, and that the node can use the file
// afterwards.
func TestNotAloneAfterAConflict(t *testing.T) {
	for name, conflict := range map[string]func(t *testing.T, r *registry, s *Strategy){
		"before Init": func(_ *testing.T, _ *registry, s *Strategy) { s.OnRecord("") },
		"while it holds": func(t *testing.T, _ *registry, s *Strategy) {
			_ = s.Init(t.Context(), false)
			s.OnRecord("")
			time.Sleep(1500 * time.Millisecond)
			crash(s)
		},
		"while the registry is away": func(t *testing.T, r *registry, s *Strategy) {
			r.away.Store(true)
			_ = s.Init(t.Context(), false)
			s.OnRecord("")
			time.Sleep(1500 * time.Millisecond)
			crash(s)
		},
		"at the end": func(t *testing.T, r *registry, s *Strategy) {
			r.away.Store(true)
			_ = s.Init(t.Context(), false)
			s.OnRecord("")
			must.Do(t, s.Close(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry(false)
				dir := t.TempDir()
				offline := func(s *Settings) { s.OfflineStart, s.StateDir = time.Hour, dir }
				s := instance(t, r, "1", offline)
				s.OnRecord("shape")
				_ = s.Init(t.Context(), false)
				time.Sleep(500 * time.Millisecond)
				crash(s)
				if !alone(s, "user", "shape") {
					t.Fatal("it may not begin alone")
				}
				s = instance(t, r, "1", offline)
				conflict(t, r, s)
				if alone(s, "user", "shape") {
					t.Error("it may begin alone")
				}
				if _, _, err := statefile.Peek(dir, s.held().file.name); err != nil {
					t.Errorf("the reservation is gone: %v", err)
				}
				r.away.Store(false)
				s = instance(t, r, "1", offline)
				closes(t, s)
				if err := s.Init(t.Context(), false); s.machineID() < 0 {
					t.Errorf("it has no machine ID: %v", err)
				}
			})
		})
	}
}

// TestStrike checks that a biz type that is struck takes no other one out of the file, and that a
// file that is not there is not made. Nothing that was struck is in the file once it was opened.
func TestStrike(t *testing.T) {
	f := leaseFile{dir: t.TempDir(), name: "f", identity: statefile.Identity{Cluster: cluster, Layout: "l", Key: "k"}, users: newUsers(), log: slog.New(slog.DiscardHandler)}
	f.users.serves("order")
	f.users.record("user", "")
	must.Report(t, f.strike())
	must.Is(t, must.Err(os.Stat(f.path())), os.ErrNotExist, "the file")
	file := must.Get(statefile.Open(f.dir, f.name, f.identity))(t)
	list := "order=" + shapeHash("shape")
	must.Do(t, errors.Join(file.Store(statefile.State{Token: "t", Users: list + ",user=" + shapeHash("shape")}), file.Close(), f.strike()))
	if _, saved, err := statefile.Peek(f.dir, f.name); saved.Users != list || err != nil {
		t.Errorf("it lists %q, %v", saved.Users, err)
	}
	for _, m := range []machineid.Member{{First: 1, Last: 9}, {First: -9, Last: -1}} { // which must not have machine ID 0
		if saved, err := f.open(&m); saved != nil || err != nil || f.kept.Token != "" {
			t.Errorf("%d to %d: %+v, %v", m.First, m.Last, saved, err)
		}
	}
	f.users.record("order", "")
	must.Do(t, os.MkdirAll(f.path()+".tmp/x", 0o700)) // so that nothing can be written
	must.Is(t, must.Err(f.open(&machineid.Member{})), errFile)
	must.Do(t, os.RemoveAll(f.path()+".tmp"))
	saved, err := f.open(&machineid.Member{})
	if err != nil || saved == nil {
		t.Fatalf("%v, %v", saved, err)
	}
	_ = f.handle.Close()
	if _, saved, err := statefile.Peek(f.dir, f.name); saved.Users != "" || err != nil {
		t.Errorf("after it was opened it lists %q, %v", saved.Users, err)
	}
	must.Do(t, os.WriteFile(f.path(), []byte("x"), 0o600))
	must.Report(t, f.strike()) // nobody can start from it
}

// TestFileInUse checks that a node says what it cannot do while another process uses its file.
func TestFileInUse(t *testing.T) {
	for _, used := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, dir := newRegistry(false), t.TempDir()
			var log strings.Builder
			s := instance(t, r, "1", func(s *Settings) { s.OfflineStart, s.StateDir = time.Hour, dir })
			s.held().env.Log = slog.New(slog.NewTextHandler(&log, nil))
			if used {
				file := must.Get(statefile.Open(dir, s.held().file.name, s.held().file.identity))(t)
				defer file.Close()
				must.Do(t, file.Store(statefile.State{Token: "t"}))
			}
			s.OnRecord("")
			must.Equal(t, strings.Contains(log.String(), "still lists a biz type"), used, "used %t: the warning is in %q", used, log.String())
			if err := s.Init(t.Context(), true); (err != nil) != used || used && !strings.Contains(err.Error(), "stateDir: ") {
				t.Errorf("used %t: %v", used, err)
			}
			_ = s.Close(t.Context())
			without := instance(t, r, "1", func(s *Settings) { s.StateDir = dir })
			closes(t, without)
			if err := without.Init(t.Context(), true); (err != nil) != used {
				t.Errorf("used %t, offlineStart is off: %v", used, err)
			}
		})
	}
}

// TestFileThatCannotBeWritten checks that a node uses no lease that is not in its file, and does
// not release its machine ID while the file stands for it.
func TestFileThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry(false)
		s := instance(t, r, "1", func(s *Settings) { s.OfflineStart = time.Minute })
		var log testlog.Text
		s.held().env.Log = slog.New(slog.NewTextHandler(&log, nil))
		must.Do(t, s.Init(t.Context(), true))
		if s.OnRecord(""); strings.Contains(log.String(), "still lists a biz type") {
			t.Errorf("logged %s", log.String()) // the holder has the file, and updates it
		}
		must.Do(t, os.Remove(s.held().file.path()+".lock")) // it is not ours any more
		time.Sleep(500 * time.Millisecond)
		s.OnRecord("shape")
		time.Sleep(time.Second)
		if d := s.Degraded(); d == nil || d.Code != seqd.CodeNoMachineID || !strings.HasPrefix(d.Detail, "stateDir: ") {
			t.Errorf("degraded: %v", d)
		}
		time.Sleep(4 * time.Second)
		cannot(t, s, seqd.CodeNoMachineID)
		must.Do(t, s.Close(t.Context()))
		if slot := slots(t, s, r).Slots[0]; slot.Token == "" {
			t.Error("the machine ID is free, and the file says that it is not")
		}
		for _, said := range []string{"could not be written", "lists biz types that it must not", "could not be released"} {
			if !strings.Contains(log.String(), said) {
				t.Errorf("logged %s, not %q", &log, said)
			}
		}
	})
}

// TestUsersWithoutShape checks that files written before shapes were recorded list nothing.
func TestUsersWithoutShape(t *testing.T) {
	users := parseUsers("order,user=" + shapeHash("shape") + ",odd=")
	if len(users) != 1 || users["user"] != shapeHash("shape") {
		t.Errorf("got %v", users)
	}
}

// TestManyUsers checks that the list always fits into the file, and fills it.
func TestManyUsers(t *testing.T) {
	u := newUsers()
	for range 200 {
		u.hashes[machineid.Drawn()[:30]] = shapeHash("shape") // 64 bytes in the list, with = and a comma
	}
	names := u.names()
	if len(names) > mostUsers || len(parseUsers(names)) != mostUsers/64 {
		t.Errorf("%d names in %d bytes", len(parseUsers(names)), len(names))
	}
	f := must.Get(statefile.Open(filepath.Join(t.TempDir(), "state"), "f", statefile.Identity{Cluster: cluster, Layout: "l", Key: "k"}))(t)
	defer f.Close()
	must.Report(t, f.Store(statefile.State{Token: "t", Users: names}))
}
