package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
)

func TestSubscriptions(t *testing.T) {
	api := newAPI(t)
	const path = "/subscriptions/shop"
	wantJSON(t, do(t, api, "GET", "/subscriptions"), 200, `{"subscriptions":[]}`)
	for _, method := range []string{"GET", "DELETE"} {
		wantProblem(t, do(t, api, method, path), 404, seqd.CodeUnknownSubscription)
	}
	wantProblem(t, do(t, api, "GET", path+"/deliveries"), 404, seqd.CodeUnknownSubscription)
	wantProblem(t, sendJSON(t, api, "POST", path+"/replay", `{"dead":true}`), 404, seqd.CodeUnknownSubscription)

	body := `{"url":"https://shop.example/hooks","bizTypes":["invoice"],"types":["number.void"]}`
	w := sendJSON(t, api, "PUT", path, body, `If-None-Match: *`)
	var s admin.Subscription
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &s))
	if w.Code != 201 || !strings.HasPrefix(s.Secret, "whsec_") || !s.Enabled || w.Header().Get("ETag") != `"1"` {
		t.Errorf("%d %+v", w.Code, s)
	}
	wantProblem(t, sendJSON(t, api, "PUT", path, body, `If-None-Match: *`), 412, seqd.CodePreconditionFailed)
	wantProblem(t, sendJSON(t, api, "PUT", path, body, `If-Match: "7"`), 412, seqd.CodePreconditionFailed)
	const shown = `{"name":"shop","url":"https://shop.example/hooks","bizTypes":["invoice"],"types":["number.void"],"enabled":false,"version":2,"updatedAt":"2026-11-20T12:00:00.000Z"`
	off := strings.Replace(body, "{", `{"enabled":false,`, 1)
	wantJSON(t, sendJSON(t, api, "PUT", path, off, `If-Match: "1"`), 200, shown+`}`)
	wantJSON(t, do(t, api, "GET", path), 200, shown+`,"state":{"positions":{"invoice":0},"pending":0,"dead":0,"missed":0}}`)
	wantJSON(t, do(t, api, "GET", "/subscriptions?limit=1"), 200, `{"subscriptions":[`+shown+`}]}`)
	wantJSON(t, do(t, api, "GET", path+"/deliveries?state=dead"), 200, `{"deliveries":[]}`)

	for _, bad := range []string{`{}`, `{"url":"https://a","bizTypes":[]}`, `{"url":"https://a","bizTypes":["a"],"x":1}`, `{"url":7,"bizTypes":["a"]}`,
		`{"url":"https://a","bizTypes":"a"}`, `{"url":"https://a","bizTypes":["a"],"secret":"x"}`, `{"url":"https://a","bizTypes":["a"],"types":["x"]}`,
		`{"url":"https://a","bizTypes":["a"],"enabled":1}`, `{"url":"https://a","bizTypes":["a"],"from":"x"}`} {
		wantProblem(t, sendJSON(t, api, "PUT", path, bad), 400, seqd.CodeInvalidRequest)
	}
	for _, bad := range []string{`{}`, `{"dead":false}`, `{"dead":true,"from":1}`, `{"bizType":"invoice"}`, `{"from":1}`, `{"bizType":"other","from":1}`, `{"bizType":"invoice","from":-1}`, `{"dead":1}`} {
		wantProblem(t, sendJSON(t, api, "POST", path+"/replay", bad), 400, seqd.CodeInvalidRequest)
	}
	wantProblem(t, do(t, api, "GET", path+"/deliveries?state=x"), 400, seqd.CodeInvalidRequest)
	must.Equal(t, sendJSON(t, api, "POST", path+"/replay", `{"dead":true}`).Code, 202)
	wantProblem(t, do(t, api, "DELETE", path, `If-Match: "1"`), 412, seqd.CodePreconditionFailed)
	must.Equal(t, do(t, api, "DELETE", path).Code, 204)
	wantProblem(t, do(t, api, "GET", path), 404, seqd.CodeUnknownSubscription)
}
