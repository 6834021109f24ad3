package server_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
)

// scraped has the values of one scrape, by name and labels as in
// seqd_ids_issued_total{biz_type="order"}. The value of a histogram is its count.
type scraped map[string]float64

func (s *service) scrape(headers ...string) scraped {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.url+"/metrics", nil))(s.t)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))(s.t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("/metrics says %d: %s", resp.StatusCode, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families := must.Get(parser.TextToMetricFamilies(resp.Body))(s.t)
	values := make(scraped)
	for _, family := range families {
		for _, metric := range family.Metric {
			values[family.GetName()+labelsOf(metric)] = valueOf(metric)
		}
	}
	return values
}

func labelsOf(metric *dto.Metric) string {
	var labels []string
	for _, l := range metric.Label {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if len(labels) == 0 {
		return ""
	}
	return "{" + strings.Join(labels, ",") + "}"
}

func valueOf(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Histogram != nil:
		return float64(metric.Histogram.GetSampleCount())
	}
	return metric.Gauge.GetValue()
}

// awaitMetrics scrapes until every wanted value is shown. Collected values are cached for a second.
func (s *service) awaitMetrics(want scraped) scraped {
	s.t.Helper()
	var got scraped
	await.Eventually(s.t, "the metrics follow", func() error {
		got = s.scrape()
		var wrong []error
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if v, there := got[name]; !there || v != want[name] {
				wrong = append(wrong, fmt.Errorf("%s is %v (there: %v), want %v", name, v, there, want[name]))
			}
		}
		return errors.Join(wrong...)
	})
	return got
}

// The time of the newest scheduled snapshot is shown once there is one, also one that was there
// before the start; and how often saving failed. Without snapshots there is neither.
func TestMetricsOfSnapshots(t *testing.T) {
	folder, path := t.TempDir(), filepath.Join(t.TempDir(), "seqd.db")
	run := func(folder string) *service {
		return start(t, load(t, fmt.Sprintf(`
store: {bolt: {path: %s}}
snapshots: {every: 1h, folder: %s}
bizTypes: [{name: order}]`, path, folder)))
	}
	const newest, failures = "seqd_snapshot_newest_time_seconds", "seqd_snapshot_failures_total"
	var saved float64
	for range 2 {
		s := run(folder)
		await.True(t, "a snapshot is saved", func() bool { return s.scrape()[newest] > 0 })
		got := s.scrape()
		must.Equal(t, got["seqd_snapshot_every_seconds"], 3600)
		must.Equal(t, got[failures], 0)
		names := must.Get(filepath.Glob(filepath.Join(folder, "seqd-*-*.snapshot")))(t)
		must.Equal(t, len(names), 1, "snapshots")
		if saved == 0 {
			saved = math.Trunc(got[newest]) // a name has seconds
		}
		must.Equal(t, math.Trunc(got[newest]), saved, "when the newest one was begun")
		must.Do(t, s.stop())
	}
	s := run(filepath.Join(folder, "none"))
	s.awaitMetrics(scraped{newest: 0, failures: 1})
	must.Do(t, s.stop())
	s = start(t, load(t, `{store: {driver: memory}, bizTypes: [{name: order}]}`))
	s.await("/readyz", http.StatusOK)
	if _, there := s.scrape()[newest]; there {
		t.Error("a node that saves no snapshots shows when it did")
	}
}

// Every event is counted exactly once, and nothing else is counted.
func TestMetrics(t *testing.T) {
	counted := &observed{}
	cfg := load(t, fmt.Sprintf(`
store: {bolt: {path: %s}}
metrics: {maxBizTypes: 3}
bizTypes: [{name: order, start: 100}, {name: user, strategy: snowflake}, {name: full, start: 9007199254740990}, {name: d}]`, filepath.Join(t.TempDir(), "seqd.db")))
	s := start(t, cfg, server.WithVersion("v1.2.3"), server.WithRevision("0a1b2c"), server.WithObserver(counted))
	s.await("/readyz", http.StatusOK)
	before := s.scrape()
	if before[`seqd_biz_types{state="ready"}`] != 4 && before[`seqd_biz_types{state="ready"}`] != 0 {
		t.Errorf("at first %v biz types are ready", before[`seqd_biz_types{state="ready"}`])
	}
	for range 7 {
		s.get("/seq/order")
		s.get("/seq/user?count=3")
	}
	s.get("/seq/full")
	s.get("/seq/full?count=5")
	s.get("/seq/full?count=0")
	s.get("/seq/nobody")
	s.get("/nowhere")
	s.get("/seq/d")
	s.get("/seq/d?count=10")
	s.post("/seq/order", "a")
	s.post("/seq/order", "a")
	s.post("/seq/order?count=2", "a")
	got := s.awaitMetrics(scraped{
		`seqd_ids_issued_total{biz_type="order"}`:  8,
		`seqd_ids_issued_total{biz_type="user"}`:   21,
		`seqd_ids_issued_total{biz_type="full"}`:   1,
		`seqd_ids_issued_total{biz_type="_other"}`: 11,

		`seqd_ids_rejected_total{biz_type="full",reason="exhausted"}`: 1,
		`seqd_issue_seconds{strategy="segment"}`:                      12,
		`seqd_issue_seconds{strategy="snowflake"}`:                    7,

		`seqd_http_requests_total{code="200",method="GET",route="/seq/{bizType}"}`:  17,
		`seqd_http_requests_total{code="200",method="POST",route="/seq/{bizType}"}`: 2,
		`seqd_http_requests_total{code="422",method="POST",route="/seq/{bizType}"}`: 1,
		`seqd_http_requests_total{code="409",method="GET",route="/seq/{bizType}"}`:  1,
		`seqd_http_requests_total{code="400",method="GET",route="/seq/{bizType}"}`:  1,
		`seqd_http_requests_total{code="404",method="GET",route="/seq/{bizType}"}`:  1,
		`seqd_http_requests_total{code="404",method="GET",route="none"}`:            1,

		`seqd_idempotent_requests_total{outcome="issued"}`:   1,
		`seqd_idempotent_requests_total{outcome="replayed"}`: 1,
		`seqd_idempotent_requests_total{outcome="failed"}`:   1,

		`seqd_biz_types{state="ready"}`:       4,
		`seqd_biz_types{state="unready"}`:     0,
		`seqd_biz_types{state="degraded"}`:    0,
		`seqd_biz_types{state="disabled"}`:    0,
		`seqd_backend_up{backend="store"}`:    1,
		`seqd_http_requests_in_flight`:        0,
		`seqd_http_requests_shed_total`:       0,
		`seqd_http_connections_refused_total`: 0,
	})
	if _, nodes := s.get("/nodes"); !strings.Contains(nodes, `"build":"v1.2.3`) {
		t.Errorf("/nodes says %s", nodes)
	}
	if _, overview := s.get("/overview"); !strings.Contains(overview, `"bizTypes":{"total":4,"ready":4,`) || !strings.Contains(overview, `"state":"ready"`) {
		t.Errorf("/overview says %s", overview)
	}
	for name := range got {
		if strings.Contains(name, `"d"`) || strings.Contains(name, "nobody") {
			t.Errorf("there is %s, beyond maxBizTypes", name)
		}
		if strings.HasPrefix(name, "seqd_build_info") && !strings.Contains(name, `revision="0a1b2c",version="v1.2.3"`) {
			t.Errorf("there is %s", name)
		}
	}
	if counted.issued.Load() != 8+21+1+11 || counted.rejected.Load() != 1 {
		t.Errorf("the observer beside was told of %d numbers and %d refusals", counted.issued.Load(), counted.rejected.Load())
	}
	must.Equal(t, counted.took.Load(), 12+7, "the calls that the observer beside was told of")
}

// A disabled biz type keeps its series; a deleted one loses them.
func TestMetricsFollowBizTypes(t *testing.T) {
	t.Parallel()
	s := start(t, load(t, fmt.Sprintf("store: {bolt: {path: %s}}\nbizTypes: [{name: order}, {name: user}]", filepath.Join(t.TempDir(), "seqd.db"))))
	s.await("/readyz", http.StatusOK)
	s.get("/seq/order")
	s.get("/seq/user")
	s.awaitMetrics(scraped{`seqd_ids_issued_total{biz_type="order"}`: 1, `seqd_ids_issued_total{biz_type="user"}`: 1})
	s.send(http.MethodPost, "/biz-types/order/disable")
	s.send(http.MethodDelete, "/biz-types/user")
	s.get("/seq/order")
	s.awaitMetrics(scraped{
		`seqd_biz_types{state="disabled"}`: 1, `seqd_biz_types{state="ready"}`: 0,
		`seqd_ids_rejected_total{biz_type="order",reason="disabled"}`: 1, `seqd_issue_seconds{strategy="none"}`: 1,
	})
	await.True(t, "the series of a biz type that was deleted are gone", func() bool {
		_, there := s.scrape()[`seqd_ids_issued_total{biz_type="user"}`]
		return !there
	})
}

// send sends a change, which must succeed.
func (s *service) send(method, path string) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, nil))(s.t)
	resp := must.Get(http.DefaultClient.Do(req))(s.t)
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, body)
	}
}

// Metrics show a store that accepts connections and never answers, and a request that does not end,
// and do not wait for them.
//
// It does not run in parallel: TestStopIsBounded uses the same slow strategy.
func TestMetricsWhileHanging(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	starting := start(t, load(t, fmt.Sprintf("store: {driver: mongo, mongo: {uri: \"mongodb://%s\", timeout: 10s}}\nsegment: {ordering: per-node}\nbizTypes: [{name: order}]", silent.Addr())))
	starting.awaitMetrics(scraped{`seqd_backend_up{backend="store"}`: 0})

	s := start(t, load(t, "store: {driver: memory}\nserver: {maxInFlight: 1}\nbizTypes: [{name: s, strategy: slow}]"))
	s.await("/readyz", http.StatusOK)
	ended := make(chan struct{})
	go func() { defer close(ended); s.get("/seq/s") }()
	<-theSlow.entered
	s.await("/seq/s", http.StatusServiceUnavailable)
	s.awaitMetrics(scraped{`seqd_http_requests_in_flight`: 1, `seqd_http_requests_shed_total`: 1, `seqd_http_requests_total{code="503",method="GET",route="/seq/{bizType}"}`: 1})
	theSlow.release <- struct{}{}
	<-ended
	s.awaitMetrics(scraped{`seqd_http_requests_in_flight`: 0, `seqd_issue_seconds{strategy="slow"}`: 1})
}

func TestMetricsOff(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nmetrics: {enabled: false}\nbizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	status, body := s.get("/metrics")
	must.Equal(t, status, http.StatusNotFound, "/metrics")
	wantCode(t, body, seqd.CodeNotFound)
}

// Numbers are issued without an observer too.
func TestNobodyObserves(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		s := start(t, load(t, fmt.Sprintf("store: {driver: memory}\nmetrics: {enabled: %t}\nbizTypes: [{name: order}]", enabled)), server.WithObserver(nil))
		s.await("/readyz", http.StatusOK)
		if status, body := s.get("/seq/order"); status != http.StatusOK {
			t.Errorf("with metrics %t: %d %s", enabled, status, body)
		}
	}
}

// observed counts the calls of an observer.
type observed struct {
	seqd.NopObserver
	issued, rejected, took atomic.Int64
}

func (o *observed) Issued(_ string, n int)     { o.issued.Add(int64(n)) }
func (o *observed) Rejected(string, seqd.Code) { o.rejected.Add(1) }
func (o *observed) Took(string, int64)         { o.took.Add(1) }
