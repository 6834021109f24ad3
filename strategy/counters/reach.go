package counters

import (
	"context"
	"time"

	"github.com/seqd/seqd"
)

// A family logs and reports once, and not for each counter, that the store cannot be used, or can
// be used again. While the store is away, it asks the store every second: a node that was taken out
// of rotation gets no requests, and must find out by itself that it can issue again.

// lookPause is the pause between two looks at a store that is away.
const lookPause = time.Second

// Note notes what came of asking the store.
func (f *Family[C, V]) Note(err error) {
	if err != nil && !f.kind.IsAway(err) {
		return
	}
	f.mu.Lock()
	was := f.away
	f.away = err
	begins := err != nil && !f.watching
	f.watching = f.watching || begins
	f.mu.Unlock()
	if begins {
		go f.watch()
	}
	switch {
	case err != nil && was == nil:
		f.Env.Log.Error("the store gives no numbers", "bizType", f.BizType.Name, "error", err)
		f.Env.Observer.Event(seqd.Event{BizType: f.BizType.Name, Kind: seqd.EventStoreAway, Err: err})
	case err == nil && was != nil:
		f.Env.Log.Info("the store gives numbers again", "bizType", f.BizType.Name)
		f.Env.Observer.Event(seqd.Event{BizType: f.BizType.Name, Kind: seqd.EventStoreBack})
	}
}

// Away returns why the store cannot be used, nil if it can.
func (f *Family[C, V]) Away() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.away
}

// watch asks the store until it answers.
func (f *Family[C, V]) watch() {
	for Pause(f.Running, lookPause) && f.watches() {
		ctx, cancel := context.WithTimeout(f.Running, timeout)
		err := f.kind.LookAtStore(ctx)
		cancel()
		if f.Running.Err() == nil && (err == nil || !f.kind.IsAway(err)) {
			f.Note(nil)
		}
	}
}

// watches reports whether the store is still to be watched. If not, the watcher must end: the next
// outage begins another one.
func (f *Family[C, V]) watches() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watching = f.away != nil
	return f.watching
}
