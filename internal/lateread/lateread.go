// Package lateread makes it cheap that net/http watches a connection while a handler runs. As soon as
// it has read a whole request, net/http begins to read one more byte in the background, so that it can
// cancel the request if the caller leaves. Usually the handler ends first. Then the read was a system
// call and a wait in the poller for nothing, and a deadline is needed to end it.
//
// A [Conn] begins such a read late. So it learns a little later that a caller has left.
package lateread

import (
	"net"
	"sync"
	"time"
)

// A read of one byte is held back for at least Pause, and for at most twice as long.
const Pause = 20 * time.Millisecond

// Stream is a connection whose writing side can be closed.
type Stream interface {
	net.Conn
	CloseWrite() error
}

// Conn is a connection that holds back reads of one byte while it has no read deadline. Setting one
// ends the hold, as net/http does when the handler has ended, and so does closing the connection. All
// other reads of net/http have a larger buffer or a deadline.
type Conn struct {
	Stream

	mu       sync.Mutex // guards what follows
	limited  bool       // there is a read deadline
	closed   bool
	begun    uint64      // how many reads were held back; each has its number
	seen     uint64      // what begun was at the last tick
	released uint64      // reads up to this number are no longer held back
	release  sync.Cond   // released has grown
	timer    *time.Timer // calls tick; nil before the first read that is held back
	ticking  bool        // the timer runs
}

// New returns a Conn. From then on only the Conn reads from s, sets its deadlines and closes it.
func New(s Stream) *Conn {
	c := &Conn{Stream: s}
	c.release.L = &c.mu
	return c
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 1 {
		c.hold()
	}
	return c.Stream.Read(p)
}

// hold waits until a read may begin.
func (c *Conn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limited || c.closed {
		return
	}
	c.begun++
	c.tickLater()
	for mine := c.begun; c.released < mine; {
		c.release.Wait()
	}
}

// tickLater starts the timer unless it runs. One timer serves all requests that begin meanwhile,
// because most of them end before it fires. mu is held.
func (c *Conn) tickLater() {
	if c.ticking {
		return
	}
	c.ticking = true
	if c.timer == nil {
		c.timer = time.AfterFunc(Pause, c.tick)
	} else {
		c.timer.Reset(Pause)
	}
}

// tick releases the reads that were already held back at the tick before.
func (c *Conn) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseTo(c.seen)
	c.seen, c.ticking = c.begun, false
	if c.released < c.begun {
		c.tickLater()
	}
}

// releaseTo releases the reads up to a number. mu is held.
func (c *Conn) releaseTo(number uint64) {
	if number > c.released {
		c.released = number
		c.release.Broadcast()
	}
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	err := c.Stream.SetReadDeadline(t)
	c.limit(t)
	return err
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	err := c.Stream.SetDeadline(t)
	c.limit(t)
	return err
}

// limit notes a read deadline, which is set already.
func (c *Conn) limit(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limited = !t.IsZero(); c.limited {
		c.releaseTo(c.begun)
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	err := c.Stream.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.releaseTo(c.begun)
	if c.timer != nil {
		c.timer.Stop()
	}
	return err
}
