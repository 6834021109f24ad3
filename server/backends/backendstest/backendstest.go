// Package backendstest stands in for back ends in tests.
package backendstest

import (
	"bufio"
	"net"
	"sync/atomic"
	"testing"
)

// Redis listens and answers each line with the text that answer returns, "" for nothing. It returns
// its address and how many connections there were.
func Redis(t *testing.T, answer func(line string) string) (addr string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	connections = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := conn.Write([]byte(answer(lines.Text()))); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), connections
}
