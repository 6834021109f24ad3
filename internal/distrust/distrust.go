// Package distrust closes connections that a network has swallowed. After a failover of an address,
// or when a firewall forgot what it had let through, nothing that is sent on the open connections
// arrives, and nothing says so. A pool would find that out for one connection after the other, by a
// time-out each.
//
// If a user gives up a connection because nothing answers, Peers closes the idle connections to the
// same address that have received nothing since the request: at once if the connection was silent
// for long, or else when it has been. One answer on an older connection ends the suspicion: then
// the server is slow, and the network is well. A connection on which a request is unanswered is
// left to its user, and so is one that has not received anything yet.
package distrust

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Peers are the connections of a pool. It is safe for concurrent use.
type Peers struct {
	// Together treats all addresses as one: if one is suspected, all are. It is for Sentinels, which
	// the client asks before it connects again. It is set before the first Dial.
	Together bool

	patience time.Duration
	asks     bool // see New

	mu   sync.Mutex // guards what follows, and what a conn says
	open map[*conn]struct{}
	// suspected has for an address when the request was sent that nothing answered. An answer on a
	// connection that was made before that deletes it.
	suspected map[string]time.Time
}

// New returns the connections of a pool, of which there are none yet. patience is how long a
// connection must be silent before it is distrusted: more than 0, and less than the time-out of the
// users, which includes what happens before a request is sent. asks says that the pool looks
// whether an idle connection is closed before it uses it again (see [Peers.Dial]): only then are
// connections closed when patience is over after a user who left earlier.
func New(patience time.Duration, asks bool) *Peers {
	return &Peers{patience: patience, asks: asks, open: make(map[*conn]struct{}), suspected: make(map[string]time.Time)}
}

// Dialer returns a function that connects for a pool that asks. timeout bounds the connecting and
// each request; patience is half of it. See [Peers.Dial].
func Dialer(timeout time.Duration) DialFunc {
	return New(timeout/2, true).Dial((&net.Dialer{Timeout: timeout}).DialContext)
}

// DialFunc connects to an address.
type DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// Dial returns a function that connects with dial. A pool that asks must ask a connection for its
// [syscall.RawConn], or ask [Closed], before it uses it again.
func (p *Peers) Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		made, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if p.Together {
			addr = "all"
		}
		c := &conn{Conn: made, peers: p, addr: addr, made: time.Now()}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open[c] = struct{}{}
		return c, nil
	}
}

// Closed reports whether a connection was closed, by its user or because it is not trusted. It
// looks through TLS.
func Closed(c net.Conn) bool {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	known, ok := c.(*conn)
	return ok && known.closed.Load()
}

// conn is a connection that notes when it was heard.
type conn struct {
	net.Conn
	peers *Peers
	addr  string // with which it is suspected
	made  time.Time
	// closed is true if nothing more is sent or received. The user of a connection that was silent
	// closes it, because it may have to cancel its request first.
	closed atomic.Bool

	// What follows is guarded by the mu of peers.
	asked time.Time // of the first request that nothing has answered, zero if there is none
	heard time.Time // when it last received something, zero if never
	left  time.Time // when its user gave it up, zero if it has not
}

var _ syscall.Conn = (*conn)(nil)

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, errClosed
	}
	c.peers.mu.Lock()
	if c.asked.IsZero() {
		c.asked = time.Now()
	}
	c.left = time.Time{}
	c.peers.mu.Unlock()
	return c.Conn.Write(p)
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, errClosed
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.peers.mu.Lock()
		c.asked, c.left, c.heard = time.Time{}, time.Time{}, time.Now()
		if c.made.Before(c.peers.suspected[c.addr]) {
			delete(c.peers.suspected, c.addr)
		}
		c.peers.mu.Unlock()
	}
	if err != nil {
		c.peers.gaveUp(c)
	}
	return n, err
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.peers.gaveUp(c)
	c.peers.drop(c)
	return c.Conn.Close()
}

// drop ends what is known of a connection.
func (p *Peers) drop(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.closed.Store(true)
	delete(p.open, c)
}

// gaveUp is called when a user closes a connection, or cannot read from it. It suspects the address
// if a request is unanswered. The user may have to cancel its request before it closes the
// connection.
func (p *Peers) gaveUp(gone *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if gone.closed.Load() || gone.heard.IsZero() || gone.asked.IsZero() {
		return
	}
	if since, already := p.suspected[gone.addr]; !already || gone.heard.After(since) {
		p.suspected[gone.addr] = gone.asked
		if p.asks {
			time.AfterFunc(time.Until(gone.asked.Add(p.patience)), func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.judge(gone.addr)
			})
		}
	}
	gone.left = time.Now()
	gone.closed.Store(p.judge(gone.addr))
}

// judge closes the connections to an address that was silent for long, if nobody waits for them,
// and reports whether the address was. mu is held.
func (p *Peers) judge(addr string) bool {
	since, suspected := p.suspected[addr]
	if !suspected || time.Since(since) < p.patience {
		return false
	}
	delete(p.suspected, addr)
	for c := range p.open {
		switch {
		case c.addr != addr || !c.heard.Before(since):
		case c.asked.IsZero() && !c.heard.IsZero():
			p.shut(c)
		case !c.left.IsZero(): // its user may still cancel the request, which the server must hear
			time.AfterFunc(time.Until(c.left.Add(p.patience)), func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if _, open := p.open[c]; open && !c.left.IsZero() && !c.asked.IsZero() {
					p.shut(c)
				}
			})
		}
	}
	return true
}

// shut closes a connection that is open. mu is held.
func (p *Peers) shut(c *conn) {
	c.closed.Store(true)
	delete(p.open, c)
	go func() { _ = c.Conn.Close() }() // the end of TLS is sent, for which there may be no room
}

// errClosed is why a connection that is not trusted must not be used.
var errClosed = errors.New("a connection to the same address has answered nothing")

// SyscallConn implements [syscall.Conn], by which pools look whether an idle connection is still
// open. A connection of another kind than TCP looks open to them.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if Closed(c) {
		return nil, errClosed
	}
	if known, ok := c.Conn.(syscall.Conn); ok {
		return known.SyscallConn()
	}
	return unseen{}, nil
}

// unseen is a [syscall.RawConn] that calls nothing.
type unseen struct{}

func (unseen) Control(func(uintptr)) error    { return nil }
func (unseen) Read(func(uintptr) bool) error  { return nil }
func (unseen) Write(func(uintptr) bool) error { return nil }
