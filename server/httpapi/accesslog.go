package httpapi

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"
)

// accessLog limits the lines of the access log per second. Answers with a status of 500 or above
// have a limit of their own, of the same size, so that a flood of good answers does not hide
// failures. It is safe for concurrent use.
type accessLog struct {
	good, failed *rate.Limiter
	unsaid       atomic.Int64 // requests without a line since the last line
	skipped      atomic.Int64 // requests without a line since the start
}

// newAccessLog returns a limit of that many lines per second for each of the two kinds; 0 means no
// limit.
func newAccessLog(perSecond int) *accessLog {
	most := rate.Limit(perSecond)
	if perSecond == 0 {
		most = rate.Inf
	}
	return &accessLog{good: rate.NewLimiter(most, perSecond), failed: rate.NewLimiter(most, perSecond)}
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

// AccessLogSkipped returns how many requests got no line in the access log because there were too
// many.
func (a *API) AccessLogSkipped() int64 { return a.access.skipped.Load() }

func (a *API) logAccess(c *gin.Context, id string, start time.Time) {
	now := time.Now()
	skipped, ok := a.access.takes(c.Writer.Status(), now)
	if !ok {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.Int("status", c.Writer.Status()), slog.Int("bytes", c.Writer.Size()), slog.Float64("tookMs", milliseconds(now.Sub(start))),
		slog.String("client", clientIP(c)), slog.String("requestId", id))
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("skipped", skipped))
	}
	a.opts.Log.LogAttrs(c.Request.Context(), slog.LevelInfo, "request", attrs...)
}

// clientIP returns the address of the client. gin reads only the first line of X-Forwarded-For,
// which the client may have written itself, so the lines are joined first.
func clientIP(c *gin.Context) string {
	if lines := c.Request.Header["X-Forwarded-For"]; len(lines) > 1 {
		c.Request.Header["X-Forwarded-For"] = []string{strings.Join(lines, ",")}
	}
	return c.ClientIP()
}

// milliseconds returns a duration in ms, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
