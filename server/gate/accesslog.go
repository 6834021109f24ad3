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
	rule    atomic.Pointer[rule]
	unsaid  atomic.Int64 // requests without a line since the last line
	skipped atomic.Int64 // requests without a line since the start
}

// rule says which requests get a line.
type rule struct {
	kind         string // off, refused or on
	good, failed *rate.Limiter
}

// Limit sets a limit of that many lines per second for each of the two kinds; 0 means no limit. kind is on,
// refused for requests that were refused or failed, or off.
func (l *AccessLog) Limit(kind string, perSecond int) {
	most := rate.Limit(perSecond)
	if perSecond == 0 {
		most = rate.Inf
	}
	l.rule.Store(&rule{kind, rate.NewLimiter(most, perSecond), rate.NewLimiter(most, perSecond)})
}

// On reports whether any requests are logged.
func (l *AccessLog) On() bool { return l.rule.Load().kind != "off" }

// Takes reports whether a request that was answered at now gets a line, and how many requests
// before it got none because there were too many. refused is true if it got an error, and failed if
// the error is a failure of the service.
func (l *AccessLog) Takes(refused, failed bool, now time.Time) (skipped int64, ok bool) {
	r := l.rule.Load()
	if r.kind == "off" || r.kind == "refused" && !refused {
		return 0, false
	}
	bucket := r.good
	if failed {
		bucket = r.failed
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

// Skipped returns how many requests got no line because there were too many.
func (l *AccessLog) Skipped() int64 { return l.skipped.Load() }
