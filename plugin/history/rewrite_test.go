package history

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// mixed returns records of two biz types and three callers; record n has the time n.
func mixed(from, to int64) []persist.HistoryRecord {
	list := lines(from, to)
	for i := range list {
		list[i].BizType = []string{"order", "orders"}[list[i].First%2]
		list[i].Caller = []string{"shop", "till", ""}[list[i].First%3]
	}
	return list
}

// eraseAll removes records from all files.
func eraseAll(t testing.TB, f *files, e *erasure) (n int) {
	t.Helper()
	for after, more := "", true; more; {
		var one int
		var err error
		one, after, more, err = f.erase(context.Background(), e, after)
		must.Do(t, err)
		n += one
	}
	return n
}

// What is named is removed from all files, and nothing else. Later records are written behind what
// is left, and all is as it was after the next start.
func TestFilesErase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f := openAt(t, path, nil, func(f *files) { f.maxSize = 2000 })
	for n := int64(1); n <= 120; n += 4 {
		write(t, f, mixed(n, n+3))
	}
	older := len(oldFiles(t, f))
	till := "till"
	must.Equal(t, eraseAll(t, f, &erasure{"order", 100, &wanted{caller: &till}}), 16, "the records of till before 100") // 4, 10 to 94
	must.Equal(t, eraseAll(t, f, &erasure{"order", 100, &wanted{caller: &till}}), 0, "the records of a repetition")
	must.Equal(t, eraseAll(t, f, &erasure{"none", 0, &wanted{}}), 0, "the records of another biz type")
	must.Equal(t, len(oldFiles(t, f)), older, "the older files")
	check := func(f *files, want string) {
		t.Helper()
		for name, most := range map[string]int{"order": 60 - 16, "orders": 60} {
			if got := kept(t, f, name); len(got) != most {
				t.Errorf("%s: %d records of %s are left, want %d", want, len(got), name, most)
			}
		}
	}
	check(f, "before a start")
	f.close()
	f = openAt(t, path, nil, nil)
	check(f, "after a start")
	must.Equal(t, eraseAll(t, f, &erasure{"order", 0, &wanted{}}), 44, "all others")
	must.Equal(t, eraseAll(t, f, &erasure{"orders", 0, &wanted{}}), 60, "all of the other biz type")
	must.Equal(t, len(oldFiles(t, f)), 0, "the older files of nothing")
	write(t, f, lines(200, 203))
	must.Equal(t, len(kept(t, f, "order")), 4, "the records that came later")
}

// What others write, and other files that begin, while records are removed is kept.
func TestFilesEraseWhileWriting(t *testing.T) {
	f := openAt(t, filepath.Join(t.TempDir(), "history.jsonl"), nil, func(f *files) { f.maxSize = 20_000 })
	write(t, f, lines(1, 100))
	stop, running := make(chan struct{}), sync.WaitGroup{}
	written := int64(100)
	running.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			write(t, f, lines(written+1, written+3))
			written += 3
		}
	})
	nobody := "nobody"
	for i := range 8 {
		eraseAll(t, f, &erasure{"order", int64(i) + 1, &wanted{}})
		eraseAll(t, f, &erasure{"order", 0, &wanted{caller: &nobody}})
	}
	close(stop)
	running.Wait()
	got := kept(t, f, "order")
	if len(got) != int(written)-7 || got[0] != written || got[len(got)-1] != 8 {
		t.Errorf("%d records are left of %d, from %d to %d", len(got), written, got[len(got)-1], got[0])
	}
}

// A crash at any point leaves the old file or the new one, and the rest of a rewriting goes away.
func TestFilesEraseCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f := openAt(t, path, nil, nil)
	write(t, f, lines(1, 9))
	f.close()
	text := must.Get(os.ReadFile(path))(t)
	for cut := 0; cut < len(text); cut += 61 {
		must.Do(t, os.WriteFile(path+rewritingEnd, text[:cut], 0o600))
		f := openAt(t, path, nil, nil)
		if _, err := os.Lstat(path + rewritingEnd); !errors.Is(err, os.ErrNotExist) || len(kept(t, f, "order")) != 9 {
			t.Fatalf("%d bytes: %v", cut, err)
		}
		f.close()
	}
}

// A damaged line of the biz type is removed too, others stay, and the file stays one of history.
func TestFilesEraseDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f := openAt(t, path, nil, nil)
	write(t, f, lines(1, 2))
	f.close()
	text := strings.SplitAfter(string(must.Get(os.ReadFile(path))(t)), "\n")
	newer := `{"v":2,"id":"x"}` + "\n"
	long := `{"v":1,` + strings.Repeat("x", 3*longestLine) + "\n"
	torn := text[0][:len(text[0])-9] + "\n"
	must.Do(t, os.WriteFile(path, []byte(text[0]+"\x00\x00\n"+strings.Repeat("y", 2*longestLine)+"\n"+torn+newer+long+text[1]), 0o600))
	f = openAt(t, path, nil, nil)
	must.Equal(t, eraseAll(t, f, &erasure{"order", 2, &wanted{}}), 1, "the readable records")
	must.Equal(t, string(must.Get(os.ReadFile(path))(t)), newer+long+text[1], "what is left")
	write(t, f, lines(3, 3))
	f.close()
	must.Equal(t, len(kept(t, openAt(t, path, nil, nil), "order")), 2, "the records after a start")
}

// A plugin says that its history is in files, and a request that cannot write changes nothing.
func TestEraseInFiles(t *testing.T) {
	dir := t.TempDir()
	p := start(t, memory.New(time.Now), nil, func(s *Settings) {
		s.To, s.File.Path, s.FlushInterval = ToFile, filepath.Join(dir, "h.jsonl"), time.Millisecond
	})
	for n := range int64(3) {
		must.Do(t, issue(t.Context(), p, n+1))
	}
	for len(kept(t, p.pipe.store, "order")) < 3 {
		time.Sleep(time.Millisecond)
	}
	of := url.Values{"caller": {"shop"}}
	must.Do(t, os.Mkdir(filepath.Join(dir, "h.jsonl"+rewritingEnd), 0o700))
	if _, err := p.Erase(t.Context(), of); err == nil || !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	must.Equal(t, len(kept(t, p.pipe.store, "order")), 3, "the records after a failure")
	must.Do(t, os.Remove(filepath.Join(dir, "h.jsonl"+rewritingEnd)))
	must.Equal(t, fmt.Sprintf("%+v", must.Get(p.Erase(t.Context(), of))(t)), "{BizType:order Count:3 Next: Files:true}", "the answer")
	if _, err := p.Erase(t.Context(), url.Values{"caller": {"shop"}, "after": {persist.HistoryID(1, 1, 1)}}); err == nil || !strings.Contains(err.Error(), "another node") {
		t.Errorf("%v", err)
	}
	stop(t, p)
}
