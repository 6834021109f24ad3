package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
)

// files keeps records as lines of JSON, in the current file, which grows, and in older files, whose
// names contain the times of their first and last records. A lock file keeps other processes out.
//
// Invariants:
//  1. The first size bytes of the current file are synced lines. A write that failed is repeated at
//     the same place.
//  2. Older files never change, except that one may be replaced as a whole, or removed.
type files struct {
	path             string
	reach            *seqd.Reach
	maxSize, maxSpan int64 // bytes, ms; maxSpan 0 means no limit
	maxFiles         int
	log              *slog.Logger
	mark             uint32 // drawn at random, tells whose files erase stopped at

	mu         sync.Mutex // guards what follows, and the folder
	lock       *os.File
	file       *os.File // the current one; nil if it must be opened
	size       int64
	from, last int64 // the first and last time in it, ms; from > last if it is empty
	unreadable int   // how many unreadable lines were last logged
	closed     bool
}

var _ persist.HistoryStore = (*files)(nil)

var errHeld = errors.New("another process, or a biz type with other settings, writes there")

// openFiles creates the folder, takes the lock and opens the current file.
func openFiles(s Settings, log *slog.Logger) (f *files, err error) {
	path, err := s.reach.Resolve(s.File.Path)
	if err == nil && besideHistory.MatchString(path) {
		err = errNotHistory
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
	}
	if err != nil {
		return nil, fmt.Errorf("file.path: %w", err)
	}
	f = &files{path: path, reach: s.reach, maxSize: s.File.MaxSize, maxFiles: s.File.MaxFiles, maxSpan: (s.Retention / 10).Milliseconds(), log: log, mark: rand.Uint32()}
	lock, err := s.reach.Resolve(path + ".lock")
	if err == nil {
		f.lock, err = os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("file.path: %w", err)
	}
	if err = lockFile(f.lock); err == nil {
		err = f.removeRewriting()
	}
	if err == nil {
		err = f.open()
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("file.path: %s: %w", path, err)
	}
	return f, nil
}

// lockFile locks a file. On a system without locks, the operator must ensure that one process
// writes to a file.
func lockFile(file *os.File) error {
	switch err := folder.Lock(file); {
	case errors.Is(err, folder.ErrHeld):
		return errHeld
	case !errors.Is(err, errors.ErrUnsupported):
		return err
	}
	return nil
}

func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.file != nil {
		_ = f.file.Close() // everything in it is synced
		f.file = nil
	}
	_ = f.lock.Close()
}

// open opens the current file and reads its times. If a crash left an incomplete last line, it adds
// a line break, so that the damage is one unreadable line. mu is held, or nobody else knows f.
//
// It refuses what is not a file of history, before it changes anything there. The lock of the file
// itself keeps writers out that know it by another name.
func (f *files) open() error {
	if info, err := os.Stat(f.path); err == nil && !info.Mode().IsRegular() {
		return errNotHistory
	}
	if path, err := f.reach.Resolve(f.path); err != nil || path != f.path {
		return cmp.Or(err, errNotHistory)
	}
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := isHistory(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := lockFile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := endLine(file); err != nil {
		return errors.Join(err, file.Close())
	}
	from, last := noTimes()
	size, unreadable, err := readLines(file, -1, func(id, _ []byte, _ int64) {
		if at, err := persist.HistoryTime(string(id)); err == nil {
			from, last = min(from, at), max(last, at)
		}
	})
	if err = errors.Join(err, folder.Sync(filepath.Dir(f.path))); err != nil {
		return errors.Join(err, file.Close())
	}
	if unreadable > 0 {
		f.log.Warn("history: lines cannot be read, such as one torn by a crash", "file", f.path, "lines", unreadable)
	}
	f.file, f.size, f.from, f.last = file, size, from, last
	return nil
}

// errNotHistory is why a file is neither written nor removed.
var errNotHistory = errors.New("it exists and is not a file of history: move it away, or choose another name")

// isHistory returns an error unless a file is empty or begins like a line, whole or torn.
func isHistory(file *os.File) error {
	begins := make([]byte, len(anyVersion))
	n, err := file.ReadAt(begins, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(begins[:n]) != anyVersion[:n] {
		return errNotHistory
	}
	return nil
}

// noTimes returns the times of an empty file.
func noTimes() (from, last int64) { return 1<<63 - 1, -1 }

// endLine adds a line break if the file does not end with one.
func endLine(file *os.File) error {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	var end [1]byte
	if _, err := file.ReadAt(end[:], info.Size()-1); err != nil || end[0] == '\n' {
		return err
	}
	_, err = file.WriteAt([]byte("\n"), info.Size())
	return err
}

// line is a record as it is written.
type line struct {
	Version int `json:"v"`
	persist.HistoryRecord
}

// Append implements [persist.HistoryStore].
func (f *files) Append(ctx context.Context, records []persist.HistoryRecord) error {
	var text bytes.Buffer
	from, last := noTimes()
	for _, r := range records {
		if err := r.Validate(); err != nil {
			return err
		}
		if err := json.NewEncoder(&text).Encode(line{persist.FormatVersion, r}); err != nil {
			return err
		}
		from, last = min(from, r.Time), max(last, r.Time)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil || text.Len() == 0 {
		return err
	}
	spans := f.maxSpan > 0 && max(last, f.last)-min(from, f.from) > f.maxSpan
	if f.size > 0 && (f.size+int64(text.Len()) > f.maxSize || spans) {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	if _, err := f.file.WriteAt(text.Bytes(), f.size); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	f.size += int64(text.Len())
	f.from, f.last = min(f.from, from), max(f.last, last)
	return nil
}

// usable opens the current file if necessary, also if somebody has moved it away, as tools for
// rotating logs do. mu is held.
func (f *files) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.closed {
		return persist.ErrClosed
	}
	if f.file != nil {
		ours, err1 := f.file.Stat()
		named, err2 := os.Stat(f.path)
		if err1 == nil && err2 == nil && os.SameFile(ours, named) {
			return nil
		}
		_ = f.file.Close()
		f.file = nil
	}
	if err := f.open(); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return nil
}

// older is a file that does not grow any more.
type older struct {
	path       string
	from, last int64 // the first and last time in it, ms
}

// olderName is path.<from>-<last>-<number>. The times are in ms with 15 digits, so that names sort
// by time. The number distinguishes files with the same times.
const olderName = "%s.%015d-%015d-%03d"

// besideHistory are the names of older files, of locks and of files that are rewritten: no current file has such a name, or the
// history that it lies beside would take it for its own.
var besideHistory = regexp.MustCompile(`(?i)(\.\d{15,}-\d{15,}-\d{3,}|\.lock|\.rewriting)$`)

// rotate starts the next file, and removes the oldest ones if there are too many. mu is held.
func (f *files) rotate() error {
	if err := f.startNext(); err != nil {
		return err
	}
	list, err := f.olderFiles()
	if err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	for f.maxFiles > 0 && len(list) > f.maxFiles {
		if err := list[0].remove(); err != nil {
			return err
		}
		list = list[1:]
	}
	return nil
}

// startNext renames the current file to its final name and starts the next one. mu is held.
func (f *files) startNext() error {
	name := ""
	for i := 0; ; i++ {
		name = fmt.Sprintf(olderName, f.path, max(0, min(f.from, f.last)), max(0, f.last), i)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
		}
	}
	if err := os.Rename(f.path, name); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	_ = f.file.Close() // everything in it is synced
	f.file = nil
	if err := f.open(); err != nil {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return nil
}

// remove removes an older file, if it is one: somebody may have given its name to another.
func (o older) remove() error {
	file, err := os.Open(o.path)
	if err == nil {
		err = errors.Join(isHistory(file), file.Close())
	}
	if err == nil {
		err = os.Remove(o.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotHistory) {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return nil
}

// olderFiles returns the older files, the oldest first.
func (f *files) olderFiles() ([]older, error) {
	entries, err := os.ReadDir(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	var list []older
	for _, e := range entries {
		o := older{path: filepath.Join(filepath.Dir(f.path), e.Name())}
		rest, ours := strings.CutPrefix(o.path, f.path)
		number := 0
		if !e.Type().IsRegular() {
			continue
		}
		if _, err := fmt.Sscanf(rest, ".%d-%d-%d", &o.from, &o.last, &number); !ours || err != nil || o.path != fmt.Sprintf(olderName, f.path, o.from, o.last, number) {
			continue // not made by rotate
		}
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b older) int { return strings.Compare(a.path, b.path) })
	return list, nil
}

// Remove implements [persist.HistoryStore]. Records are removed by erase.
func (f *files) Remove(context.Context, string, []string) error { return errors.ErrUnsupported }

// Purge implements [persist.HistoryStore] for all biz types at once: it removes files whose records
// are all too old, and returns 0.
func (f *files) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	if _, _, err := persist.PurgeRange(bizType, before); err != nil || limit <= 0 {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return 0, err
	}
	if f.size > 0 && f.last < before {
		if err := f.rotate(); err != nil {
			return 0, err
		}
	}
	list, err := f.olderFiles()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	for _, o := range list {
		if o.last >= before {
			continue
		}
		if err := o.remove(); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// purgeGone removes files whose records are all too old, and of biz types that are gone: others may
// have used the file since, and keep records for longer, or as many files as they like.
func (f *files) purgeGone(ctx context.Context, before int64, gone func(bizType string) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return err
	}
	if f.size > 0 && f.last < before {
		only, err := onlyOf(f.path, gone)
		if only && err == nil {
			err = f.startNext()
		}
		if err != nil {
			return err
		}
	}
	list, err := f.olderFiles()
	for _, o := range list {
		if err != nil || ctx.Err() != nil {
			break
		}
		if o.last >= before {
			continue
		}
		only := false
		if only, err = onlyOf(o.path, gone); only && err == nil {
			err = o.remove()
		}
	}
	return errors.Join(err, ctx.Err())
}

// timesOf returns the times, in ms, that the records of a query can have: from ≤ time < to.
func timesOf(q persist.HistoryQuery) (from, to int64) {
	to = 1 << 52
	if q.To != 0 {
		to = q.To
	}
	if at, err := persist.HistoryTime(q.Before); err == nil {
		to = min(to, at+1)
	}
	return q.From, to
}
