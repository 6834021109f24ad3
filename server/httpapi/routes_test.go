package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/httpapi"
)

func TestUnknownRoutes(t *testing.T) {
	for _, target := range []string{
		"/", "//", "/seq/order/", "/seq/order/100", "/seq//order", "/healthz/", "/readyz/", "/Healthz", "/SEQ/order",
		"/favicon.ico", "/..", "/seq/order/parse/1/", "/seq/order/PARSE/1", "http://seqd",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "DELETE", "OPTIONS", "BREW"} {
			t.Run(method+" "+target, func(t *testing.T) {
				wantProblem(t, do(t, newAPI(t), method, target), 404, "not_found")
			})
		}
	}
	t.Run("OPTIONS *", func(t *testing.T) { wantProblem(t, do(t, newAPI(t), "OPTIONS", "*"), 404, "not_found") })
	t.Run("CONNECT", func(t *testing.T) { wantProblem(t, do(t, newAPI(t), "CONNECT", "seqd:80"), 404, "not_found") })
}

func TestWrongMethods(t *testing.T) {
	tests := []struct {
		target  string
		allowed []string
	}{
		{"/seq/order", []string{"GET", "POST"}},
		{"/seq/nobody", []string{"GET", "POST"}},
		{"/seq/order/parse/1", []string{"GET"}},
		{"/seq/order/reservations", []string{"POST"}},
		{"/seq/order/reservations/1", []string{"DELETE", "GET"}},
		{"/seq/order/reservations/1/confirm", []string{"POST"}},
		{"/biz-types/order/gaps", []string{"GET"}},
		{"/biz-types/order/keys", []string{"GET"}},
		{"/biz-types/order/voids", []string{"GET", "POST"}}, // GET of {resource}
		{"/healthz", []string{"GET", "HEAD"}},
		{"/readyz", []string{"GET", "HEAD"}},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "BREW"} {
			if slices.Contains(tt.allowed, method) {
				continue
			}
			t.Run(method+" "+tt.target, func(t *testing.T) {
				w := do(t, newAPI(t), method, tt.target)
				wantProblem(t, w, 405, "method_not_allowed")
				got := strings.Split(w.Header().Get("Allow"), ", ")
				slices.Sort(got)
				if !slices.Equal(got, tt.allowed) {
					t.Errorf("Allow is %q, want %q", got, tt.allowed)
				}
			})
		}
	}
}

func TestTargetTooLong(t *testing.T) {
	const most = 4096
	pad := func(prefix string, size int) string { return prefix + strings.Repeat("9", size-len(prefix)) }
	for _, prefix := range []string{"/seq/order?count=", "/seq/", "/seq/order/parse/", "/healthz?", "/nowhere/"} {
		wantProblem(t, do(t, newAPI(t), "GET", pad(prefix, most+1)), 414, "uri_too_long")
	}
	wantProblem(t, do(t, newAPI(t), "GET", pad("/seq/order/parse/", most)), 400, "invalid_id")
}

func TestHealthz(t *testing.T) {
	draining := newAPI(t)
	draining.Gate().Drain()
	sick := newCounter(1)
	sick.health = seqd.Errorf(seqd.CodeStoreUnavailable, "no")
	for name, api := range map[string]*httpapi.API{
		"starting": newStarting(t), "ready": newAPI(t), "draining": draining, "with a sick biz type": newAPI(t, define("order", sick)),
	} {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(name+" by "+method, func(t *testing.T) {
				wantBody(t, do(t, api, method, "/healthz"), jsonType, `{"status":"ok"}`)
			})
		}
	}
}

func TestReadyz(t *testing.T) {
	t.Run("ready", func(t *testing.T) {
		for _, method := range []string{"GET", "HEAD"} {
			w := do(t, newAPI(t), method, "/readyz")
			wantBody(t, w, jsonType, `{"status":"ready"}`)
			must.Equal(t, w.Header().Get("Cache-Control"), "no-store", "Cache-Control")
		}
	})
	t.Run("starting", func(t *testing.T) {
		for _, method := range []string{"GET", "HEAD"} {
			wantProblem(t, do(t, newStarting(t), method, "/readyz"), 503, "starting")
		}
	})
	t.Run("waiting for the store", func(t *testing.T) {
		api := newStarting(t)
		api.Gate().Wait(&seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "disk full", RetryAfter: 2500 * time.Millisecond})
		for _, target := range []string{"/readyz", "/seq/order", "/seq/order/parse/1"} {
			w := do(t, api, "GET", target)
			if p := wantProblem(t, w, 503, "store_unavailable"); p.Detail != "disk full" || w.Header().Get("Retry-After") != "3" {
				t.Errorf("%s: detail %q, Retry-After %q; want disk full and 3", target, p.Detail, w.Header().Get("Retry-After"))
			}
		}
	})
	t.Run("not initialised yet", func(t *testing.T) {
		api := newStarting(t)
		ready(api, newIssuer(t, define("order", newCounter(1))))
		p := wantProblem(t, do(t, api, "GET", "/readyz"), 503, "starting")
		if p.Unready != 1 || len(p.BizTypes) != 1 || p.BizTypes[0].BizType != "order" || p.BizTypes[0].Code != "starting" {
			t.Errorf("the list is %+v, %d in all; want order, starting", p.BizTypes, p.Unready)
		}
		wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, `{"bizType":"order","id":"1"}`)
		wantBody(t, do(t, api, "GET", "/readyz"), jsonType, `{"status":"ready"}`)
	})
	t.Run("draining", func(t *testing.T) {
		api := newAPI(t)
		api.Gate().Drain()
		wantProblem(t, do(t, api, "GET", "/readyz"), 503, "stopping")
		wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, one)
	})
	t.Run("draining while starting", func(t *testing.T) {
		api := newStarting(t)
		api.Gate().Drain()
		wantProblem(t, do(t, api, "GET", "/readyz"), 503, "stopping")
	})
}

func TestReadyzListsBizTypes(t *testing.T) {
	var definitions []issuer.Definition
	for i := range 150 {
		sick := newCounter(1)
		sick.health = seqd.Errorf(seqd.CodeStoreUnavailable, "reason %d", i)
		definitions = append(definitions, define(fmt.Sprintf("b%03d", i), sick))
	}
	p := wantProblem(t, do(t, newAPI(t, definitions...), "GET", "/readyz"), 503, "store_unavailable")
	if p.Unready != 150 || len(p.BizTypes) != 100 {
		t.Fatalf("%d biz types are listed of %d, want 100 of 150", len(p.BizTypes), p.Unready)
	}
	for i, b := range p.BizTypes {
		if want := "reason " + strings.TrimLeft(b.BizType[1:3], "0") + b.BizType[3:]; b.Detail != want || b.Code != "store_unavailable" {
			t.Errorf("%s: %s %q, want store_unavailable %q", b.BizType, b.Code, b.Detail, want)
		}
		if i > 0 && p.BizTypes[i-1].BizType >= b.BizType {
			t.Errorf("the list is not sorted: %s before %s", p.BizTypes[i-1].BizType, b.BizType)
		}
	}
}

// TestReadyzDegraded checks that /readyz names a degraded biz type and answers 200.
func TestReadyzDegraded(t *testing.T) {
	limping := newCounter(1)
	limping.degraded = &seqd.Error{Code: seqd.CodeRedisUnavailable, Detail: "order over nodes is suspended", Err: fmt.Errorf("dial redis://root:hunter2@db")}
	api := newAPI(t, define("good", newCounter(1)), define("order", limping))
	for _, method := range []string{"GET", "HEAD"} {
		w := do(t, api, method, "/readyz")
		wantBody(t, w, jsonType, `{"status":"degraded","degraded":1,"bizTypes":[{"bizType":"order","code":"redis_unavailable","detail":"order over nodes is suspended"}]}`)
		must.Equal(t, w.Header().Get("Cache-Control"), "no-store", "Cache-Control")
	}
	wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, `{"bizType":"order","id":"1"}`)
	// It is named after one that cannot issue at all, which does not make the node unready.
	sick := newCounter(1)
	sick.health = seqd.Errorf(seqd.CodeStoreUnavailable, "no")
	wantBody(t, do(t, newAPI(t, define("order", limping), define("sick", sick)), "GET", "/readyz"), jsonType, `{"status":"degraded","unready":1,"degraded":1,"bizTypes":[`+
		`{"bizType":"sick","code":"store_unavailable","detail":"no","unready":true},{"bizType":"order","code":"redis_unavailable","detail":"order over nodes is suspended"}]}`)
	limping.degraded = nil
	wantBody(t, do(t, api, "GET", "/readyz"), jsonType, `{"status":"ready"}`)
}

// TestReadyzOfNamedBizTypes checks that a probe that names biz types judges them and no others, and
// that probes refuse what they do not know.
func TestReadyzOfNamedBizTypes(t *testing.T) {
	limping, sick := newCounter(1), newCounter(1)
	limping.degraded, sick.health = seqd.Errorf(seqd.CodeRedisUnavailable, "slow"), seqd.Errorf(seqd.CodeStoreUnavailable, "no")
	api := newAPI(t, define("good", newCounter(1)), define("limping", limping), define("sick", sick),
		issuer.Definition{BizType: seqd.BizType{Name: "off"}, Disabled: seqd.Errorf(seqd.CodeDisabled, "off")})
	many := strings.Repeat("good,", 100) + "good"
	for query, want := range map[string]string{
		"bizType=good":              `{"status":"ready"}`,
		"bizType=good,limping":      `{"status":"degraded","degraded":1,"bizTypes":[{"bizType":"limping","code":"redis_unavailable","detail":"slow"}]}`,
		"bizType=off%2Cgood,off":    `{"status":"degraded","degraded":1,"bizTypes":[{"bizType":"off","code":"disabled","detail":"an administrator disabled it"}]}`,
		"bizType=good,sick,limping": `503 store_unavailable 1 biz types cannot issue`,
		"bizType=good,none":         `404 unknown_biz_type no biz type is called "none"`,
		"bizType=":                  `400 invalid_biz_type`,
		"bizType=good,":             `400 invalid_biz_type`,
		"bizType=a/b":               `400 invalid_biz_type`,
		"bizType=" + many:           `400 invalid_request bizType names 101 biz types, and may name 100`,
		"bizType=good&bizType=sick": `400 invalid_request bizType is given 2 times`,
		"biztype=good":              `400 invalid_request there is no query parameter "biztype"; there is bizType`,
		"full":                      `400 invalid_request there is no query parameter "full"; there is bizType`,
		"%zz":                       `400 invalid_request the query cannot be read`,
	} {
		w := do(t, api, "GET", "/readyz?"+query)
		got := w.Body.String()
		if w.Code != 200 {
			var p problem
			_ = json.Unmarshal(w.Body.Bytes(), &p)
			got = fmt.Sprint(w.Code, " ", p.Code, " ", p.Detail)
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	api.Gate().Drain()
	wantProblem(t, do(t, api, "GET", "/readyz?bizType=good"), 503, "stopping")
}

func TestReadyzListsDegradedBizTypes(t *testing.T) {
	var definitions []issuer.Definition
	for i := range 150 {
		limping := newCounter(1)
		limping.degraded = seqd.Errorf(seqd.CodeRedisUnavailable, "why")
		definitions = append(definitions, define(fmt.Sprintf("b%03d", i), limping))
	}
	var got struct {
		Status   string
		Degraded int
		BizTypes []struct{ BizType string }
	}
	must.Do(t, json.Unmarshal(do(t, newAPI(t, definitions...), "GET", "/readyz").Body.Bytes(), &got))
	if got.Status != "degraded" || got.Degraded != 150 || len(got.BizTypes) != 100 || got.BizTypes[99].BizType != "b099" {
		t.Errorf("got %+v", got)
	}
}

// nowhere is a source of biz types that is away.
type nowhere struct{}

func (nowhere) Fetch(context.Context, string) error {
	return seqd.Errorf(seqd.CodeStoreUnavailable, "away")
}

// TestReadyzOfUnreadNames checks that names that somebody asks for, and that cannot be read, take
// no node out of rotation whose biz types only stand still after a failover.
func TestReadyzOfUnreadNames(t *testing.T) {
	still, api := newCounter(1), newStarting(t)
	still.health = seqd.Errorf(seqd.CodeStoreFailedOver, "confirm it")
	is := must.Get(issuer.New([]issuer.Definition{define("order", still)}, issuer.Options{Log: slog.New(slog.DiscardHandler), Source: nowhere{}}))(t)
	is.Init(t.Context())
	ready(api, is)
	for range 2 { // once does not count
		wantProblem(t, do(t, api, "GET", "/seq/other"), 503, seqd.CodeStoreUnavailable)
	}
	wantBody(t, do(t, api, "GET", "/readyz"), jsonType, `{"status":"degraded","degraded":2,"bizTypes":[`+
		`{"bizType":"order","code":"store_failed_over","detail":"confirm it"},{"bizType":"other","code":"store_unavailable","detail":"away"}]}`)
}

// TestReadyzShowsNoCause: /readyz needs no token, and Error.Err "is the cause for the log and is
// never shown".
func TestReadyzShowsNoCause(t *testing.T) {
	failing := newCounter(1)
	failing.health = &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "no", Err: fmt.Errorf("dial mongodb://root:hunter2@db")}
	panicking := newCounter(1)
	panicking.init = func() error { panic("boom") }
	api := newStarting(t)
	issuer := newIssuer(t, define("failing", failing), define("panicking", panicking))
	ready(api, issuer)
	do(t, api, "GET", "/seq/failing")
	do(t, api, "GET", "/seq/panicking")

	body := do(t, api, "GET", "/readyz").Body.String()
	for _, secret := range []string{"hunter2", "goroutine ", ".go:"} {
		if strings.Contains(body, secret) {
			t.Errorf("/readyz shows %q: %.400s", secret, body)
		}
	}
}

func TestRequestID(t *testing.T) {
	kept := strings.Repeat("a", 64)
	for _, id := range []string{"x", "A-b_c.9", kept} {
		if got := do(t, newAPI(t), "GET", "/seq/order", "X-Request-Id: "+id).Header().Get("X-Request-Id"); got != id {
			t.Errorf("the harmless ID %q became %q", id, got)
		}
	}
	hostile := [][]string{
		nil, {""}, {kept + "a"}, {"a b"}, {"a\"b"}, {"a<b>"}, {"a;b"}, {"a\tb"}, {"\xff"}, {"ключ"}, {"a", "b"},
	}
	seen := make(map[string]bool)
	api := newAPI(t)
	for _, given := range hostile {
		var lines []string
		for _, g := range given {
			lines = append(lines, "X-Request-Id: "+g)
		}
		for _, target := range []string{"/seq/order", "/seq/nobody", "/nowhere", "/healthz"} {
			w := do(t, api, "GET", target, lines...)
			got := w.Header()["X-Request-Id"]
			if len(got) != 1 || got[0] == "" || slices.Contains(given, got[0]) {
				t.Fatalf("%q on %s: the answer's ID is %q, want one new ID", given, target, got)
			}
			if seen[got[0]] {
				t.Errorf("the ID %s was given twice", got[0])
			}
			seen[got[0]] = true
		}
	}
}

func TestCaller(t *testing.T) {
	proxies := []string{"192.0.2.0/24", "2001:db8::1"}
	tests := []struct {
		name    string
		proxies []string
		peer    string
		headers []string
		want    string
	}{
		{"no proxies", nil, "192.0.2.1:1234", nil, "192.0.2.1"},
		{"no proxies, a forged header", nil, "192.0.2.1:1234", []string{"X-Forwarded-For: 203.0.113.9"}, "192.0.2.1"},
		{"no proxies, IPv6", nil, "[2001:db8::7]:1234", nil, "2001:db8::7"},
		{"a trusted peer", proxies, "192.0.2.1:1234", []string{"X-Forwarded-For: 203.0.113.9"}, "203.0.113.9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got seqd.Caller
			spy := plugin{before: func(call *seqd.Call) error { got = call.Caller; return nil }}
			api := newStarting(t, func(o *options) { o.Proxies = trusting(tt.proxies...) })
			ready(api, newIssuer(t, define("order", newCounter(1), spy)))
			r := must.Get(newRequest("GET", "/seq/order", append(tt.headers, "X-Request-Id: mine")...))(t)
			r.RemoteAddr = tt.peer
			api.ServeHTTP(httptest.NewRecorder(), r)
			if got != (seqd.Caller{Addr: tt.want, RequestID: "mine"}) {
				t.Errorf("the plugins see the caller %+v, want the address %s and the request ID mine", got, tt.want)
			}
		})
	}
}

func TestAccessLog(t *testing.T) {
	var log bytes.Buffer
	api := newStarting(t, func(o *options) {
		o.AccessLog, o.Log = "on", slog.New(slog.NewJSONHandler(&log, nil))
	})
	ready(api, newIssuer(t, define("order", newCounter(100))))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	do(t, api, "GET", "/seq/order?count=3", "X-Request-Id: mine", "Traceparent: 00-"+trace+"-b7ad6b7169203331-00")
	var line struct {
		Msg, Method, Path, Query, Addr, RequestID, BizType, TraceID string
		Status, Bytes                                               int
	}
	must.Do(t, json.Unmarshal(log.Bytes(), &line))
	want := line
	want.Msg, want.Method, want.Path, want.Query = "request", "GET", "/seq/order", "count=3"
	want.Addr, want.RequestID, want.Status, want.Bytes, want.BizType, want.TraceID = "192.0.2.1", "mine", 200, len(three)+1, "order", trace
	if line != want || strings.Contains(log.String(), "skipped") {
		t.Errorf("logged %s, want %+v", &log, want)
	}
}

// A line says how many lines before it were left out.
func TestAccessLogSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		api := newStarting(t, func(o *options) {
			o.AccessLog, o.AccessLogPerSecond, o.Log = "on", 1, slog.New(slog.NewTextHandler(&log, nil))
		})
		ready(api, newIssuer(t, define("order", newCounter(100))))
		for range 3 {
			do(t, api, "GET", "/seq/order")
		}
		time.Sleep(time.Minute)
		do(t, api, "GET", "/seq/order")
		if text := log.String(); strings.Count(text, "\n") != 2 || strings.Count(text, " skipped=2\n") != 1 {
			t.Error(text)
		}
	})
}

// A log of warnings has no line of a request.
func TestAccessLogOfWarnings(t *testing.T) {
	var log bytes.Buffer
	api := newStarting(t, func(o *options) {
		o.AccessLog, o.Log = "on", slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	ready(api, newIssuer(t, define("order", newCounter(100))))
	do(t, api, "GET", "/seq/order")
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// TestAccessLogTime checks that the key of the duration names its unit.
func TestAccessLogTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		api := newStarting(t, func(o *options) { o.AccessLog, o.Log = "on", slog.New(slog.NewJSONHandler(&log, nil)) })
		s := newCounter(100)
		s.generate = func() error { time.Sleep(1500 * time.Microsecond); return nil }
		ready(api, newIssuer(t, define("order", s)))
		do(t, api, "GET", "/seq/order")
		if !strings.Contains(log.String(), `"tookMs":1.5,`) || strings.Contains(log.String(), `"took":`) {
			t.Errorf("logged %s", &log)
		}
	})
}

// TestLogLinesAreShort checks that nothing from a caller makes a log line long.
func TestLogLinesAreShort(t *testing.T) {
	const most = 1500
	long := strings.Repeat("x", 3000)
	for name, r := range map[string]struct{ method, target, header string }{
		"method":              {strings.Repeat("X", 20_000), "/seq/order", "Accept: */*"},
		"method of a change":  {strings.Repeat("X", 20_000), "/biz-types/order", "Accept: */*"},
		"path":                {"GET", "/" + long, "Accept: */*"},
		"path of a change":    {"PUT", "/biz-types/" + long, "Accept: */*"},
		"query":               {"GET", "/seq/order?count=" + long, "Accept: */*"},
		"many in the query":   {"GET", "/seq/order?" + strings.Repeat("count=1&", 400), "Accept: */*"},
		"request ID":          {"GET", "/seq/order", "X-Request-Id: " + long},
		"address of a client": {"GET", "/seq/order", "X-Forwarded-For: " + long},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			api := newStarting(t, func(o *options) {
				o.AccessLog, o.Log, o.Proxies = "on", slog.New(slog.NewJSONHandler(&log, nil)), trusting("192.0.2.0/24")
			})
			do(t, api, r.method, r.target, r.header)
			for line := range strings.Lines(log.String()) {
				if len(line) > most {
					t.Errorf("a line has %d bytes: %.200s", len(line), line)
				}
			}
			if log.Len() == 0 {
				t.Error("nothing was logged")
			}
		})
	}
}
