package feed

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// parallelReads bounds how many documents are read at once.
const parallelReads = 64

// reader makes the followers read documents. It is safe for concurrent use.
type reader struct {
	followers map[string]Follower // by the kind of documents
	done      func(s subject, began time.Time)

	mu sync.Mutex // guards reading
	// reading are the documents that are being read. The value is whether to read them again after
	// that.
	reading map[subject]bool
}

// init makes a reader without followers. done is called after a document was read.
func (r *reader) init(done func(s subject, began time.Time)) {
	r.followers, r.reading, r.done = make(map[string]Follower), make(map[subject]bool), done
}

// readAll reads all documents of every kind, and returns those that could not be read. The kinds
// are read at the same time, so that a slow one does not delay the others.
func (r *reader) readAll(ctx context.Context) (left []subject, err error) {
	type outcome struct {
		kind string
		left []string
		err  error
	}
	ended := make(chan outcome, len(r.followers))
	for kind, to := range r.followers {
		go func() {
			left, err := to.Reload(ctx)
			if err != nil && len(left) == 0 {
				left = []string{allKeys}
			}
			ended <- outcome{kind, left, err}
		}()
	}
	for range r.followers {
		o := <-ended
		for _, key := range o.left {
			left = append(left, subject{o.kind, key})
		}
		err = errors.Join(err, o.err)
	}
	return left, err
}

// errUnderWay is for a document that is being read already.
var errUnderWay = errors.New("the document is being read")

// read reads documents, several at a time. It returns when that is done or the next poll is due:
// a document that takes long to follow must not keep the others from being read. left are those
// that were not followed.
func (r *reader) read(ctx context.Context, subjects []subject) (left []subject, err error) {
	type outcome struct {
		subject
		err error
	}
	patience := time.NewTimer(pollInterval)
	defer patience.Stop()
	pending := make(map[subject]bool, len(subjects))
	for _, s := range subjects {
		pending[s] = true
	}
	slots, ended := make(chan struct{}, parallelReads), make(chan outcome, len(subjects))
	var failed []error
	for next, done := 0, 0; done < len(subjects); {
		var free chan struct{}
		if next < len(subjects) {
			free = slots
		}
		select {
		case free <- struct{}{}:
			s := subjects[next]
			next++
			r.start(ctx, s, func(err error) { <-slots; ended <- outcome{s, err} })
		case o := <-ended:
			done++
			if o.err == nil {
				delete(pending, o.subject)
			} else if !errors.Is(o.err, errUnderWay) {
				failed = append(failed, o.err)
			}
		case <-patience.C:
			return slices.Collect(maps.Keys(pending)), errors.Join(failed...)
		}
	}
	return slices.Collect(maps.Keys(pending)), errors.Join(failed...)
}

// start reads a document in the background and calls done with the outcome. If the document is
// being read already, start calls done with errUnderWay at once, and the document is read once more
// after that.
func (r *reader) start(ctx context.Context, s subject, done func(error)) {
	r.mu.Lock()
	_, under := r.reading[s]
	r.reading[s] = under
	r.mu.Unlock()
	if under {
		done(errUnderWay)
		return
	}
	go func() {
		for {
			began := time.Now()
			err := r.follow(ctx, s)
			if err == nil {
				r.done(s, began)
			}
			if r.again(s) && ctx.Err() == nil {
				continue
			}
			done(err)
			return
		}
	}()
}

// again reports whether a document must be read once more, and forgets it if not.
func (r *reader) again(s subject) (again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if again = r.reading[s]; again {
		r.reading[s] = false
	} else {
		delete(r.reading, s)
	}
	return again
}

// follow calls the follower of a document.
func (r *reader) follow(ctx context.Context, s subject) error {
	to, ok := r.followers[s.Kind]
	if !ok {
		return nil // a kind of a newer version
	}
	if s.Key == allKeys {
		_, err := to.Reload(ctx)
		return err
	}
	return to.Changed(ctx, s.Key)
}
