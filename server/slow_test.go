package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// impatient starts a server with short time-outs, which alone limit slow clients.
const impatient = `
server: {readHeaderTimeout: 3s, readTimeout: 3s, writeTimeout: 5s, idleTimeout: 3s}
store: {driver: memory}
bizTypes: [{name: order, start: 1000000000, acquireTimeout: 2s}]
`

// connect opens a connection that is closed at the end of the test. Its operations end with an
// error when no more is to be expected.
func (s *service) connect() net.Conn {
	s.t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(s.t)
	s.t.Cleanup(func() { _ = c.Close() })
	must.Do(s.t, c.SetDeadline(time.Now().Add(await.Patience)))
	return c
}

// drip sends the beginning of a request and then single bytes until the server closes the
// connection.
func drip(c net.Conn, begin string) error {
	_, err := io.WriteString(c, begin)
	for err == nil {
		time.Sleep(10 * time.Millisecond)
		_, err = c.Write([]byte("1"))
	}
	return err
}

// meanwhile lets slow clients enter, and asks for numbers, each time over a new connection, until
// all of them are cut off. Others must be served before that. If a machine stalls until the
// time-outs of all have passed, clients enter again.
func (s *service) meanwhile(enter func(crowd *sync.WaitGroup)) {
	s.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	await.True(s.t, "somebody else is served beside slow clients", func() (served bool) {
		var crowd sync.WaitGroup
		enter(&crowd)
		left := make(chan struct{})
		go func() { defer close(left); crowd.Wait() }()
		for {
			resp, err := client.Get(s.url + "/seq/order")
			if err == nil {
				_ = resp.Body.Close()
			}
			select {
			case <-left:
				return served
			case <-time.After(20 * time.Millisecond):
				served = served || err == nil && resp.StatusCode == http.StatusOK
			}
		}
	})
}

func TestSlowClientsAreCutOff(t *testing.T) {
	t.Parallel()
	const each = 8
	s := start(t, load(t, impatient))
	s.await("/readyz", http.StatusOK)
	s.meanwhile(func(crowd *sync.WaitGroup) {
		for name, begin := range map[string]string{
			"nothing at all":       "",
			"request line":         "G",
			"headers byte by byte": "GET /seq/order HTTP/1.1\r\nHost: localhost\r\nX: ",
			"body byte by byte":    "POST /seq/order HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n",
			"chunk byte by byte":   "POST /seq/order HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nea60\r\n",
			"chunk size":           "POST /seq/order HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0000",
			"trailers":             "POST /seq/order HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ",
		} {
			for range each {
				c := s.connect()
				crowd.Go(func() {
					var err error
					if begin == "" {
						_, err = c.Read(make([]byte, 1)) // returns when the server closes
					} else {
						err = drip(c, begin)
					}
					if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
						t.Errorf("%s: still connected after %s", name, await.Patience)
					}
				})
			}
		}
	})
}

// A client that does not read its answers loses its connection after writeTimeout.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	s := start(t, load(t, impatient))
	s.await("/readyz", http.StatusOK)
	s.meanwhile(func(crowd *sync.WaitGroup) {
		for range 3 {
			c := s.connect()
			must.Do(t, c.(*net.TCPConn).SetReadBuffer(4096))
			crowd.Go(func() {
				// Several requests are needed, because the system buffers some answers. When the
				// buffers are full the server stops reading, and this waits until the server closes the
				// connection.
				for {
					if _, err := io.WriteString(c, "GET /seq/order?count=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
						if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
							t.Errorf("still connected after %s", await.Patience)
						}
						return
					}
				}
			})
		}
	})
}

// Connections above server.maxConnections are closed at once. The next client is served as soon as
// one of the others is closed.
func TestSlowClientsCannotTakeEveryConnection(t *testing.T) {
	t.Parallel()
	cfg := load(t, impatient)
	cfg.Server.MaxConnections = 20
	s := start(t, cfg)
	s.await("/readyz", http.StatusOK)
	http.DefaultClient.CloseIdleConnections() // the connections used to wait for the server
	for range 100 {
		c := s.connect()
		_, _ = io.WriteString(c, "GET /seq/order HTTP/1.1\r\n")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	await.Eventually(t, "somebody else is served", func() error {
		resp, err := client.Get(s.url + "/seq/order")
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the status is %d", resp.StatusCode)
		}
		return nil
	})
}
