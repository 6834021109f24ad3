package bolt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// settled knows which transactions of an open file are on disk. bbolt shows a transaction to readers
// before its last page is synced, and goes on to show it if the sync fails. Who reads back whether a
// write took effect must not be told so from memory: after a power loss the file could say otherwise.
// It is safe for concurrent use.
type settled struct {
	named  func() error // why the file has lost its name, nil if it has not
	upTo   atomic.Int64 // the ID of the last transaction that readers may see
	synced atomic.Int64 // the ID of the last one that is on disk

	mu    sync.Mutex    // guards ended, and raises of upTo
	ended chan struct{} // closed when the batch under way has ended; nil if none is
}

// errUnsettled is why a read begins again: it sees a transaction that may not be on disk.
var errUnsettled = errors.New("the newest transaction may not be on disk")

// newSettled is for a file of which everything is on disk.
func newSettled(o *opened) *settled {
	file := *o
	s := &settled{named: file.stillThere}
	_ = guarded(func() error { return o.db.View(func(tx *bbolt.Tx) error { s.reach(tx.ID()); return nil }) }) // or every read fails
	return s
}

// reach says that readers may see a transaction.
func (s *settled) reach(id int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upTo.Store(max(s.upTo.Load(), int64(id)))
}

func (s *settled) has(id int) bool { return int64(id) <= s.upTo.Load() }

// begin says that a batch begins, and end that it has ended.
func (s *settled) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = make(chan struct{})
}

func (s *settled) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	s.ended = nil
}

// wait returns when the transaction is on disk or the batch under way has ended. It returns an error
// if the transaction failed.
func (s *settled) wait(ctx context.Context, id int) error {
	s.mu.Lock()
	ended := s.ended
	s.mu.Unlock()
	switch {
	case s.has(id):
		return nil
	case int64(id) <= s.synced.Load():
		err := s.named()
		if err == nil { // it has its name again
			s.reach(id)
		}
		return err
	case ended == nil:
		return fmt.Errorf("%w: %w; restart seqd if this does not pass", persist.ErrUnavailable, errUnsettled)
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// view runs f in a read transaction that sees only what is on disk, unless ctx has ended. It may wait
// for the writes under way.
func (o *opened) view(ctx context.Context, f func(*bbolt.Tx) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := 0
		err := o.guard.run(func() error {
			return o.db.View(func(tx *bbolt.Tx) error {
				if id = tx.ID(); !o.settled.has(id) {
					return errUnsettled
				}
				return f(tx)
			})
		})
		if !errors.Is(err, errUnsettled) {
			return err
		}
		if err := o.settled.wait(ctx, id); err != nil {
			return err
		}
	}
}
