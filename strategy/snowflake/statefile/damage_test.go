package statefile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestForeign(t *testing.T) {
	for name, change := range map[string]func(i *Identity){
		"cluster": func(i *Identity) { i.Cluster = strings.Repeat("0", 32) },
		"layout":  func(i *Identity) { i.Layout = "another" },
		"key":     func(i *Identity) { i.Key = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			first := open(t, dir)
			store(t, first, sample().state)
			must.Do(t, first.Close())
			identity := sample().identity
			change(&identity)
			f := must.Get(Open(dir, fileName, identity))(t)
			refuses(t, f, ErrForeign, name)
			must.Do(t, f.Close())
			wants(t, dir, sample().state)
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text := must.Get(os.ReadFile(from))(t)
	must.Do(t, os.WriteFile(to, text, 0o600))
}

func TestCopied(t *testing.T) {
	move := func(t *testing.T, from, to string) {
		t.Helper()
		must.Do(t, os.Rename(from, to))
	}
	for name, restore := range map[string]func(t *testing.T, path, elsewhere string){
		"back, over the file":       func(t *testing.T, path, elsewhere string) { copyFile(t, elsewhere, path) },
		"moved over the file":       func(t *testing.T, path, elsewhere string) { move(t, elsewhere, path) },
		"back, as the file is gone": func(t *testing.T, path, elsewhere string) { _ = os.Remove(path); copyFile(t, elsewhere, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for stores := 1; stores < 5; stores++ { // inodes are reused in turn
				f := open(t, dir)
				s := sample().state
				s.Token = fmt.Sprint(stores)
				store(t, f, s)
				elsewhere := f.path + ".bak"
				copyFile(t, f.path, elsewhere)
				for range stores {
					// file systems know the time of birth to a tick of the kernel
					time.Sleep(10 * time.Millisecond)
					s.Until++
					store(t, f, s)
				}
				r := must.Get(f.read())(t)
				if r.inode.born == 0 && stores > 1 {
					t.Log("the file system has no time of birth: a copy in the same inode is not noticed")
					return
				}
				restore(t, f.path, elsewhere)
				refuses(t, f, ErrCopied, "inode")
				must.Do(t, f.Close())
			}
		})
	}
	t.Run("to another folder and name", func(t *testing.T) {
		f, dir := open(t, t.TempDir()), t.TempDir()
		store(t, f, sample().state)
		copyFile(t, f.path, filepath.Join(dir, "another"))
		copied := must.Get(Open(dir, "another", sample().identity))(t)
		defer copied.Close()
		refuses(t, copied, ErrCopied, "inode")
	})
	t.Run("hard link", func(t *testing.T) {
		f := open(t, t.TempDir())
		store(t, f, sample().state)
		must.Do(t, os.Link(f.path, f.path+".bak"))
		refuses(t, f, ErrCopied, "2 names")
	})
	t.Run("hard link, moved back while in use", func(t *testing.T) {
		f := open(t, t.TempDir())
		s := sample().state
		store(t, f, s)
		must.Do(t, os.Link(f.path, f.path+".bak"))
		s.Until++
		store(t, f, s)
		must.Do(t, os.Rename(f.path+".bak", f.path))
		refuses(t, f, ErrCopied, "stored last")
	})
}

func TestDamaged(t *testing.T) {
	f := open(t, t.TempDir())
	store(t, f, sample().state)
	whole := must.Get(os.ReadFile(f.path))(t)
	write := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(f.path, text, 0o600); err != nil { // this keeps the inode
			t.Fatal(err)
		}
	}
	for size := len(whole) - 1; size > 0; size-- {
		write(whole[:size])
		refuses(t, f, ErrDamaged, "")
	}
	write(nil)
	refuses(t, f, ErrNone, "empty")
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		write(flipped)
		refuses(t, f, ErrDamaged, "")
	}
	write(seal([]byte("# later\nformat=2\n")))
	refuses(t, f, ErrNewer, "format 2")
	write([]byte(strings.Repeat("x", maxSize+1)))
	refuses(t, f, ErrDamaged, "larger")
	write(whole)
	must.Equal(t, must.Get(f.Load())(t), sample().state, "whole again")
	write(whole[1:])
	store(t, f, sample().state)
	must.Equal(t, must.Get(f.Load())(t), sample().state, "stored over the damaged one")
	must.Do(t, os.Rename(f.path, f.path+".real"))
	must.Do(t, os.Symlink(f.path+".real", f.path))
	refuses(t, f, ErrDamaged, "regular")
}
