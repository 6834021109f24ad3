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
	lines   *gate.AccessLog // nil without an access log
	log     *slog.Logger
	clients clients
}

// write writes the line of a request, if it gets one. It makes the record itself, because a Logger
// would read the clock again, and find out its caller, which no line shows.
func (l accessLog) write(c *gin.Context, id string, start time.Time) {
	now := time.Now()
	skipped, ok := l.lines.Takes(c.Writer.Status() >= http.StatusInternalServerError, now)
	ctx := c.Request.Context()
	if !ok || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.Int("status", c.Writer.Status()), slog.Int("bytes", c.Writer.Size()), slog.Float64("tookMs", milliseconds(now.Sub(start))),
		slog.String("client", l.clients.addr(c)), slog.String("requestId", id))
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("skipped", skipped))
	}
	line := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	line.AddAttrs(attrs...)
	_ = l.log.Handler().Handle(ctx, line) // as a Logger does, nobody could be told
}

// milliseconds returns a duration in ms, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
