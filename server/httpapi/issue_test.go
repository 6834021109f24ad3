package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

const (
	one   = `{"bizType":"order","id":"100"}`
	three = `{"bizType":"order","ids":["100","101","102"]}`
)

func TestIssue(t *testing.T) {
	tests := []struct {
		name, method, target string
		contentType, body    string
	}{
		{"one by GET", "GET", "/seq/order", jsonType, one},
		{"one by POST", "POST", "/seq/order", jsonType, one},
		{"an empty query is no query", "GET", "/seq/order?", jsonType, one},
		{"a batch by GET", "GET", "/seq/order?count=3", jsonType, three},
		{"a batch by POST", "POST", "/seq/order?count=3", jsonType, three},
		{"a batch of one is an array", "GET", "/seq/order?count=1", jsonType, `{"bizType":"order","ids":["100"]}`},
		{"the largest batch", "GET", "/seq/order?count=10000", jsonType, `{"bizType":"order","ids":[` + numbers(100, 10_000, `"`, ",") + `]}`},
		{"an escaped count", "GET", "/seq/order?%63ount=%33", jsonType, three},
		{"an escaped name", "GET", "/seq/%6frder", jsonType, one},
		{"a full URL as target", "GET", "http://seqd/seq/order?count=3", jsonType, three},
		{"a query of separators is no query", "GET", "/seq/order?&&", jsonType, one},
		{"one, empty parameters in front", "GET", "/seq/order?&count=3", jsonType, three},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := do(t, newAPI(t), tt.method, tt.target)
			wantBody(t, w, tt.contentType, tt.body)
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control is %q, want no-store: a cache would hand a number out twice", got)
			}
		})
	}
}

func TestIssueRefusesBadRequests(t *testing.T) {
	long := strings.Repeat("a", seqd.MaxNameLength+1)
	tests := []struct {
		name, target string
		status       int
		code         seqd.Code
		detail       string // a part of it
	}{
		{"count 0", "/seq/order?count=0", 400, "invalid_count", "from 1 to 10000"},
		{"count with a zero", "/seq/order?count=010", 400, "invalid_count", `"010"`},
		{"count with a fraction", "/seq/order?count=5.0", 400, "invalid_count", `"5.0"`},
		{"count -1", "/seq/order?count=-1", 400, "invalid_count", `"-1"`},
		{"count with an escaped plus", "/seq/order?count=%2B5", 400, "invalid_count", `"+5"`},
		{"count abc", "/seq/order?count=abc", 400, "invalid_count", `"abc"`},
		{"count empty", "/seq/order?count=", 400, "invalid_count", `""`},
		{"count above the most", "/seq/order?count=10001", 400, "invalid_count", "from 1 to 10000"},
		{"count of control characters", "/seq/order?count=%00%0A", 400, "invalid_count", `"\x00\n"`},
		{"count of broken UTF-8", "/seq/order?count=%ff", 400, "invalid_count", `"\xff"`},
		{"a long count is cut", "/seq/order?count=" + strings.Repeat("9", 500), 400, "invalid_count", strings.Repeat("9", 40) + `"`},
		{"count twice", "/seq/order?count=1&count=1", 400, "invalid_count", "2 times"},
		{"an unknown parameter", "/seq/order?n=3", 400, "invalid_request", `"n"`},
		{"Count in capitals", "/seq/order?Count=3", 400, "invalid_request", `"Count"`},
		{"a known and an unknown parameter", "/seq/order?count=3&n=3", 400, "invalid_request", `"n"`},
		{"an empty parameter", "/seq/order?=", 400, "invalid_request", `""`},
		{"a broken escape in the query", "/seq/order?count=%zz", 400, "invalid_request", "query"},
		{"a semicolon in the query", "/seq/order?count=1;x=2", 400, "invalid_request", "query"},
		{"an unknown biz type", "/seq/orders", 404, "unknown_biz_type", `"orders"`},
		{"names are case-sensitive", "/seq/Order", 404, "unknown_biz_type", `"Order"`},
		{"an encoded slash", "/seq/a%2Fb", 400, "invalid_biz_type", `"a/b"`},
		{"an encoded slash before a known route", "/seq/order%2Fparse/1", 404, "not_found", "nothing"},
		{"a NUL", "/seq/order%00", 400, "invalid_biz_type", `\x00`},
		{"a name of 64 characters", "/seq/" + long[1:], 404, "unknown_biz_type", "no biz type"},
		{"a name of 65 characters", "/seq/" + long, 400, "invalid_biz_type", "65 bytes"},
		{"a name in another script, escaped", "/seq/%D0%B7%D0%B0%D0%BA%D0%B0%D0%B7", 400, "invalid_biz_type", "заказ"},
		{"a name in another script, raw", "/seq/заказ", 400, "invalid_biz_type", "заказ"},
		{"a name of broken UTF-8", "/seq/%ff", 400, "invalid_biz_type", `\xff`},
		{"a name that starts with a digit", "/seq/1order", 400, "invalid_biz_type", "starts with a letter"},
		{"a name with a blank", "/seq/order%20", 400, "invalid_biz_type", `"order "`},
		{"a name that climbs", "/seq/..", 400, "invalid_biz_type", `".."`},
		{"no name", "/seq/", 404, "not_found", "nothing"},
		{"no name and no slash", "/seq", 404, "not_found", "nothing"},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "POST"} {
			t.Run(tt.name+" by "+method, func(t *testing.T) {
				p := wantProblem(t, do(t, newAPI(t), method, tt.target), tt.status, tt.code)
				if !strings.Contains(p.Detail, tt.detail) {
					t.Errorf("detail is %q and does not contain %q", p.Detail, tt.detail)
				}
				if len(p.Detail) > 500 {
					t.Errorf("detail has %d bytes: what a caller sends must not come back at any length", len(p.Detail))
				}
			})
		}
	}
}

// TestIssueHonoursAccept checks the two forms of an answer; TestPreferences has the rules.
func TestIssueHonoursAccept(t *testing.T) {
	for accept, text := range map[string]bool{"": false, "text/plain": true, "text/plain;q=0.1|application/json": false, "application/json;q=0.1|text/plain": true} {
		var lines []string
		for line := range strings.SplitSeq(accept, "|") {
			lines = append(lines, "Accept: "+line)
		}
		api := newAPI(t)
		w := do(t, api, "GET", "/seq/order", lines...)
		batch := do(t, api, "GET", "/seq/order?count=3", lines...)
		if text {
			wantBody(t, w, textType, "100\n")
			wantBody(t, batch, textType, "101\n102\n103\n")
		} else {
			wantBody(t, w, jsonType, one)
			wantBody(t, batch, jsonType, `{"bizType":"order","ids":["101","102","103"]}`)
		}
		must.Equal(t, w.Header().Get("Cache-Control"), "no-store", "Cache-Control")
	}
}

// TestErrorsIgnoreAccept checks that errors are problem documents whatever the Accept header says.
func TestErrorsIgnoreAccept(t *testing.T) {
	wantProblem(t, do(t, newAPI(t), "GET", "/seq/nobody", "Accept: text/plain"), 404, "unknown_biz_type")
}

func TestParse(t *testing.T) {
	for _, id := range []string{"1", "100", "9007199254740991"} {
		t.Run(id, func(t *testing.T) {
			w := do(t, newAPI(t), "GET", "/seq/order/parse/"+id)
			wantBody(t, w, jsonType, `{"bizType":"order","id":"`+id+`","number":"`+id+`","valid":true}`)
		})
	}
	wantBody(t, do(t, newAPI(t), "GET", "/seq/order/parse/%31"), jsonType, `{"bizType":"order","id":"1","number":"1","valid":true}`)
	wantBody(t, do(t, newAPI(t, define("user", timed{newCounter(1)})), "GET", "/seq/user/parse/1"), jsonType,
		`{"bizType":"user","id":"1","number":"1","valid":true,"at":"2026-11-20T12:00:00.000Z","machineId":0}`)
}

// timed is a strategy whose numbers say when and where they were made.
type timed struct{ *counter }

func (timed) Parse(number int64) (seqd.Parsed, error) {
	return seqd.Parsed{Number: number, Valid: true, Time: now, MachineID: new(int64)}, nil
}

func TestParseRefuses(t *testing.T) {
	for code, targets := range map[seqd.Code][]string{
		"invalid_id": {
			"order/parse/0", "order/parse/-1", "order/parse/+1", "order/parse/0100", "order/parse/9007199254740992", "order/parse/99999999999999999999", "order/parse/abc", "order/parse/1.5",
			"order/parse/1e3", "order/parse/1_000", "order/parse/١٢٣", "order/parse/%ff%00%22", "order/parse/1%2F2", "order/parse/" + strings.Repeat("9", 4000), "order/parse/" + strings.Repeat("x", 4000),
		},
		"not_found":        {"order/parse/", "order/parse", "order/parse/1/2"},
		"unknown_biz_type": {"nobody/parse/1"}, "invalid_biz_type": {"1/parse/1"}, "invalid_request": {"order/parse/1?count=1", "order/parse/1?key=a&key=b"},
		"invalid_key": {"order/parse/1?key=a", "order/parse/1?key=", "order/parse/1?key=a%2Fb"},
	} {
		for _, target := range targets {
			t.Run(target, func(t *testing.T) {
				p := wantProblem(t, do(t, newAPI(t), "GET", "/seq/"+target), statusOf(code), code)
				if len(p.Detail) > 500 {
					t.Errorf("detail has %d bytes: what a caller sends must not come back at any length", len(p.Detail))
				}
			})
		}
	}
}

// TestIgnoredInput checks that no route without a body, and no request for numbers with a header
// that means Idempotency-Key, ignores what its caller says.
func TestIgnoredInput(t *testing.T) {
	api := newOpen(t)
	for _, route := range api.Routes() {
		target := strings.NewReplacer("{bizType}", "order", "{id}", "100", "{name}", "shop").Replace(route.Path)
		// a route that reads a body wants JSON
		w := serveOne(t, api, rawRequest(t, route.Method+" "+target+" HTTP/1.1", "Host: seqd", "Content-Type: application/x-www-form-urlencoded", "Content-Length: 7\r\n\r\ncount=3"))
		if w.Code != 400 && w.Code != 415 {
			t.Errorf("%s %s: %d %s", route.Method, target, w.Code, w.Body)
		}
		switch route.Path {
		case "/openapi.json", "/docs", "/errors/{code}", "/metrics", "/biz-types/{bizType}/{resource}":
			continue // scrapers and plugins have parameters of their own
		}
		headers := map[bool][]string{true: {"Content-Type: application/json"}}[route.Method == "POST" || route.Method == "PUT" || route.Method == "PATCH"]
		w = do(t, api, route.Method, target+"?unknown=1", headers...)
		if w.Code != 400 || !strings.Contains(w.Body.String(), `\"unknown\"`) {
			t.Errorf("%s %s: %d %s", route.Method, target, w.Code, w.Body)
		}
	}
	for _, method := range []string{"GET", "POST"} {
		for _, header := range []string{"X-Idempotency-Key", "Idempotency_Key", "Idempotent-Key"} {
			wantProblem(t, do(t, api, method, "/seq/order", header+": a"), 400, "invalid_request")
			wantProblem(t, do(t, api, "POST", "/seq/order/reservations", header+": a"), 400, "invalid_request")
		}
	}
	wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, one)
}

func TestBodies(t *testing.T) {
	tests := []struct {
		name    string
		size    int
		chunked bool
		status  int
	}{
		{"a small body", 10, false, 400},
		{"a small body in chunks", 10, true, 400},
		{"an empty body in chunks", 0, true, 200},
		{"the largest body", 1024, false, 400},
		{"the largest body in chunks", 1024, true, 400},
		{"a byte too many", 1025, false, 413},
		{"a byte too many in chunks", 1025, true, 413},
		{"far too many", 1 << 20, false, 413},
		{"far too many in chunks", 1 << 20, true, 413},
	}
	for _, tt := range tests {
		for _, method := range []string{"GET", "POST"} {
			t.Run(tt.name+" by "+method, func(t *testing.T) {
				r := must.Get(newRequest(method, "/seq/order"))(t)
				if method == "POST" {
					r.Header.Set("Expect", "100-continue")
				}
				w := serveOne(t, newAPI(t), withBody(r, strings.Repeat("x", tt.size), tt.chunked))
				if tt.status == http.StatusOK {
					wantBody(t, w, jsonType, one)
					return
				}
				wantProblem(t, w, tt.status, map[int]seqd.Code{400: "invalid_request", 413: "body_too_large"}[tt.status])
			})
		}
	}
}

// TestBrokenBody checks that a truncated body is an error of the caller, not of the service.
func TestBrokenBody(t *testing.T) {
	r := must.Get(newRequest("POST", "/seq/order"))(t)
	r = withBody(r, "", false)
	r.Body, r.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), 14
	w := httptest.NewRecorder()
	newAPI(t).ServeHTTP(w, r)
	wantProblem(t, w, 400, "invalid_request")
}
