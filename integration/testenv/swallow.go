package testenv

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Swallower is a TCP proxy in front of one address. Unlike those of a [Link], its faults hit only
// the connections that there are, as the failover of an address does.
type Swallower struct {
	t        testing.TB
	listener net.Listener
	upstream string

	mu        sync.Mutex // guards what follows
	open      []net.Conn // both sides of each connection
	opened    int        // connections since the last Swallow
	era       int        // how often connections were swallowed
	swallowed time.Time  // when something was last sent on a swallowed connection
}

// NewSwallower starts a proxy. It ends with the test.
func NewSwallower(t testing.TB, upstream string) *Swallower {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Swallower{t: t, listener: listener, upstream: upstream}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = from.Close()
				continue
			}
			s.mu.Lock()
			s.open = append(s.open, from, to)
			s.opened++
			era := s.era
			s.mu.Unlock()
			served.Go(func() { s.forward(to, from, era, true) })
			served.Go(func() { s.forward(from, to, era, false) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for _, c := range s.open {
			_ = c.Close()
		}
		s.mu.Unlock()
		served.Wait()
	})
	return s
}

// Addr is the address to use instead of the upstream's.
func (s *Swallower) Addr() string { return s.listener.Addr().String() }

// forward passes on what it reads, unless the connection is of an earlier era.
func (s *Swallower) forward(to, from net.Conn, era int, asks bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		s.mu.Lock()
		gone := s.era != era
		if gone && asks && n > 0 {
			s.swallowed = time.Now()
		}
		s.mu.Unlock()
		if !gone && n > 0 {
			_, _ = to.Write(buffer[:n]) // the reader of the other side sees that it failed
		}
		if err != nil {
			if !gone {
				_ = to.Close()
			}
			return
		}
	}
}

// Swallow keeps everything that is sent on the connections that there are, in both directions,
// without closing one.
func (s *Swallower) Swallow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.era++
	s.opened = 0
}

// Swallowed returns when a client last sent something on a swallowed connection, zero if never.
func (s *Swallower) Swallowed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.swallowed
}

// Opened returns how many connections there were since the last [Swallower.Swallow].
func (s *Swallower) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}
