package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/persist"
)

// most is how many writes share one transaction.
const most = 1000

// writer runs all writes, one transaction at a time. Writes that arrive during a transaction share
// the next one. So a single write does not wait for others, and a thousand biz types that refill at
// once need one sync.
type writer struct {
	update  func(func(*bbolt.Tx) error) error // bbolt's Update
	written func() time.Duration              // all that bbolt has spent on writing and syncing
	wrote   func(took time.Duration)          // see [Options.Synced]; nil for none
	check   func() error
	guard   *guard
	settled *settled
	twice   bool // each transaction is followed by an empty one, see durably
	queue   chan *write
	quit    chan struct{}
	stopped chan struct{}
	once    sync.Once
	// A sync failed, so nothing is written any more. Only the writer's goroutine uses the field.
	broken error
}

type write struct {
	ctx  context.Context
	f    func(*bbolt.Tx) error
	err  error
	done chan struct{}
}

// startWriter starts the writer of a file.
func startWriter(o *opened, twice bool) *writer {
	w := &writer{update: o.db.Update, written: func() time.Duration { stats := o.db.Stats(); return stats.TxStats.GetWriteTime() }, wrote: o.wrote, check: o.stillThere, guard: o.guard, settled: o.settled, twice: twice, queue: make(chan *write), quit: make(chan struct{}), stopped: make(chan struct{})}
	go w.loop()
	return w
}

// do runs f in a transaction and returns when it is on disk. If the context ends first, it is
// unknown whether f took effect: forget what f would have returned, and do not read what f writes
// to.
func (w *writer) do(ctx context.Context, f func(*bbolt.Tx) error) error {
	op := &write{ctx: ctx, f: f, done: make(chan struct{})}
	select {
	case w.queue <- op:
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return persist.ErrClosed
	}
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.stopped
}

func (w *writer) loop() {
	defer close(w.stopped)
	for {
		select {
		case op := <-w.queue:
			w.commit(w.gather(op))
		case <-w.quit:
			return
		}
	}
}

// gather takes what else is waiting.
func (w *writer) gather(first *write) []*write {
	batch := []*write{first}
	for len(batch) < most {
		select {
		case op := <-w.queue:
			batch = append(batch, op)
		default:
			return batch
		}
	}
	return batch
}

// commit runs a batch in one transaction. The error of one write concerns that write alone. If the
// transaction fails, all writes fail.
func (w *writer) commit(batch []*write) {
	w.settled.begin()
	err := w.transact(batch)
	w.settled.end()
	if err != nil && !harmless(err) {
		w.broken = err
	}
	for _, op := range batch {
		if op.err == nil {
			op.err = translate(err)
		}
		close(op.done)
	}
}

// transact runs the batch.
func (w *writer) transact(batch []*write) error {
	if w.broken != nil {
		return w.broken
	}
	if err := w.check(); err != nil {
		return err
	}
	return w.durably(func(tx *bbolt.Tx) error {
		for _, op := range batch {
			if op.err = op.ctx.Err(); op.err == nil {
				op.err = op.f(tx)
			}
		}
		return nil
	})
}

// durably runs a transaction so that it survives damage of any one page.
func (w *writer) durably(f func(*bbolt.Tx) error) error {
	if err := w.synced(f); err != nil {
		return err
	}
	// bbolt writes two meta pages in turn. If the newer one is damaged, it silently opens the state
	// of the older one, and the last ranges would be issued again. After a second, empty
	// transaction both pages point to them.
	if w.twice {
		return w.synced(func(*bbolt.Tx) error { return nil })
	}
	return nil
}

// synced runs f in a transaction. Readers see it when it is on disk, in a file that still has its
// name.
func (w *writer) synced(f func(*bbolt.Tx) error) error {
	id := 0
	err := w.run(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return f(tx)
	})
	if err != nil {
		return err
	}
	w.settled.synced.Store(int64(id))
	if err := w.check(); err != nil { // it may have been removed meanwhile
		return err
	}
	w.settled.reach(id)
	return nil
}

// run runs f in a transaction. A panic of bbolt becomes an error: the write must not count as done.
func (w *writer) run(f func(*bbolt.Tx) error) error {
	if w.wrote == nil {
		return w.guard.run(func() error { return w.update(f) })
	}
	before := w.written()
	err := w.guard.run(func() error { return w.update(f) })
	w.wrote(w.written() - before)
	return err
}

// harmless reports whether a failed transaction certainly left the file as it was: there was no
// space to write a page or to grow the file, or the file was removed. Any other failure may be a
// failed sync, after which the kernel treats pages as written that never reached the disk. Later
// transactions would build on them, so the writer stops for good. bbolt returns a failed resize
// only as text.
func harmless(err error) bool {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "write" {
		return noSpace(err)
	}
	return errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, errMoved) || strings.HasPrefix(err.Error(), "file resize error")
}

// translate turns errors of the file into those of package persist.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persist.ErrNotFound), errors.Is(err, persist.ErrExists),
		errors.Is(err, persist.ErrExhausted), errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer),
		errors.Is(err, persist.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return persist.ErrClosed
	case harmless(err):
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: the disk did not take a write, nothing is issued from it until seqd is restarted: %w", persist.ErrUnavailable, err)
}
