package feed

import (
	"context"
	"errors"
	"time"
)

// parallelLooks bounds how many documents are read at once.
const parallelLooks = 64

// lookAt reads documents, several at a time. It returns when that is done or the next poll is due:
// a document that takes long to follow must not keep the others from being read.
func (f *Feed) lookAt(ctx context.Context, subjects []subject) error {
	patience := time.NewTimer(pollInterval)
	defer patience.Stop()
	slots, ended := make(chan struct{}, parallelLooks), make(chan error, len(subjects))
	for _, s := range subjects {
		select {
		case slots <- struct{}{}:
		case <-patience.C:
			return nil
		}
		f.look(ctx, s, func(err error) { <-slots; ended <- err })
	}
	var failed []error
	for range subjects {
		select {
		case err := <-ended:
			failed = append(failed, err)
		case <-patience.C:
			return errors.Join(failed...)
		}
	}
	return errors.Join(failed...)
}

// look reads a document in the background and calls done with the outcome. If the document is being
// read already, look calls done at once, and the document is read once more after that.
func (f *Feed) look(ctx context.Context, s subject, done func(error)) {
	f.mu.Lock()
	_, under := f.looking[s]
	f.looking[s] = under
	f.mu.Unlock()
	if under {
		done(nil)
		return
	}
	go func() {
		for {
			began := time.Now()
			err := f.follow(ctx, s)
			if err == nil {
				f.unwatch(s, began)
			}
			if f.again(s) && ctx.Err() == nil {
				continue
			}
			done(err)
			return
		}
	}()
}

// again reports whether a document must be read once more, and forgets it if not.
func (f *Feed) again(s subject) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if again = f.looking[s]; again {
		f.looking[s] = false
	} else {
		delete(f.looking, s)
	}
	return again
}

// unwatch stops watching a document if the read that began then came after the time that it is
// watched for.
func (f *Feed) unwatch(s subject, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if began.After(f.watch[s]) {
		delete(f.watch, s)
	}
}

// follow calls the follower of a document.
func (f *Feed) follow(ctx context.Context, s subject) error {
	to, ok := f.followers[s.Kind]
	if !ok {
		return nil // a kind of a newer version
	}
	if s.Key == allKeys {
		return to.Reload(ctx)
	}
	return to.Changed(ctx, s.Key)
}
