// Package respconn speaks the Redis protocol (RESP2) on one connection, as plainly as possible: it
// repeats nothing, and half an answer is not an answer.
package respconn

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Conn is a connection. Only one goroutine may use it.
type Conn struct {
	net.Conn
	in *bufio.Reader
}

// Error is an error that the server answered, with its first word.
type Error string

func (e Error) Error() string { return string(e) }

// ErrProtocol is wrapped by the error of an answer that is not of the protocol.
var ErrProtocol = errors.New("not an answer of the Redis protocol")

// New returns a connection over another one.
func New(conn net.Conn) *Conn { return &Conn{conn, bufio.NewReader(conn)} }

// Send sends commands at once, each as people type it.
func (c *Conn) Send(commands ...string) error {
	_, err := io.WriteString(c, strings.Join(commands, "\r\n")+"\r\n")
	return err
}

// Do sends a command and returns its answer.
func (c *Conn) Do(command string) (any, error) {
	if err := c.Send(command); err != nil {
		return nil, err
	}
	return c.Read()
}

// Read reads an answer: an int64, a string, a list, nil, or as its error an [Error].
func (c *Conn) Read() (any, error) {
	line, err := c.in.ReadString('\n')
	switch {
	case err != nil:
		return nil, err
	case len(line) < 3 || !strings.HasSuffix(line, "\r\n"):
		return nil, fmt.Errorf("%w: %q", ErrProtocol, line)
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return nil, Error(text)
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %q", ErrProtocol, line)
	case kind == ':':
		return n, nil
	case kind == '$' && n >= 0 && n < 1<<20:
		return c.bulk(int(n))
	case kind == '*' && n >= 0 && n < 1<<20:
		return c.list(int(n))
	case kind == '$' && n == -1:
		return nil, nil
	}
	return nil, fmt.Errorf("%w: %q", ErrProtocol, line)
}

func (c *Conn) bulk(size int) (string, error) {
	text := make([]byte, size+2)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return "", err
	}
	if string(text[size:]) != "\r\n" {
		return "", fmt.Errorf("%w: %q does not end", ErrProtocol, text)
	}
	return string(text[:size]), nil
}

func (c *Conn) list(size int) (all []any, err error) {
	for range size {
		one, err := c.Read()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Numbers returns the numbers of an answer to INCR, SEQ.NEXT with and without COUNT, or, if count is
// not 0, to INCRBY with that count.
func Numbers(answer any, count int) (numbers []int64, err error) {
	switch v := answer.(type) {
	case int64:
		for n := v - int64(max(count, 1)) + 1; n <= v; n++ {
			numbers = append(numbers, n)
		}
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return append(numbers, n), err
	case []any:
		for _, one := range v {
			n, err := Numbers(one, 0)
			if err != nil {
				return nil, err
			}
			numbers = append(numbers, n...)
		}
	default:
		return nil, fmt.Errorf("%w: %v has no numbers", ErrProtocol, answer)
	}
	return numbers, nil
}
