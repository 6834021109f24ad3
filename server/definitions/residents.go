package definitions

import (
	"context"
	"errors"
	"sync"
	"time"
)

// residents are the biz types that are held because they were needed, and not because the
// configuration names them. It is safe for concurrent use.
//
// To drop biz types for another reason, write a function beside tidy:
//
//   - Take names out with next or takeAll, and add back each that was not dropped: a name that is held
//     and not configured is here once.
//   - Drop with [Catalogue.drop] only. It keeps what is in use or cannot be made anew, holds the turn
//     of the name, and does nothing while the store is away.
//   - Keep what was stopped within keepStopped, unless room is needed.
//   - Drop at most parallelCloses at once.
type residents struct {
	closing chan struct{} // one for each that is being dropped to make room

	mu    sync.Mutex // guards queue
	queue []string   // those that came or were found in use lately are at the end
}

const (
	// parallelCloses bounds how many biz types are dropped at once. A fetch that has to make room
	// waits for its turn, so at most parallelCloses drops are pending.
	parallelCloses = 64
	// mostLooks is how many biz types are looked at to find one that is idle.
	mostLooks = 16
	// keepStopped is for how long a biz type is held after it was disabled or deleted, unless room
	// is needed: longer than an operator waits before another strategy is forced upon it. See
	// [checker.settled].
	keepStopped = 10 * time.Minute
)

func (r *residents) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, name)
}

// next takes out the name that was added first.
func (r *residents) next() (name string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return "", false
	}
	name = r.queue[0]
	r.queue[0] = ""
	r.queue = r.queue[1:]
	return name, true
}

// takeAll takes out all names.
func (r *residents) takeAll() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, r.queue = r.queue, nil
	return names
}

func (r *residents) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// makeRoom drops biz types in the background if there are too many. It waits while many are being
// dropped.
func (c *Catalogue) makeRoom() {
	r := &c.residents
	if r.count() <= c.cfg.LiveBizTypes {
		return
	}
	r.closing <- struct{}{}
	go func() {
		defer func() { <-r.closing }()
		c.dropSome()
	}()
}

// dropSome drops a biz type. It drops a second one while there are too many: an earlier call may have
// found only biz types in use.
func (c *Catalogue) dropSome() {
	r, dropped := &c.residents, 0
	// At most once round the queue: the first look clears the mark of use, so a second one would find a
	// busy biz type idle.
	for range min(mostLooks, r.count()) {
		name, ok := r.next()
		switch {
		case !ok:
			return
		case !c.drop(name):
			r.add(name)
		default:
			if dropped++; dropped == 2 || r.count() <= c.cfg.LiveBizTypes {
				return
			}
		}
	}
}

// Tidy drops biz types that nobody uses, until ctx ends.
func (c *Catalogue) Tidy(ctx context.Context) {
	if c.locked || c.cfg.BizTypeIdle == 0 {
		return
	}
	every(ctx, c.cfg.BizTypeIdle/2, func() { c.tidy(ctx) }) // dropped are those that nobody has used between two looks
}

// every calls f after each pause until ctx ends.
func every(ctx context.Context, pause time.Duration, f func()) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

// tidy looks at all residents once. The queue is empty at first, so makeRoom does less meanwhile.
func (c *Catalogue) tidy(ctx context.Context) {
	// its only errors are those of the function
	_ = inParallel(c.residents.takeAll(), parallelCloses, func(name string) error {
		if ctx.Err() != nil || c.states.stoppedSince(name, keepStopped) || !c.drop(name) {
			c.residents.add(name)
		}
		return nil
	})
}

// drop ends holding a biz type if it is idle. Its unused numbers go back to the store.
func (c *Catalogue) drop(name string) (dropped bool) {
	if !c.issuer.Idle(name) {
		return false
	}
	defer c.turns.take(name)()
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Server.StopTimeout)
	defer cancel()
	if _, _, err := c.records.read(ctx, name); err != nil && !errors.Is(err, errDamaged) {
		return false // while the store is away, what the node has in hand is all that there is
	}
	dropped, err := c.issuer.Drop(ctx, name)
	if err != nil {
		known, _ := c.states.get(name)
		known.closedBadly()
		c.log.Warn("a biz type that nobody uses did not close well", "bizType", name, "error", err)
	}
	if !dropped {
		return false // somebody uses it after all
	}
	c.builder.handlers.Release(c.states.setRejected(name, nil))
	c.states.forget(name)
	return true
}

// inParallel calls f for each name, that many at once, and returns the first error. It calls f for
// all of them.
func inParallel(names []string, most int, f func(name string) error) error {
	var (
		mu    sync.Mutex // guards first
		first error
		wg    sync.WaitGroup
	)
	running := make(chan struct{}, most)
	for _, name := range names {
		running <- struct{}{}
		wg.Go(func() {
			defer func() { <-running }()
			if err := f(name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = err
				}
			}
		})
	}
	wg.Wait()
	return first
}
