// Package lateread makes it cheap that net/http watches a connection while a handler runs. As soon as
// it has read a whole request, net/http begins to read one more byte in the background, so that it can
// cancel the request if the caller leaves. Usually the handler ends first. Then the read was a system
// call and a wait in the poller for nothing, and a deadline is needed to end it.
//
// Under load, a [Conn] begins such a read up to two pauses late, so net/http learns later that a caller
// has left. See docs/adr/0055-callers-that-leave-are-noticed-late.md.
package lateread

import (
	"net"
	"sync"
	"time"
)

const (
	// pause is how often reads that are held back are released. As long as there are many, each is
	// held back for one or two pauses.
	pause = 20 * time.Millisecond
	// If there are fewer than few reads of one byte in a pause, none is held back: the timer that
	// releases them would wake a process that is almost idle, which costs more than the reads.
	few = 20
)

// Stream is a connection whose writing side can be closed.
type Stream interface {
	net.Conn
	CloseWrite() error
}

// Conn is a connection that holds back reads of one byte while it has no read deadline, unless there
// are few such reads. Setting a deadline ends the hold, as net/http does when the handler has ended, and
// so does closing the connection.
//
// All other reads of net/http have a larger buffer or a deadline, if the server has timeouts for
// headers and bodies, and no handler takes the deadline away before it reads the body. A handler that
// hijacks the connection must not read it byte by byte.
type Conn struct {
	Stream
	clock *Clock

	mu       sync.Mutex // guards what follows
	limited  bool       // there is a read deadline
	closed   bool
	watched  bool      // the clock has the connection
	begun    uint64    // how many reads were held back; each has its number
	seen     uint64    // what begun was at the last tick
	released uint64    // reads up to this number are no longer held back
	release  sync.Cond // released has grown
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
	if !c.watched {
		if !c.clock.watch(c) {
			return
		}
		c.watched = true
	}
	c.begun++
	for mine := c.begun; c.released < mine; {
		c.release.Wait()
	}
}

// tick releases the reads that were already held back at the tick before. It returns how many were
// held back since. If there were none, the clock no longer has the connection.
func (c *Conn) tick() (since int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseTo(c.seen)
	since = int(c.begun - c.seen)
	c.seen, c.watched = c.begun, since > 0
	return since
}

// releaseAll releases all reads. The clock no longer has the connection.
func (c *Conn) releaseAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseTo(c.begun)
	c.seen, c.watched = c.begun, false
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
	return err
}

// Clock ends the holds of many connections with one timer. It is safe for concurrent use; the zero
// value is ready.
type Clock struct {
	mu      sync.Mutex  // guards what follows; taken after the mu of a connection, never before
	watched []*Conn     // those that the next tick is for
	timer   *time.Timer // calls tick; nil before the first hold
	ticking bool        // the timer runs, or tick does

	// While the timer does not run, reads are counted, for a pause each time.
	began time.Time // when the count began
	reads int       // since then
}

// Conn returns a connection whose holds the clock ends. From then on only the Conn reads from s, sets
// its deadlines and closes it.
func (k *Clock) Conn(s Stream) *Conn {
	c := &Conn{Stream: s, clock: k}
	c.release.L = &c.mu
	return c
}

// watch adds a connection, or returns false if there are few reads to hold back. A connection stays
// until a tick finds that none of its reads was held back since the one before.
func (k *Clock) watch(c *Conn) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.ticking {
		now := time.Now()
		if now.Sub(k.began) >= pause {
			k.began, k.reads = now, 0
		}
		if k.reads++; k.reads < few {
			return false
		}
		k.start()
	}
	k.watched = append(k.watched, c)
	return true
}

// start lets the timer run. mu is held.
func (k *Clock) start() {
	k.ticking = true
	if k.timer == nil {
		k.timer = time.AfterFunc(pause, k.tick)
	} else {
		k.timer.Reset(pause)
	}
}

func (k *Clock) tick() {
	k.mu.Lock()
	due := k.watched
	k.watched = nil
	k.mu.Unlock()
	var busy []*Conn
	reads := 0
	for _, c := range due {
		if since := c.tick(); since > 0 {
			busy = append(busy, c)
			reads += since
		}
	}
	if reads < few {
		for _, c := range busy {
			c.releaseAll()
		}
		busy = nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watched = append(busy, k.watched...)
	if k.ticking = len(k.watched) > 0; k.ticking {
		k.start()
	}
}
