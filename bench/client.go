package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client sends one GET over one keep-alive connection again and again. It does as little as it can,
// because what it costs is part of every latency it takes and would make a ratio of two look better
// than it is.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

// patience bounds everything a client does, so that a server that hangs ends the run.
const patience = 10 * time.Minute

func newClient(url string) (*client, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	return &client{
		conn: conn, reader: bufio.NewReader(conn), request: fmt.Appendf(nil, "GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host),
	}, conn.SetDeadline(time.Now().Add(patience))
}

var (
	statusOK          = []byte("HTTP/1.1 200 ")
	statusUnavailable = []byte("HTTP/1.1 503 ")
	contentLength     = []byte("Content-Length: ")
)

// get sends the request and reads the answer. Any answer but 200 is an error.
func (c *client) get() error {
	served, err := c.try()
	if err == nil && !served {
		err = errors.New("the answer is 503")
	}
	return err
}

// try is get for a service that may be overloaded: served is false for 503.
func (c *client) try() (served bool, err error) {
	if _, err := c.conn.Write(c.request); err != nil {
		return false, err
	}
	length := -1
	for first := true; ; first = false {
		line, err := c.reader.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if first {
			served = bytes.HasPrefix(line, statusOK)
			if !served && !bytes.HasPrefix(line, statusUnavailable) {
				return false, fmt.Errorf("the answer is %q", line)
			}
		}
		if value, found := bytes.CutPrefix(line, contentLength); found {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return false, err
			}
		}
		if len(line) == len("\r\n") {
			break
		}
	}
	if length < 0 {
		return false, errors.New("the answer does not say how long it is")
	}
	_, err = c.reader.Discard(length)
	return served, err
}

func (c *client) close() error { return c.conn.Close() }

// timed is get and how long it took.
func (c *client) timed() (time.Duration, error) {
	began := time.Now()
	err := c.get()
	return time.Since(began), err
}

// pace is a load that does not wait for answers: request after request at fixed times, spread over
// connections in turn.
type pace struct {
	perSecond   int
	requests    int
	connections int
}

// run returns how long each request took. A request whose connection is still busy when its time
// comes has waited since then, so that a pause of the server counts for all requests that it kept
// waiting. One whose connection is idle begins when it is sent: that timers of this process are
// late is not the server's doing.
func (p pace) run(url string) ([]time.Duration, error) {
	took := make([]time.Duration, p.requests)
	failed := make([]error, p.connections)
	begin := time.Now().Add(50 * time.Millisecond) // all are connected by then
	var all sync.WaitGroup
	for i := range p.connections {
		all.Go(func() {
			c, err := newClient(url)
			if err != nil {
				failed[i] = err
				return
			}
			for n := i; n < p.requests && failed[i] == nil; n += p.connections {
				from := begin.Add(time.Duration(n) * time.Second / time.Duration(p.perSecond))
				if wait := time.Until(from); wait > 0 {
					time.Sleep(wait)
					from = time.Now()
				}
				failed[i] = c.get()
				took[n] = time.Since(from)
			}
			failed[i] = errors.Join(failed[i], c.close())
		})
	}
	all.Wait()
	return took, errors.Join(failed...)
}

// permille returns the value that n of 1000 are not above, of a sorted list, in microseconds.
func permille(sorted []time.Duration, n int) float64 {
	return float64(sorted[(len(sorted)-1)*n/1000].Nanoseconds()) / 1000
}
