package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/persist"
)

// most is how many writes share one transaction.
const most = 1000

// writer runs all writes one transaction at a time. Writes that arrive while one is on its way to the disk share the next
// one: a single write never waits for company, and a thousand biz types that refill at once cost one sync.
type writer struct {
	update  func(func(*bbolt.Tx) error) error // bbolt's Update
	check   func() error
	queue   chan *write
	quit    chan struct{}
	stopped chan struct{}
	once    sync.Once
	broken  error // a sync failed: nothing is written any more. Only the writer's goroutine uses it.
}

type write struct {
	ctx  context.Context
	f    func(*bbolt.Tx) error
	err  error
	done chan struct{}
}

func startWriter(db *bbolt.DB, check func() error) *writer {
	w := &writer{update: db.Update, check: check, queue: make(chan *write), quit: make(chan struct{}), stopped: make(chan struct{})}
	go w.loop()
	return w
}

// do runs f in a transaction and returns when it is on disk. A context that ends before the transaction began keeps f from
// running; afterwards the outcome is waited for, so it is never unknown.
func (w *writer) do(ctx context.Context, f func(*bbolt.Tx) error) error {
	op := &write{ctx: ctx, f: f, done: make(chan struct{})}
	select {
	case w.queue <- op:
		<-op.done
		return op.err
	case <-ctx.Done():
		return ctx.Err()
	case <-w.quit:
		return persist.ErrClosed
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

// commit runs a batch in one transaction. What one write returns concerns that write alone; a failed transaction fails those that
// wrote.
func (w *writer) commit(batch []*write) {
	defer func() {
		for _, op := range batch {
			close(op.done)
		}
	}()
	err := w.broken
	if err == nil {
		err = w.check()
	}
	if err == nil {
		err = w.update(func(tx *bbolt.Tx) error {
			for _, op := range batch {
				if op.err = op.ctx.Err(); op.err == nil {
					op.err = op.f(tx)
				}
			}
			return nil
		})
		if err != nil && !harmless(err) {
			w.broken = err
		}
	}
	if err != nil {
		for _, op := range batch {
			if op.err == nil {
				op.err = translate(err)
			}
		}
	}
}

// harmless reports whether a failed transaction is certain to have left the file as it was: a page could not be written,
// or the file not grown. Anything else may be a sync that failed, after which the kernel holds pages for clean that never
// reached the disk; going on would build on them, so the writer stops for good. bbolt returns a failed write as a path error
// and a failed resize only as text.
func harmless(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return true
	}
	return errors.Is(err, bolterrors.ErrDatabaseNotOpen) || strings.HasPrefix(err.Error(), "file resize error")
}

// translate gives errors of the file the meaning the rest of seqd knows.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persist.ErrNotFound), errors.Is(err, persist.ErrExists), errors.Is(err, persist.ErrLowered),
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
