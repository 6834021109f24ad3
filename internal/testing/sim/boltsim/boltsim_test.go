package boltsim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/boltsim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
)

// life is one life of a node.
type life struct {
	*testing.T
	path  string
	store *bolt.Store
	users sync.WaitGroup

	mu    sync.Mutex // guards what follows
	heard bool       // somebody hears the node
	taken *int64     // the highest number that somebody got of any life
}

func begin(t *testing.T, path string, taken *int64) *life {
	t.Helper()
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	return &life{T: t, path: path, store: store, heard: true, taken: taken}
}

// load takes numbers until the store is closed, and keeps what was issued.
func (l *life) load() {
	ctx := context.Background()
	for i := range 4 {
		l.users.Go(func() {
			for n := 0; ; n++ {
				r, err := l.store.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 3})
				if errors.Is(err, persist.ErrClosed) {
					return
				}
				id := fmt.Sprint(l.path, i, n)
				_, claimed := l.store.Answers().Claim(ctx, id, "claim", time.Minute)
				_, swapped := l.store.Answers().Swap(ctx, id, "claim", "answer", time.Hour)
				record := persist.HistoryRecord{ID: persist.HistoryID(1, uint64(i), uint64(n)), BizType: "order", Time: 1, First: r.First, Last: r.Last, Count: 3}
				appended := l.store.History().Append(ctx, []persist.HistoryRecord{record})
				if closed(claimed) || closed(swapped) || closed(appended) {
					return
				}
				if err := errors.Join(err, claimed, swapped, appended); err != nil {
					l.Error(err)
					return
				}
				l.hear(r)
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func closed(err error) bool { return errors.Is(err, persist.ErrClosed) }

// hear notes a range that somebody got.
func (l *life) hear(r persist.Range) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard {
		*l.taken = max(*l.taken, r.Last)
	}
}

// kill copies the files at the moment of the kill. Nobody hears the node any more, and it goes on.
func (l *life) kill(to string) {
	l.Helper()
	l.mu.Lock()
	l.heard = false
	l.mu.Unlock()
	must.Do(l, boltsim.Copy(l.path, to))
}

func (l *life) end() {
	l.Helper()
	must.Report(l, l.store.Close())
	l.users.Wait()
}

// check checks a copy as bbolt does.
func check(t *testing.T, path string) {
	t.Helper()
	for _, file := range append([]string{path, path + "-history"}, glob(t, path+"-answers/*")...) {
		db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must.Do(t, err)
		err = db.View(func(tx *bbolt.Tx) error {
			for err := range tx.Check() {
				t.Errorf("%s: %v", file, err)
			}
			return nil
		})
		must.Report(t, errors.Join(err, db.Close()))
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	return must.Get(filepath.Glob(pattern))(t)
}

// A node is killed again and again, under load. Each next life has everything that anybody heard of, and
// the dead ones go on without harm.
func TestLives(t *testing.T) {
	dir := t.TempDir()
	path := func(n int) string { return filepath.Join(dir, fmt.Sprint("life", n), "seqd.db") }
	synctest.Test(t, func(t *testing.T) {
		const lives = 5
		var all []*life
		var taken int64
		for n := range lives {
			l := begin(t, path(n), &taken)
			all = append(all, l)
			if n == 0 {
				must.Do(t, l.store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 1}))
			}
			m, err := l.store.Counters().Read(t.Context(), "order")
			if err != nil || m.Max < taken {
				t.Errorf("life %d begins at %d, %v; others got %d", n, m.Max, err, taken)
			}
			l.load()
			time.Sleep(time.Duration(5+n) * time.Millisecond)
			must.Do(t, os.Mkdir(filepath.Dir(path(n+1)), 0o700))
			l.kill(path(n + 1))
			check(t, path(n+1))
		}
		for _, l := range all {
			l.end()
			check(t, l.path)
		}
		if taken == 0 || len(glob(t, path(lives)+"*")) != 3 {
			t.Errorf("up to %d, and the last copy is %q", taken, glob(t, path(lives)+"*"))
		}
	})
}

// A copy replaces what is there, and a store that was never opened cannot be copied.
func TestCopyReplaces(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must.Is(t, boltsim.Copy(from, to), os.ErrNotExist)
	for _, name := range []string{"b-history", "a", "a-history"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	must.Do(t, os.MkdirAll(to+"-answers", 0o700))
	must.Do(t, boltsim.Copy(from, to))
	got, err := os.ReadFile(to + "-history")
	if string(got) != "a-history" || err != nil || len(glob(t, to+"*")) != 2 {
		t.Errorf("%q, %v, %q", got, err, glob(t, to+"*"))
	}
}
