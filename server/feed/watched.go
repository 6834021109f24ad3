package feed

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// watched are the documents that are read at each poll, because they were announced a short time
// ago, or could not be read. It is safe for concurrent use.
type watched struct {
	mu    sync.Mutex // guards what follows
	seen  int64      // the number of the newest announcement that was read
	until map[subject]time.Time
}

// note adds the documents that were announced after a number, and reports whether the list still
// has all of those. If the numbers went down, these are other announcements than those that were
// read, and some may be missing.
func (w *watched) note(list announcements, after int64) (complete bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := time.Now().Add(WatchFor)
	back := list.Last < after
	for _, a := range list.Recent {
		if back || a.Number > after {
			w.until[a.subject] = until
		}
	}
	w.seen = list.Last
	return list.Last == after || !back && len(list.Recent) > 0 && list.Recent[0].Number <= after+1
}

// number returns the number of the newest announcement that was read.
func (w *watched) number() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// add adds a document until a read of it that begins after now.
func (w *watched) add(s subject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until[s] = time.Now()
}

// leave notes which documents a poll could not read. They are watched from then on, instead of all
// documents of a kind of which the others were read.
func (w *watched) leave(left []subject) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for s := range w.until {
		if s.Key == allKeys {
			delete(w.until, s)
		}
	}
	for _, s := range left {
		if _, ok := w.until[s]; !ok {
			w.until[s] = time.Now()
		}
	}
}

// all returns the documents.
func (w *watched) all() []subject {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.until))
}

// remove removes a document that was read, if the read that began then came after the time that it
// is watched for.
func (w *watched) remove(s subject, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if began.After(w.until[s]) {
		delete(w.until, s)
	}
}
