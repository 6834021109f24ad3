package resp_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/resp"
)

// late is a listener that accepts one more connection when it is closed.
type late struct {
	closed chan struct{}
	conns  chan net.Conn
}

func (l *late) Accept() (net.Conn, error) {
	<-l.closed
	select {
	case c := <-l.conns:
		return c, nil
	default:
		return nil, net.ErrClosed
	}
}

func (l *late) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *late) Addr() net.Addr { return &net.TCPAddr{} }

// TestAcceptedTooLate: a connection that is accepted while the server stops is closed, and takes no
// place.
func TestAcceptedTooLate(t *testing.T) {
	set := serve(t, nil) // for its gate
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		l := &late{closed: make(chan struct{}), conns: make(chan net.Conn, 1)}
		l.conns <- there
		s := resp.New(resp.Options{Gate: set.gate})
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(l) }()
		synctest.Wait()
		must.Report(t, s.Shutdown(t.Context()))
		if got, err := io.ReadAll(here); len(got) != 0 || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		must.Is(t, <-ended, resp.ErrClosed, "Serve returned")
		if open, all := s.Connections(), set.gate.Connections.Open(); open != 0 || all != 0 {
			t.Errorf("%d connections are open, %d of all protocols", open, all)
		}
	})
}

// TestLongNumbers: numbers are read up to the bounds of an int64, and no further.
func TestLongNumbers(t *testing.T) {
	p := serve(t, nil, define("order", newCounter(1))).dial(t)
	const from, to = "-ERR invalid_count: ", " and must be a whole number from 1 to 10000"
	for count, want := range map[string]string{
		"-9223372036854775808":  from + "count is -9223372036854775808" + to,
		"-9223372036854775809":  from + `the count is "-9223372036854775809"` + to,
		"9223372036854775807":   from + "count is 9223372036854775807" + to,
		"-09223372036854775808": from + `the count is "-09223372036854775808"` + to,
		"+1":                    from + `the count is "+1"` + to,
		"":                      from + `the count is ""` + to,
		"/":                     from + `the count is "/"` + to,
		":":                     from + `the count is ":"` + to,
		"9":                     ":9",
	} {
		must.Equal(t, p.ask("INCRBY", "order", count), want, "%s", count)
	}
}

// TestTLSToAPlainPort: a client that begins with TLS is told so, and no other.
func TestTLSToAPlainPort(t *testing.T) {
	s := serve(t, nil, define("order", newCounter(1)))
	for begin, want := range map[string]bool{"\x16\x03\x01\x02\x00": true, "\x16\x02\r\n": false, "\x15\x03\r\n": false} {
		p := s.dial(t)
		p.send(begin + form("QUIT"))
		if got := p.rest(); strings.Contains(got, "does not speak TLS") != want {
			t.Errorf("%q got %q", begin, got)
		}
	}
}
