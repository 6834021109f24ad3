package nodes

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/instant"
)

// lapse is after how long without a write other nodes may not count this one any more. It is
// shorter than life, because clocks differ.
const lapse = life - beatInterval

// counted is whether other nodes count this one. It is safe for concurrent use.
type counted struct {
	mu    sync.Mutex // guards what follows
	wrote time.Time  // when the last write began that succeeded; zero for none
	times int64      // how often they began to count it
}

// now returns how often other nodes began to count this one. ok is false if they may not count it
// now.
func (c *counted) now() (times int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times, c.still()
}

// still is for a caller who holds the lock.
func (c *counted) still() bool {
	return !c.wrote.IsZero() && instant.Since(c.wrote) < lapse
}

// note notes a write that began then and has succeeded.
func (c *counted) note(began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.still() {
		c.times++
	}
	c.wrote = began
}

// Present lets other nodes count this one, and returns how often they began to. If that number has
// grown, others may have made changes meanwhile that this node should have prevented. Present does
// no I/O while others have counted this node for some seconds.
func (n *Nodes) Present(ctx context.Context) (times int64, err error) {
	if times, ok := n.counted.now(); ok {
		return times, nil
	}
	if err := n.write(ctx); err != nil {
		return 0, err
	}
	times, _ = n.counted.now()
	return times, nil
}
