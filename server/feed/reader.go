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

// errUnderWay is for a document that is being read already.
var errUnderWay = errors.New("the document is being read")

// read reads documents, several at a time. It returns when that is done or the next poll is due:
// a document that takes long to follow must not keep the others from being read. left are those
// that were not followed.
func (r *reader) read(ctx context.Context, subjects []subject) (left []subject, err error) {
	type outcome struct {
		subject
		left []subject
		err  error
	}
	patience := time.NewTimer(pollInterval)
	defer patience.Stop()
	pending := make(map[subject]bool, len(subjects))
	for _, s := range subjects {
		pending[s] = true
	}
	busy, ended := make(chan struct{}, parallelReads), make(chan outcome, len(subjects))
	var failed []error
	for next, done := 0, 0; done < len(subjects); {
		var free chan struct{}
		if next < len(subjects) {
			free = busy
		}
		select {
		case free <- struct{}{}:
			s := subjects[next]
			next++
			r.start(ctx, s, func(left []subject, err error) { <-busy; ended <- outcome{s, left, err} })
		case o := <-ended:
			done++
			delete(pending, o.subject)
			for _, s := range o.left {
				pending[s] = true
			}
			if o.err != nil && !errors.Is(o.err, errUnderWay) {
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
// after that. left is what was not read of it.
func (r *reader) start(ctx context.Context, s subject, done func(left []subject, err error)) {
	r.mu.Lock()
	_, under := r.reading[s]
	r.reading[s] = under
	r.mu.Unlock()
	if under {
		done([]subject{s}, errUnderWay)
		return
	}
	go func() {
		for {
			began := time.Now()
			left, err := r.follow(ctx, s)
			if err == nil {
				r.done(s, began)
			}
			if r.again(s) && ctx.Err() == nil {
				continue
			}
			done(left, err)
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

// follow calls the follower of a document. With an error, left is what it could not read.
func (r *reader) follow(ctx context.Context, s subject) (left []subject, err error) {
	to, ok := r.followers[s.Kind]
	if !ok {
		return nil, nil // a kind of a newer version
	}
	var names []string
	if s.Key == allKeys {
		names, err = to.Reload(ctx)
	} else {
		err = to.Changed(ctx, s.Key)
	}
	if err != nil && len(names) == 0 {
		left = []subject{s}
	}
	for _, name := range names {
		left = append(left, subject{s.Kind, name})
	}
	return left, err
}
