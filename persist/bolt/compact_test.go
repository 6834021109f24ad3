package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// bloated makes a closed store of which most pages are free, with a range of order that ends at 10.
func bloated(t *testing.T) (opts Options) {
	t.Helper()
	opts = Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: 50 * time.Millisecond, Now: time.Now, content: storeContent(), noSync: true}
	s := must.Get(Open(opts))(t)
	addCounter(t, s, "order")
	must.Get(allocate(t, s, 10))(t)
	for i := range 5 {
		doc := persist.Document{Kind: "answer", Key: fmt.Sprint(i), Revision: 1, Body: strings.Repeat("x", 1<<17), Expires: int64(1 + i)}
		must.Do(t, s.Documents().Create(t.Context(), doc))
	}
	if n, err := s.Documents().Purge(t.Context(), "answer", 5, 10); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	record := persist.HistoryRecord{ID: persist.HistoryID(1, 2, 3), BizType: "order", Time: 1, First: 1, Last: 1, Count: 1}
	must.Do(t, errors.Join(s.History().Append(t.Context(), []persist.HistoryRecord{record}), s.Close()))
	return opts
}

// holds checks that a store has what bloated put there.
func holds(t *testing.T, path string) {
	t.Helper()
	s := open(t, path)
	r, err := allocate(t, s, 1)
	if err != nil || r.First != 11 {
		t.Errorf("%s issues %v, %v", path, r, err)
	}
	must.Equal(t, len(must.Get(s.Documents().Read(t.Context(), "answer", "4"))(t).Body), 1<<17, "%s", path)
	must.Equal(t, must.Get(s.Documents().Purge(t.Context(), "answer", 10, 10))(t), 1, "%s: purged", path)
	list, err := s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 10})
	if err != nil || len(list) != 1 {
		t.Errorf("%s: history %v, %v", path, list, err)
	}
	must.Report(t, s.Close())
}

func TestCompact(t *testing.T) {
	opts := bloated(t)
	link := filepath.Join(t.TempDir(), "link.db")
	must.Do(t, errors.Join(os.Symlink(opts.Path, link), os.Chmod(opts.Path, 0o640), os.WriteFile(opts.Path+compactSuffix, []byte("left"), 0o600)))
	size := func() int64 {
		info, err := os.Stat(opts.Path)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Fatal(info, err)
		}
		return info.Size()
	}
	if place := (&Settings{Path: "seqd.db"}).Place(); !filepath.IsAbs(place) {
		t.Errorf("the place is %s", place)
	}
	before := size()
	linked := opts
	linked.Path = link
	done, err := compactFile(linked)
	if err != nil || len(done) != 1 || done[0].Path != link || done[0].Before != before || done[0].After != size() || done[0].After > before/3 || done[0].Records != 4 {
		t.Fatalf("%+v, %v", done, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link has gone")
	}
	if done, err := compactFile(opts); err != nil || len(done) != 2 || done[1].Path != opts.Path+historySuffix || done[1].Records != 2 {
		t.Errorf("%+v, %v", done, err)
	}
	if left, err := filepath.Glob(opts.Path + "*" + compactSuffix); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	holds(t, opts.Path)
}

// Whenever it is killed, there is a whole file under the name.
func TestCompactKilled(t *testing.T) {
	opts := bloated(t)
	var left []string
	must.Get(compact(opts, func(step string) {
		dir := filepath.Join(t.TempDir(), step)
		must.Report(t, os.CopyFS(dir, os.DirFS(filepath.Dir(opts.Path))))
		left = append(left, filepath.Join(dir, "seqd.db"))
	}))(t)
	must.Equal(t, len(left), 4, "it went through %v", left)
	for _, path := range left {
		again := opts
		again.Path = path
		if _, err := compactFile(again); err != nil { // also where a file was left
			t.Error(err)
		}
		holds(t, path)
	}
}

// A compacted file does not fall back to less when a meta page rots.
func TestCompactedWithRottenMetaPage(t *testing.T) {
	for _, page := range []int64{0, 1} {
		opts := bloated(t)
		must.Get(compactFile(opts))(t)
		f, err := os.OpenFile(opts.Path, os.O_RDWR, 0)
		must.Do(t, err)
		_, err = f.WriteAt([]byte{0xff}, page*int64(os.Getpagesize())+16+40)
		must.Do(t, errors.Join(err, f.Close()))
		holds(t, opts.Path)
	}
}

func TestCompactRefuses(t *testing.T) {
	opts := bloated(t)
	missing := opts
	missing.Path += ".none"
	if done, err := compactFile(missing); !errors.Is(err, os.ErrNotExist) || len(done) != 0 || strings.Contains(err.Error(), "create") {
		t.Errorf("a file that is not there: %v, %v", done, err)
	}
	must.Is(t, must.Err(os.Stat(missing.Path)), os.ErrNotExist, "it was made")
	inTheWay := opts.Path + compactSuffix
	must.Do(t, os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700))
	if done, err := compactFile(opts); err == nil || len(done) != 0 || !strings.Contains(err.Error(), "remove "+inTheWay) {
		t.Errorf("a folder is in the way: %v, %v", done, err)
	}
	must.Do(t, os.RemoveAll(inTheWay))
	s := open(t, opts.Path)
	if done, err := compactFile(opts); err == nil || len(done) != 0 || !strings.Contains(err.Error(), "another process is using it") {
		t.Errorf("a file in use: %v, %v", done, err)
	}
	must.Do(t, s.Close())
	// A process that waited for the lock must not go on with the file that was replaced.
	waiting := make(chan error, 1)
	must.Get(compact(opts, func(step string) {
		if step != "opened" {
			return
		}
		go func() {
			patient := opts
			patient.LockTimeout = time.Minute
			s, err := Open(patient)
			if err == nil {
				err = errors.Join(errors.New("it was opened"), s.Close())
			}
			waiting <- err
		}()
		awaitOpen(t, opts.Path, 2)
	}))(t)
	must.Is(t, <-waiting, errMoved, "who waited")
	holds(t, opts.Path)
	s = open(t, opts.Path)
	must.Get(s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 1}))(t)
	newer := func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, formatValue(99)) }
	must.Do(t, errors.Join(s.writer.do(t.Context(), newer), s.history.writer.do(t.Context(), newer), s.Close()))
	must.Is(t, must.Err(compactFile(opts)), persist.ErrNewer)
	s.history.closed, s.history.writer = false, nil
	must.Is(t, must.Err(s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 1})), persist.ErrNewer)
}

// A file that somebody put in the place meanwhile stays there.
func TestCompactOfAReplacedFile(t *testing.T) {
	opts := bloated(t)
	_, err := compact(opts, func(step string) {
		if step != "checked" {
			return
		}
		must.Do(t, errors.Join(os.Remove(opts.Path), os.WriteFile(opts.Path, []byte("a backup"), 0o600)))
	})
	if data, readErr := os.ReadFile(opts.Path); !errors.Is(err, errMoved) || readErr != nil || string(data) != "a backup" {
		t.Errorf("%v; %.20q, %v", err, data, readErr)
	}
}

// A copy that differs is refused.
func TestCompactCompares(t *testing.T) {
	for name, harm := range map[string]func(*bbolt.Tx) error{
		"a record is missing": func(tx *bbolt.Tx) error { return tx.Bucket(countersBucket).Delete([]byte("order")) },
		"a record says something else": func(tx *bbolt.Tx) error {
			return tx.Bucket(countersBucket).Put([]byte("order"), []byte("{}"))
		},
		"a bucket is an empty record": func(tx *bbolt.Tx) error {
			b := tx.Bucket(documentsBucket)
			return errors.Join(b.DeleteBucket(expiryBucket), b.Put(expiryBucket, nil))
		},
	} {
		opts := bloated(t)
		_, err := compact(opts, func(step string) {
			if step != "copied" {
				return
			}
			db := must.Get(bbolt.Open(opts.Path+compactSuffix, 0o600, nil))(t)
			must.Do(t, errors.Join(db.Update(harm), db.Close()))
		})
		must.Is(t, err, persist.ErrInvalid, "%s", name)
		must.Is(t, must.Err(os.Stat(opts.Path+compactSuffix)), os.ErrNotExist, "the copy is still there")
		holds(t, opts.Path)
	}
}
