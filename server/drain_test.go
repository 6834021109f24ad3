package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caller asks for numbers over one connection while it lasts, and never retries.
type caller struct {
	dial    func() (net.Conn, error)
	conn    net.Conn
	answers *bufio.Reader
}

// ask sends one request.
func (c *caller) ask() error {
	if c.conn == nil {
		conn, err := c.dial()
		if err != nil {
			return err
		}
		c.conn, c.answers = conn, bufio.NewReader(conn)
	}
	if _, err := io.WriteString(c.conn, "POST /seq/order HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	if answer.Close {
		_ = c.conn.Close()
		c.conn = nil
	}
	return nil
}

// dialReady connects to the first ready node, as a balancer does.
func dialReady(nodes ...*service) (net.Conn, error) {
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	for _, n := range nodes {
		resp, err := probe.Get(n.url + "/readyz")
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		}
	}
	return nil, fmt.Errorf("no node is ready")
}

// Callers that keep their connections do not notice a stop, because each is sent elsewhere within
// drainDelay.
func TestStopUnderLoadFailsNobody(t *testing.T) {
	t.Parallel()
	const callers = 20
	const rest = "store: {driver: memory}\nbizTypes: [{name: order}]"
	stopping, staying := start(t, load(t, "server: {drainDelay: 4s}\n"+rest)), start(t, load(t, rest))
	stopping.await("/readyz", http.StatusOK)
	staying.await("/readyz", http.StatusOK)
	var load sync.WaitGroup
	var answered atomic.Int64
	ended := make(chan struct{})
	for range callers {
		load.Go(func() {
			c := &caller{dial: func() (net.Conn, error) { return dialReady(stopping, staying) }}
			for last := false; !last; {
				select {
				case <-ended:
					last = true // one more, on the remaining node
				case <-time.After(10 * time.Millisecond): // the caller uses the number
				}
				if err := c.ask(); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				answered.Add(1)
			}
			if c.conn != nil {
				_ = c.conn.Close()
			}
		})
	}
	for deadline := time.Now().Add(20 * time.Second); answered.Load() < 10*callers && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if err := stopping.stop(); err != nil {
		t.Error(err)
	}
	close(ended)
	load.Wait()
}
