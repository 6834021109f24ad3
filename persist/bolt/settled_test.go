package bolt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

const answerID = "order/answer"

// unsettled is a store in which a document and an answer are read while their writes are under way,
// or after they failed.
type unsettled struct {
	*Store
	t *testing.T
}

func newUnsettled(t *testing.T) unsettled {
	t.Helper()
	s := unsettled{open(t, filepath.Join(t.TempDir(), "seqd.db")), t}
	must.Do(t, s.Documents().Create(t.Context(), persist.Document{Kind: "ledger", Key: "invoice", Revision: 1}))
	return s
}

func (s unsettled) update(ctx context.Context) error {
	return s.Documents().Update(ctx, persist.Document{Kind: "ledger", Key: "invoice", Revision: 2})
}

func (s unsettled) revision(ctx context.Context) (int64, error) {
	doc, err := s.Documents().Read(ctx, "ledger", "invoice")
	return doc.Revision, err
}

// Whoever reads back a write whose sync failed is not told that it took effect: after a power loss
// the file may say otherwise.
func TestFailedSyncIsNotRead(t *testing.T) {
	s := newUnsettled(t)
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error { return errors.Join(works(f), syscall.EIO) }
	if err := s.update(t.Context()); !errors.Is(err, persist.ErrUnavailable) {
		t.Fatalf("the write says %v", err)
	}
	if revision, err := s.revision(t.Context()); !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("the document has revision %d, %v", revision, err)
	}
}

// The same holds for answers that are kept for an Idempotency-Key.
func TestFailedSyncOfAnAnswerIsNotRead(t *testing.T) {
	s := newUnsettled(t)
	claim := func() (string, error) { return s.Answers().Claim(t.Context(), answerID, "claim", time.Minute) }
	if held, err := claim(); held != "" || err != nil {
		t.Fatal(held, err)
	}
	if err := s.answers.windows.put("order/other", "7", time.Hour); err != nil { // which opens a file
		t.Fatal(err)
	}
	for _, one := range s.answers.windows.list {
		works := one.writer.update
		one.writer.update = func(f func(*bbolt.Tx) error) error { return errors.Join(works(f), syscall.EIO) }
	}
	if _, err := s.Answers().Swap(t.Context(), answerID, "claim", "42", time.Hour); !errors.Is(err, persist.ErrUnavailable) {
		t.Fatalf("the write says %v", err)
	}
	if held, err := claim(); !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("the answer is %q, %v", held, err)
	}
}

// While a sync hangs, readers wait. Then they see the write.
func TestHangingSyncIsNotRead(t *testing.T) {
	s := newUnsettled(t)
	hangs, goesOn := make(chan struct{}), make(chan struct{})
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error {
		err := works(f)
		if hangs != nil {
			close(hangs)
			hangs = nil
			<-goesOn
		}
		return err
	}
	hanging := hangs
	written := make(chan error, 1)
	go func() { written <- s.update(t.Context()) }()
	<-hanging
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if revision, err := s.revision(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("during the sync the document has revision %d, %v", revision, err)
	}
	read := make(chan int64, 1)
	go func() {
		revision, err := s.revision(t.Context())
		must.Report(t, err)
		read <- revision
	}()
	close(goesOn)
	must.Do(t, <-written)
	must.Equal(t, <-read, 2, "the revision of the document after the sync")
}

// A write to a file that has lost its name meanwhile is not read until the file is back.
func TestWriteToALostNameIsNotRead(t *testing.T) {
	s := newUnsettled(t)
	away := s.path + ".away"
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error { return errors.Join(works(f), os.Rename(s.path, away)) }
	if err := s.update(t.Context()); !errors.Is(err, errMoved) {
		t.Fatalf("the write says %v", err)
	}
	s.writer.update = works
	if revision, err := s.revision(t.Context()); !errors.Is(err, errMoved) {
		t.Errorf("the document has revision %d, %v", revision, err)
	}
	must.Do(t, os.Rename(away, s.path))
	must.Equal(t, must.Get(s.revision(t.Context()))(t), 2, "in the file that is back the document has revision")
}

// Readers do not starve beside a writer that never rests.
func TestReadersBesideWrites(t *testing.T) {
	s := newUnsettled(t)
	ctx, stop := context.WithCancel(t.Context())
	written := make(chan int64, 1)
	go func() {
		revision := int64(1)
		for ctx.Err() == nil {
			doc := persist.Document{Kind: "ledger", Key: "invoice", Revision: revision + 1}
			if err := s.Documents().Update(t.Context(), doc); err != nil {
				t.Error(err)
				break
			}
			revision++
		}
		written <- revision
	}()
	last := int64(0)
	for range 300 {
		revision, err := s.revision(t.Context())
		if err != nil || revision < last {
			t.Fatalf("revision %d after %d, %v", revision, last, err)
		}
		last = revision
	}
	stop()
	if all := <-written; last > all {
		t.Errorf("revision %d was read, %d was written", last, all)
	}
}
