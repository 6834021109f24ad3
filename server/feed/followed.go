package feed

import (
	"sync"
	"time"
)

// followed is which changes this process has followed. It is safe for concurrent use.
type followed struct {
	mu sync.Mutex // guards what follows
	// began is when the last poll began that read the announcements; zero before the first one.
	began time.Time
	// behind are the documents that this poll could not follow, and when the last poll began that
	// followed them.
	behind map[subject]time.Time
}

// note notes a poll that read the announcements, and the documents that it could not follow.
func (f *followed) note(began time.Time, left []subject) {
	f.mu.Lock()
	defer f.mu.Unlock()
	behind := make(map[subject]time.Time, len(left))
	for _, s := range left {
		behind[s] = f.last(s)
	}
	f.began, f.behind = began, behind
}

// until returns when the last poll began that followed a document; zero for none.
func (f *followed) until(s subject) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last(s)
}

// last is until for a caller who holds the lock.
func (f *followed) last(s subject) time.Time {
	last := f.began
	for _, s := range [...]subject{s, {s.Kind, allKeys}} {
		if since, behind := f.behind[s]; behind && since.Before(last) {
			last = since
		}
	}
	return last
}
