package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/pipes"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// shownLease is a lease as its holder sees it.
type shownLease struct {
	WorkerID            int64
	Lease, After, Until string
}

// lease leases a worker ID and returns the answer.
func lease(tb testing.TB, api http.Handler, pool, instance string, headers ...string) (l shownLease) {
	tb.Helper()
	w := sendJSONTo(tb, api, "POST", "/workers/"+pool, `{"instance":"`+instance+`"}`, headers...)
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 201 {
		tb.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	return l
}

// sendJSONTo is sendJSON to any handler.
func sendJSONTo(tb testing.TB, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	if body != "" {
		headers = append([]string{"Content-Type: application/json"}, headers...)
	}
	r := must.Get(newRequest(method, target, headers...))(tb)
	return serveOne(tb, h, withBody(r, body, false))
}

// theLease matches what is random in an answer.
var theLease = regexp.MustCompile(`"lease":"[A-Za-z0-9_-]{79}"`)

// TestPoolsByAPI makes, reads, changes and deletes a pool.
func TestPoolsByAPI(t *testing.T) {
	api := newAPI(t)
	pool := func(bits int, ttl string, version int) string {
		return fmt.Sprintf(`{"pool":"shop","bitsMachine":%d,"bitsSequence":12,"epoch":"2025-01-01T00:00:00.000Z","ttl":%q,"version":%d,"updatedAt":%q`, bits, ttl, version, nowText)
	}
	want := func(w *httptest.ResponseRecorder, status int, tag, body string) {
		t.Helper()
		wantJSON(t, w, status, body)
		must.Equal(t, tag, w.Header().Get("Etag"), "ETag")
	}
	wantJSON(t, do(t, api, "GET", "/worker-pools"), 200, `{"pools":[]}`)
	wantProblem(t, do(t, api, "GET", "/worker-pools/shop"), 404, seqd.CodeUnknownPool)
	wantProblem(t, sendJSON(t, api, "PATCH", "/worker-pools/shop", `{}`), 404, seqd.CodeUnknownPool)
	wantProblem(t, do(t, api, "DELETE", "/worker-pools/shop"), 404, seqd.CodeUnknownPool)

	want(sendJSON(t, api, "PUT", "/worker-pools/shop", `{"bitsMachine":1}`), 201, `"1"`, pool(1, "30s", 1)+"}")
	want(sendJSON(t, api, "PUT", "/worker-pools/shop", `{"bitsMachine":1,"ttl":"1m"}`), 200, `"2"`, pool(1, "1m", 2)+"}")
	want(sendJSON(t, api, "PATCH", "/worker-pools/shop", `{"ttl":"1m30s"}`), 200, `"3"`, pool(1, "1m30s", 3)+"}")
	want(sendJSON(t, api, "PUT", "/worker-pools/shop", `{"bitsMachine":1}`), 200, `"4"`, pool(1, "30s", 4)+"}")
	want(do(t, api, "GET", "/worker-pools/shop"), 200, `"4"`, pool(1, "30s", 4)+`,"held":0,"free":2,"standingBy":0}`)
	wantJSON(t, do(t, api, "GET", "/worker-pools"), 200, `{"pools":[`+pool(1, "30s", 4)+"}]}")

	l := lease(t, api, "shop", "shop.8080.10.0.0.7")
	want(do(t, api, "GET", "/worker-pools/shop"), 200, `"4"`, pool(1, "30s", 4)+
		fmt.Sprintf(`,"held":1,"free":1,"standingBy":0,"holders":[{"workerId":%d,"instance":"shop.8080.10.0.0.7","until":"2026-11-20T12:00:34.000Z"}]}`, l.WorkerID))
	wantProblem(t, sendJSON(t, api, "PATCH", "/worker-pools/shop", `{"bitsMachine":3}`), 409, seqd.CodeConflict)
	if p := wantProblem(t, do(t, api, "DELETE", "/worker-pools/shop"), 409, seqd.CodeConflict); !strings.Contains(p.Detail, "shop.8080.10.0.0.7") {
		t.Errorf("it does not say who holds one: %s", p.Detail)
	}
	wantNothing(t, do(t, api, "DELETE", "/worker-pools/shop?force=true"))
	wantProblem(t, do(t, api, "POST", "/workers/shop/"+l.Lease), 404, seqd.CodeUnknownPool)

	// what two changed at once
	must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/mail", `{}`).Code, "a new pool")
	for header, status := range map[string]int{`If-Match: "2"`: 412, `If-Match: "0"`: 412, `If-Match: 1`: 400, `If-None-Match: *`: 412, `If-None-Match: "1"`: 400} {
		for _, method := range []string{"PUT", "PATCH", "DELETE"} {
			body := "{}"
			if method == "DELETE" {
				body = ""
			}
			must.Equal(t, status, sendJSONTo(t, api, method, "/worker-pools/mail", body, header).Code, method, header)
		}
	}
	wantProblem(t, sendJSON(t, api, "PUT", "/worker-pools/other", `{}`, `If-Match: "1"`), 412, seqd.CodePreconditionFailed)
	must.Equal(t, 200, sendJSON(t, api, "PUT", "/worker-pools/mail", `{}`, `If-Match: "1"`).Code, "the version is right")
	wantNothing(t, do(t, api, "DELETE", "/worker-pools/mail", `If-Match: "2"`))
	must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/mail", `{}`, `If-None-Match: *`).Code, "it is not there")
}

func TestPoolPages(t *testing.T) {
	api := newAPI(t)
	for i := range 5 {
		must.Equal(t, 201, sendJSON(t, api, "PUT", fmt.Sprint("/worker-pools/p", i), `{}`).Code, "a pool")
	}
	var names []string
	for target := "/worker-pools?limit=2"; target != ""; {
		var page struct {
			Pools []struct{ Pool string }
			Next  string
		}
		must.Do(t, json.Unmarshal(do(t, api, "GET", target).Body.Bytes(), &page))
		for _, p := range page.Pools {
			names = append(names, p.Pool)
		}
		if target = ""; page.Next != "" {
			target = "/worker-pools?limit=2&after=" + page.Next
		}
	}
	must.Equal(t, "p0 p1 p2 p3 p4", strings.Join(names, " "), "the pages")
}

// TestLeaseByAPI leases a worker ID, renews and releases it.
func TestLeaseByAPI(t *testing.T) {
	api := newAPI(t)
	must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/shop", `{"bitsMachine":1,"ttl":"10s"}`).Code, "a pool")
	w := sendJSON(t, api, "POST", "/workers/shop", `{"instance":"Å b"}`)
	var l shownLease
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &l))
	must.Equal(t, fmt.Sprintf(`{"pool":"shop","workerId":%d,"lease":"","after":"2026-11-20T12:00:14.000Z","until":"2026-11-20T12:00:14.000Z","ttl":"10s",`+
		`"epoch":"2025-01-01T00:00:00.000Z","bitsMachine":1,"bitsSequence":12}`, l.WorkerID), theLease.ReplaceAllString(w.Body.String(), `"lease":""`), "the lease")
	must.Equal(t, 201, w.Code, "status")
	must.Equal(t, "no-store", w.Header().Get("Cache-Control"), "Cache-Control")

	w = do(t, api, "POST", "/workers/shop/"+l.Lease)
	must.Equal(t, fmt.Sprintf(`{"workerId":%d,"lease":"","until":"2026-11-20T12:00:14.000Z","ttl":"10s"}`, l.WorkerID), theLease.ReplaceAllString(w.Body.String(), `"lease":""`), "the renewed lease")
	must.Equal(t, 200, w.Code, "status")

	second := lease(t, api, "shop", "two")
	w = sendJSON(t, api, "POST", "/workers/shop?wait=0s", `{"instance":"three"}`)
	wantProblem(t, w, 503, seqd.CodeNoMachineID)
	wantNothing(t, sendJSON(t, api, "DELETE", "/workers/shop/"+second.Lease, `{"last":"2026-11-20T12:00:14Z"}`))
	third := lease(t, api, "shop", "three")
	must.Equal(t, second.WorkerID, third.WorkerID, "the worker ID that was released")
	must.Equal(t, "2026-11-20T12:00:14.000Z", third.After, "it begins above what was used")
	wantNothing(t, do(t, api, "DELETE", "/workers/shop/"+third.Lease))
	for _, method := range []string{"POST", "DELETE"} {
		for _, text := range []string{third.Lease, "x", strings.Repeat("A", 79)} {
			wantProblem(t, do(t, api, method, "/workers/shop/"+text), 409, seqd.CodeLeaseLost)
		}
		wantProblem(t, do(t, api, method, "/workers/mail/"+l.Lease), 404, seqd.CodeUnknownPool)
	}
	must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/mail", `{}`).Code, "a pool")
	wantProblem(t, do(t, api, "POST", "/workers/mail/"+l.Lease), 409, seqd.CodeLeaseLost)
	wantProblem(t, sendJSON(t, api, "POST", "/workers/none", `{"instance":"x"}`), 404, seqd.CodeUnknownPool)
}

// TestBadLeases checks the code of every wrong request, and that the answer names what is wrong.
func TestBadLeases(t *testing.T) {
	api := newAPI(t)
	must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/shop", `{}`).Code, "a pool")
	text := lease(t, api, "shop", "one").Lease
	for _, tt := range []struct {
		request, body string
		names         string
	}{
		{"POST /workers/shop", ``, "JSON object"}, {"POST /workers/shop", `{}`, "instance"}, {"POST /workers/shop", `{"instance":null}`, "instance"},
		{"POST /workers/shop", `{"instance":""}`, "instance"}, {"POST /workers/shop", `{"instance":7}`, "instance"}, {"POST /workers/shop", `{"instance":"a\nb"}`, "printable"},
		{"POST /workers/shop", "{\"instance\":\"a\u200b\"}", "printable"}, {"POST /workers/shop", `{"instance":"` + strings.Repeat("x", 201) + `"}`, "200"},
		{"POST /workers/shop", `{"instance":"x","ttl":"1m"}`, "ttl"}, {"POST /workers/shop", `{"instance":"x","instance":"y"}`, "twice"}, {"POST /workers/shop", "{\"instance\":\"\xff\"}", "UTF-8"},
		{"POST /workers/shop?wait=61s", `{"instance":"x"}`, "wait"}, {"POST /workers/shop?wait=-1s", `{"instance":"x"}`, "wait"}, {"POST /workers/shop?wait=", `{"instance":"x"}`, "wait"},
		{"POST /workers/shop?wait=20", `{"instance":"x"}`, "wait"}, {"POST /workers/shop?wait=1s&wait=2s", `{"instance":"x"}`, "wait"}, {"POST /workers/shop?ttl=1m", `{"instance":"x"}`, "ttl"},
		{"POST /workers/9", `{"instance":"x"}`, "the name of a pool"},
		{"POST /workers/shop/" + text, `{"last":"2026-11-20T12:00:00Z"}`, "no body"}, {"POST /workers/shop/" + text + "?wait=1s", "", "wait"},
		{"DELETE /workers/shop/" + text, `{"last":"now"}`, "last"}, {"DELETE /workers/shop/" + text, `{"last":null}`, "last"}, {"DELETE /workers/shop/" + text, `{"used":"2026-11-20T12:00:00Z"}`, "used"},
		{"DELETE /workers/shop/" + text, `{"last":"2026-11-20T12:00:35Z"}`, "last"}, {"DELETE /workers/shop/" + text + "?force=true", "", "force"},
		{"PUT /worker-pools/shop", `{"bits":10}`, "bits"}, {"PUT /worker-pools/shop", `{"bitsMachine":"10"}`, "bitsMachine"}, {"PUT /worker-pools/shop", `{"bitsMachine":0}`, "bitsMachine"}, {"PUT /worker-pools/shop", `{"bitsMachine":1000}`, "bitsMachine"},
		{"PUT /worker-pools/new", `{"bitsMachine":16,"bitsSequence":15}`, "ended at 2025-02-19"},
		{"PUT /worker-pools/shop", `{"bitsMachine":10.5}`, "bitsMachine"}, {"PUT /worker-pools/shop", `{"bitsSequence":22}`, "bitsSequence"}, {"PATCH /worker-pools/shop", `{"ttl":""}`, "ttl"},
		{"PATCH /worker-pools/shop", `{"ttl":null}`, "ttl"}, {"PATCH /worker-pools/shop", `{"ttl":"2h"}`, "ttl"}, {"PATCH /worker-pools/shop", `{"epoch":"2025"}`, "epoch"},
		{"PATCH /worker-pools/shop", `{"epoch":"2030-01-01T00:00:00Z"}`, "epoch"}, {"PUT /worker-pools/shop?dryRun=true", `{}`, "dryRun"}, {"PUT /worker-pools/no%20name", `{}`, "the name of a pool"},
		{"GET /worker-pools?match=a", "", "match"}, {"GET /worker-pools?limit=0", "", "limit"}, {"GET /worker-pools/shop?after=a", "", "after"},
		{"DELETE /worker-pools/shop?force=yes", "", "force"}, {"DELETE /worker-pools/shop?force=", "", "force"}, {"DELETE /worker-pools/shop", "{}", "no body"},
	} {
		method, target, _ := strings.Cut(tt.request, " ")
		headers := []string{"Content-Type: application/json"}
		r := must.Get(newRequest(method, target, headers...))(t)
		w := serveOne(t, api, withBody(r, tt.body, false))
		if w.Code != 400 {
			t.Errorf("%s %.60s: %d %s", tt.request, tt.body, w.Code, w.Body)
		} else if p := wantProblem(t, w, 400, seqd.CodeInvalidRequest); !strings.Contains(p.Detail, tt.names) {
			t.Errorf("%s %.60s: it does not name %s: %s", tt.request, tt.body, tt.names, p.Detail)
		}
	}
	wantProblem(t, sendJSON(t, api, "POST", "/workers/shop", `{"instance":"x"}`, "Content-Type: text/plain"), 415, seqd.CodeUnsupportedMediaType)
	for _, header := range []string{"Idempotency-Key: a", "X-Idempotency-Key: a"} {
		if p := wantProblem(t, sendJSON(t, api, "POST", "/workers/shop", `{"instance":"x"}`, header), 400, seqd.CodeInvalidRequest); !strings.Contains(p.Detail, "Idempotency-Key") {
			t.Error(p.Detail)
		}
	}
	wantProblem(t, do(t, api, "GET", "/workers/shop"), 405, seqd.CodeMethodNotAllowed)
	must.Equal(t, 200, do(t, api, "POST", "/workers/shop/"+text).Code, "the lease after all that")
}

// TestWorkersStarting checks that nothing is leased before the store is there.
func TestWorkersStarting(t *testing.T) {
	api := newStarting(t)
	for _, request := range []string{"GET /worker-pools", "GET /worker-pools/a", "PUT /worker-pools/a", "PATCH /worker-pools/a", "DELETE /worker-pools/a", "POST /workers/a", "POST /workers/a/x", "DELETE /workers/a/x"} {
		method, target, _ := strings.Cut(request, " ")
		wantProblem(t, sendJSON(t, api, method, target, ""), 503, seqd.CodeStarting)
	}
}

// TestLeaseScopes checks who may lease, and who may see and change pools.
func TestLeaseScopes(t *testing.T) {
	tokens := newTokensOf(t, map[string][]string{
		"shop": {"lease:shop"}, "eu": {"lease:eu.*"}, "all": {"lease:*"}, "ops": {"admin"}, "reader": {"read"}, "issuer": {"issue:*"},
	})
	api := newStarting(t, func(o *options) { o.Guard, o.Tokens = tokens, tokens })
	ready(api, newIssuer(t))
	for _, pool := range []string{"shop", "eu.shop"} {
		must.Equal(t, 201, sendJSON(t, api, "PUT", "/worker-pools/"+pool, `{}`, auth("ops")).Code, "a pool")
	}
	held := map[string]string{"shop": lease(t, api, "shop", "one", auth("shop")).Lease, "eu.shop": lease(t, api, "eu.shop", "one", auth("eu")).Lease}
	for _, tt := range []struct{ request, body, allowed string }{
		{"POST /workers/shop", `{"instance":"x"}`, "shop all"}, {"POST /workers/eu.shop", `{"instance":"x"}`, "eu all"}, {"POST /workers/euXshop", `{"instance":"x"}`, "all"},
		{"POST /workers/shop/" + held["shop"], "", "shop all"}, {"POST /workers/eu.shop/" + held["eu.shop"], "", "eu all"}, {"POST /workers/shop/" + held["eu.shop"], "", "shop all"},
		{"GET /worker-pools", "", "ops reader"}, {"GET /worker-pools/shop", "", "ops reader"}, {"PUT /worker-pools/shop", "{}", "ops"}, {"PATCH /worker-pools/shop", "{}", "ops"},
		{"DELETE /worker-pools/shop", "", "ops"}, {"GET /seq/order", "", "issuer"}, {"DELETE /workers/shop/" + held["shop"], "", "shop all"},
	} {
		method, target, _ := strings.Cut(tt.request, " ")
		for _, name := range []string{"shop", "eu", "all", "ops", "reader", "issuer"} {
			w := sendJSON(t, api, method, target, tt.body, auth(name))
			if allowed := strings.Contains(" "+tt.allowed+" ", " "+name+" "); allowed && (w.Code == 401 || w.Code == 403) {
				t.Errorf("%s by %s: %d %s", tt.request, name, w.Code, w.Body)
			} else if !allowed {
				wantProblem(t, w, 403, seqd.CodeForbidden)
			}
		}
		wantUnauthorized(t, sendJSON(t, api, method, target, tt.body))
		wantUnauthorized(t, sendJSON(t, api, method, target, tt.body, auth("nobody")))
	}
}

// TestPoolsAreAudited checks that changes of pools are audited, and leases are not.
func TestPoolsAreAudited(t *testing.T) {
	log := newAudit(nil)
	tokens := newTokensOf(t, map[string][]string{"shop": {"lease:shop"}, "ops": {"admin"}})
	api := newStarting(t, func(o *options) { o.Guard, o.Tokens, o.Audit = tokens, tokens, log })
	ready(api, newIssuer(t))
	sendJSON(t, api, "PUT", "/worker-pools/shop", `{}`, auth("ops"))
	sendJSON(t, api, "PATCH", "/worker-pools/shop", `{"ttl":"1m"}`, auth("ops"))
	do(t, api, "GET", "/worker-pools/shop", auth("ops"))
	do(t, api, "GET", "/worker-pools", auth("ops"))
	l := lease(t, api, "shop", "one", auth("shop"))
	do(t, api, "POST", "/workers/shop/"+l.Lease, auth("shop"))
	sendJSON(t, api, "POST", "/workers/mail", `{"instance":"x"}`, auth("shop"))
	sendJSON(t, api, "DELETE", "/worker-pools/shop", "", auth("ops"))
	do(t, api, "DELETE", "/workers/shop/"+l.Lease, auth("shop"))
	sendJSON(t, api, "DELETE", "/worker-pools/shop?force=true", "", auth("ops"))
	must.Do(t, log.Close(t.Context()))
	var got []string
	for _, line := range readAudit(t, do(t, api, "GET", "/audit", auth("ops"))).Lines {
		got = append(got, fmt.Sprintf("%s %s %s?%s %s %d v%d", line.Caller, line.Method, line.Path, line.Query, line.Target, line.Status, line.Version))
	}
	want := []string{
		"ops DELETE /worker-pools/shop?force=true shop 204 v2", "ops DELETE /worker-pools/shop? shop 409 v0", "shop POST /workers/mail?  403 v0",
		"ops PATCH /worker-pools/shop? shop 200 v2", "ops PUT /worker-pools/shop? shop 201 v1",
	}
	must.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"), "the audit log")
}

// TestStandbyTakesItsTime checks that a request may stand by for longer than the write timeout, and
// that whoever leaves gets nothing.
func TestStandbyTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newStarting(t)
		api.Gate().Ready(&gate.Running{Workers: newWorkers(time.Now, api.Gate())})
		call := serveWithTimeouts(t, api)
		must.Equal(t, 201, call(t.Context(), "PUT", "/worker-pools/shop", `{"bitsMachine":1,"ttl":"1m"}`), "a pool")
		lease(t, api, "shop", "one")
		second := lease(t, api, "shop", "two")
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
		defer leave()
		call(ctx, "POST", "/workers/shop?wait=1m", `{"instance":"who leaves"}`)
		began := time.Now()
		time.AfterFunc(30*time.Second, func() { do(t, api, "DELETE", "/workers/shop/"+second.Lease) })
		must.Equal(t, 201, call(t.Context(), "POST", "/workers/shop?wait=1m", `{"instance":"who waits"}`), "status")
		if took := time.Since(began); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("it took %s", took)
		}
		if body := do(t, api, "GET", "/worker-pools/shop").Body.String(); !strings.Contains(body, "who waits") || strings.Contains(body, "who leaves") {
			t.Error(body)
		}
		must.Equal(t, 503, call(t.Context(), "POST", "/workers/shop?wait=10s", `{"instance":"nobody"}`), "status after the wait")
	})
}

// serveWithTimeouts serves an API with short timeouts, and returns a function that calls it and
// returns the status, 0 without an answer.
func serveWithTimeouts(t *testing.T, api *httpapi.API) func(ctx context.Context, method, target, body string) int {
	t.Helper()
	l := pipes.New()
	server := &http.Server{Handler: api, ReadTimeout: time.Second, WriteTimeout: 3 * time.Second}
	go func() { _ = server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() }}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
	})
	return func(ctx context.Context, method, target, body string) int {
		r := must.Get(http.NewRequestWithContext(ctx, method, "http://seqd"+target, strings.NewReader(body)))(t)
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			return 0
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
}
