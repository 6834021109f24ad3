package statefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

const fileName = "shop:8080:167772161.properties"

func open(t *testing.T, dir string) *File {
	t.Helper()
	f := must.Get(Open(dir, fileName, sample().identity))(t)
	t.Cleanup(func() {
		must.Report(t, f.Close())
	})
	return f
}

func store(t *testing.T, f *File, s State) {
	t.Helper()
	must.Do(t, f.Store(s))
}

// wants checks what a new File loads.
func wants(t *testing.T, dir string, want State) {
	t.Helper()
	f := open(t, dir)
	must.Equal(t, must.Get(f.Load())(t), want)
	must.Report(t, f.Close())
}

// refuses checks that Load returns an error that names the file. It calls Load twice, because Load
// must not change anything.
func refuses(t *testing.T, f *File, want error, words string) {
	t.Helper()
	for range 2 {
		s, err := f.Load()
		if !errors.Is(err, want) || s != (State{}) || !strings.Contains(err.Error(), f.path) || !strings.Contains(err.Error(), words) {
			t.Errorf("got %+v, %v; want %v, %s", s, err, want, words)
		}
	}
}

func TestStoreAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "some", "data")
	f := open(t, dir)
	refuses(t, f, ErrNone, "")
	s := sample().state
	store(t, f, s)
	s.Until++
	store(t, f, s)
	must.Equal(t, must.Get(f.Load())(t), s)
	for path, mode := range map[string]os.FileMode{dir: 0o700, filepath.Dir(dir): 0o700, f.path: 0o600, f.path + ".lock": 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	must.Report(t, errors.Join(f.Close(), f.Close()))
	must.Is(t, must.Err(f.Load()), ErrClosed, "load after close")
	must.Is(t, f.Store(s), ErrClosed, "store after close")
	must.Is(t, f.Invalidate(), ErrClosed, "invalidate after close")
	wants(t, dir, s)
}

func TestNothingGoesDown(t *testing.T) {
	for _, name := range []string{"stored", "loaded", "neither"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := open(t, dir)
			s := sample().state
			store(t, f, s)
			if name != "stored" {
				must.Do(t, f.Close())
				f = open(t, dir)
			}
			if name == "loaded" {
				must.Get(f.Load())(t)
			}
			for field, lower := range map[string]func(s *State){
				"until":    func(s *State) { s.Until-- },
				"reserved": func(s *State) { s.Reserved-- },
				"progress": func(s *State) { s.Progress-- },
			} {
				less := s
				lower(&less)
				if err := f.Store(less); !errors.Is(err, ErrLowered) || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), f.path) {
					t.Errorf("%s: %v", field, err)
				}
			}
			must.Equal(t, must.Get(f.Load())(t), s)
			store(t, f, s)
			fresh := State{MachineID: 1, Token: "another", Lower: 1, Until: 1}
			store(t, f, fresh)
			store(t, f, s) // that token is new again
		})
	}
}

func TestInvalid(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for name, change := range map[string]func(s *State){
		"machineId": func(s *State) { s.MachineID = -1 },
		"lower":     func(s *State) { s.Lower = -1 },
		"until":     func(s *State) { s.Until = s.Lower - 1 },
		"progress":  func(s *State) { s.Progress = -1 },
		"token":     func(s *State) { s.Token = "" },
	} {
		s := sample().state
		change(&s)
		if err := f.Store(s); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(i *Identity){
		"cluster": func(i *Identity) { i.Cluster = "0011" },
		"layout":  func(i *Identity) { i.Layout = "" },
		"key":     func(i *Identity) { i.Key = "\xff" },
	} {
		identity := sample().identity
		change(&identity)
		if _, err := Open(dir, "another", identity); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a/b", "/", "../a"} {
		must.Is(t, must.Err(Open(dir, name, sample().identity)), ErrInvalid, "name %q", name)
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	_, err := Open(dir, fileName, sample().identity)
	if want := fmt.Sprintf("process %d", os.Getpid()); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), f.path) {
		t.Errorf("the second: %v", err)
	}
	if other, err := Open(dir, "another.properties", sample().identity); err != nil || other.Close() != nil {
		t.Errorf("another file: %v", err)
	}
	must.Do(t, f.Close())
	open(t, dir)
}

func TestInvalidate(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	must.Do(t, f.Invalidate())
	s := sample().state
	store(t, f, s)
	must.Do(t, os.Link(f.path, f.path+".bak"))
	for range 2 {
		must.Do(t, f.Invalidate())
		refuses(t, f, ErrNone, "")
	}
	must.Do(t, os.Rename(f.path+".bak", f.path))
	refuses(t, f, ErrNone, "empty")
	must.Is(t, f.Store(s), ErrReleased, "stored again")
	s.Token = "fresh"
	store(t, f, s)
	must.Do(t, f.Close())
	wants(t, dir, s)
}

// TestInvalidateWhatIsRefused checks that what Load refuses can be invalidated.
func TestInvalidateWhatIsRefused(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"newer":   func(path string) error { return os.WriteFile(path, seal([]byte("format=2\n")), 0o600) },
		"link":    func(path string) error { return os.Symlink("/nowhere", path) },
	} {
		f := open(t, t.TempDir())
		must.Do(t, put(f.path))
		if err := f.Invalidate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		refuses(t, f, ErrNone, "")
	}
}

// TestFailingSteps makes each step fail. Then the old state is intact, or the new one if it was
// already in place, and the next attempt succeeds.
func TestFailingSteps(t *testing.T) {
	failure := errors.New("the disk burns")
	for _, step := range []string{stepWrite, stepSync, stepRename, stepSyncDir, stepTruncate, stepRemove} {
		t.Run(step, func(t *testing.T) {
			f := open(t, t.TempDir())
			old := sample().state
			store(t, f, old)
			next := old
			next.Until += 10
			works := f.before
			f.before = func(s string) error {
				if s == step {
					return failure
				}
				return nil
			}
			switch step {
			case stepTruncate, stepRemove:
				if err := f.Invalidate(); !errors.Is(err, failure) || !strings.Contains(err.Error(), f.path) {
					t.Errorf("got %v", err)
				}
				f.before = works
				must.Is(t, f.Store(old), ErrReleased, "stored again")
				must.Report(t, f.Invalidate())
				refuses(t, f, ErrNone, "")
				return
			}
			if err := f.Store(next); !errors.Is(err, failure) || !strings.Contains(err.Error(), f.path) {
				t.Errorf("got %v", err)
			}
			want := old
			if step == stepSyncDir {
				want = next
				must.Is(t, f.Store(old), ErrLowered, "went back")
			}
			must.Equal(t, must.Get(f.Load())(t), want)
			must.Is(t, must.Err(os.Lstat(f.path+".tmp")), os.ErrNotExist, "the temporary file")
			f.before = works
			store(t, f, next)
		})
	}
}

func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	for _, name := range []string{path + ".tmp", path + ".other"} {
		must.Do(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	open(t, dir)
	must.Is(t, must.Err(os.Lstat(path+".tmp")), os.ErrNotExist, "the temporary file")
	must.Report(t, must.Err(os.Lstat(path+".other")))
}

func TestMoved(t *testing.T) {
	for name, move := range map[string]func(dir string) error{
		"folder replaced": func(dir string) error { return errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)) },
		"folder copied": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.CopyFS(dir, os.DirFS(dir+".old")))
		},
		"folder removed": os.RemoveAll,
		"lock removed":   func(dir string) error { return os.Remove(filepath.Join(dir, fileName+".lock")) },
		"lock replaced": func(dir string) error {
			lock := filepath.Join(dir, fileName+".lock")
			return errors.Join(os.WriteFile(lock+"2", nil, 0o600), os.Rename(lock+"2", lock))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			f := open(t, dir)
			s := sample().state
			store(t, f, s)
			must.Do(t, move(dir))
			refuses(t, f, ErrMoved, "")
			if err := f.Store(s); !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), f.path) {
				t.Errorf("store: %v", err)
			}
			if err := f.Invalidate(); !errors.Is(err, ErrMoved) || !strings.Contains(err.Error(), f.path) {
				t.Errorf("invalidate: %v", err)
			}
		})
	}
}

// TestMovedWhileStoring moves the folder between the check and the end.
func TestMovedWhileStoring(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	f := open(t, dir)
	store(t, f, sample().state)
	f.before = func(step string) error {
		if step == stepRename {
			return os.Rename(dir, dir+".old")
		}
		return nil
	}
	must.Is(t, f.Store(sample().state), ErrMoved)
}

func TestUnusableFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for what, c := range map[string]struct{ dir, name string }{
		"a file":        {file, fileName},
		"below a file":  {filepath.Join(file, "data"), fileName},
		"name too long": {dir, strings.Repeat("a", 251)},
	} {
		if _, err := Open(c.dir, c.name, sample().identity); err == nil || !strings.Contains(err.Error(), filepath.Join(c.dir, c.name)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f := must.Get(Open(dir, strings.Repeat("a", 250), sample().identity))(t)
	defer f.Close()
	store(t, f, sample().state) // Store accepts what Open accepts
}

func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var highest int64
	for worker := range 4 {
		wg.Go(func() {
			for i := range int64(25) {
				s := sample().state
				s.Until += i*4 + int64(worker)
				switch err := f.Store(s); {
				case err == nil:
					mu.Lock()
					highest = max(highest, s.Until)
					mu.Unlock()
				case !errors.Is(err, ErrLowered):
					t.Error(err)
				}
				if got, err := f.Load(); err != nil || got.Until < s.Until {
					t.Errorf("after %d: %+v, %v", s.Until, got, err)
				}
			}
		})
	}
	wg.Wait()
	s := sample().state
	s.Until = highest
	must.Do(t, f.Close())
	wants(t, dir, s)
}
