package gate

import (
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// AccessLog decides which requests get a line in the access log, with a limit of lines per second.
// Failed requests have a limit of their own, of the same size, so that a flood of good ones does
// not hide failures. It is safe for concurrent use.
type AccessLog struct {
	refusedOnly  bool
	good, failed *rate.Limiter
	unsaid       atomic.Int64 // requests without a line since the last line
	skipped      atomic.Int64 // requests without a line since the start
}

// newAccessLog returns a limit of that many lines per second for each of the two kinds; 0 means no
// limit. kind is on, or refused for requests that were refused or failed.
func newAccessLog(kind string, perSecond int) *AccessLog {
	most := rate.Limit(perSecond)
	if perSecond == 0 {
		most = rate.Inf
	}
	return &AccessLog{refusedOnly: kind == "refused", good: rate.NewLimiter(most, perSecond), failed: rate.NewLimiter(most, perSecond)}
}

// Takes reports whether a request that was answered at now gets a line, and how many requests
// before it got none because there were too many. refused is true if it got an error, and failed if
// the error is a failure of the service.
func (l *AccessLog) Takes(refused, failed bool, now time.Time) (skipped int64, ok bool) {
	if l.refusedOnly && !refused {
		return 0, false
	}
	bucket := l.good
	if failed {
		bucket = l.failed
	}
	if !bucket.AllowN(now, 1) {
		l.unsaid.Add(1)
		l.skipped.Add(1)
		return 0, false
	}
	if l.unsaid.Load() == 0 {
		return 0, true
	}
	return l.unsaid.Swap(0), true
}

// Skipped returns how many requests got no line because there were too many, 0 for a nil AccessLog.
func (l *AccessLog) Skipped() int64 {
	if l == nil {
		return 0
	}
	return l.skipped.Load()
}
