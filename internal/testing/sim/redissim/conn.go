package redissim

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
)

// conn is a connection of a client.
type conn struct {
	net.Conn
	// What follows is guarded by the deployment's mu.
	id       int64
	channels []string // that it has subscribed to
	lost     bool     // its replies are lost

	mu     sync.Mutex // guards what follows; it may be locked while the deployment's mu is
	wake   sync.Cond  // something was flushed, or closed
	out    []byte     // what has not been sent
	flush  bool       // out is to be sent now
	closed bool
}

// Serve serves a connection until it ends. It closes it at once if the server does not run.
func (s *Server) Serve(nc net.Conn) {
	c := &conn{Conn: nc}
	c.wake.L = &c.mu
	defer c.close()
	if !s.attach(c) {
		return
	}
	defer s.detach(c)
	go c.write()
	// A client that sends many commands at once and reads no reply before it has sent them all must
	// not be blocked: replies are written by another goroutine.
	r := bufio.NewReaderSize(nc, 16<<10)
	for {
		args, err := readCommand(r)
		if err != nil || !s.answer(c, args, r.Buffered() == 0) {
			return
		}
	}
}

func (s *Server) attach(c *conn) bool {
	defer s.lock()()
	if s.up {
		s.conns[c] = true
		s.served++
		c.id = s.served
	}
	return s.up
}

func (s *Server) detach(c *conn) {
	defer s.lock()()
	delete(s.conns, c)
	for _, channel := range c.channels {
		s.leave(channel, c)
	}
}

// answer executes a command, when the server does not hang. It reports whether the connection can be
// used for more. With last, the client has sent nothing else yet.
func (s *Server) answer(c *conn, args []string, last bool) bool {
	defer s.lock()()
	for s.hung && s.conns[c] {
		s.resumed.Wait()
	}
	if !s.conns[c] {
		return false // the server was killed
	}
	reply := s.execute(c, args)
	if c.lost {
		return !last // what the client has sent is executed, and not answered
	}
	c.send(reply, last)
	return true
}

// Do executes a command as the simulation itself, which no fault concerns, and returns its reply: nil,
// a string, an int64 or a []any of these. It runs no scripts.
func (s *Server) Do(args ...string) (reply any, err error) {
	defer s.lock()()
	switch r := s.execute(nil, args).(type) {
	case failure:
		return nil, r
	case status:
		return string(r), nil
	default:
		return r, nil
	}
}

// send appends a reply or a message to what will be sent, and with flush has it sent.
func (c *conn) send(reply any, flush bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = encode(c.out, reply)
	if flush {
		c.flush = true
		c.wake.Signal()
	}
}

// write writes what is sent until the connection is closed.
func (c *conn) write() {
	var spare []byte
	for {
		c.mu.Lock()
		for !c.flush && !c.closed {
			c.wake.Wait()
		}
		if c.closed {
			c.mu.Unlock()
			return
		}
		out := c.out
		c.out, c.flush = spare[:0], false
		c.mu.Unlock()
		if _, err := c.Conn.Write(out); err != nil {
			c.close()
			return
		}
		spare = out
	}
}

func (c *conn) close() {
	c.mu.Lock()
	c.closed = true
	c.wake.Signal()
	c.mu.Unlock()
	_ = c.Conn.Close() // the other end learns of it
}

// encode appends a reply as RESP2.
func encode(b []byte, reply any) []byte {
	line := func(kind byte, text string) []byte { return append(append(append(b, kind), text...), "\r\n"...) }
	number := func(kind byte, n int64) []byte { return append(strconv.AppendInt(append(b, kind), n, 10), "\r\n"...) }
	switch r := reply.(type) {
	case string:
		b = number('$', int64(len(r)))
		b = append(append(b, r...), "\r\n"...)
	case int64:
		b = number(':', r)
	case status:
		b = line('+', string(r))
	case failure:
		b = line('-', string(r))
	case []any:
		b = number('*', int64(len(r)))
		for _, item := range r {
			b = encode(b, item)
		}
	default:
		b = line('$', "-1")
	}
	return b
}

var errProtocol = errors.New("this is no command")

// readCommand reads a command, an array of texts.
func readCommand(r *bufio.Reader) (args []string, err error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args = make([]string, n)
	for i := range args {
		n, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		text := make([]byte, n+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:n])
	}
	return args, nil
}

// readLength reads a line of a length that is at least 1, or 0 for a text.
func readLength(r *bufio.Reader, kind byte) (n int, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != kind {
		return 0, errProtocol
	}
	n, err = strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil || n < 0 || n == 0 && kind == '*' {
		return 0, errProtocol
	}
	return n, nil
}
