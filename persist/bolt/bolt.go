// Package bolt is the embedded store: one file, used by one process. Every range is on disk before
// a number of it is issued. It needs no server.
//
// The file lock keeps a second process out, so the order of one node is the order of the system.
// Two nodes with a file each are two issuers and would issue the same numbers.
package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

var (
	metaBucket     = []byte("meta")
	countersBucket = []byte("counters")
	slotsBucket    = []byte("slots")
	formatKey      = []byte("format")

	documentsBucket = []byte("documents")
)

// fileFormat is the format of the store's file. A file of another format is refused.
const fileFormat = 2

// content says what a data file holds.
type content struct {
	buckets [][]byte // that every file has
	format  int      // files of another one are refused
	advice  string   // what to do about a damaged file
}

func storeContent() content {
	return content{[][]byte{countersBucket, slotsBucket, documentsBucket}, fileFormat, counterAdvice}
}

func formatValue(version int) []byte { return []byte(strconv.Itoa(version)) }

// Options configures a store.
type Options struct {
	// Path is that of the data file. The file and its folder are created if they do not exist.
	Path string
	// LockTimeout is how long to wait until another process releases the file; more than 0.
	LockTimeout time.Duration
	// Now is the clock of the store.
	Now func() time.Time
	// Elapsed is a clock that nobody can set, from any start, for the times of answers. Nil means
	// the system's monotonic clock.
	Elapsed func() time.Duration
	// Synced is called after each transaction: see [driver.How]. It may be nil.
	Synced func(took time.Duration)

	content content
	noSync  bool // for tests, which a slow disk would hold up: writes are lost with the machine
}

// Store is a [persist.Store] in one bbolt file, safe for concurrent use.
type Store struct {
	opened
	now      func() time.Time
	writer   *writer
	counters counters
	slots    slots
	history  history

	documents documents
	answers   answers
}

var (
	_ persist.Store    = (*Store)(nil)
	_ persist.Answerer = (*Store)(nil)
)

// Open opens or creates the store. An error that wraps persist.ErrUnavailable can pass; any other
// needs an operator. It wraps persist.ErrOlder or persist.ErrNewer if the file has another format.
func Open(opts Options) (*Store, error) {
	opts.content = storeContent()
	file, err := openFile(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{opened: file}
	if err := s.verify(opts.content); err != nil {
		return nil, err
	}
	s.fill(opts)
	return s, nil
}

// fill prepares what works on the open file.
func (s *Store) fill(opts Options) {
	s.writer = startWriter(&s.opened, true)
	s.history.opts = opts
	s.history.opts.Path += historySuffix
	s.history.opts.content = historyContent()
	s.now = opts.Now
	s.counters = counters{bucket{s, countersBucket}, opts.Now}
	s.slots = slots{bucket{s, slotsBucket}, opts.Now}
	s.documents = documents{bucket{s, documentsBucket}}
	s.fillAnswers(opts)
}

// verify closes the file unless it can be used and has the content.
func (o *opened) verify(c content) error {
	err := errors.Join(guarded(func() error { return o.check(c) }), o.stillThere())
	if err != nil {
		return errors.Join(fmt.Errorf("open store file %s: %w", o.path, err), o.close())
	}
	return nil
}

// check reads the format. First it makes sure that the file is as long as it says: bbolt maps it
// into memory, and touching a page beyond its end would end the process.
func (o *opened) check(c content) error {
	info, err := os.Stat(o.path)
	if err != nil {
		return err
	}
	return o.db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("%w: it is damaged: %d bytes long instead of %d", persist.ErrInvalid, info.Size(), tx.Size())
		}
		if err := checkPages(tx); err != nil {
			return err
		}
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			return errNoStore
		}
		switch format, err := strconv.Atoi(string(meta.Get(formatKey))); {
		case err != nil || format < 1:
			return fmt.Errorf("%w: its format %q cannot be read", persist.ErrInvalid, meta.Get(formatKey))
		case format > c.format:
			return fmt.Errorf("%w: its format is %d, this build knows %d", persist.ErrNewer, format, c.format)
		case format < c.format:
			return persist.ErrOlder
		}
		if slices.ContainsFunc(c.buckets, func(name []byte) bool { return tx.Bucket(name) == nil }) {
			return errNoStore
		}
		return nil
	})
}

var errNoStore = fmt.Errorf("%w: it is a bbolt file but not a store of seqd", persist.ErrInvalid)

// stillThere returns an error if the file was removed or replaced. Ranges taken from a file without
// a name would be lost with the process, and the next process would issue them again.
func (o *opened) stillThere() error {
	info, err := os.Stat(o.path)
	if err != nil || !os.SameFile(info, o.file) {
		return fmt.Errorf("%w: %s; stop seqd and put it back", errMoved, o.path)
	}
	return nil
}

var errMoved = fmt.Errorf("%w: the store file was removed or replaced while in use", persist.ErrUnavailable)

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Now returns the time of the process.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	return s.now(), translate(s.view(ctx, func(*bbolt.Tx) error { return nil })) // a closed file refuses
}

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns the history, which is in a file of its own beside the store's.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Answers returns the answers, which are in files of their own beside the store's.
func (s *Store) Answers() persist.Answers { return &s.answers }

// Shared is false: the file lock keeps other processes out.
func (s *Store) Shared() bool { return false }

// Lossy is false: nothing fails over.
func (s *Store) Lossy() bool { return false }

// Describe says what bolt promises.
func (s *Store) Describe() string {
	if s.created {
		return "bolt: " + s.path + " was made just now, so all numbers begin at their start; they are unique and increasing for the one node that holds it"
	}
	return "bolt: numbers are unique and increasing for the one node that holds " + s.path + "; two nodes with a file each are two issuers"
}

// Close waits for the write under way, refuses later ones and closes the file.
func (s *Store) Close() error {
	s.writer.stop()
	return errors.Join(s.history.close(), s.answers.close(), s.opened.close())
}

// bucket is where the records of one type are.
type bucket struct {
	store *Store
	name  []byte
}

// read runs f in a read transaction on the bucket. What f sees is on disk.
func (b *bucket) read(ctx context.Context, f func(*bbolt.Bucket) error) error {
	err := b.store.view(ctx, func(tx *bbolt.Tx) error { return f(tx.Bucket(b.name)) })
	return translate(err)
}

// write runs f in a write transaction on the bucket, and returns when it is on disk. Other writes
// may share the transaction. So f computes first and writes last: if it returns an error, it has
// written nothing.
func (b *bucket) write(ctx context.Context, f func(*bbolt.Bucket) error) error {
	return b.store.writer.do(ctx, func(tx *bbolt.Tx) error { return f(tx.Bucket(b.name)) })
}

// get reads one record.
func get[M persist.Record](b *bbolt.Bucket, id string) (m M, err error) {
	data := b.Get([]byte(id))
	if data == nil {
		return m, fmt.Errorf("%q: %w", id, persist.ErrNotFound)
	}
	if m, err = persist.Decode[M](data); err != nil {
		return m, fmt.Errorf("%q: %w", id, err)
	}
	if m.PersistID() != id {
		return m, fmt.Errorf("%q: %w: its record is that of %q", id, persist.ErrInvalid, m.PersistID())
	}
	return m, nil
}

// put writes one record.
func put[M persist.Record](b *bbolt.Bucket, m M) error {
	data, err := persist.Encode(m)
	if err != nil {
		return err
	}
	return b.Put([]byte(m.PersistID()), data)
}

// list reads at most limit records whose keys begin with prefix and are greater than after.
func list[M persist.Record](b *bbolt.Bucket, prefix, after []byte, limit int) (list []M, err error) {
	cursor := b.Cursor()
	key, data := cursor.Seek(after)
	if bytes.Equal(key, after) {
		key, data = cursor.Next()
	}
	for ; key != nil && bytes.HasPrefix(key, prefix) && len(list) < limit; key, data = cursor.Next() {
		m, err := persist.Decode[M](data)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		list = append(list, m)
	}
	return list, nil
}
