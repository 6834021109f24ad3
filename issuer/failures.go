package issuer

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// failures writes the lines about defects that requests run into. Callers repeat such requests, and
// a line can have a stack: without a bound they would push the other lines out of the log. It is
// safe for concurrent use.
type failures struct {
	log     *slog.Logger
	limit   *rate.Limiter
	leftOut atomic.Int64 // lines since the last one
}

// mostFailures is how many lines there are at once. After that there is one a second.
const mostFailures = 100

func newFailures(log *slog.Logger) *failures {
	return &failures{log: log, limit: rate.NewLimiter(1, mostFailures)}
}

// note logs what went wrong, unless too much has of late. The next line says how often it did not.
func (f *failures) note(what, bizType string, err error, more ...any) {
	if !f.limit.Allow() {
		f.leftOut.Add(1)
		return
	}
	if n := f.leftOut.Swap(0); n > 0 {
		more = append(more, "leftOut", n)
	}
	f.log.Error(what, append([]any{"bizType", bizType, "error", err}, more...)...)
}
