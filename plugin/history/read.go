package history

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// Every line that this version writes begins like this, followed by an ID, the name of the biz type
// and the key, if there is one.
var (
	lineBegins = []byte(`{"v":1,"id":"`)
	afterID    = []byte(`","bizType":"`)
)

// anyVersion begins every line of any version.
const anyVersion = `{"v":`

const idLength = 40

// longestLine is longer than any line that this version writes.
const longestLine = 64 << 10

// readLines calls found with the ID, the text and the offset of each line of r, up to size bytes,
// or all if size is -1. The arguments are valid during the call. It returns how many bytes it read
// and how many lines are unreadable: torn by a crash, written by something else, or by a newer
// version.
func readLines(r io.Reader, size int64, found func(id, line []byte, offset int64)) (read int64, unreadable int, err error) {
	if size >= 0 {
		r = io.LimitReader(r, size)
	}
	lines := bufio.NewReaderSize(r, longestLine)
	for {
		text, err := lines.ReadSlice('\n')
		start := read
		read += int64(len(text))
		whole := err == nil
		for errors.Is(err, bufio.ErrBufferFull) { // too long to be ours
			text, err = lines.ReadSlice('\n')
			read += int64(len(text))
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return read, unreadable, err
		}
		if id, ok := idOf(text); ok && whole {
			found(id, text, start)
		} else if read > start {
			unreadable++
		}
		if err != nil {
			return read, unreadable, nil
		}
	}
}

// idOf returns the ID in a line. It does not check that the rest is JSON, which is done when the
// record is needed.
func idOf(text []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(text, lineBegins)
	if !ok || len(rest) < idLength || !bytes.HasPrefix(rest[idLength:], afterID) || !bytes.HasSuffix(rest, []byte("}\n")) {
		return nil, false
	}
	_, err := persist.HistoryTime(string(rest[:idLength]))
	return rest[:idLength], err == nil
}

// bizTypeOf returns the name of the biz type in a line with an ID.
func bizTypeOf(text []byte) []byte {
	name, _, _ := bytes.Cut(text[len(lineBegins)+idLength+len(afterID):], []byte(`"`))
	return name
}

// onlyOf reports whether all records of a file are of biz types that are gone.
func onlyOf(path string, gone func(bizType string) bool) (only bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	others, known := false, make(map[string]bool)
	_, _, err = readLines(file, -1, func(_, text []byte, _ int64) {
		name := bizTypeOf(text)
		if others || known[string(name)] {
			return
		}
		known[string(name)] = true
		others = !gone(string(name))
	})
	return !others, errors.Join(err, file.Close())
}

// decodeLine returns the record in a line.
func decodeLine(text []byte) (persist.HistoryRecord, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return l.HistoryRecord, err
	}
	return l.HistoryRecord, l.Validate()
}

// finding is the largest IDs below a bound that were found so far, in ascending order, and their
// lines.
type finding struct {
	query      persist.HistoryQuery
	low, high  string // see HistoryQuery.Range
	begins     []byte // of each line of this biz type and key, after the ID
	entries    []entry
	bad        map[string]bool // lines that look like records and are not
	unreadable int
}

type entry struct {
	id   string
	text []byte
}

// look reads one file.
func (s *finding) look(r io.Reader, size int64) error {
	prefix := len(s.query.BizType) + 1
	low, high := []byte(s.low[prefix:]), []byte(s.high[prefix:])
	_, unreadable, err := readLines(r, size, func(id, text []byte, _ int64) {
		if bytes.Compare(id, low) < 0 || bytes.Compare(id, high) >= 0 || !bytes.HasPrefix(text[len(lineBegins)+idLength:], s.begins) {
			return
		}
		if len(s.entries) == s.query.Limit && string(id) <= s.entries[0].id {
			return
		}
		if s.bad[string(text)] {
			s.unreadable++
			return
		}
		s.keep(string(id), bytes.Clone(text))
	})
	s.unreadable += unreadable
	return err
}

// keep inserts a line. If there are too many, it removes the one with the lowest ID.
func (s *finding) keep(id string, text []byte) {
	at, there := slices.BinarySearchFunc(s.entries, id, func(e entry, id string) int { return strings.Compare(e.id, id) })
	if there {
		return
	}
	s.entries = slices.Insert(s.entries, at, entry{id, text})
	if len(s.entries) > s.query.Limit {
		s.entries = s.entries[1:]
	}
}

// newFinding returns an empty finding for a query, or persist.ErrInvalid.
func newFinding(query persist.HistoryQuery) (*finding, error) {
	low, high, err := query.Range()
	if err != nil {
		return nil, err
	}
	begins, err := json.Marshal(struct { // as the members of a line
		BizType string `json:"bizType"`
		Key     string `json:"key,omitempty"`
	}{query.BizType, query.Key})
	if err != nil {
		return nil, err
	}
	begins = append([]byte(`",`), begins[1:len(begins)-1]...)
	return &finding{query: query, low: low, high: high, begins: begins, bad: make(map[string]bool)}, nil
}

// List implements [persist.HistoryStore]. It reads the files that can contain records of the query,
// the newest first, until it has enough.
func (f *files) List(ctx context.Context, query persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	s, err := newFinding(query)
	if err != nil {
		return nil, err
	}
	for {
		if err := f.search(ctx, s); err != nil {
			return nil, err
		}
		// Only the lines of the answer are decoded. If one is damaged, the search is repeated
		// without it.
		if list, ok := s.records(); ok {
			f.reportUnreadable(s.unreadable)
			return list, nil
		}
	}
}

// search fills s.
func (f *files) search(ctx context.Context, s *finding) error {
	s.entries, s.unreadable = nil, 0
	growing, size, list, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	if s.query.Limit <= 0 {
		return growing.Close()
	}
	err = errors.Join(s.look(growing, size), growing.Close())
	// By their last times: a file whose last record is older than everything found adds nothing.
	slices.SortFunc(list, func(a, b older) int { return cmp.Compare(b.last, a.last) })
	from, to := timesOf(s.query)
	for _, o := range list {
		if err != nil || ctx.Err() != nil || s.done(o) {
			break
		}
		if o.last >= from && o.from < to {
			err = s.lookInto(o)
		}
	}
	return errors.Join(err, ctx.Err())
}

// done reports whether a file, and so all older ones, can add nothing.
func (s *finding) done(o older) bool {
	if len(s.entries) < s.query.Limit {
		return false
	}
	least, _ := persist.HistoryTime(s.entries[0].id)
	return o.last < least
}

func (s *finding) lookInto(o older) error {
	file, err := os.Open(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // purged meanwhile
	}
	if err != nil {
		return err
	}
	return errors.Join(s.look(file, -1), file.Close())
}

// records returns what was found, the newest first. It returns false if it found damage, which it
// adds to bad.
func (s *finding) records() (list []persist.HistoryRecord, ok bool) {
	known := len(s.bad)
	for _, p := range slices.Backward(s.entries) {
		r, err := decodeLine(p.text)
		if err != nil || r.ID != p.id || r.BizType != s.query.BizType || !s.query.Wants(r) {
			s.bad[string(p.text)] = true
		}
		list = append(list, r)
	}
	return list, len(s.bad) == known
}

// snapshot returns the current file, its valid size, and the older files, as they are at one
// moment.
func (f *files) snapshot(ctx context.Context) (*os.File, int64, []older, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return nil, 0, nil, err
	}
	list, err := f.olderFiles()
	if err != nil {
		return nil, 0, nil, err
	}
	growing, err := os.Open(f.path)
	return growing, f.size, list, err
}

// reportUnreadable logs how many lines could not be read, if that number has changed.
func (f *files) reportUnreadable(n int) {
	f.mu.Lock()
	known := f.unreadable
	f.unreadable = n
	f.mu.Unlock()
	if n > 0 && n != known {
		f.log.Warn("history: lines cannot be read and are left out, such as one torn by a crash", "file", f.path, "lines", n)
	}
}
