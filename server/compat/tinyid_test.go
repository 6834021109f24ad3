package compat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

const (
	textType = "text/plain;charset=UTF-8"
	jsonType = "application/json"
	utf8Type = "application/json;charset=UTF-8"
)

func TestTinyidNumbers(t *testing.T) {
	n := newNode(t, setup{})
	n.get("/tinyid/id/nextId?bizType=order").want(t, 200, utf8Type, `{"data":[1],"code":200,"message":""}`)
	n.get("/tinyid/id/nextId?bizType=order&batchSize=3&token=any").want(t, 200, utf8Type, `{"data":[2,3,4],"code":200,"message":""}`)
	n.do("POST", "/tinyid/id/nextId", "bizType=order&batchSize=2&token=any").want(t, 200, utf8Type, `{"data":[5,6],"code":200,"message":""}`)
	n.get("/tinyid/id/nextIdSimple?bizType=order").want(t, 200, textType, "7")
	n.get("/tinyid/id/nextIdSimple?bizType=order&batchSize=2&token=any").want(t, 200, textType, "8,9")
	n.do("POST", "/tinyid/id/nextIdSimple?bizType=order", "batchSize=2").want(t, 200, textType, "10,11")
	n.get("/tinyid/id/nextIdSimple?bizType=order&batchSize=").want(t, 200, textType, "12") // as if it were not given
	n.get("/tinyid/id/nextIdSimple?bizType=order&unknown=1").want(t, 200, textType, "13")
	// a body that is no form means nothing
	n.do("POST", "/tinyid/id/nextIdSimple?bizType=order", "batchSize=2", "Content-Type", "text/plain").want(t, 200, textType, "14")
}

// A batch above server.maxCount is cut to it, and a large one has the numbers that it says.
func TestTinyidBatchIsCut(t *testing.T) {
	n := newNode(t, setup{yaml: "server: {maxCount: 500}\n"})
	for _, size := range []string{"500", "501", "100000", "2147483647"} {
		var got struct{ Data []int64 }
		a := n.get("/tinyid/id/nextId?bizType=order&batchSize=" + size)
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Data) != 500 {
			t.Errorf("%s: %d numbers, %v: %.100s", size, len(got.Data), err, a.body)
		}
		if a := n.get("/tinyid/id/nextIdSimple?bizType=order&batchSize=" + size); len(strings.Split(a.body, ",")) != 500 {
			t.Errorf("%s: %.100s", size, a.body)
		}
	}
}

func TestTinyidSegments(t *testing.T) {
	n := newNode(t, setup{yaml: bizTypes + "  - {name: tiny, step: 1, maxStep: 1}\n  - {name: four, step: 4, maxStep: 4, start: 1001}\n"})
	n.get("/tinyid/id/nextSegmentId?bizType=order&token=any").want(t, 200, utf8Type,
		`{"data":{"currentId":0,"loadingId":20,"maxId":100,"delta":1,"remainder":0},"code":200,"message":""}`)
	n.do("POST", "/tinyid/id/nextSegmentIdSimple?token=any&bizType=order", "").want(t, 200, textType, "100,120,200,1,0")
	n.do("POST", "/tinyid/id/nextSegmentIdSimple", "token=any&bizType=order").want(t, 200, textType, "200,220,300,1,0")
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=tiny").want(t, 200, textType, "0,0,1,1,0")
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=tiny").want(t, 200, textType, "1,1,2,1,0")
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=four").want(t, 200, textType, "1000,1000,1004,1,0")
	// a segment is never empty, nor shorter than a step
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=next").failed(t, seqd.CodeExhausted).want(t, 200, textType, "")
}

// tinyidFails checks that both forms of an answer say that a request failed.
func (n *node) tinyidFails(name, parameters string, number int, code seqd.Code) {
	n.t.Helper()
	for _, route := range []string{name, name + "Simple"} {
		for _, a := range []answer{n.get("/tinyid/id/" + route + "?" + parameters), n.do("POST", "/tinyid/id/"+route, parameters)} {
			a.failed(n.t, code)
			if strings.HasSuffix(route, "Simple") {
				a.want(n.t, 200, textType, "")
				continue
			}
			var got struct {
				Data    *[]int64
				Code    int
				Message string
			}
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 || a.contentType != utf8Type || got.Data != nil ||
				got.Code != number || got.Message == "" || number == 5 && got.Message != "token is error" || !strings.HasPrefix(a.body, `{"data":null,`) {
				n.t.Errorf("%s: %d %s %s; want code %d", parameters, a.status, a.contentType, a.body, number)
			}
		}
	}
}

func TestTinyidFailures(t *testing.T) {
	n := newNode(t, setup{})
	for _, route := range []string{"nextId", "nextSegmentId"} {
		n.tinyidFails(route, "bizType=nobody", 6, seqd.CodeUnknownBizType)
		n.tinyidFails(route, "bizType=", 6, seqd.CodeInvalidBizType)
		n.tinyidFails(route, "token=x", 6, seqd.CodeInvalidBizType)
		n.tinyidFails(route, "bizType=a%2Fb", 6, seqd.CodeInvalidBizType)
		n.tinyidFails(route, "bizType=order&bizType=user", 6, seqd.CodeInvalidRequest)
		n.tinyidFails(route, "bizType=order&token=a&token=b", 6, seqd.CodeInvalidRequest)
		n.tinyidFails(route, "bizType=order&x=%zz", 6, seqd.CodeInvalidRequest)
		n.tinyidFails(route, "bizType=invoice", 6, seqd.CodeInvalidRequest) // its IDs are no numbers
	}
	for _, size := range []string{"0", "-1", "1.5", "x", "2147483648", "9223372036854775808", "1&batchSize=1", "%2B1%20"} {
		n.tinyidFails("nextId", "bizType=order&batchSize="+size, 6, seqd.CodeInvalidRequest)
	}
	// numbers that JSON cannot show exactly to every client
	n.get("/tinyid/id/nextId?bizType=user").failed(t, seqd.CodeInvalidRequest)
	if a := n.get("/tinyid/id/nextIdSimple?bizType=user"); len(a.body) < 15 {
		t.Errorf("a snowflake number as text: %+v", a)
	}
	// a segment cannot be checked, limited, recorded or reset later
	for _, name := range []string{"user", "limited", "recorded", "yearly"} {
		n.tinyidFails("nextSegmentId", "bizType="+name, 6, seqd.CodeInvalidRequest)
	}
	// counting plugins see a range
	n.get("/tinyid/id/nextSegmentIdSimple?bizType=counted").want(t, 200, textType, "0,200,1000,1,0")
	n.get("/tinyid/id/nextId?bizType=next&batchSize=2").want(t, 200, utf8Type, `{"data":[9007199254740990,9007199254740991],"code":200,"message":""}`)
	n.tinyidFails("nextId", "bizType=next", 6, seqd.CodeExhausted)
}

func TestTinyidTokens(t *testing.T) {
	n := newNode(t, setup{yaml: tokensOn})
	for _, route := range []string{"nextId", "nextSegmentId"} {
		n.tinyidFails(route, "bizType=order", 5, seqd.CodeUnauthorized)
		n.tinyidFails(route, "bizType=order&token=", 5, seqd.CodeUnauthorized)
		n.tinyidFails(route, "bizType=order&token=wrong", 5, seqd.CodeUnauthorized)
		n.tinyidFails(route, "bizType=order&token="+otherSecret, 5, seqd.CodeForbidden)
		n.tinyidFails(route, "bizType=nobody&token="+otherSecret, 5, seqd.CodeForbidden)
		n.tinyidFails(route, "token="+otherSecret, 5, seqd.CodeForbidden)
		n.tinyidFails(route, "bizType=nobody&token="+shopSecret, 6, seqd.CodeUnknownBizType)
	}
	n.get("/tinyid/id/nextIdSimple?bizType=order&token="+shopSecret).want(t, 200, textType, "1")
	n.do("POST", "/tinyid/id/nextIdSimple", "bizType=order&token="+shopSecret).want(t, 200, textType, "2")
	n.do("POST", "/tinyid/id/nextIdSimple?token="+shopSecret, "bizType=order").want(t, 200, textType, "3")
	n.do("GET", "/tinyid/id/nextIdSimple?bizType=order&token="+shopSecret, "", "Host", "any.example").want(t, 200, textType, "4")
	// elsewhere a token in the URL remains refused, and the header is not for these routes
	if a := n.get("/seq/order?token=" + shopSecret); a.status != http.StatusUnauthorized {
		t.Errorf("a token in the URL of /seq: %d %s", a.status, a.body)
	}
	n.do("GET", "/tinyid/id/nextIdSimple?bizType=order", "", "Authorization", "Bearer "+shopSecret).failed(t, seqd.CodeUnauthorized).want(t, 200, textType, "")
}

// TestFailuresOfTheService makes each of the three answer what went wrong around them.
func TestFailuresOfTheService(t *testing.T) {
	type failure struct {
		name string
		code seqd.Code
		leaf int
		make func(t *testing.T) (*node, string) // the node and a query to add
	}
	broken := func(err error) func(t *testing.T) (*node, string) {
		return func(t *testing.T) (*node, string) {
			n := newNode(t, setup{})
			n.breaks(err)
			return n, ""
		}
	}
	for _, f := range []failure{
		{"starting", seqd.CodeStarting, -1, func(t *testing.T) (*node, string) { return newNode(t, setup{starting: true}), "" }},
		{"the tokens are not read", seqd.CodeStarting, -1, func(t *testing.T) (*node, string) {
			return newNode(t, setup{starting: true, yaml: "auth: {mode: token}\n" + everything}), ""
		}},
		{"stopping", seqd.CodeStopping, -1, broken(&seqd.Error{Code: seqd.CodeStopping, Detail: "stopping", RetryAfter: time.Second})},
		{"exhausted", seqd.CodeExhausted, -3, broken(seqd.Errorf(seqd.CodeExhausted, "there are no more"))},
		{"the store is away", seqd.CodeStoreUnavailable, -3, broken(&seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away", RetryAfter: time.Second})},
		{"time-out", seqd.CodeTimeout, -3, broken(fmt.Errorf("wait: %w", errTimeout))},
		{"a fault", seqd.CodeInternal, -3, broken(errFault)},
		{"overload", seqd.CodeOverloaded, -3, func(t *testing.T) (*node, string) {
			n := newNode(t, setup{change: func(_ *httpapi.Options, g *gate.Options) { g.MaxInFlight = 1 }})
			if !n.gate.Requests.Enter() {
				t.Fatal("there is no place")
			}
			return n, ""
		}},
		{"a long target", seqd.CodeURITooLong, -3, func(t *testing.T) (*node, string) {
			return newNode(t, setup{}), "&x=" + strings.Repeat("x", 5000)
		}},
		{"a page of another origin", seqd.CodeForbidden, -3, func(t *testing.T) (*node, string) { return newNode(t, setup{}), "" }},
	} {
		t.Run(f.name, func(t *testing.T) {
			n, query := f.make(t)
			var header []string
			if f.code == seqd.CodeForbidden {
				header = []string{"Sec-Fetch-Site", "cross-site"}
			}
			n.fails(f.code, f.leaf, query, header...)
		})
	}
	t.Run("a large body", func(t *testing.T) {
		n := newNode(t, setup{})
		large := "x=" + strings.Repeat("x", 2000)
		n.do("POST", "/tinyid/id/nextIdSimple?bizType=order", large).failed(t, seqd.CodeBodyTooLarge).want(t, 200, textType, "")
		n.do("POST", "/api/segment/get/order", large).failed(t, seqd.CodeBodyTooLarge)
		a := n.do("PATCH", "/segments/a/order?step=1", large).failed(t, seqd.CodeBodyTooLarge)
		a.want(t, 413, jsonType, `{"code":"413","msg":"the body has more than 1024 bytes","errors":[]}`)
	})
	t.Run("no room", func(t *testing.T) {
		n := newNode(t, setup{change: func(_ *httpapi.Options, g *gate.Options) { g.MaxInFlightBytes = 1 << 20 }})
		loan, ok := n.gate.Room.Borrow("other", 1<<30, gate.Numbers) // all there is for large answers
		if !ok {
			t.Fatal("there is no room")
		}
		n.get("/tinyid/id/nextIdSimple?bizType=order&batchSize=10000").failed(t, seqd.CodeOverloaded).want(t, 200, textType, "")
		loan.End()
		if a := n.get("/tinyid/id/nextIdSimple?bizType=order&batchSize=10000"); a.status != 200 || len(a.body) < 10_000 {
			t.Errorf("with room: %d, %d bytes", a.status, len(a.body))
		}
	})
}

// fails checks that a request to each route fails in the shape of the route. query begins with &.
func (n *node) fails(code seqd.Code, leaf int, query string, header ...string) {
	n.t.Helper()
	for _, route := range []string{"nextId", "nextIdSimple", "nextSegmentId", "nextSegmentIdSimple"} {
		a := n.do("POST", "/tinyid/id/"+route+"?bizType=broken"+query, "", header...).failed(n.t, code)
		if strings.HasSuffix(route, "Simple") {
			a.want(n.t, 200, textType, "")
		} else if a.status != 200 || !strings.HasPrefix(a.body, `{"data":null,"code":6,"message":"`) {
			n.t.Errorf("%s: %d %s", route, a.status, a.body)
		}
	}
	n.leafFails("/api/segment/get/broken?"+query, leaf, code, header...)
	n.leafFails("/decodeSnowflakeId?snowflakeId=1"+query, 0, "", header...)
	status := gate.StatusOf(code)
	n.cosIDFails("PATCH", "/segments/a/broken?step=1"+query, status, code, header...)
	n.cosIDFails("POST", "/segments/distributor/a/broken?offset=0"+query, 0, "", header...)
}

// TestTokenStaysOut sends tokens in queries and forms, good ones and bad ones, and looks for them
// in everything that the service says.
func TestTokenStaysOut(t *testing.T) {
	n := newNode(t, setup{yaml: tokensOn})
	wrong := "a-wrong-secret-of-somebody"
	for _, secret := range []string{shopSecret, otherSecret, wrong} {
		for _, route := range []string{"nextId", "nextIdSimple", "nextSegmentId", "nextSegmentIdSimple", "nothing"} {
			for _, query := range []string{
				"bizType=order&token=" + secret, "bizType=nobody&token=" + secret, "token=" + secret, "token=" + secret + "&token=" + secret,
				"bizType=order&batchSize=x&token=" + secret, "bizType=order&token=" + secret + "&count=" + secret, "%zz&token=" + secret,
				"bizType=" + secret + "&token=" + secret,
			} {
				for _, a := range []answer{n.get("/tinyid/id/" + route + "?" + query), n.do("POST", "/tinyid/id/"+route, query)} {
					// the biz type is repeated, and is no secret where it belongs
					if !strings.Contains(query, "bizType="+secret) {
						n.without(secret, a.body, fmt.Sprint(a.header))
					}
				}
			}
		}
		n.without(secret, n.log.String())
	}
	if !strings.Contains(n.log.String(), `"path":"/tinyid/id/nextSegmentId"`) {
		t.Error("the access log is off")
	}
}

// without checks that a text has no secret, in any form.
func (n *node) without(secret string, texts ...string) {
	n.t.Helper()
	for _, text := range texts {
		if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) {
			n.t.Errorf("%q is in %.300s", secret, text[max(0, strings.Index(text, secret)-200):])
		}
	}
}

// issuedByTinyid issues the numbers of a segment as the client of Tinyid does: it counts up from
// currentId to the first number that is remainder modulo delta, goes back by delta, and adds delta
// for each number until that is above maxId.
func issuedByTinyid(t *testing.T, text string) (issued []int64) {
	t.Helper()
	var current, loading, most, delta, remainder int64
	if _, err := fmt.Sscanf(text, "%d,%d,%d,%d,%d", &current, &loading, &most, &delta, &remainder); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if delta < 1 || remainder < 0 || remainder >= delta || current < 0 || loading < current || loading > most {
		t.Errorf("a client cannot use %s", text)
	}
	if current%delta != remainder {
		for range delta + 1 {
			if current++; current%delta == remainder {
				current -= delta
				break
			}
		}
	}
	for current += delta; current <= most; current += delta {
		issued = append(issued, current)
	}
	return issued
}

// Clients of a biz type with an increment issue only its numbers, each once, also beside those who
// ask for numbers one by one.
func TestTinyidDeltas(t *testing.T) {
	for _, test := range []struct{ start, increment, offset int64 }{{1, 3, 0}, {1, 3, 1}, {1, 3, 2}, {1000, 7, 5}, {1, 1, 0}, {12, 2, 1}, {1, 100, 1}} {
		n := newNode(t, setup{yaml: fmt.Sprintf("bizTypes: [{name: order, step: 5, maxStep: 5, start: %d, increment: %d, offset: %d}]\n",
			test.start, test.increment, test.offset)})
		first := test.start
		for first%test.increment != test.offset {
			first++
		}
		seen := make(map[int64]bool)
		for k := range 20 {
			var issued []int64
			if k%3 == 2 {
				var number int64
				must.Get(fmt.Sscan(n.get("/tinyid/id/nextIdSimple?bizType=order").body, &number))(t)
				issued = append(issued, number)
			} else if issued = issuedByTinyid(t, n.get("/tinyid/id/nextSegmentIdSimple?bizType=order").body); len(issued) != 5 {
				t.Errorf("%+v: a segment of %v", test, issued)
			}
			for _, number := range issued {
				if seen[number] || number < first || number%test.increment != test.offset {
					t.Fatalf("%+v: %d is issued", test, number)
				}
				seen[number] = true
			}
		}
		if !seen[first] {
			t.Errorf("%+v: the first number %d is not issued", test, first)
		}
	}
	n := newNode(t, setup{yaml: "bizTypes: [{name: order, step: 5, maxStep: 5, increment: 3, offset: 1}]\n"})
	n.get("/tinyid/id/nextSegmentId?bizType=order&token=any").want(t, 200, utf8Type,
		`{"data":{"currentId":0,"loadingId":2,"maxId":13,"delta":3,"remainder":1},"code":200,"message":""}`)
	n.get("/api/segment/get/order").want(t, 200, textType, "16")
}

// A client of CosId would issue all numbers of a range.
func TestCosIDRefusesIncrements(t *testing.T) {
	n := newNode(t, setup{yaml: "compat: {cosid: use}\nbizTypes: [{name: a.order, increment: 3}]\n"})
	n.cosIDFails("PATCH", "/segments/a/order?step=5", 400, seqd.CodeInvalidRequest)
	n.cosIDFails("PATCH", "/segments/a/order?step=1", 400, seqd.CodeInvalidRequest)
}
