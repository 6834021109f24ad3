package console

import (
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// limiter limits attempts: in any minute there are at most each of one caller, and all of all
// callers, except for first attempts. It is safe for concurrent use, and remembers no more attempts
// than all, or most.
type limiter struct {
	now       func() time.Time
	each, all int
	// first is true if a caller has one attempt even after all: otherwise a few callers can keep
	// everybody out.
	first bool
	// most is how many attempts there are with the first ones; 0 is no limit.
	most     int
	mu       sync.Mutex // guards attempts
	attempts []attempt  // of the last minute, the oldest first
}

type attempt struct {
	who string
	at  time.Time
}

func newLimiter(now func() time.Time, each, all int) *limiter {
	return &limiter{now: now, each: each, all: all}
}

// take counts an attempt, or returns [seqd.CodeRateLimited] if there were too many. If the attempt
// turns out to be a good one, undo takes it back.
func (l *limiter) take(who string) (undo func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.attempts = slices.DeleteFunc(l.attempts, func(a attempt) bool {
		return now.Sub(a.at) >= time.Minute || a.at.After(now) // the clock was set back
	})
	count, first := 0, now
	for i := len(l.attempts) - 1; i >= 0; i-- {
		if a := l.attempts[i]; a.who == who {
			count, first = count+1, a.at
		}
	}
	full := len(l.attempts) >= l.all
	switch {
	case count >= l.each:
		return nil, tooMany(first.Add(time.Minute).Sub(now))
	case full && (count > 0 || !l.first), l.most > 0 && len(l.attempts) >= l.most:
		return nil, tooMany(l.attempts[0].at.Add(time.Minute).Sub(now))
	}
	if full && l.most == 0 {
		l.attempts = slices.Delete(l.attempts, 0, 1)
	}
	a := attempt{who: who, at: now}
	l.attempts = append(l.attempts, a)
	return func() { l.undo(a) }, nil
}

// undo takes an attempt back.
func (l *limiter) undo(a attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.attempts, a); i >= 0 {
		l.attempts = slices.Delete(l.attempts, i, i+1)
	}
}

func tooMany(wait time.Duration) error {
	return &seqd.Error{Code: seqd.CodeRateLimited, Detail: "there were too many attempts in the last minute: wait, and try again", RetryAfter: max(wait, time.Second)}
}
