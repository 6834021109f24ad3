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

// client sends the same GET repeatedly over one keep-alive connection. It does as little as
// possible: its own cost is part of every latency it measures, and would hide part of the
// difference between two services.
type client struct {
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
}

// patience limits every operation of a client, so that a server that hangs fails the run.
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

// get sends the request and reads the answer. Any status except 200 is an error.
func (c *client) get() error {
	served, err := c.try()
	if err == nil && !served {
		err = errors.New("the answer is 503")
	}
	return err
}

// try is like get, for a service that may be overloaded: served is false for 503.
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

// timed is like get and returns how long it took.
func (c *client) timed() (time.Duration, error) {
	began := time.Now()
	err := c.get()
	return time.Since(began), err
}

// pace is a load that sends requests at fixed times, whether or not earlier ones were answered. It
// uses its connections in turn.
type pace struct {
	perSecond   int
	requests    int
	connections int
}

// run returns how long each request took. If the connection is busy when a request is due, its time
// counts from then, so a pause of the server counts for all requests that it delayed. If the
// connection is idle, the time counts from sending, because a late timer in this process is not the
// server's fault.
func (p pace) run(url string) ([]time.Duration, error) {
	took := make([]time.Duration, p.requests)
	failed := make([]error, p.connections)
	begin := time.Now().Add(50 * time.Millisecond) // time for all to connect
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

// permille returns the n/1000 quantile of a sorted list, in microseconds.
func permille(sorted []time.Duration, n int) float64 {
	return float64(sorted[(len(sorted)-1)*n/1000].Nanoseconds()) / 1000
}
