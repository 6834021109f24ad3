package server_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
)

// chatty is a server that logs much.
const chatty = `
server: {accessLog: on}
log: {level: debug}
store: {driver: memory}
bizTypes: [{name: order, start: 100}]
`

// nobodyReads returns the writing end of a full pipe, in blocking mode like standard error.
func nobodyReads(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	must.Do(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // closing the other end ends a write
	must.Do(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for chunk := make([]byte, 1<<20); ; {
		if _, err := w.Write(chunk); err != nil {
			break // it is full
		}
	}
	_ = w.Fd()
	return w
}

// The log goes to a pipe that nobody reads, or to a full disk. Numbers are issued, and a stop ends.
func TestLogThatTakesNothing(t *testing.T) {
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	for name, out := range map[string]*os.File{"a pipe that nobody reads": nobodyReads(t), "a full disk": full} {
		t.Run(name, func(t *testing.T) {
			s := start(t, load(t, chatty), server.WithLogger(nil), server.WithLogOutput(out))
			s.await("/readyz", http.StatusOK)
			for range 300 {
				if status, body := s.get("/seq/order"); status != http.StatusOK {
					t.Fatalf("got %d: %s", status, body)
				}
			}
			must.Report(t, s.stop())
		})
	}
}
