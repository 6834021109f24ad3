package server_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
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
	must.Do(t, s.stop())
	spans := collector.Spans()
	if len(spans) != 1 || spans[0].Name != "GET /seq/{bizType}" || spans[0].Attributes["seqd.count"] != "2" {
		t.Fatalf("got %+v", spans)
	}
	if r := spans[0].Resource; "http://"+r["service.instance.id"] != s.url || r["service.version"] != "v7" {
		t.Errorf("the service is described as %v", r)
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

// Without an endpoint nothing traces. What traced in other tests ends.
func TestTracesNeedACollector(t *testing.T) {
	await.Eventually(t, "what traced in other tests has ended", func() error {
		if running := tracing(); running != "" {
			return errors.New(running)
		}
		return nil
	})
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]\n"))
	s.await("/readyz", http.StatusOK)
	s.get("/seq/order")
	must.Equal(t, tracing(), "", "without an endpoint this runs")
}
