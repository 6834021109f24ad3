package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/internal/version"
	"github.com/seqd/seqd/persist"
)

// passing are the kinds of documents that a snapshot leaves out: they say what runs now. The
// document of the cluster is left out too: a restore writes it, as its mark and at its end.
var passing = []string{persist.ClusterKind, "node", "nodesession", "leader", "permit", "figures", "session"}

// Nodes write while a snapshot is read. If a record moves from A to B, A is read before B: a record
// that moves meanwhile is then in the file twice, and never missing. If A is written before B because
// B relies on A, B is read before A.
var (
	// first are read before the counters: the period of a counter is noted after it was created,
	// and nobody may take a counter that began meanwhile for a lost one.
	first = []string{persist.PeriodKind}
	// then are read after the counters. A ledger and a job come before what is copied out of them,
	// an event before the stream that it goes to, and the position of a subscription before the stream
	// that it is in.
	then = []string{persist.LedgerKind, persist.JobKind, "subscription", persist.EventKind, "streamsource"}
	// last are deliveries, which are written before the position of their subscription, and tombstones,
	// which are written before counters are removed.
	last = []string{persist.DeliveryKind, persist.PurgedKind}
)

// page is how many records are read at a time. Documents may have a megabyte each, so of a kind
// whose page had pageBytes only the fewest are read.
const page, fewest, pageBytes = 200, 16, 4 << 20

// Save writes a snapshot of a store. Nodes may run. It needs the memory of one page of records. It
// heeds [persist.Paced].
func Save(ctx context.Context, store persist.Store, w io.Writer) error {
	cluster, err := persist.ReadCluster(ctx, store.Documents())
	if errors.Is(err, persist.ErrNotFound) {
		return errors.New("no seqd has run on this store: there is nothing to save")
	}
	if err != nil {
		return err
	}
	began, err := store.Now(ctx)
	if err != nil {
		return err
	}
	return save(ctx, store, w, Header{Format: Format, Cluster: cluster.ID, Created: cluster.Timestamp, Began: began.UnixMilli()})
}

// Export writes all that a store has, which nobody changes any more. The cluster and the move are in the
// header.
func Export(ctx context.Context, store persist.Store, w io.Writer, h Header) error {
	h.Format = ExportFormat
	return save(ctx, store, w, h)
}

func save(ctx context.Context, store persist.Store, w io.Writer, h Header) error {
	h.Seqd = version.Of("")
	if fenced, ok := store.(persist.Fenced); ok {
		f, err := fenced.Fence(ctx)
		if err != nil {
			return err
		}
		h.Fence, h.FailedOver = f.Current, f.FailedOver()
	}
	s := saving{store, newWriter(w)}
	if err := s.out.line(h); err != nil {
		return err
	}
	if err := s.records(ctx); err != nil {
		return err
	}
	if h.Move != nil {
		if err := s.answers(ctx); err != nil {
			return err
		}
	}
	ended, err := store.Now(ctx)
	if err != nil {
		return err
	}
	return s.out.end(ended.UnixMilli())
}

// saving is one call of [Save].
type saving struct {
	store persist.Store
	out   *writer
}

func (s saving) records(ctx context.Context) error {
	if err := s.documents(ctx, first); err != nil {
		return err
	}
	for c, err := range persist.EveryCounter(ctx, s.store.Counters()) {
		if err == nil {
			err = s.out.record(Record{Counter: &Counter{c, c.Failovers}})
		}
		if err != nil {
			return err
		}
	}
	if err := s.documents(ctx, then); err != nil {
		return err
	}
	// What was copied out of a document of then meanwhile can be the first one of its kind, so the
	// kinds are listed only now.
	kinds, err := s.store.Kinds(ctx)
	if err != nil {
		return err
	}
	named := slices.Concat(passing, first, then, last)
	rest := slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(named, kind) })
	if err := s.documents(ctx, slices.Concat(rest, last)); err != nil {
		return err
	}
	if err := s.registries(ctx); err != nil {
		return err
	}
	return s.history(ctx)
}

func (s saving) documents(ctx context.Context, kinds []string) error {
	least, wait := persist.Pace(ctx, fewest)
	most, _ := persist.Pace(ctx, page)
	for _, kind := range kinds {
		limit := least
		for after := ""; ; {
			list, err := s.store.Documents().List(ctx, kind, after, limit)
			if err != nil {
				return err
			}
			size := 0
			for _, doc := range list {
				wait()
				if err := s.out.record(Record{Document: &doc}); err != nil {
					return err
				}
				after, size = doc.Key, size+len(doc.Body)
			}
			if len(list) < limit {
				break
			}
			if limit = most; size > pageBytes*len(list)/page {
				limit = least
			}
		}
	}
	return nil
}

func (s saving) registries(ctx context.Context) error {
	names, err := s.store.Registries(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		t, err := s.store.Slots().Look(ctx, name)
		if err != nil {
			return err
		}
		if err := s.out.record(Record{Registry: &persist.Registry{Name: name, Set: t.Set, Slots: t.Slots}}); err != nil {
			return err
		}
	}
	return nil
}

// history saves that of every biz type whose IDs have a shape: one without has issued nothing.
func (s saving) history(ctx context.Context) error {
	size, wait := persist.Pace(ctx, page)
	for shape, err := range persist.ShapesIn(s.store.Documents()).Every(ctx) {
		if err != nil {
			return err
		}
		for before := ""; ; {
			list, err := s.store.History().List(ctx, persist.HistoryQuery{BizType: shape.BizType, Before: before, Limit: size})
			if err != nil {
				return err
			}
			for _, record := range list {
				wait()
				if err := s.out.record(Record{History: &record}); err != nil {
					return err
				}
				before = record.ID
			}
			if len(list) < size {
				break
			}
		}
	}
	return nil
}

// answers saves those that a store keeps apart from its records, as documents.
func (s saving) answers(ctx context.Context) error {
	store, ok := s.store.(persist.Answerer)
	if !ok {
		return nil
	}
	list, ok := store.Answers().(persist.AnswerLister)
	if !ok {
		return errors.New("the store keeps answers to requests with an Idempotency-Key, and cannot list them")
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	return list.List(ctx, func(id, text string, left time.Duration) error {
		return s.out.record(Record{Document: &persist.Document{
			Kind: persist.KeptAnswerKind, Key: id, Revision: 1, Body: text, Timestamp: now.UnixMilli(), Expires: now.Add(left).UnixMilli(),
		}})
	})
}

// Part ends the name of a file that is being written.
const Part = ".part"

// WriteFile writes a snapshot to a file: under another name until it is whole, was read again and
// is durable. Only its owner may read it, because it has the secrets of definitions. If write fails
// or is cut off, a file that was there is left as it is.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path+Part, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, file.Close())
		if err == nil {
			err = os.Rename(path+Part, path)
		}
		if err == nil {
			err = folder.Sync(filepath.Dir(path))
		} else {
			_ = os.Remove(path + Part) // the error says what failed
		}
	}()
	if err := write(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := Read(file, func(Header) error { return nil }, nil); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Sync()
}
