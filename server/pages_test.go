package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

// raw sends lines and returns the status of the answer.
func (s *service) raw(lines ...string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "%s\r\n\r\n", strings.Join(lines, "\r\n")); err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// A node without tokens answers only requests for its names, and none from pages of another origin.
// With tokens, callers may use any name.
func TestNamesOfANode(t *testing.T) {
	const settings = "server: {hosts: [seqd-1, seqd.example]}\nbizTypes: [{name: order}]\nstore: {driver: memory}\n"
	open, closed := start(t, load(t, settings)), start(t, load(t, settings+"auth: {mode: token}\n"))
	open.await("/readyz", http.StatusOK)
	closed.await("/readyz", http.StatusOK)
	for _, tt := range []struct {
		lines         string
		open, guarded int
	}{
		{"GET /healthz HTTP/1.0", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: seqd-1:8080\r\nConnection: close", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: SEQD.example.\r\nConnection: close", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close", 403, 200},
		{"GET /seq/order HTTP/1.1\r\nHost: seqd-1\r\nConnection: close", 200, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: seqd-1\r\nOrigin: http://elsewhere.example\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.0", 200, 401},
	} {
		if got := open.raw(tt.lines); got != tt.open {
			t.Errorf("%q got %d, want %d", tt.lines, got, tt.open)
		}
		if got := closed.raw(tt.lines); got != tt.guarded {
			t.Errorf("with tokens, %q got %d, want %d", tt.lines, got, tt.guarded)
		}
	}
}
