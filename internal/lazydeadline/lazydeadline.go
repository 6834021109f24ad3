// Package lazydeadline makes the deadlines of connections cheap to move. A server moves them several
// times for each request, nearly always to a later time, and each time the poller takes a lock,
// reads the clock and changes a timer. A [Conn] notes the new time, and passes it on only if the
// connection would otherwise wait beyond it. See docs/adr/0049-deadlines-are-armed-late.md.
package lazydeadline

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// Conn is a TCP connection with deadlines that are armed late. They end reads and writes as they do
// on the connection below, at the same time.
type Conn struct {
	net.Conn    // tcp, without ReadFrom and the like, which would go past the deadlines
	tcp         *net.TCPConn
	read, write deadline
}

// New returns a Conn. From then on only the Conn sets the deadlines of c.
func New(c *net.TCPConn) *Conn {
	return &Conn{Conn: c, tcp: c, read: deadline{arm: c.SetReadDeadline}, write: deadline{arm: c.SetWriteDeadline}}
}

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (n int, err error) {
	if err := c.read.enter(); err != nil {
		return 0, err
	}
	for {
		if n, err = c.tcp.Read(p); err == nil || c.read.over(err) {
			c.read.leave()
			return n, err
		}
	}
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (n int, err error) {
	if err := c.write.enter(); err != nil {
		return 0, err
	}
	defer c.write.leave()
	for {
		m, err := c.tcp.Write(p[n:])
		if n += m; err == nil || c.write.over(err) {
			return n, err
		}
	}
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error { return errors.Join(c.read.set(t), c.write.set(t)) }

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.read.set(t) }

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.write.set(t) }

// CloseWrite closes the writing side of the connection.
func (c *Conn) CloseWrite() error { return c.tcp.CloseWrite() }

// deadline is the deadline of one direction. A zero time is none.
//
// While somebody waits, armed is never later than due. So nobody waits beyond due; and who wakes up
// before due waits again.
type deadline struct {
	arm func(time.Time) error // sets the deadline of the connection below

	mu      sync.Mutex // guards what follows
	due     time.Time  // what was asked for
	armed   time.Time  // what the connection below has
	waiting int        // how many read, or write
}

// before reports whether a deadline is earlier than another.
func before(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// set sets the deadline.
func (d *deadline) set(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.due = t
	if d.waiting > 0 && before(t, d.armed) {
		return d.armDue()
	}
	return nil
}

// armDue arms the connection below. mu is held.
func (d *deadline) armDue() error {
	if err := d.arm(d.due); err != nil {
		return err
	}
	d.armed = d.due
	return nil
}

// enter begins a read or write, or returns the error of a deadline that has passed.
func (d *deadline) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before(d.due, d.armed) {
		if time.Until(d.due) <= 0 {
			return os.ErrDeadlineExceeded
		}
		if err := d.armDue(); err != nil {
			return err
		}
	}
	d.waiting++
	return nil
}

// leave ends what enter began.
func (d *deadline) leave() {
	d.mu.Lock()
	d.waiting--
	d.mu.Unlock()
}

// over reports whether an error ends the read or write. If only the deadline that was armed has
// passed, and not the one that was asked for, over arms that one and returns false.
func (d *deadline) over(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.due.IsZero() && time.Until(d.due) <= 0 {
		return true
	}
	return d.armDue() != nil
}
