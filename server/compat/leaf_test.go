package compat_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
)

func TestLeafNumbers(t *testing.T) {
	n := newNode(t, setup{})
	for i, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		n.do(method, "/api/segment/get/order", "").want(t, 200, textType, strconv.Itoa(i+1))
	}
	if a := n.do("OPTIONS", "/api/segment/get/order", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("OPTIONS: %+v", a)
	}
	n.do("POST", "/api/segment/get/order?x=1", "a=b").want(t, 200, textType, "6")
	n.do("HEAD", "/api/segment/get/order", "").want(t, 200, textType, "")
	// the key of the snowflake route means nothing
	last := int64(0)
	for _, key := range []string{"user", "order", "test", "%2F%20"} {
		a := n.do("GET", "/api/snowflake/get/"+key, "")
		number, err := strconv.ParseInt(a.body, 10, 64)
		if err != nil || a.status != 200 || a.contentType != textType || number <= last {
			t.Errorf("%s: %+v after %d", key, a, last)
		}
		last = number
	}
}

// TestLeafDecode decodes the time in a comment of Leaf's source, and a number that was issued.
func TestLeafDecode(t *testing.T) {
	n := newNode(t, setup{})
	const epoch = 1288834974657
	number := strconv.FormatInt((1567733700834-epoch)<<22|3448<<10|39, 10)
	n.get("/decodeSnowflakeId?snowflakeId="+number).want(t, 200, utf8Type,
		`{"sequenceId":"3448","timestamp":"1567733700834(2019-09-06 01:35:00.834)","workerId":"39"}`)
	a := n.get("/decodeSnowflakeId?snowflakeId=" + n.get("/api/snowflake/get/x").body)
	if a.status != 200 || !strings.Contains(a.body, `"workerId":"39"`) {
		t.Errorf("a number that was issued: %d %s", a.status, a.body)
	}
	for _, wrong := range []string{"x", "", "-1", "1.5", "9223372036854775808", "1&snowflakeId=2"} {
		a := n.get("/decodeSnowflakeId?snowflakeId=" + wrong)
		if strings.Contains(wrong, "&") {
			a.failed(t, seqd.CodeInvalidRequest)
		} else if a.status != 200 || a.contentType != utf8Type || !strings.HasPrefix(a.body, `{"errorMsg":"`) {
			t.Errorf("%q: %d %s", wrong, a.status, a.body)
		}
	}
	n.do("POST", "/decodeSnowflakeId?snowflakeId="+number, "").want(t, 200, utf8Type, n.get("/decodeSnowflakeId?snowflakeId="+number).body)
}

// leafFails checks a failure. number 0 accepts any.
func (n *node) leafFails(target string, number int, code seqd.Code, header ...string) {
	n.t.Helper()
	a := n.do("GET", target, "", header...)
	if code != "" {
		a.failed(n.t, code)
	}
	var got struct {
		Timestamp            int64
		Status               int
		Error, Message, Path string
	}
	path, _, _ := strings.Cut(target, "?")
	message := fmt.Sprintf("Result{id=%d, status=EXCEPTION}", number)
	if number == 0 {
		message = got.Message
	}
	err := json.Unmarshal([]byte(a.body), &got)
	if number == 0 {
		message = got.Message
	}
	if err != nil || a.status != 500 || a.contentType != utf8Type || got.Status != 500 || got.Error != "Internal Server Error" ||
		got.Message != message || !strings.HasPrefix(message, "Result{id=-") || got.Path != path || got.Timestamp != 1_800_000_000_123 {
		n.t.Errorf("%s: %d %s %s; want %s", target, a.status, a.contentType, a.body, message)
	}
}

func TestLeafFailures(t *testing.T) {
	n := newNode(t, setup{})
	n.leafFails("/api/segment/get/nobody", -2, seqd.CodeUnknownBizType)
	n.leafFails("/api/segment/get/9", -2, seqd.CodeInvalidBizType)
	n.leafFails("/api/segment/get/invoice", -3, seqd.CodeInvalidRequest)
	n.get("/api/segment/get/limited").want(t, 200, textType, "1")
	n.leafFails("/api/segment/get/limited", -3, seqd.CodeRateLimited)
	n.get("/api/segment/get/next").want(t, 200, textType, "9007199254740990")
	n.get("/api/segment/get/next").want(t, 200, textType, "9007199254740991")
	n.leafFails("/api/segment/get/next", -3, seqd.CodeExhausted)
	without := newNode(t, setup{yaml: "compat: {leaf: true}\n"})
	without.leafFails("/api/snowflake/get/user", -2, seqd.CodeUnknownBizType)
	without.leafFails("/decodeSnowflakeId?snowflakeId=1", -2, seqd.CodeUnknownBizType)
	later := newNode(t, setup{yaml: "compat: {leaf: true, leafSnowflake: later}\n"})
	later.leafFails("/api/snowflake/get/user", -2, seqd.CodeUnknownBizType)
	later.leafFails("/decodeSnowflakeId?snowflakeId=1", -2, seqd.CodeUnknownBizType)
}

// TestGuests checks that clients without a token have the scopes of compat.token, whatever they
// send.
func TestGuests(t *testing.T) {
	n := newNode(t, setup{yaml: tokensOn + "compat: {leaf: true, leafSnowflake: user, cosid: use, token: other}\n" + bizTypes + "  - {name: other}\n  - {name: other.x}\n"})
	n.get("/api/segment/get/other").want(t, 200, textType, "1")
	n.leafFails("/api/segment/get/order", -3, seqd.CodeForbidden)
	n.leafFails("/api/segment/get/order", -3, seqd.CodeForbidden, "Authorization", "Bearer "+shopSecret)
	n.leafFails("/api/snowflake/get/other", -3, seqd.CodeForbidden)
	n.leafFails("/decodeSnowflakeId?snowflakeId=1", -3, seqd.CodeForbidden)
	n.do("PATCH", "/segments/other/x?step=1", "").failed(t, seqd.CodeForbidden)
	must.Equal(t, n.do("GET", "/seq/order", "").status, http.StatusUnauthorized, "/seq/order without a token")
	// a web page could call too, as these routes ask for no secret
	n.leafFails("/api/segment/get/other", -3, seqd.CodeForbidden, "Host", "rebound.example")
	n.leafFails("/api/segment/get/other", -3, seqd.CodeForbidden, "Origin", "http://elsewhere.example")
	n.cosIDFails("PATCH", "/segments/other/x?step=1", 403, seqd.CodeForbidden, "Sec-Fetch-Site", "cross-site")
	if log := n.log.String(); !strings.Contains(log, `"msg":"audit"`) || strings.Contains(log, `"msg":"audit","caller":"other"`) {
		t.Error("audit lines of guests without a right count against the lines of the token that stands for them")
	}
	nobody := newNode(t, setup{yaml: tokensOn + "compat: {leaf: true, cosid: create, token: later}\n"})
	nobody.leafFails("/api/segment/get/order", -3, seqd.CodeUnauthorized)
	nobody.do("POST", "/segments/distributor/a/b?offset=0&step=1", "").failed(t, seqd.CodeUnauthorized)
	if !strings.Contains(nobody.log.String(), "compat.token names no token") {
		t.Error("the log does not say that compat.token names no token")
	}
	if _, _, err := nobody.tokens.Create(t.Context(), access.Token{Name: "later", Scopes: []string{"issue:order"}, Enabled: true}, ""); err != nil {
		t.Fatal(err)
	}
	nobody.get("/api/segment/get/order").want(t, 200, textType, "1")
}
