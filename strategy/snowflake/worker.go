package snowflake

import (
	"context"
	"sync"
)

// worker starts and stops the goroutine of a holder. It is safe for concurrent use.
type worker struct {
	first chan struct{} // closed after the first attempt to get a machine ID
	done  chan struct{} // closed when the goroutine has ended

	mu   sync.Mutex         // guards what follows
	stop context.CancelFunc // stops the goroutine; nil before start
	over bool               // end was called
}

func newWorker() worker { return worker{first: make(chan struct{}), done: make(chan struct{})} }

// start runs f in the goroutine, once. f must close first and done.
func (w *worker) start(f func(context.Context)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
		return errStopping
	case w.stop == nil:
		var ctx context.Context
		ctx, w.stop = context.WithCancel(context.Background())
		go f(ctx)
	}
	return nil
}

// end stops the goroutine. It returns nil when that is done, or if it was never started, and an
// error if ctx ends before.
func (w *worker) end(ctx context.Context) error {
	w.mu.Lock()
	w.over = true
	stop := w.stop
	w.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// started reports whether start was called.
func (w *worker) started() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stop != nil
}

// runs reports whether start was called and end was not.
func (w *worker) runs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stop != nil && !w.over
}
