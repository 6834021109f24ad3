// Package bolt is the embedded store: one file, one process, every range on disk before a number of
// it is issued. It needs nothing else running.
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
	shapesBucket   = []byte("shapes")
	clustersBucket = []byte("clusters")
	slotsBucket    = []byte("slots")
	formatKey      = []byte("format")

	documentsBucket = []byte("documents")
)

// laterBuckets are those that files of the first versions lack.
var laterBuckets = [][]byte{clustersBucket, slotsBucket, documentsBucket}

func formatValue(version int) []byte { return []byte(strconv.Itoa(version)) }

// Options says which file and how long to wait for it.
type Options struct {
	// Path of the data file; it and its folder are created when they do not exist.
	Path string
	// LockTimeout is how long to wait for another process to let go of the file; more than 0.
	LockTimeout time.Duration
	// Now is the clock of the timestamps.
	Now func() time.Time
	// Elapsed is a clock that nobody sets, from any begin; nil for that of the system. Answers are
	// kept by it.
	Elapsed func() time.Duration

	advice string // says what to do about a damaged file
}

// Store is a [persist.Store] in one bbolt file, safe for concurrent use.
type Store struct {
	opened
	writer   *writer
	counters counters
	shapes   repository[persist.Shape]
	clusters repository[persist.Cluster]
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
// needs a human.
func Open(opts Options) (*Store, error) {
	opts.advice = counterAdvice
	file, err := openFile(opts, append([][]byte{countersBucket, shapesBucket}, laterBuckets...)...)
	if err != nil {
		return nil, err
	}
	s := &Store{opened: file}
	if err := s.verify(countersBucket, shapesBucket); err != nil {
		return nil, err
	}
	s.fill(opts)
	err = s.complete()
	if errors.Is(err, errPanicked) {
		// and never opened again in the hope that it passes
		err = fmt.Errorf("it is damaged: %v", err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store file %s: %w", opts.Path, err), s.Close())
	}
	return s, nil
}

// fill makes what works on the open file.
func (s *Store) fill(opts Options) {
	s.writer = startWriter(&s.opened, true)
	s.history.opts = opts
	s.history.opts.Path += historySuffix
	s.history.opts.advice = historyAdvice
	s.counters = counters{repository[persist.Counter]{bucket{s, countersBucket}}, opts.Now}
	s.shapes = repository[persist.Shape]{bucket{s, shapesBucket}}
	s.clusters = repository[persist.Cluster]{bucket{s, clustersBucket}}
	s.slots = slots{bucket{s, slotsBucket}, opts.Now}
	s.documents = documents{repository[persist.Document]{bucket{s, documentsBucket}}}
	s.fillAnswers(opts)
}

// complete adds the buckets that files of the first versions lack. They stay readable for those.
func (s *Store) complete() error {
	if there, err := s.whole(); err != nil || there {
		return err
	}
	return s.writer.do(context.Background(), func(tx *bbolt.Tx) error {
		for _, name := range laterBuckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
}

// verify closes the file again unless it can be used and has the buckets.
func (o *opened) verify(buckets ...[]byte) error {
	err := errors.Join(guarded(func() error { return o.check(buckets) }), o.stillThere())
	if err != nil {
		return errors.Join(fmt.Errorf("open store file %s: %w", o.path, err), o.close())
	}
	return nil
}

// check reads the format, after making sure that the file is as long as it says: bbolt maps it into
// memory, and pages beyond its end would end the process when they are touched.
func (o *opened) check(buckets [][]byte) error {
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
		if meta == nil || slices.ContainsFunc(buckets, func(name []byte) bool { return tx.Bucket(name) == nil }) {
			return fmt.Errorf("%w: it is a bbolt file but not a store of seqd", persist.ErrInvalid)
		}
		format, err := strconv.Atoi(string(meta.Get(formatKey)))
		switch {
		case err != nil || format < 1:
			return fmt.Errorf("%w: its format %q cannot be read", persist.ErrInvalid, meta.Get(formatKey))
		case format > persist.FormatVersion:
			return fmt.Errorf("%w: its format is %d, this build knows %d", persist.ErrNewer, format, persist.FormatVersion)
		}
		return nil
	})
}

// stillThere returns an error when the file was removed or replaced. Ranges taken from a file
// without a name would be lost with the process, and the next one would issue them again.
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

// Shapes returns the shapes.
func (s *Store) Shapes() persist.Repository[persist.Shape] { return &s.shapes }

// Clusters returns the cluster's record.
func (s *Store) Clusters() persist.Repository[persist.Cluster] { return &s.clusters }

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns what was issued, which is kept in a file of its own beside the store's.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Answers returns the answers, which are kept in files of their own beside the store's.
func (s *Store) Answers() persist.Answers { return &s.answers }

// Shared is false: the file lock keeps other processes out.
func (s *Store) Shared() bool { return false }

// Describe says what bolt promises.
func (s *Store) Describe() string {
	if s.created {
		return "bolt: " + s.path + " was made just now, so all numbers begin at their start; they are unique and increasing for the one node that holds it"
	}
	return "bolt: numbers are unique and increasing for the one node that holds " + s.path + "; two nodes with a file each are two issuers"
}

// Close waits for the write under way, refuses those that come later and closes the file.
func (s *Store) Close() error {
	s.writer.stop()
	return errors.Join(s.history.close(), s.answers.close(), s.opened.close())
}

// whole reports whether the file has every bucket.
func (s *Store) whole() (there bool, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		there = !slices.ContainsFunc(laterBuckets, func(name []byte) bool { return tx.Bucket(name) == nil })
		return nil
	})
	return there, err
}

type record[M any] interface {
	persist.Record
	CheckUpdate(next M) error
}

// bucket is where records of one kind are.
type bucket struct {
	store *Store
	name  []byte
}

// read runs f in a read transaction on the bucket.
func (b *bucket) read(ctx context.Context, f func(*bbolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := b.store.view(func(tx *bbolt.Tx) error { return f(tx.Bucket(b.name)) })
	return translate(err)
}

// write runs f in a write transaction on the bucket and returns once it is on disk. f computes
// first and writes at most once, as its last act: an error from it leaves nothing behind, so other
// writes may share the transaction.
func (b *bucket) write(ctx context.Context, f func(*bbolt.Bucket) error) error {
	return b.store.writer.do(ctx, func(tx *bbolt.Tx) error { return f(tx.Bucket(b.name)) })
}

// repository keeps records of one kind in one bucket.
type repository[M record[M]] struct{ bucket }

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

// Create implements [persist.Repository].
func (r *repository[M]) Create(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.write(ctx, func(b *bbolt.Bucket) error {
		if b.Get([]byte(m.PersistID())) != nil {
			return fmt.Errorf("%q: %w", m.PersistID(), persist.ErrExists)
		}
		return put(b, m)
	})
}

// Read implements [persist.Repository].
func (r *repository[M]) Read(ctx context.Context, id string) (m M, err error) {
	err = r.read(ctx, func(b *bbolt.Bucket) error {
		m, err = get[M](b, id)
		return err
	})
	return m, err
}

// Update implements [persist.Repository].
func (r *repository[M]) Update(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.write(ctx, func(b *bbolt.Bucket) error {
		old, err := get[M](b, m.PersistID())
		if err != nil {
			return err
		}
		if err := old.CheckUpdate(m); err != nil {
			return err
		}
		return put(b, m)
	})
}

// Delete implements [persist.Repository].
func (r *repository[M]) Delete(ctx context.Context, id string) error {
	return r.write(ctx, func(b *bbolt.Bucket) error {
		if b.Get([]byte(id)) == nil {
			return fmt.Errorf("%q: %w", id, persist.ErrNotFound)
		}
		return b.Delete([]byte(id))
	})
}

// List implements [persist.Repository].
func (r *repository[M]) List(ctx context.Context, after string, limit int) (list []M, err error) {
	err = r.read(ctx, func(b *bbolt.Bucket) error {
		cursor := b.Cursor()
		key, data := cursor.Seek([]byte(after))
		if bytes.Equal(key, []byte(after)) {
			key, data = cursor.Next()
		}
		for ; key != nil && len(list) < limit; key, data = cursor.Next() {
			m, err := persist.Decode[M](data)
			if err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
			list = append(list, m)
		}
		return nil
	})
	return list, err
}

type counters struct {
	repository[persist.Counter]
	now func() time.Time
}

// Allocate implements [persist.Allocator].
func (c *counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	var allocated persist.Range
	err := c.write(ctx, func(b *bbolt.Bucket) error {
		counter, err := get[persist.Counter](b, req.BizTag)
		if err != nil {
			return err
		}
		if counter, allocated, err = counter.Allocated(req, c.now().UnixMilli()); err != nil {
			return err
		}
		return put(b, counter)
	})
	if err != nil {
		return persist.Range{}, err
	}
	return allocated, nil
}

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	counter, err := c.Read(ctx, bizTag)
	return counter.Epoch, err
}

// GiveBack implements [persist.Allocator].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	given := false
	err := c.write(ctx, func(b *bbolt.Bucket) error {
		counter, err := get[persist.Counter](b, bizTag)
		if err != nil || counter.Max != r.Last {
			return err
		}
		counter.Max, given = r.First-1, true
		return put(b, counter)
	})
	if err != nil {
		return false, err
	}
	return given, nil
}
