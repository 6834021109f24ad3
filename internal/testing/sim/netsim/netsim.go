// Package netsim is a network in memory for simulations: hosts with ports, and TCP connections
// between them that can be cut, slowed down, reset or left half open. It is for one bubble of
// testing/synctest, in which all its waits are durably blocking.
//
// A host is an IP address as text. There is no limit to what is under way in a connection, so a
// peer that does not read never blocks who writes.
package netsim

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Network connects hosts. It is safe for concurrent use.
type Network struct {
	// Delay returns how long what a host sends to another one is under way; nil for no time. It is
	// called with the lock of the network, and set before the network is used.
	Delay func(from, to string) time.Duration

	mu        sync.Mutex // guards what follows, and all listeners and connections
	changed   sync.Cond  // a cut has ended, or a host is no longer paused
	listeners map[string]*listener
	conns     map[*Conn]bool
	cut       map[[2]string]int // from, to: how many cuts
	paused    map[string]int
	port      int // the last one of a host that connects
}

// New returns a network without hosts.
func New() *Network {
	n := &Network{
		listeners: make(map[string]*listener), conns: make(map[*Conn]bool),
		cut: make(map[[2]string]int), paused: make(map[string]int), port: 30000,
	}
	n.changed.L = &n.mu
	return n
}

// held reports whether what a host sends to another one does not arrive for now. mu is held.
func (n *Network) held(from, to string) bool {
	return n.cut[[2]string{from, to}] > 0 || n.paused[from] > 0 || n.paused[to] > 0
}

// wake lets everybody who waits look again. mu is held.
func (n *Network) wake() {
	n.changed.Broadcast()
	for c := range n.conns {
		c.in.arrived.Broadcast()
	}
}

// Cut holds back what a host sends to another one from now on, until end is called. Nothing is
// lost, as TCP sends it again, unless somebody gives up the connection.
func (n *Network) Cut(from, to string) (end func()) {
	return n.hold(n.cut, [2]string{from, to})
}

func (n *Network) hold(cut map[[2]string]int, between [2]string) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	cut[between]++
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		cut[between]--
		n.wake()
	})
}

// Pause holds back what a host sends and gets, until end is called, as if its process was stopped by
// SIGSTOP. Who connects to it meanwhile succeeds.
func (n *Network) Pause(host string) (end func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.paused[host]++
	return sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.paused[host]--
		n.wake()
	})
}

// Reset breaks all connections between two hosts. Both sides are told.
func (n *Network) Reset(a, b string) { n.breakOff(between(a, b)) }

// Kill closes the ports of a host and breaks all its connections, as the end of its process does.
func (n *Network) Kill(host string) {
	n.close(host)
	n.breakOff(func(c *Conn) bool { return c.host == host || c.peer.host == host })
}

// Vanish closes the ports of a host and silences its connections: nobody is told that it is gone, as
// after a loss of power. When the host listens again, its former connections break.
func (n *Network) Vanish(host string) {
	n.close(host)
	n.silence(func(c *Conn) bool { return c.host == host || c.peer.host == host })
}

// Swallow silences all connections between two hosts: nobody is told, as after a failover of an
// address or when a firewall forgets them. New connections are well.
func (n *Network) Swallow(a, b string) { n.silence(between(a, b)) }

// between returns whether a connection is one of two hosts.
func between(a, b string) func(*Conn) bool {
	return func(c *Conn) bool { return c.host == a && c.peer.host == b || c.host == b && c.peer.host == a }
}

func (n *Network) silence(which func(*Conn) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		c.silent = c.silent || which(c)
	}
}

func (n *Network) close(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.listeners {
		if l.addr.IP.String() == host {
			l.end()
		}
	}
}

func (n *Network) breakOff(which func(*Conn) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if which(c) {
			c.end(syscall.ECONNRESET)
		}
	}
}

// Listen opens a port. The address is host:port.
func (n *Network) Listen(addr string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: at, Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	for c := range n.conns {
		if c.silent && (c.host == at.IP.String() || c.peer.host == at.IP.String()) {
			c.end(syscall.ECONNRESET)
		}
	}
	l := &listener{network: n, addr: at}
	l.came.L = &n.mu
	n.listeners[addr] = l
	return l, nil
}

// Dial connects a host with an address. While either direction is cut, it waits.
func (n *Network) Dial(ctx context.Context, host, addr string) (net.Conn, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { n.mu.Lock(); defer n.mu.Unlock(); n.changed.Broadcast() })()
	n.mu.Lock()
	defer n.mu.Unlock()
	to := at.IP.String()
	for n.cut[[2]string{host, to}] > 0 || n.cut[[2]string{to, host}] > 0 || n.paused[host] > 0 {
		if ctx.Err() != nil {
			break
		}
		n.changed.Wait()
	}
	refused := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: err} }
	if err := ctx.Err(); err != nil {
		return nil, refused(err)
	}
	l := n.listeners[addr]
	if l == nil {
		return nil, refused(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	n.port++
	from := &net.TCPAddr{IP: net.ParseIP(host), Port: n.port}
	here, there := n.pair(from, at)
	l.queue = append(l.queue, there)
	l.came.Broadcast()
	return here, nil
}

// pair returns both ends of a connection. mu is held.
func (n *Network) pair(a, b *net.TCPAddr) (here, there *Conn) {
	here = &Conn{network: n, host: a.IP.String(), local: a, remote: b}
	there = &Conn{network: n, host: b.IP.String(), local: b, remote: a}
	here.peer, there.peer = there, here
	here.in.arrived.L, there.in.arrived.L = &n.mu, &n.mu
	n.conns[here], n.conns[there] = true, true
	return here, there
}

// listener is a port.
type listener struct {
	network *Network
	addr    *net.TCPAddr
	came    sync.Cond
	queue   []*Conn
	closed  bool
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.came.Wait()
	}
	if l.closed {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	c := l.queue[0]
	l.queue = slices.Delete(l.queue, 0, 1)
	return c, nil
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	l.end()
	return nil
}

// end closes the port, and the connections that nobody has accepted. mu is held.
func (l *listener) end() {
	if l.closed {
		return
	}
	l.closed = true
	delete(l.network.listeners, l.addr.String())
	for _, c := range l.queue {
		c.end(syscall.ECONNRESET)
	}
	l.came.Broadcast()
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return l.addr }

// String names the address, for messages.
func (l *listener) String() string { return fmt.Sprint("port ", l.addr) }
