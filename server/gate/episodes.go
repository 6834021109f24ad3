package gate

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// logEvery is the shortest time between two log lines of the same kind.
const logEvery = 10 * time.Second

// Episodes counts something that may happen very often, and logs it with a count, at once and then
// at most every 10 s. It is safe for concurrent use.
type Episodes struct {
	log     *slog.Logger
	message string
	all     atomic.Int64 // how often it happened
	unsaid  atomic.Int64
	last    atomic.Int64 // when it was last logged, nanoseconds since 1970
}

// NewEpisodes returns episodes that are logged with that message.
func NewEpisodes(message string, log *slog.Logger) *Episodes {
	return &Episodes{log: log, message: message}
}

// Count counts one.
func (e *Episodes) Count() {
	e.all.Add(1)
	e.unsaid.Add(1)
	now, last := time.Now().UnixNano(), e.last.Load()
	if (now-last >= int64(logEvery) || now < last) && e.last.CompareAndSwap(last, now) {
		e.log.Warn(e.message, "count", e.unsaid.Swap(0))
	}
}

// All returns how often it happened.
func (e *Episodes) All() int64 { return e.all.Load() }
