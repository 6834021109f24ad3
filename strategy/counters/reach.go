package counters

import (
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/strategy"
)

// Reach is whether the store can be used for the counters of one biz type. It logs and reports a
// change once, and not for each counter. While the store is away, Reach asks it every second: a node
// that was taken out of rotation gets no requests, and must find out by itself that it can issue
// again. Reach is safe for concurrent use.
type Reach struct {
	Env     *strategy.Env
	BizType string
	// IsAway reports whether an error of the store says that it cannot be used now. Other errors,
	// such as that a counter is exhausted, say nothing.
	IsAway func(error) bool
	// Look asks the store.
	Look func(context.Context) error
	// Running ends what runs in the background.
	Running context.Context

	mu   lockorder.Inner // guards what follows
	away error           // why the store cannot be used, nil if it can
	// watching is whether watch runs. If the store answers some calls and not others, away changes
	// often, and there is still one watcher.
	watching bool
}

// lookPause is the pause between two looks at a store that is away.
const lookPause = time.Second

// Note notes what came of asking the store.
func (r *Reach) Note(err error) {
	if err != nil && !r.IsAway(err) {
		return
	}
	r.mu.Lock()
	was := r.away
	r.away = err
	begins := err != nil && !r.watching
	r.watching = r.watching || begins
	r.mu.Unlock()
	if begins {
		go r.watch()
	}
	switch {
	case err != nil && was == nil:
		r.Env.Log.Error("the store gives no numbers", "bizType", r.BizType, "error", err)
		r.Env.Observer.Event(seqd.Event{BizType: r.BizType, Kind: seqd.EventStoreAway, Err: err})
	case err == nil && was != nil:
		r.Env.Log.Info("the store gives numbers again", "bizType", r.BizType)
		r.Env.Observer.Event(seqd.Event{BizType: r.BizType, Kind: seqd.EventStoreBack})
	}
}

// Why returns why the store cannot be used, nil if it can.
func (r *Reach) Why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// watch asks the store until it answers.
func (r *Reach) watch() {
	for Pause(r.Running, lookPause) && r.watches() {
		ctx, cancel := context.WithTimeout(r.Running, timeout)
		err := r.Look(ctx)
		cancel()
		if r.Running.Err() == nil && (err == nil || !r.IsAway(err)) {
			r.Note(nil)
		}
	}
}

// watches reports whether the store is still to be watched. If not, the watcher must end: the next
// outage begins another one.
func (r *Reach) watches() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = r.away != nil
	return r.watching
}
