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

// Init initialises every biz type, and retries those that failed for a reason that can pass, until
// ctx ends. It returns when each is ready or cannot become ready. Requests need not wait for it:
// the first request of a biz type initialises it.
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
	again   bool // something was put since the goroutine last looked
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

// more reports whether something was put since the last call. If not, the goroutine ends, and the
// next openSoon starts another.
func (o *opener) more() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running, o.again = o.again, false
	return o.running
}

// serving yields the instances that serve, initialised or not.
func (is *Issuer) serving() iter.Seq[*instance] {
	return func(yield func(*instance) bool) {
		for _, s := range is.names.all() {
			if i := s.serving.Load(); i != nil && !yield(i) {
				return
			}
		}
	}
}

// open returns the instances to be closed: those that serve, and those at rest, whose plugins are
// open. A change under way closes its own.
func (is *Issuer) open() (instances []*instance) {
	for _, s := range is.names.all() {
		if c := s.look(); c.instance != nil {
			instances = append(instances, c.instance)
		}
	}
	return instances
}

// Close closes the strategies and plugins of all biz types, several at a time, and returns their
// errors. It returns when ctx has ended, even if some have not. Issue returns [CodeStopping] after
// Close.
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
		failed = append(failed, fmt.Errorf("%d more biz types did not close well", total-mostFailed))
	}
	return errors.Join(failed...)
}

// mostFailed is how many biz types an error of Close names: there may be 100,000.
const mostFailed = 10

// parallel is how many biz types are initialised or closed at once. The store merges what comes
// together, so more of them need fewer syncs.
const parallel = 256

// each calls f for every instance, several at a time, and returns when all calls have returned.
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
