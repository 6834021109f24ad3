package compat_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// The bodies that each route may answer with.
var (
	tinyidIDs    = regexp.MustCompile(`^\{"data":\[\d+(,\d+)*\],"code":200,"message":""\}$`)
	tinyidText   = regexp.MustCompile(`^(\d+(,\d+)*)?$`)
	segmentJSON  = regexp.MustCompile(`^\{"data":\{"currentId":\d+,"loadingId":\d+,"maxId":\d+,"delta":1,"remainder":0\},"code":200,"message":""\}$`)
	segmentText  = regexp.MustCompile(`^((\d+),(\d+),(\d+),1,0)?$`)
	leafFailure  = regexp.MustCompile(`^\{"timestamp":\d+,"status":500,"error":"Internal Server Error","message":"Result\{id=-[123], status=EXCEPTION\}","path":".*"\}$`)
	leafDecoded  = regexp.MustCompile(`^\{"(errorMsg":".*|sequenceId":"\d+","timestamp":"\d+\([-0-9:. ]+\)","workerId":"\d+)"\}$`)
	cosidFailure = regexp.MustCompile(`^\{"code":"[45]\d\d","msg":".+","errors":\[\]\}$`)
	number       = regexp.MustCompile(`^\d+$`)
)

// fuzzed is what a fuzzer makes of a request.
type fuzzed struct {
	status            int
	contentType, body string
}

func (f fuzzed) ok(t *testing.T, route, target, form string) {
	t.Helper()
	good := false
	switch route {
	case "/tinyid/id/nextId", "/tinyid/id/nextSegmentId":
		var failure struct {
			Data    *int
			Code    int
			Message string
		}
		good = f.status == 200 && f.contentType == utf8Type && (tinyidIDs.MatchString(f.body) && route == "/tinyid/id/nextId" || segmentJSON.MatchString(f.body) ||
			json.Unmarshal([]byte(f.body), &failure) == nil && failure.Data == nil && failure.Code == 6 && failure.Message != "")
	case "/tinyid/id/nextIdSimple":
		good = f.status == 200 && f.contentType == textType && tinyidText.MatchString(f.body)
	case "/tinyid/id/nextSegmentIdSimple":
		good = f.status == 200 && f.contentType == textType && segmentText.MatchString(f.body) && !emptySegment(f.body)
	case "/decodeSnowflakeId":
		good = f.contentType == utf8Type && (f.status == 200 && leafDecoded.MatchString(f.body) || f.status == 500 && leafFailure.MatchString(f.body))
	case "/api/segment/get/", "/api/snowflake/get/":
		good = f.status == 200 && f.contentType == textType && number.MatchString(f.body) || f.status == 500 && f.contentType == utf8Type && leafFailure.MatchString(f.body)
	case "/segments/distributor/shop/":
		good = f.status == 200 && f.body == "" || f.status >= 400 && f.contentType == jsonType && cosidFailure.MatchString(f.body)
	case "/segments/shop/":
		good = f.status == 200 && f.contentType == jsonType && number.MatchString(f.body) || f.status >= 400 && f.contentType == jsonType && cosidFailure.MatchString(f.body)
	}
	if !good {
		t.Errorf("%s with %q: %d %q %q", target, form, f.status, f.contentType, f.body)
	}
}

// emptySegment reports whether Tinyid's client would find no number in a segment.
func emptySegment(text string) bool {
	m := segmentText.FindStringSubmatch(text)
	if m[1] == "" {
		return false // a failure
	}
	var n [3]int64
	for i := range n {
		n[i], _ = strconv.ParseInt(m[2+i], 10, 64)
	}
	return n[0] < 0 || n[0] >= n[2] || n[1] < n[0] || n[1] > n[2]
}

// FuzzParameters sends any parameters, in the query and in a form, and any name in the path.
// Nothing panics, and every answer has one of the forms of its route.
func FuzzParameters(f *testing.F) {
	routes := []string{
		"/tinyid/id/nextId", "/tinyid/id/nextIdSimple", "/tinyid/id/nextSegmentId", "/tinyid/id/nextSegmentIdSimple",
		"/api/segment/get/", "/api/snowflake/get/", "/decodeSnowflakeId", "/segments/distributor/shop/", "/segments/shop/",
	}
	for i := range routes {
		route := uint8(i)
		for _, query := range []string{
			"", "bizType=order&batchSize=3&token=x", "bizType=order", "bizType=next&batchSize=9", "bizType=invoice", "bizType=%00", "snowflakeId=123456789012345",
			"snowflakeId=-1", "offset=0&step=10", "step=100000000", "step=100000001", "offset=-1&step=0", "offset=9007199254740990&step=1", "%zz", "a=b;c", "&&&=",
			"bizType=order&batchSize=99999999999999999999", "bizType=order&bizType=order",
		} {
			f.Add(route, "order", query, "")
			f.Add(route, "a@2026", "", query)
		}
		for _, name := range []string{"", "/", "%2F", "..", "a%00b", strings.Repeat("x", 70), "\u00e9", "__share__"} {
			f.Add(route, name, "step=1&offset=0", "")
		}
	}
	n := newNode(f, setup{change: func(_ *httpapi.Options, g *gate.Options) { g.AccessLog = "off" }})
	f.Fuzz(func(t *testing.T, which uint8, name, query, form string) {
		route := routes[int(which)%len(routes)]
		method, target := http.MethodPost, route
		if strings.HasSuffix(route, "/") {
			target += pathEscape(name)
		}
		if route == "/segments/shop/" {
			method = http.MethodPatch
		}
		r := httptest.NewRequest(method, "/", strings.NewReader(form))
		r.Host, r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "127.0.0.1", target, "", query
		r.RequestURI = target + "?" + query
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		n.api.ServeHTTP(w, r)
		if w.Code == http.StatusNotFound && w.Header().Get("Content-Type") == "application/problem+json" {
			return // the path is not one of the routes
		}
		fuzzed{w.Code, w.Header().Get("Content-Type"), w.Body.String()}.ok(t, route, target+"?"+query, form)
		if code := w.Header().Get("Seqd-Error"); code == "internal" {
			t.Errorf("%s with %q: a panic, or an error without a code", target, form)
		}
	})
}

// pathEscape keeps what a name may have in a path that is not escaped.
func pathEscape(name string) string { return strings.ReplaceAll(name, "?", "") }
