// Package redisbound bounds the memory that a Redis server can make a client allocate. The client
// trusts what an answer announces: it allocates 3 GB if a server announces a string of 3 GB, and it
// panics if a message on a channel has fewer parts than it expects. A server that is not the one
// that was configured, and in part whoever may PUBLISH on one, could so end the process.
//
// A [Bound] puts itself below the client: it looks at the bytes of each connection before the
// client does, and ends a connection whose answer is too large or is none of RESP2 or RESP3 (which
// the client speaks to Sentinels). It keeps no copy of the bytes, except of messages on channels,
// which are short.
package redisbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	// mostReply is how much memory one answer may need. The largest that seqd asks for is a
	// registry of 65,536 machine IDs, which needs about 20 MiB.
	mostReply = 32 << 20
	// mostTogether is how much memory the unfinished answers of all connections may need.
	mostTogether = 2 * mostReply
	// perItem is what the client needs for an item of an answer beside its bytes.
	perItem = 48
	// mostDepth is how deep arrays may be nested. The deepest are the answers to COMMAND, with 6.
	mostDepth = 16
	// longestLine is the longest line, such as an error, and longestMessage the longest message on
	// a channel, in bytes.
	longestLine, longestMessage = 64 << 10, 4 << 10
)

// errAnswer is returned by a connection whose server sent what no answer of Redis is, or too much.
var errAnswer = errors.New("the answer of Redis cannot be used")

// answerError is an errAnswer. It does not wrap errAnswer, because the client unwraps the first
// error of a connection, and what is wrong would be lost.
type answerError string

// Error implements [error].
func (e answerError) Error() string { return errAnswer.Error() + ": " + string(e) }

// Is makes it an errAnswer.
func (e answerError) Is(target error) bool { return target == errAnswer }

// ErrFull is returned by a connection that the server refuses because it has too many. The client
// would take that for the answer to its HELLO, and go on. Nothing was run.
var ErrFull = errors.New("the Redis server has as many connections as its maxclients allows")

// full begins what such a server sends by itself.
const full = "-ERR max number of clients"

func unusable(format string, args ...any) error { return answerError(fmt.Sprintf(format, args...)) }

// Bound is what the connections of one client share. It is safe for concurrent use; the zero value
// is ready.
type Bound struct{ held atomic.Int64 }

// Dial returns a function that connects with dial, and bounds what is read.
func (b *Bound) Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return b.Conn(c), nil
	}
}

// Conn returns a connection to a server that bounds what is read.
func (b *Bound) Conn(c net.Conn) net.Conn {
	bounded := &conn{Conn: c, bound: b}
	if raw, ok := c.(syscall.Conn); ok { // by which the client sees whether the server has hung up
		return struct {
			*conn
			syscall.Conn
		}{bounded, raw}
	}
	return bounded
}

// conn is a connection to a server.
type conn struct {
	net.Conn
	bound   *Bound
	expects atomic.Int32 // what answers the command that was written last

	mu     sync.Mutex // guards what follows
	begun  bool       // something was read
	failed error      // why nothing is read any more
	held   int64      // the part of bound.held that is of this connection
	answer answer
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.begun && strings.HasPrefix(string(p[:n]), full) {
		c.failed = ErrFull
	}
	c.begun = c.begun || n > 0
	if c.failed == nil {
		c.failed = c.answer.read(p[:n], expects(c.expects.Load()))
		c.hold(c.answer.cost)
	}
	if c.failed != nil {
		c.hold(0)
		return 0, c.failed
	}
	return n, err
}

// hold notes how much memory the unfinished answer needs. mu is held.
func (c *conn) hold(cost int64) {
	if cost == c.held {
		return
	}
	if all := c.bound.held.Add(cost - c.held); all > mostTogether && cost > c.held && c.failed == nil {
		c.failed = unusable("the answers on all connections need more than %d bytes", mostTogether)
	}
	c.held = cost
}

// expects says what the client, which does not check it, takes an answer for.
type expects int32

const (
	anything expects = iota
	messages         // on channels; nothing else follows on this connection
	primary          // the address of one
)

// The commands whose answers the client does not check, as it sends them after the number of
// arguments.
var (
	subscribing   = []byte("\n$9\r\nsubscribe\r\n")
	gettingMaster = []byte("\n$8\r\nsentinel\r\n$23\r\nget-master-addr-by-name\r\n")
)

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if c.expects.Load() != int32(messages) {
		c.expects.Store(int32(commandOf(p)))
	}
	return c.Conn.Write(p)
}

// commandOf returns what answers a command.
func commandOf(sent []byte) expects {
	_, rest, _ := bytes.Cut(sent, []byte{'\r'})
	switch {
	case bytes.HasPrefix(rest, subscribing):
		return messages
	case bytes.HasPrefix(rest, gettingMaster):
		return primary
	}
	return anything
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = net.ErrClosed
	}
	c.hold(0)
	return err
}

// answer is what is known of the answer that is being read.
type answer struct {
	line   []byte // the begin of a line whose end was not read yet
	skip   int64  // how much of a string was not read yet, with its CR LF
	arrays []int64
	cost   int64 // how much memory the answer needs, as far as it has announced that

	message []item // the answer, and text the string that is being read, unless anything will do
	text    []byte
}

// item is an item of an answer. Its kind is that of the protocol.
type item struct {
	kind byte
	text string
}

// read looks at the next bytes of a connection.
func (a *answer) read(p []byte, want expects) error {
	for len(p) > 0 {
		if a.skip > 0 {
			n := min(a.skip, int64(len(p)))
			if want != anything {
				a.text = append(a.text, p[:n]...)
			}
			p, a.skip = p[n:], a.skip-n
			if a.skip > 0 {
				return nil
			}
			if err := a.end('$', bytes.TrimSuffix(a.text, []byte("\r\n")), want); err != nil {
				return err
			}
			continue
		}
		line, rest, ok := bytes.Cut(p, []byte{'\n'})
		if len(a.line)+len(line) > longestLine {
			return unusable("a line has more than %d bytes", longestLine)
		}
		if len(a.line) > 0 || !ok {
			a.line = append(a.line, line...)
			line = a.line
		}
		if !ok {
			return nil
		}
		p, a.line = rest, a.line[:0]
		if err := a.begin(bytes.TrimSuffix(line, []byte{'\r'}), want); err != nil {
			return err
		}
	}
	return nil
}

// begin looks at a line that begins an item.
func (a *answer) begin(line []byte, want expects) error {
	if len(line) == 0 {
		return strange(line)
	}
	kind, rest := line[0], line[1:]
	if len(a.arrays) == 0 {
		a.cost = perItem
	}
	switch kind {
	case '_':
		return a.end(null, nil, want)
	case '+', '-', ':', ',', '#', '(':
		if err := a.spend(int64(len(rest)), want); err != nil {
			return err
		}
		return a.end(kind, rest, want)
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	switch {
	case err != nil || n < -1:
		return strange(line)
	case n > mostReply:
		return a.spend(n, want) // n is too large to multiply it
	case n == -1:
		return a.end(null, nil, want)
	}
	switch kind {
	case '$', '=', '!':
		a.skip, a.text = n+int64(len("\r\n")), a.text[:0]
		return a.spend(n, want)
	case '*', '~', '>':
	case '%': // each key has a value
		n *= 2
	case '|': // and what they say more about follows
		n = 2*n + 1
	default:
		return strange(line)
	}
	switch {
	case n == 0:
		return a.end(kind, nil, want)
	case len(a.arrays) == mostDepth:
		return unusable("it is nested more than %d deep", mostDepth)
	}
	a.arrays = append(a.arrays, n)
	return a.spend(n*perItem, want)
}

// null is the kind of an item that is none.
const null = '0'

// spend notes that the answer needs n bytes more.
func (a *answer) spend(n int64, want expects) error {
	most := int64(mostReply)
	if want == messages {
		most = longestMessage
	}
	if n > most-a.cost {
		return unusable("it needs more than %d bytes", most)
	}
	a.cost += n
	return nil
}

func strange(line []byte) error { return unusable("it begins with %.40q", line) }

// end notes the end of an item, and of the arrays that it is the last one of.
func (a *answer) end(kind byte, text []byte, want expects) error {
	if want != anything {
		a.message = append(a.message, item{kind, string(text)})
	}
	depth := len(a.arrays)
	for len(a.arrays) > 0 {
		if a.arrays[len(a.arrays)-1]--; a.arrays[len(a.arrays)-1] > 0 {
			return nil
		}
		a.arrays = a.arrays[:len(a.arrays)-1]
	}
	message := a.message
	a.cost, a.message = 0, a.message[:0]
	if !want.met(message, depth) {
		return unusable("it has not the form that the command asks for")
	}
	return nil
}

// met reports whether the client can read an answer, which has arrays in a depth.
func (e expects) met(items []item, depth int) bool {
	if e == anything {
		return true
	}
	var kinds strings.Builder
	for _, i := range items {
		kinds.WriteByte(i.kind)
	}
	form := kinds.String()
	switch {
	case depth == 0:
		return form == "+" || form == "-" || form == "0" && e == primary
	case depth > 1 || items[0].kind != '$' || e == primary:
		return depth == 1 && form == "$$" && e == primary
	}
	switch items[0].text {
	case "subscribe", "unsubscribe":
		return form == "$$:"
	case "pong":
		return form == "$$"
	case "message":
		// Sentinels publish the name of the primary, its old address and its new one.
		return form == "$$$" && (items[1].text != "+switch-master" || strings.Count(items[2].text, " ") >= 4)
	}
	return false
}
