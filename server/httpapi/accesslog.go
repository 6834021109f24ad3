package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/gate"
)

// accessLog writes the access log. An answer with a status of 500 or above is a failed one.
type accessLog struct {
	lines *gate.AccessLog // nil without an access log
	log   *slog.Logger
}

// write writes the line of a request, if it gets one.
func (l accessLog) write(c *gin.Context, id string, start time.Time) {
	now := time.Now()
	skipped, ok := l.lines.Takes(c.Writer.Status() >= http.StatusInternalServerError, now)
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
