package history

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
)

// This file removes records from files: a file is written anew without them, synced, and renamed over
// the old one. A crash leaves the old file or the new one, and perhaps a file with the end
// rewritingEnd, which the next start removes.

// rewritingEnd is the end of the name of the file that replaces another one.
const rewritingEnd = ".rewriting"

// erasure says which records are removed: those of a biz type from before a time that are wanted.
type erasure struct {
	bizType string
	before  int64 // ms since the Unix epoch; 0 for no limit
	of      *wanted
}

// covers reports whether a line is removed, and whether it is a readable record. A damaged line that
// begins like a record of the biz type is removed, since nobody can tell whose it is.
func (e *erasure) covers(text []byte) (removed, record bool) {
	rest, ok := bytes.CutPrefix(text, lineBegins)
	if !ok || len(rest) < idLength || !bytes.HasPrefix(rest[idLength:], afterID) || !bytes.HasPrefix(rest[idLength+len(afterID):], []byte(e.bizType+`"`)) {
		return false, false
	}
	at, err := persist.HistoryTime(string(rest[:idLength]))
	if err != nil || e.before != 0 && at >= e.before {
		return false, false
	}
	r, err := decodeLine(text)
	if err != nil {
		return true, false
	}
	return e.of.wants(&r), true
}

// eachLine calls line with each line of r, up to size bytes, or all if size is -1. Of a line that is
// too long to be ours it calls part with each part.
func eachLine(r io.Reader, size int64, line, part func([]byte) error) error {
	if size >= 0 {
		r = io.LimitReader(r, size)
	}
	for lines, long := bufio.NewReaderSize(r, longestLine), false; ; {
		text, err := lines.ReadSlice('\n')
		handle := line
		if long || errors.Is(err, bufio.ErrBufferFull) {
			handle = part
		}
		long = errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !long && !errors.Is(err, io.EOF) {
			return err
		}
		if len(text) > 0 {
			if err := handle(text); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

var errFound = errors.New("found")

// has reports whether there is something to remove.
func (e *erasure) has(r io.Reader, size int64) (bool, error) {
	err := eachLine(r, size, func(text []byte) error {
		if removed, _ := e.covers(text); removed {
			return errFound
		}
		return nil
	}, func([]byte) error { return nil })
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

// copy writes to w what stays of r, and returns how many records do not. The first line that it writes
// is of history, or the file would be refused.
func (e *erasure) copy(w io.Writer, r io.Reader, size int64) (n int, err error) {
	out, begun := bufio.NewWriterSize(w, longestLine), false
	keep := func(text []byte) error {
		if begun = begun || bytes.HasPrefix(text, []byte(anyVersion)); !begun {
			return nil
		}
		_, err := out.Write(text)
		return err
	}
	err = eachLine(r, size, func(text []byte) error {
		removed, record := e.covers(text)
		if !removed {
			return keep(text)
		}
		if record {
			n++
		}
		return nil
	}, keep)
	return n, errors.Join(err, out.Flush())
}

// order returns an ID that says where a file is in the order in which files are rewritten, and whose
// file it is.
func (f *files) order(o older) string {
	number := uint64(0)
	_, _ = fmt.Sscanf(o.path[strings.LastIndexByte(o.path, '-')+1:], "%d", &number) // its name has one
	return persist.HistoryID(o.last, uint64(o.from), number<<32|uint64(f.mark))
}

// first returns what order would return for the current file, the first one.
func (f *files) first() string {
	return persist.HistoryID(1<<62, 1<<64-1, (1<<16-1)<<32|uint64(f.mark))
}

// errOtherNode is why a request cannot go on where another one stopped.
var errOtherNode = seqd.Errorf(seqd.CodeInvalidRequest, "after is of another node, or of one that was restarted: a history in files is removed on each node on its own, so ask one node by its address, without after at first")

// erase removes records from the next file, in the order of [files.order] from behind after on. It
// returns how many it removed, where it is now, and whether there are more files. The file at which it
// works is finished although ctx ends, so that a repetition makes progress. A current file that became
// an older one meanwhile is looked at once more, as that. Nobody else may erase meanwhile.
func (f *files) erase(ctx context.Context, e *erasure, after string) (n int, at string, more bool, err error) {
	if after != "" && !strings.HasSuffix(after, fmt.Sprintf("%08x", f.mark)) {
		return 0, after, false, errOtherNode
	}
	f.mu.Lock()
	err = f.usable(ctx)
	list, listed := f.olderFiles()
	f.mu.Unlock()
	if err = errors.Join(err, listed); err != nil {
		return 0, after, false, err
	}
	list = slices.DeleteFunc(list, func(o older) bool { return e.before != 0 && o.from >= e.before })
	slices.SortFunc(list, func(a, b older) int { return strings.Compare(f.order(b), f.order(a)) })
	if after == "" {
		n, done, err := f.rewrite(f.path, e)
		if err != nil || !done {
			return n, after, err == nil, err
		}
		return n, f.first(), len(list) > 0, nil
	}
	list = slices.DeleteFunc(list, func(o older) bool { return f.order(o) >= after })
	if len(list) == 0 {
		return 0, after, false, nil
	}
	n, _, err = f.rewrite(list[0].path, e) // not done: it was removed meanwhile
	return n, f.order(list[0]), len(list) > 1, err
}

// rewrite removes records from a file. done is false if the file was renamed or removed meanwhile, so
// that it was left as it is.
func (f *files) rewrite(path string, e *erasure) (n int, done bool, err error) {
	old, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer old.Close()
	size, err := f.validSize(old)
	if err != nil || size == 0 {
		return 0, err == nil, err
	}
	if found, err := e.has(old, size); err != nil || !found {
		return 0, true, err
	}
	if err := f.removeRewriting(); err != nil {
		return 0, false, err
	}
	fresh, err := os.OpenFile(f.path+rewritingEnd, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		_ = fresh.Close()
		_ = os.Remove(fresh.Name()) // there is none if it has replaced the file
	}()
	if _, err = old.Seek(0, io.SeekStart); err == nil {
		n, err = e.copy(fresh, old, size)
	}
	if err = errors.Join(err, fresh.Sync()); err != nil {
		return 0, false, err
	}
	done, err = f.replace(path, old, size, fresh)
	if !done || err != nil {
		n = 0
	}
	return n, done, err
}

// validSize returns how many bytes of a file are lines: not more than are synced, if it is the current
// one.
func (f *files) validSize(file *os.File) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if f.isCurrent(info) {
		return f.size, nil
	}
	return info.Size(), nil
}

// isCurrent reports whether a file is the one that grows. mu is held.
func (f *files) isCurrent(info fs.FileInfo) bool {
	if f.file == nil {
		return false
	}
	current, err := f.file.Stat()
	return err == nil && os.SameFile(current, info)
}

// replace puts fresh, which has what stays of the first size bytes of old, in the place of old. What
// was written behind these meanwhile stays too.
func (f *files) replace(path string, old *os.File, size int64, fresh *os.File) (done bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, persist.ErrClosed
	}
	was, err := old.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(was, there) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	current := f.isCurrent(was)
	if path == f.path && !current { // usable opens it
		return false, nil
	}
	if current {
		if _, err = io.Copy(fresh, io.NewSectionReader(old, size, f.size-size)); err == nil {
			err = fresh.Sync()
		}
		if err != nil {
			return false, err
		}
		_ = f.file.Close() // everything in it is synced
		f.file = nil
	}
	left, err := fresh.Stat()
	if err != nil {
		return false, err
	}
	if !current && left.Size() == 0 {
		if err := os.Remove(path); err != nil {
			return false, err
		}
		return true, folder.Sync(filepath.Dir(path))
	}
	// A reader that has the old file open goes on in it.
	if err := errors.Join(fresh.Close(), os.Rename(fresh.Name(), path)); err != nil {
		return false, err
	}
	if current {
		return true, f.open() // it syncs the folder
	}
	return true, folder.Sync(filepath.Dir(path))
}

// removeRewriting removes what a rewriting left that a crash ended.
func (f *files) removeRewriting() error {
	return older{path: f.path + rewritingEnd}.remove()
}
