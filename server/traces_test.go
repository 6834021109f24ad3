package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// traced is a server that traces every request.
func traced(t *testing.T, endpoint string) *service {
	t.Helper()
	s := start(t, load(t, "tracing: {endpoint: '"+endpoint+"', sampleRatio: 1}\nstore: {driver: memory}\nbizTypes: [{name: order, start: 100}]\n"), server.WithVersion("v7"))
	s.await("/readyz", http.StatusOK)
	return s
}

func TestTraces(t *testing.T) {
	var collector tracingtest.Collector
	c := httptest.NewServer(&collector)
	t.Cleanup(c.Close)
	s := traced(t, c.URL+"/v1/traces")
	s.get("/seq/order?count=2")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Name != "GET /seq/{bizType}" || spans[0].Attributes["seqd.count"] != "2" {
		t.Fatalf("got %+v", spans)
	}
	if r := spans[0].Resource; "http://"+r["service.instance.id"] != s.url || r["service.version"] != "v7" {
		t.Errorf("the service is described as %v", r)
	}
}

// endpoints are unusable collectors. open counts the connections to the one that hangs.
func endpoints(t *testing.T, open *atomic.Int64) map[string]string {
	t.Helper()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	t.Cleanup(refusing.Close)
	release := make(chan struct{})
	hanging := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-release:
		case <-r.Context().Done(): // the client has closed the connection
		}
	}))
	hanging.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	hanging.Start()
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	return map[string]string{"down": "http://" + closed.Addr().String(), "refusing": refusing.URL, "hanging": hanging.URL}
}

// An unusable collector affects no request, and leaves no goroutine or connection behind.
func TestCollectorOfNoUse(t *testing.T) {
	var open atomic.Int64
	for name, endpoint := range endpoints(t, &open) {
		t.Run(name, func(t *testing.T) {
			s := traced(t, endpoint)
			for range 600 { // more than a batch, which is sent at once
				if status, body := s.get("/seq/order"); status != http.StatusOK {
					t.Fatalf("got %d: %s", status, body)
				}
			}
			if err := s.stop(); err != nil { // if the collector held it up
				t.Error(err)
			}
			await.Eventually(t, "nothing is left behind", func() error {
				if running, n := tracing(), open.Load(); running != "" || n > 0 {
					return fmt.Errorf("%d connections are open, and this still runs:\n%s", n, running)
				}
				return nil
			})
		})
	}
}

// tracing returns the stacks of goroutines that trace.
func tracing() string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for one := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(one, "go.opentelemetry.io/") || strings.Contains(one, "seqd/server/tracing.") {
			return one
		}
	}
	return ""
}

func TestTracesNeedACollector(t *testing.T) {
	if tracing() != "" {
		t.Fatal("another test left something behind")
	}
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]\n"))
	s.await("/readyz", http.StatusOK)
	s.get("/seq/order")
	if running := tracing(); running != "" {
		t.Errorf("without an endpoint this runs:\n%s", running)
	}
}
