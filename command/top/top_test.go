package top

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

// exposition is a scrape of a node that has issued some numbers.
func exposition(issued, refused int) []byte {
	return fmt.Appendf(nil, `# TYPE seqd_ids_issued_total counter
seqd_ids_issued_total{biz_type="_other"} 0
seqd_ids_issued_total{biz_type="invite"} 5
seqd_ids_issued_total{biz_type="order"} %d
# TYPE seqd_ids_rejected_total counter
seqd_ids_rejected_total{biz_type="invite",reason="rate_limited"} %d
# TYPE seqd_http_requests_total counter
seqd_http_requests_total{code="200",method="GET",route="/seq/{bizType}"} %[1]d
seqd_http_requests_total{code="429",method="GET",route="/seq/{bizType}"} %[2]d
seqd_http_requests_total{code="200",method="GET",route="/metrics"} 900
seqd_http_requests_total{code="200",method="POST",route="/segments/distributor/{namespace}/{name}"} 900
seqd_http_requests_total{code="200",method="PATCH",route="/segments/{namespace}/{name}"} %[1]d
# TYPE seqd_resp_commands_total counter
seqd_resp_commands_total{code="ok",command="INCR"} %[1]d
seqd_resp_commands_total{code="overloaded",command="INCR"} %[2]d
seqd_resp_commands_total{code="ok",command="PING"} 900
# TYPE seqd_resp_connections gauge
seqd_resp_connections 5
# TYPE seqd_http_requests_in_flight gauge
seqd_http_requests_in_flight 3
# TYPE seqd_http_connections gauge
seqd_http_connections 4
# TYPE seqd_segment_step gauge
seqd_segment_step{biz_type="order"} 64000
# TYPE seqd_segment_highest gauge
seqd_segment_highest{biz_type="order"} 4.000000000001e+12
# TYPE seqd_segment_in_hand_seconds gauge
seqd_segment_in_hand_seconds{biz_type="order"} 1800
seqd_segment_in_hand_seconds{biz_type="invite"} +Inf
# TYPE seqd_start_time_seconds gauge
seqd_start_time_seconds 1000
# TYPE seqd_issue_seconds histogram
seqd_issue_seconds_bucket{strategy="segment",le="1e-05"} 0
seqd_issue_seconds_bucket{strategy="segment",le="0.0001"} %[1]d
seqd_issue_seconds_bucket{strategy="segment",le="+Inf"} %[1]d
seqd_issue_seconds_sum{strategy="segment"} 1
seqd_issue_seconds_count{strategy="segment"} %[1]d
`, issued, refused)
}

// at returns a sample of one node, which got its metrics some seconds after the start.
func at(t *testing.T, seconds int, text []byte) *sample {
	t.Helper()
	m := must.Get(readMetrics(text))(t)
	n := nodeSample{Node: admin.Node{ID: "n", Host: "a", Build: "v1", Backends: map[string]admin.Backend{"store": {State: "ok"}}}, url: "http://a:8080", metrics: m}
	n.ready.Status = "ready"
	n.at = time.Unix(1000+int64(seconds), 0).UTC()
	return &sample{at: n.at, complete: true, nodes: []nodeSample{n}}
}

func TestPage(t *testing.T) {
	p := newPage(at(t, 10, exposition(1000, 0)), at(t, 12, exposition(4000, 8)))
	const want = `seqd top  00:16:52  1 node, 1,500 numbers/s, 8 refused/s

NODE    STATE  NUMBERS/S  REQ/S  REFUSED/S  P50    P99    BACK ENDS  UP    IN FLIGHT  CONNS  VERSION
a:8080  ready  1,500      4,508  8          55 µs  99 µs  store ok   12 s  3          9      v1

BIZ TYPE  NUMBERS/S  REFUSED/S  HIGHEST        STEP    LASTS   LEFT  TROUBLE
order     1,500      0          4000000000001  64,000  30 min  -
invite    0          4          -              -       -       -     rate_limited`
	p.cut(20)
	if got := strings.Join(p.lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.cut(1)
	if got := p.lines(); got[len(got)-1] != "… and 1 more" {
		t.Errorf("got %q", got)
	}
	if p = newPage(at(t, 10, exposition(1000, 0)), at(t, 12, exposition(4000, 8))); len(p.BizTypes) != 3 {
		t.Errorf("%v", p.BizTypes) // cut leaves the page that it was made of
	}
}

// The first page, and that of a node that has restarted, has no rates: counters began at 0 again.
func TestPageWithoutRates(t *testing.T) {
	restarted := at(t, 12, exposition(5, 0))
	restarted.nodes[0].metrics.started = 1001
	for name, p := range map[string]*page{
		"the first page":      newPage(at(t, 10, exposition(1000, 0)), at(t, 10, exposition(1000, 0))),
		"a restarted node":    newPage(at(t, 10, exposition(1000, 0)), restarted),
		"another node":        newPage(&sample{}, at(t, 12, exposition(1000, 0))),
		"the same collection": newPage(at(t, 12, exposition(1000, 0)), at(t, 12, exposition(1000, 0))),
	} {
		n := p.Nodes[0]
		if n.Numbers != nil || n.Requests != nil || n.P50MS != nil || n.UpMS == nil {
			t.Errorf("%s: %+v", name, n)
		}
		if text, err := json.Marshal(p); err != nil || !strings.Contains(string(text), `"numbersPerSecond":null`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// Numbers of several nodes add up, and the worst one counts for what is left.
func TestPageOfTwoNodes(t *testing.T) {
	two := func(seconds, issued int) *sample {
		s, other := at(t, seconds, exposition(issued, 0)), at(t, seconds, exposition(2*issued, 0))
		other.nodes[0].ID, other.nodes[0].url = "m", "http://b:8080"
		other.nodes[0].metrics.lasts["order"] = 60_000
		s.nodes = append(s.nodes, other.nodes...)
		return s
	}
	p := newPage(two(10, 100), two(20, 1100))
	if order := p.BizTypes[0]; order.BizType != "order" || order.Numbers != 300 || *order.LastsMS != 60_000 || *order.Step != 64000 {
		t.Errorf("%+v", order)
	}
	if head := p.head(); !strings.HasSuffix(head, "2 nodes, 300 numbers/s, 0 refused/s") {
		t.Error(head)
	}
}

func TestQuantile(t *testing.T) {
	before := []bucket{{1, 10}, {2, 10}, {math.Inf(1), 10}}
	for _, test := range []struct {
		share float64
		after []bucket
		want  float64
	}{
		{0.5, []bucket{{1, 110}, {2, 110}, {math.Inf(1), 110}}, 0.5},
		{0.5, []bucket{{1, 60}, {2, 110}, {math.Inf(1), 110}}, 1},
		{0.99, []bucket{{1, 10}, {2, 110}, {math.Inf(1), 110}}, 1.99},
		{0.99, []bucket{{1, 10}, {2, 10}, {math.Inf(1), 20}}, 2}, // not more is known
	} {
		if got := quantile(test.share, before, test.after); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v of %v: %v, want %v", test.share, test.after, got, test.want)
		}
	}
	for _, after := range [][]bucket{nil, before} {
		if got := quantile(0.5, before, after); !math.IsNaN(got) {
			t.Errorf("without calls: %v", got)
		}
	}
}

func TestFormats(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.04: "0.0", 3: "3", 3.14: "3.1", 9.96: "10", 999: "999", 1000: "1,000", 12345678: "12,345,678"} {
		must.Equal(t, rate(&v), want, "rate(%v)", v)
	}
	for v, want := range map[float64]string{0: "0 s", 2.5e-6: "2.5 µs", 0.0123: "12 ms", 1: "1 s", 119: "119 s", 120: "2 min", 7200: "2 h", 86400 * 3: "3 d", 86400 * 365 * 40: "40 y"} {
		if ms := v * 1000; span(&ms) != want {
			t.Errorf("span(%v) is %s, want %s", ms, span(&ms), want)
		}
	}
	if rate(nil) != "-" || span(nil) != "-" || fit("añb", 2) != "añ" || fit("a", 2) != "a" {
		t.Error("nothing, or a line")
	}
}

func TestReachable(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:80": "https://10.0.0.1:80", "0.0.0.0:80": "https://host:80", "[::]:80": "https://host:80", ":80": "https://host:80", "[::1]:80": "https://[::1]:80"} {
		must.Equal(t, reachable(admin.Node{Addr: addr, Host: "host"}, "https://a:1"), want, "%s", addr)
	}
}

// cluster are two nodes that name each other.
type cluster struct {
	nodes  []*httptest.Server
	away   atomic.Bool // the second one is
	issued atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{}
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.answer(w, r, i) }))
		t.Cleanup(s.Close)
		c.nodes = append(c.nodes, s)
	}
	return c
}

func (c *cluster) answer(w http.ResponseWriter, r *http.Request, i int) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case i == 1 && c.away.Load():
		panic(http.ErrAbortHandler)
	case r.URL.Path == "/nodes":
		var list []string
		for j, n := range c.nodes {
			list = append(list, fmt.Sprintf(`{"id":"n%d","self":%t,"node":%q,"host":"x","build":"v1","backends":{"store":{"state":"ok"}}}`, j, i == j, n.Listener.Addr()))
		}
		fmt.Fprintf(w, `{"nodes":[%s],"complete":true}`, strings.Join(list, ","))
	case r.URL.Path == "/readyz" && i == 1:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":503,"code":"store_unavailable","detail":"1 biz types cannot issue","unready":1,"bizTypes":[{"bizType":"order","code":"store_unavailable","detail":"x"}]}`)
	case r.URL.Path == "/readyz":
		_, _ = io.WriteString(w, `{"status":"ready"}`)
	case r.URL.Path == "/metrics":
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write(exposition(int(c.issued.Add(1000)), 0))
	}
}

// All nodes are asked, if they are named or not, and one that is away is a line of the page.
func TestCollect(t *testing.T) {
	for _, named := range []int{1, 2} {
		c := newCluster(t)
		var addrs []string
		for _, n := range c.nodes[:named] {
			addrs = append(addrs, n.URL)
		}
		env := clitool.New(nil, io.Discard, io.Discard, []string{"SEQD_CLIENT_ADDR=" + strings.Join(addrs, ",")})
		must.Do(t, New(env).PersistentFlags().Set("timeout", "10m")) // the other flags have their defaults
		collect := must.Get(newCollector(env))(t)
		states := func() (list []string) {
			s := must.Get(collect.sample(t.Context()))(t)
			for _, n := range newPage(s, s).Nodes {
				list = append(list, n.ID+" "+n.State)
			}
			slices.Sort(list)
			return list
		}
		if got, want := states(), []string{"n0 ready", "n1 unready"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		c.away.Store(true)
		if got, want := states(), []string{"n0 ready", "n1 unreachable"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		c.away.Store(false)
		if got, want := states(), []string{"n0 ready", "n1 unready"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		collect.close()
	}
}

func TestMetricsOfAnotherProgram(t *testing.T) {
	for _, text := range []string{"", "<html>", "up 1\n", "seqd_start_time_seconds x\n"} {
		if m, err := readMetrics([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, m)
		}
	}
}
