package jobs

import "time"

// A job can use a whole core, and a request that comes meanwhile may wait for milliseconds. So a job
// works for slice and then rests, for as long as the node has requests, and until it had none for calm.
const (
	slice = 20 * time.Microsecond
	rest  = 400 * time.Microsecond
	calm  = 100 * time.Millisecond
)

// brake holds a job back while callers use the node. One goroutine uses it.
type brake struct {
	served func() int64 // how many requests the node has begun to answer
	seen   int64
	busy   time.Time // when there was a new one
	began  time.Time // when the slice began
}

// yield rests if the job has worked for a slice. Call it every few microseconds of work.
func (b *brake) yield() {
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
