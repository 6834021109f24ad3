package issuer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// Init initialises every biz type that the issuer holds, and retries those that failed, until ctx
// ends. It returns when each is ready or has failed with [seqd.CodeConflict]; those are tried again
// in the background, until Close. Requests need not wait for it: the first request of a biz type
// initialises it.
func (is *Issuer) Init(ctx context.Context) {
	left := is.openAll(ctx, slices.Collect(is.serving()))
	for pause := firstRetry; len(left) > 0; pause = min(2*pause, retryInit) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		left = is.openAll(ctx, left)
	}
}

// openAll tries each instance once and returns those to try again soon. A conflict passes only if
// somebody changes something, so it is tried again later.
func (is *Issuer) openAll(ctx context.Context, instances []*instance) (left []*instance) {
	var mu sync.Mutex // guards left
	each(instances, func(i *instance) {
		switch seqd.CodeOf(is.initialise(ctx, i, &waits{})) {
		case "", seqd.CodeStopping:
		case seqd.CodeConflict:
			time.AfterFunc(retryConflict, func() { is.openSoon(i) })
		default:
			mu.Lock()
			defer mu.Unlock()
			left = append(left, i)
		}
	})
	return left
}

// opener initialises in the background what was put.
type opener struct {
	more chan struct{} // holds something if due does

	mu      sync.Mutex // guards what follows
	running bool
	due     []*instance // still to be tried
}

// openSoon initialises an instance in the background, until Close.
func (is *Issuer) openSoon(i *instance) {
	o := &is.opener
	o.mu.Lock()
	defer o.mu.Unlock()
	o.due = append(o.due, i)
	select {
	case o.more <- struct{}{}:
	default:
	}
	if !o.running {
		o.running = true
		go is.openDue()
	}
}

// openDue initialises what is due, and tries again what failed, until nothing is left or the issuer
// is closed. What comes meanwhile does not wait for what failed.
func (is *Issuer) openDue() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-is.changes.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	var (
		failed []*instance
		pause  = firstRetry
		retry  <-chan time.Time
	)
	for {
		due, over := is.opener.take(len(failed) == 0)
		if over {
			return
		}
		failed = append(failed, is.openAll(ctx, due)...)
		if len(failed) == 0 {
			continue
		}
		if retry == nil {
			retry = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return
		case <-is.opener.more:
		case <-retry:
			failed, retry, pause = is.openAll(ctx, failed), nil, min(2*pause, retryInit)
			if len(failed) == 0 {
				pause = firstRetry
			}
		}
	}
}

// take returns what is due. If that is nothing and last is true, over is true: the goroutine ends,
// and the next openSoon starts another.
func (o *opener) take(last bool) (due []*instance, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	due, o.due = o.due, nil
	over = last && len(due) == 0
	o.running = !over
	return due, over
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
// errors. It returns when ctx has ended, even if some have not. Issue returns [seqd.CodeStopping]
// after Close.
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
	busy := make(chan struct{}, parallel)
	for _, i := range instances {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			f(i)
		})
	}
	wg.Wait()
}

// firstRetry and retryInit are the first and the longest pause between two attempts to initialise
// what failed.
const (
	firstRetry = 50 * time.Millisecond
	retryInit  = time.Second
	// retryConflict is the pause after a conflict. A request tries at once.
	retryConflict = 10 * time.Second
)
