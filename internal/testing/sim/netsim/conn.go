package netsim

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of a TCP connection. Its fields are guarded by the lock of the network.
type Conn struct {
	network       *Network
	host          string
	peer          *Conn
	local, remote *net.TCPAddr
	in            stream // what comes from the peer
	out           limit  // of writes
	closed        bool   // by this end
	broken        error
	silent        bool // nothing arrives any more, and nobody is told
}

// stream is what is under way to one end.
type stream struct {
	arrived sync.Cond
	chunks  []chunk
	ended   bool // the peer sends no more after the chunks
	until   limit
}

// chunk is what was written by one call. It arrives at a time.
type chunk struct {
	data []byte
	due  time.Time
}

// limit is a deadline.
type limit struct {
	at    time.Time
	timer *time.Timer
}

// passed reports whether a deadline has passed.
func (l *limit) passed() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

// set sets a deadline, at which look is called.
func (l *limit) set(at time.Time, look func()) {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.at = at
	switch wait := time.Until(at); {
	case at.IsZero():
	case wait <= 0:
		// Not a timer: in a bubble it would run at once, and the race detector crashes if several run at
		// once on different threads (Go 1.26, bubble.timers.raceCtx in runtime/time.go).
		go look()
	default:
		l.timer = time.AfterFunc(wait, look)
	}
}

var _ net.Conn = (*Conn)(nil)

// Read implements [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch s := &c.in; {
		case c.closed:
			return 0, net.ErrClosed
		case c.broken != nil:
			return 0, c.broken
		case s.until.passed():
			return 0, os.ErrDeadlineExceeded
		case c.silent || n.held(c.peer.host, c.host):
		case len(s.chunks) > 0 && !time.Now().Before(s.chunks[0].due):
			read := copy(p, s.chunks[0].data)
			if s.chunks[0].data = s.chunks[0].data[read:]; len(s.chunks[0].data) == 0 {
				s.chunks = s.chunks[1:]
			}
			return read, nil
		case len(s.chunks) == 0 && s.ended:
			return 0, io.EOF
		}
		c.in.arrived.Wait()
	}
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (int, error) {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.broken != nil:
		return 0, c.broken
	case c.out.passed():
		return 0, os.ErrDeadlineExceeded
	case len(p) == 0 || c.silent:
		return len(p), nil
	case c.peer.closed:
		c.end(syscall.EPIPE)
		return 0, c.broken
	}
	c.send(append([]byte(nil), p...))
	return len(p), nil
}

// send puts data under way. mu is held.
func (c *Conn) send(data []byte) {
	to := c.peer
	due := time.Now()
	if c.network.Delay != nil {
		due = due.Add(c.network.Delay(c.host, to.host))
	}
	if last := len(to.in.chunks) - 1; last >= 0 && due.Before(to.in.chunks[last].due) {
		due = to.in.chunks[last].due // TCP keeps the order
	}
	to.in.chunks = append(to.in.chunks, chunk{data, due})
	if wait := time.Until(due); wait > 0 {
		time.AfterFunc(wait, to.look)
		return
	}
	to.in.arrived.Broadcast()
}

// look lets who reads look again.
func (c *Conn) look() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.in.arrived.Broadcast()
}

// end breaks both ends. mu is held.
func (c *Conn) end(why error) {
	for _, one := range []*Conn{c, c.peer} {
		if one.broken == nil {
			one.broken = &net.OpError{Op: "read", Net: "tcp", Addr: one.remote, Err: os.NewSyscallError("read", why)}
		}
		one.in.arrived.Broadcast()
		delete(c.network.conns, one)
	}
}

// Close implements [net.Conn]. The peer still gets what is under way.
func (c *Conn) Close() error {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.in.until.set(time.Time{}, nil)
	c.in.arrived.Broadcast()
	if delete(n.conns, c); !c.silent {
		c.finish()
	}
	return nil
}

// CloseWrite ends what this end sends.
func (c *Conn) CloseWrite() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.finish()
	return nil
}

// finish tells the peer that nothing comes any more. mu is held.
func (c *Conn) finish() {
	c.peer.in.ended = true
	c.peer.in.arrived.Broadcast()
}

// LocalAddr implements [net.Conn].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.in.until.set(t, c.look)
	c.in.arrived.Broadcast()
	return nil
}

// SetWriteDeadline implements [net.Conn]. Writes never wait, so only one that has passed matters.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.out.at = t
	return nil
}
