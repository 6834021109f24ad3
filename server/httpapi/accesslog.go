package httpapi

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"
)

// accessLog writes the access log, with a limit of lines per second. Answers with a status of 500
// or above have a limit of their own, of the same size, so that a flood of good answers does not
// hide failures. It is safe for concurrent use.
type accessLog struct {
	log          *slog.Logger
	good, failed *rate.Limiter
	unsaid       atomic.Int64 // requests without a line since the last line
	skipped      atomic.Int64 // requests without a line since the start
}

// newAccessLog returns a limit of that many lines per second for each of the two kinds; 0 means no
// limit.
func newAccessLog(perSecond int, log *slog.Logger) *accessLog {
	most := rate.Limit(perSecond)
	if perSecond == 0 {
		most = rate.Inf
	}
	return &accessLog{log: log, good: rate.NewLimiter(most, perSecond), failed: rate.NewLimiter(most, perSecond)}
}

// takes reports whether an answer gets a line, and how many answers before it got none.
func (l *accessLog) takes(status int, now time.Time) (skipped int64, ok bool) {
	bucket := l.good
	if status >= http.StatusInternalServerError {
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

// write writes the line of a request, if it gets one.
func (l *accessLog) write(c *gin.Context, id string, start time.Time) {
	now := time.Now()
	skipped, ok := l.takes(c.Writer.Status(), now)
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.Int("status", c.Writer.Status()), slog.Int("bytes", c.Writer.Size()), slog.Float64("tookMs", milliseconds(now.Sub(start))),
		slog.String("client", c.ClientIP()), slog.String("requestId", id))
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("skipped", skipped))
	}
	l.log.LogAttrs(c.Request.Context(), slog.LevelInfo, "request", attrs...)
}

// milliseconds returns a duration in ms, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
