package ratelimit

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// mostCallers is how many callers have a bucket of their own. Their names come from configured
	// tokens, so there are rarely so many. Further callers share one bucket.
	mostCallers = 10_000
	// sweepPause is the shortest time between two searches for full buckets, once there are
	// mostCallers.
	sweepPause = time.Second
)

// local is the buckets in this process. They use the monotonic clock, so setting the time of day
// has no effect.
type local struct {
	now   func() time.Time
	limit rate.Limit
	size  int

	unnamed *bucket // of callers without a name
	crowd   *bucket // of callers for whom there is no bucket left

	// mu guards byName and swept. Requests hold it for reading while they take tokens, so a bucket
	// that is dropped is not in use.
	mu     sync.RWMutex
	byName map[string]*bucket
	swept  time.Time
}

func newLocal(settings Settings, now func() time.Time) *local {
	l := &local{now: now, limit: rate.Limit(settings.Rate), size: int(settings.size()), byName: make(map[string]*bucket)}
	l.unnamed, l.crowd = l.bucket(), l.bucket()
	return l
}

// bucket is one token bucket. A request may be delayed between reading the clock and taking tokens.
// mu guards limiter and latest, the latest time the bucket was asked at, so that no time counts
// twice.
type bucket struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	latest  time.Time
}

// bucket returns a full bucket.
func (l *local) bucket() *bucket { return &bucket{limiter: rate.NewLimiter(l.limit, l.size)} }

// take implements [buckets]. It allocates only for a caller's first request.
func (l *local) take(_ context.Context, caller string, cost int64) (left float64, ok bool, err error) {
	now := l.now()
	if caller == "" {
		left, ok = takeFrom(l.unnamed, now, cost)
		return left, ok, nil
	}
	l.mu.RLock()
	b := l.byName[caller]
	if b != nil {
		left, ok = takeFrom(b, now, cost)
	}
	l.mu.RUnlock()
	if b == nil {
		left, ok = l.takeFirst(caller, now, cost)
	}
	return left, ok, nil
}

// takeFirst is take for a caller that has no bucket.
func (l *local) takeFirst(caller string, now time.Time, cost int64) (left float64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.byName[caller]
	if b == nil && len(l.byName) >= mostCallers {
		l.sweep(now)
	}
	switch {
	case b != nil:
	case len(l.byName) >= mostCallers:
		b = l.crowd
	default:
		b = l.bucket()
		l.byName[caller] = b
	}
	return takeFrom(b, now, cost)
}

// full implements [buckets].
func (l *local) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	full := l.unnamed.tokens(now) >= float64(l.size) && l.crowd.tokens(now) >= float64(l.size)
	for caller, b := range l.byName {
		if b.tokens(now) < float64(l.size) {
			return false
		}
		delete(l.byName, caller)
	}
	return full
}

// sweep drops full buckets, which are equal to new ones. mu is held.
func (l *local) sweep(now time.Time) {
	if passed := now.Sub(l.swept); passed >= 0 && passed < sweepPause {
		return
	}
	l.swept = now
	for caller, b := range l.byName {
		if b.tokens(now) >= float64(l.size) {
			delete(l.byName, caller)
		}
	}
}

func takeFrom(b *bucket, now time.Time, cost int64) (left float64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Before(b.latest) {
		now = b.latest
	}
	b.latest = now
	ok = b.limiter.AllowN(now, int(cost))
	return b.limiter.TokensAt(now), ok
}

// tokens returns how many tokens there are.
func (b *bucket) tokens(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limiter.TokensAt(now)
}
