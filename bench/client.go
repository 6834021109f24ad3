package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// client sends GET requests over one keep-alive connection. It does as little as possible: its own
// cost is part of every latency it measures, and would hide part of the difference between two
// services.
type client struct {
	conn    net.Conn
	host    string
	reader  *bufio.Reader
	request []byte
}

// longestUse bounds the use of a client, so that a server that hangs fails the run.
const longestUse = 10 * time.Minute

func newClient(url string) (*client, error) {
	host, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, host: host, reader: bufio.NewReader(conn)}
	c.path("/" + path)
	return c, conn.SetDeadline(time.Now().Add(longestUse))
}

// path changes the path of the next requests.
func (c *client) path(path string, headers ...string) {
	c.request = fmt.Appendf(c.request[:0], "GET %s HTTP/1.1\r\nHost: %s\r\n", path, c.host)
	for _, line := range headers {
		c.request = append(append(c.request, line...), "\r\n"...)
	}
	c.request = append(c.request, "\r\n"...)
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

// permille returns the n/1000 quantile of a sorted list, in microseconds.
func permille(sorted []time.Duration, n int) float64 {
	return float64(sorted[(len(sorted)-1)*n/1000].Nanoseconds()) / 1000
}

// getPath is get with another path.
func (c *client) getPath(path string) error {
	c.path(path)
	return c.get()
}
