// Package fewlines bounds lines of the log that callers can cause as often as they like, such as
// about a panic: without a bound they would push the other lines out of the log.
package fewlines

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Log writes few lines. It is safe for concurrent use.
type Log struct {
	log     *slog.Logger
	limit   *rate.Limiter
	leftOut atomic.Int64 // lines since the last one
}

// mostLines is how many lines there are at once. After that there is one a second.
const mostLines = 100

// New returns a Log that writes to another.
func New(log *slog.Logger) *Log { return &Log{log: log, limit: rate.NewLimiter(1, mostLines)} }

// Error writes an error, as [slog.Logger.Error] does, unless there were too many lines of late. The
// next one says in leftOut how many were not written.
func (l *Log) Error(line string, args ...any) { l.write(slog.LevelError, line, args...) }

// Warn is Error for a warning. Both have one bound.
func (l *Log) Warn(line string, args ...any) { l.write(slog.LevelWarn, line, args...) }

func (l *Log) write(level slog.Level, line string, args ...any) {
	if !l.limit.Allow() {
		l.leftOut.Add(1)
		return
	}
	if n := l.leftOut.Swap(0); n > 0 {
		args = append(args, "leftOut", n)
	}
	l.log.Log(context.Background(), level, line, args...)
}
