package distrust

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// Whom a connection that was given up takes with it.
func TestSilence(t *testing.T) {
	const patience = time.Second
	answer := func(server net.Conn) { _, _ = server.Write([]byte("a")) }
	for name, test := range map[string]struct {
		before func(suspect, other net.Conn) // the servers' ends, when both connections are new
		waits  time.Duration
		during func(other net.Conn) // the client's end
		addr   string               // of the other connection
		after  func(other net.Conn) // the server's end
		all    bool                 // addresses are suspected together
		later  time.Duration        // until the pool asks for the other connection
		closed bool
	}{
		"idle":                  {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience, addr: "one", closed: true},
		"left early":            {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience - 1, addr: "one"},
		"left early, used late": {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience / 5, later: patience, addr: "one", closed: true},
		"left early, used soon": {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience / 5, later: patience / 5, addr: "one"},
		"left early, the other answers": {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience / 5, later: patience, addr: "one",
			after: answer},
		"another address":                    {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience, addr: "two"},
		"another address of the same server": {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience, addr: "two", all: true, closed: true},
		"a new connection":                   {before: func(_, o net.Conn) { answer(o) }, waits: patience, addr: "one"},
		"the other is busy":                  {before: func(s, o net.Conn) { answer(s); answer(o) }, waits: patience, during: func(o net.Conn) { _, _ = o.Write([]byte("q")) }, addr: "one"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peers := New(patience, true)
				peers.Together = test.all
				connect := func(addr string) (client, server net.Conn) {
					near, far := net.Pipe()
					made := must.Get(peers.Dial(func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "tcp", addr))(t)
					t.Cleanup(func() { _ = made.Close(); _ = far.Close() })
					return made, far
				}
				suspect, server := connect("one")
				other, otherServer := connect(test.addr)
				for _, c := range []net.Conn{suspect, other} {
					go func() { _, _ = c.Read(make([]byte, 1)) }()
				}
				test.before(server, otherServer)
				time.Sleep(time.Minute)
				go func() { _, _ = other.Read(make([]byte, 1)) }() // as a pool does that looks for what comes
				swallow := func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }
				go swallow(server)
				go swallow(otherServer)
				must.Get(suspect.Write([]byte("q")))(t)
				if test.during != nil {
					test.during(other)
				}
				_ = suspect.SetReadDeadline(time.Now().Add(test.waits))
				if _, err := suspect.Read(make([]byte, 1)); err == nil {
					t.Fatal("the suspect has answered")
				}
				if test.after != nil {
					test.after(otherServer)
				}
				time.Sleep(test.later)
				must.Equal(t, Closed(other), test.closed, "the other connection is closed")
				_, unusable := other.(syscall.Conn).SyscallConn()
				must.Equal(t, unusable != nil, test.closed, "a pool that asks is told %v", unusable)
				if test.closed {
					if _, err := other.Write([]byte("q")); err == nil {
						t.Error("it was sent something")
					}
				}
			})
		})
	}
}
