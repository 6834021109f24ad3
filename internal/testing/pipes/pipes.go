// Package pipes has a listener without sockets, whose connections are those of [net.Pipe]. A bubble of
// testing/synctest knows when nothing happens on them, so its fake clock decides when deadlines pass.
package pipes

import (
	"net"
	"sync"
)

// Listener is a [net.Listener] whose clients are in the same process.
type Listener struct {
	accepted chan net.Conn
	closed   chan struct{}
	close    func()
}

// New returns a Listener. In a bubble it must be made there.
func New() *Listener {
	l := &Listener{accepted: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error {
	l.close()
	return nil
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Dial connects to the listener. It waits until the connection is accepted.
func (l *Listener) Dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.accepted <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
