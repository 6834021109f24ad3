package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// caller asks for numbers over one connection while it lasts, and never retries.
type caller struct {
	dial    func() (net.Conn, error)
	moved   func() // called when it is sent elsewhere
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
		c.moved()
	}
	return nil
}

// dialReady connects to the first ready node, as a balancer does.
func dialReady(nodes ...*service) (net.Conn, error) {
	probe := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
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

// Callers that keep their connections do not notice a stop, because each is sent elsewhere while the node
// is being drained.
func TestStopUnderLoadFailsNobody(t *testing.T) {
	t.Parallel()
	const callers, each = 20, 10
	cfg := load(t, "store: {driver: memory}\nbizTypes: [{name: order}]")
	stopping, running := byHand(t, cfg)
	staying := start(t, cfg)
	staying.await("/readyz", http.StatusOK)
	var load, busy, moved sync.WaitGroup
	busy.Add(callers)
	moved.Add(callers)
	ended := make(chan struct{})
	for range callers {
		load.Go(func() {
			c := &caller{dial: func() (net.Conn, error) { return dialReady(stopping, staying) }, moved: sync.OnceFunc(moved.Done)}
			defer c.moved()
			isBusy := sync.OnceFunc(busy.Done)
			defer isBusy()
			for i, last := 1, false; !last; i++ {
				select {
				case <-ended:
					last = true // one more, on the remaining node
				case <-time.After(10 * time.Millisecond): // the caller uses the number
				}
				if err := c.ask(); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				if i == each {
					isBusy()
				}
			}
			if c.conn != nil {
				_ = c.conn.Close()
			}
		})
	}
	busy.Wait()
	running.Drain()
	moved.Wait()
	must.Report(t, running.Stop())
	close(ended)
	load.Wait()
}
