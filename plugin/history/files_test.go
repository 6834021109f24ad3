package history

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/plugin"
)

func openAt(t testing.TB, path string, log *testlog.Text, change func(*files)) *files {
	t.Helper()
	if log == nil {
		log = &testlog.Text{}
	}
	s := DefaultSettings()
	s.To, s.File.Path = ToFile, path
	f := must.Get(openFiles(s, slog.New(slog.NewTextHandler(log, nil))))(t)
	if change != nil {
		change(f)
	}
	t.Cleanup(f.close)
	return f
}

// lines returns records; record n has the time n.
func lines(from, to int64) (list []persist.HistoryRecord) {
	for n := from; n <= to; n++ {
		list = append(list, persist.HistoryRecord{ID: persist.HistoryID(n, 7, uint64(n)), BizType: "order", Time: n, First: n, Last: n, Count: 1})
	}
	return list
}

func write(t testing.TB, f *files, records []persist.HistoryRecord) {
	t.Helper()
	must.Do(t, f.Append(context.Background(), records))
}

func oldFiles(t testing.TB, f *files) []older {
	t.Helper()
	return must.Get(f.olderFiles())(t)
}

// TestFilesConformance runs the suite for histories on files of any size, down to one batch per
// file.
func TestFilesConformance(t *testing.T) {
	for _, size := range []int64{1, 5000, 1 << 30} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			persisttest.RunHistory(t, true, func(t *testing.T) (persist.HistoryStore, func() error) {
				f := openAt(t, filepath.Join(t.TempDir(), "a", "history.jsonl"), nil, func(f *files) { f.maxSize = size })
				return f, func() error {
					f.close()
					return nil
				}
			})
		})
	}
}

func TestFilesRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f := openAt(t, path, nil, func(f *files) { f.maxSize, f.maxFiles = 2000, 3 })
	for n := int64(1); n <= 200; n += 4 {
		write(t, f, lines(n, n+3))
	}
	list := oldFiles(t, f)
	if len(list) != 3 {
		t.Fatalf("%d older files", len(list))
	}
	for _, o := range list {
		if info, err := os.Stat(o.path); err != nil || info.Size() > 2000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%+v: %v, %v", o, info, err)
		}
	}
	got := kept(t, f, "order")
	if len(got) < 20 || got[0] != 200 || got[len(got)-1] != list[0].from {
		t.Errorf("%d records, %v", len(got), got)
	}
	// A file stays if any of its records is not too old.
	must.Get(f.Purge(t.Context(), "order", list[1].last, 500))(t)
	if left := oldFiles(t, f); len(left) != 2 || left[0] != list[1] {
		t.Errorf("left are %v of %v", left, list)
	}
	must.Get(f.Purge(t.Context(), "order", 1000, 500))(t)
	if got := kept(t, f, "order"); len(got) != 0 || len(oldFiles(t, f)) != 0 {
		t.Errorf("left are %v", got)
	}
}

// TestFilesRotateByTime checks that no file spans more than a tenth of the retention.
func TestFilesRotateByTime(t *testing.T) {
	f := openAt(t, filepath.Join(t.TempDir(), "history.jsonl"), nil, func(f *files) { f.maxSpan = 10 })
	for n := int64(1); n <= 100; n++ {
		write(t, f, lines(n, n))
	}
	for _, o := range oldFiles(t, f) {
		if o.last-o.from > 10 {
			t.Errorf("%+v", o)
		}
	}
	once(t, kept(t, f, "order"), 100)
}

// TestFilesTorn cuts the last write at every position. Earlier and later records must be readable,
// and the damage reported.
func TestFilesTorn(t *testing.T) {
	dir := t.TempDir()
	f := openAt(t, filepath.Join(dir, "history.jsonl"), nil, nil)
	write(t, f, lines(1, 3))
	f.close()
	whole := must.Get(os.ReadFile(f.path))(t)
	begins := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := begins; cut <= len(whole); cut++ {
		path, log := filepath.Join(dir, fmt.Sprint("cut", cut)), &testlog.Text{}
		must.Do(t, os.WriteFile(path, whole[:cut], 0o600))
		f := openAt(t, path, log, nil)
		write(t, f, lines(10, 10))
		got, want := fmt.Sprint(kept(t, f, "order")), "[10 2 1]"
		if cut >= len(whole)-1 {
			want = "[10 3 2 1]" // everything except the line break
		}
		must.Equal(t, got, want, "cut at %d", cut)
		if reported := log.Count("cannot be read") > 0; reported != (cut > begins && cut < len(whole)-1) {
			t.Errorf("cut at %d: logged %q", cut, log.String())
		}
		f.close()
	}
}

// TestFilesDamaged checks that lines that only look like records are left out, and that a page is
// full nevertheless.
func TestFilesDamaged(t *testing.T) {
	path, log := filepath.Join(t.TempDir(), "history.jsonl"), &testlog.Text{}
	f := openAt(t, path, log, nil)
	write(t, f, lines(1, 9))
	f.close()
	text := must.Get(os.ReadFile(path))(t)
	text = bytes.Replace(text, []byte(`"time":8`), []byte(`"time:8`), 1)
	text = bytes.Replace(text, []byte(`"time":6`), []byte(`"time":5`), 1)
	text = append(text, "something else\n\n{}\n"+strings.Repeat("x", 3*longestLine)+"\n"...)
	must.Do(t, os.WriteFile(path, text, 0o600))
	f = openAt(t, path, log, nil)
	list, err := f.List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 5})
	if err != nil || len(list) != 5 || list[0].First != 9 || list[4].First != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	must.Equal(t, log.Count("lines=6"), 1, "logged %s", log.String())
}

// TestFilesMovedAway checks that a new file is started if a tool moved the current one away.
func TestFilesMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	f := openAt(t, path, nil, nil)
	write(t, f, lines(1, 3))
	must.Do(t, os.Rename(path, path+".old"))
	write(t, f, lines(4, 5))
	must.Equal(t, fmt.Sprint(kept(t, f, "order")), "[5 4]")
}

// TestFilesFailedWrite checks that a failed write is repeated at the same place.
func TestFilesFailedWrite(t *testing.T) {
	f := openAt(t, filepath.Join(t.TempDir(), "history.jsonl"), nil, nil)
	write(t, f, lines(1, 3))
	readOnly := must.Get(os.Open(f.path))(t)
	f.file, readOnly = readOnly, f.file
	must.Is(t, f.Append(t.Context(), lines(4, 6)), persist.ErrUnavailable, "written to a file that cannot be")
	f.file, readOnly = readOnly, f.file
	must.Get(f.file.WriteAt([]byte(`{"v":1,"id":"half a line`), f.size))(t)
	write(t, f, lines(4, 6))
	once(t, kept(t, f, "order"), 6)
	_ = readOnly.Close()
}

// TestFilesLocked checks that two processes cannot write to one file, where they would overwrite
// each other.
func TestFilesLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	file := func(s *Settings) { s.To, s.File.Path = ToFile, path }
	store := memory.New(nil)
	a, b := startAs(t, "a", store, nil, file), startAs(t, "b", store, nil, file)
	s := DefaultSettings()
	file(&s)
	s.Batch = 3
	_, err := New(plugin.Env{Store: store, Log: slog.Default()}, seqd.BizType{Name: "c"}, seqd.PluginBinding{Settings: &s})
	if err == nil || !strings.Contains(err.Error(), "file.path") || !strings.Contains(err.Error(), path) {
		t.Errorf("opened twice: %v", err)
	}
	for _, p := range []*Plugin{a, b} {
		must.Do(t, issue(t.Context(), p, 1))
		stop(t, p)
	}
	f := openAt(t, path, nil, nil)
	once(t, kept(t, f, "a"), 1)
	once(t, kept(t, f, "b"), 1)
}

// FuzzFiles checks that reading any file neither fails nor invents records, and that a line written
// after the content is found.
func FuzzFiles(f *testing.F) {
	made := openAt(f, filepath.Join(f.TempDir(), "made"), nil, nil)
	write(f, made, lines(1, 2))
	good := must.Get(os.ReadFile(made.path))(f)
	for _, seed := range [][]byte{good, good[:len(good)-1], good[:len(good)-20], bytes.Replace(good, []byte("\n"), nil, 1), []byte("\n\n{}")} {
		f.Add(seed)
	}
	query := persist.HistoryQuery{BizType: "order", Limit: 5}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := must.Get(newFinding(query))(t)
		list := search(t, s, data)
		for i, r := range list {
			if r.BizType != "order" || r.Validate() != nil || i > 0 && r.ID >= list[i-1].ID || len(list) > query.Limit {
				t.Errorf("%+v", list)
			}
		}
		last := bytes.Replace(good[:bytes.IndexByte(good, '\n')+1], []byte(persist.HistoryID(1, 7, 1)), []byte(persist.HistoryID(1<<48-1, 1<<64-1, 1<<48-1)), 1)
		last = bytes.Replace(last, []byte(`"time":1,`), []byte(`"time":281474976710655,`), 1)
		list = search(t, s, slices.Concat(data, []byte("\n"), last))
		if len(list) == 0 || list[0].Time != 1<<48-1 {
			t.Fatalf("%+v", list)
		}
	})
}

// search does what List does with one file.
func search(t *testing.T, s *finding, text []byte) []persist.HistoryRecord {
	for {
		s.entries, s.unreadable = nil, 0
		must.Do(t, s.look(bytes.NewReader(text), -1))
		if list, ok := s.records(); ok {
			return list
		}
	}
}

// TestFilesAreHistory checks that what is not a file of history is neither written nor removed,
// whatever its name is.
func TestFilesAreHistory(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	file := func(name, text string) string {
		must.Do(t, os.WriteFile(in(name), []byte(text), 0o600))
		return in(name)
	}
	held := openAt(t, in("held.jsonl"), nil, nil)
	write(t, held, lines(1, 1))
	mine := file("seqd.db", "a store")
	empty := file("empty.db", "")
	outside := filepath.Join(t.TempDir(), "other")
	for link, to := range map[string]string{"link": mine, "away": outside, "gone": in("none")} {
		must.Do(t, os.Symlink(to, in(link)))
	}
	for link, to := range map[string]string{"hard": held.path, "store": empty} {
		must.Do(t, os.Link(to, in(link)))
	}
	for _, path := range []string{mine, in("link"), in("away"), in("gone"), in("hard"), in("store"), dir, file("text", "a text\n"), outside} {
		s := DefaultSettings()
		s.To, s.File.Path = ToFile, path
		s.Confine(&seqd.Reach{Folder: dir, Store: in("seqd.db"), Own: []string{empty}})
		f, err := openFiles(s, slog.New(slog.DiscardHandler))
		if err == nil {
			f.close()
			t.Errorf("%s was opened", path)
		}
	}
	must.Equal(t, string(must.Get(os.ReadFile(mine))(t)), "a store")
	f := openAt(t, in("h"), nil, func(f *files) { f.maxFiles = 1 })
	foreign := file("h.000000000000001-000000000000002-000", "a key")
	write(t, f, lines(5, 5))
	must.Get(f.Purge(t.Context(), "order", 1000, 500))(t)
	if _, err := os.Stat(foreign); err != nil || len(oldFiles(t, f)) != 1 {
		t.Errorf("what is not history: %v; older files %v", err, oldFiles(t, f))
	}
}
