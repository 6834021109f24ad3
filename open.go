package seqd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Init makes every biz type ready, and retries those that fail for a reason that can pass, until
// ctx ends. It returns when all are ready or beyond help. Requests need not wait for it: the first
// one initialises its own biz type.
func (is *Issuer) Init(ctx context.Context) {
	pause := 50 * time.Millisecond
	for {
		left := is.initAll(ctx)
		if left == 0 || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, retryInit)
	}
}

// initAll tries each instance once and returns how many are worth another try.
func (is *Issuer) initAll(ctx context.Context) int {
	var left atomic.Int64
	each(slices.Collect(is.serving()), func(i *instance) {
		if i.ready.Load() {
			return
		}
		switch CodeOf(is.initialise(ctx, i, &walk{})) {
		case "", CodeConflict, CodeStopping:
		default:
			left.Add(1)
		}
	})
	return int(left.Load())
}

// opener initialises in the background what was put.
type opener struct {
	mu      sync.Mutex // guards what follows
	running bool
	again   bool // something was put since the last look
}

// openSoon initialises in the background what was put, until Close.
func (is *Issuer) openSoon() {
	o := &is.opener
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.again = true; o.running {
		return
	}
	o.running = true
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-is.changes.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		for o.more() {
			is.Init(ctx)
		}
	}()
}

// more reports whether something was put since the last look. If not, the next openSoon starts
// another goroutine.
func (o *opener) more() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running, o.again = o.again, false
	return o.running
}

// serving returns the instances that issue, or will once they are initialised.
func (is *Issuer) serving() iter.Seq[*instance] {
	return func(yield func(*instance) bool) {
		for _, s := range is.names.all() {
			if i := s.serving.Load(); i != nil && !yield(i) {
				return
			}
		}
	}
}

// open returns the instances that are to be closed one day: those that serve, and those that are
// disabled, because of their plugins. A change under way closes its own.
func (is *Issuer) open() (instances []*instance) {
	for _, s := range is.names.all() {
		if c := s.look(); c.instance != nil {
			instances = append(instances, c.instance)
		}
	}
	return instances
}

// Close closes every strategy that was initialised, several at a time, and returns their errors. A
// call to Issue after Close gets [CodeStopping].
func (is *Issuer) Close(ctx context.Context) error {
	is.changes.end(ctx)
	instances := is.open()
	for _, i := range instances {
		i.stop()
	}
	var (
		mu     sync.Mutex // guards what follows
		failed []error
		total  int
	)
	each(instances, func(i *instance) {
		if err := i.close(ctx); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if total++; total <= mostFailed {
				failed = append(failed, fmt.Errorf("close biz type %s: %w", i.name, err))
			}
		}
	})
	if total > mostFailed {
		failed = append(failed, fmt.Errorf("%d biz types more did not close well", total-mostFailed))
	}
	return errors.Join(failed...)
}

// mostFailed is how many biz types an error of Close names: there may be 100,000.
const mostFailed = 10

// parallel bounds how many biz types are opened or closed at once; the store merges what comes
// together: the more, the fewer times it has to sync.
const parallel = 256

// each runs f on every instance, several at a time, and returns when all are done.
func each(instances []*instance, f func(*instance)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, i := range instances {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// retryInit is the longest pause between two attempts to initialise what failed.
const retryInit = time.Second
