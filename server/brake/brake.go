// Package brake holds work in the background back while callers use the node.
package brake

import (
	"sync"
	"time"
)

// Work in the background can use a whole core, and a request that comes meanwhile may wait for
// milliseconds. So it works for slice and then rests, for as long as the node has requests, and until
// it had none for calm.
const (
	slice = 20 * time.Microsecond
	rest  = 400 * time.Microsecond
	calm  = 100 * time.Millisecond
)

// Brake holds one piece of work back. It is safe for concurrent use: goroutines share one pace.
type Brake struct {
	served func() int64

	mu    sync.Mutex
	seen  int64
	busy  time.Time // when there was a new request
	began time.Time // when the slice began
}

// New returns a brake. served returns how many requests the node has begun to answer.
func New(served func() int64) *Brake { return &Brake{served: served} }

// Yield rests if the work has gone on for a slice. Call it every few microseconds of work.
func (b *Brake) Yield() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.began) < slice {
		return
	}
	if n := b.served(); n != b.seen {
		b.seen, b.busy = n, now
	}
	if now.Sub(b.busy) < calm {
		time.Sleep(rest)
		now = time.Now()
	}
	b.began = now
}
