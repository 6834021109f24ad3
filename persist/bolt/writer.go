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

// writer runs all writes one transaction at a time. Writes that arrive while one is on its way to
// the disk share the next one: a single write never waits for company, and a thousand biz types
// that refill at once cost one sync.
type writer struct {
	update  func(func(*bbolt.Tx) error) error // bbolt's Update
	check   func() error
	guard   *guard
	twice   bool // each transaction is followed by an empty one, see transact
	queue   chan *write
	quit    chan struct{}
	stopped chan struct{}
	once    sync.Once
	// a sync failed: nothing is written any more. Only the writer's goroutine uses it.
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
	w := &writer{update: o.db.Update, check: o.stillThere, guard: o.guard, twice: twice, queue: make(chan *write), quit: make(chan struct{}), stopped: make(chan struct{})}
	go w.loop()
	return w
}

// do runs f in a transaction and returns when it is on disk. When the context ends first, whether f
// took effect is unknown: what f would have returned must be forgotten, and what f writes to must
// not be read.
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

// commit runs a batch in one transaction. What one write returns concerns that write alone; a
// failed transaction fails those that wrote.
func (w *writer) commit(batch []*write) {
	err := w.transact(batch)
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

// transact runs the batch and makes it survive what one page can suffer.
func (w *writer) transact(batch []*write) (err error) {
	if w.broken != nil {
		return w.broken
	}
	if err := w.check(); err != nil {
		return err
	}
	err = w.run(func(tx *bbolt.Tx) error {
		for _, op := range batch {
			if op.err = op.ctx.Err(); op.err == nil {
				op.err = op.f(tx)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	// bbolt keeps two meta pages, written in turn, and where the newer one is damaged it silently
	// opens the state of the older one: the last ranges would be handed out again. After a second,
	// empty transaction both pages know them.
	if w.twice {
		if err := w.run(func(*bbolt.Tx) error { return nil }); err != nil {
			return err
		}
	}
	return w.check() // the file may have gone meanwhile
}

// run runs f in a transaction. A panic of bbolt becomes an error: nobody may take the write for
// done.
func (w *writer) run(f func(*bbolt.Tx) error) error {
	return w.guard.run(func() error { return w.update(f) })
}

// harmless reports whether a failed transaction is certain to have left the file as it was: there
// was no space to write a page or to grow the file, or the file has gone. Anything else may be a
// sync that failed, after which the kernel holds pages for clean that never reached the disk; going
// on would build on them, so the writer stops for good. bbolt returns a failed resize only as text.
func harmless(err error) bool {
	if path, ok := errors.AsType[*fs.PathError](err); ok && path.Op == "write" {
		return noSpace(err)
	}
	return errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, errMoved) || strings.HasPrefix(err.Error(), "file resize error")
}

// translate gives errors of the file the meaning the rest of seqd knows.
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
