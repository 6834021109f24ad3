package server_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/ops"
)

// do sends a request with a JSON body and headers as pairs of name and value, checks the status,
// and returns the body and the ETag.
func (s *service) do(want int, method, path, body string, headers ...string) (answer, etag string) {
	s.t.Helper()
	req := must.Get(http.NewRequest(method, s.url+path, strings.NewReader(body)))(s.t)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp := must.Get(http.DefaultClient.Do(req))(s.t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		s.t.Fatalf("%s %s %s: %d, %v, want %d: %s", method, path, body, resp.StatusCode, err, want, text)
	}
	return string(text), resp.Header.Get("ETag")
}

func wantIn(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s; want %s in it", text, part)
		}
	}
}

// A biz type is created, changed, disabled, enabled, deleted and created again, over restarts. No
// number is issued twice.
func TestLifeOfABizType(t *testing.T) {
	text := fmt.Sprintf("store: {bolt: {path: %s}}\nbizTypes: [{name: order}]", filepath.Join(t.TempDir(), "seqd.db"))
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	next := func(want string) {
		t.Helper()
		wantIn(t, s.await("/seq/invoice", http.StatusOK), `"id":"`+want+`"`)
	}
	restart := func() {
		t.Helper()
		must.Do(t, s.stop())
		s = start(t, load(t, text))
		s.await("/readyz", http.StatusOK)
	}
	answer, etag := s.do(201, "PUT", "/biz-types/invoice", `{"start":500,"step":10}`, "If-None-Match", "*")
	wantIn(t, answer+etag, `"name":"invoice"`, `"version":1`, `"source":"api"`, `"enabled":true`, `"start":500`, `"1"`)
	next("500")
	answer, _ = s.do(412, "PUT", "/biz-types/invoice", `{}`, "If-None-Match", "*")
	wantCode(t, answer, seqd.CodePreconditionFailed)
	_, etag = s.do(200, "PATCH", "/biz-types/invoice", `{"Step":20}`, "If-Match", etag)
	answer, _ = s.do(200, "GET", "/biz-types/invoice", "")
	wantIn(t, answer+etag, `"definition":{"Step":20,"start":500}`, `"2"`)
	next("501")
	restart()
	next("502")
	answer, _ = s.do(412, "PATCH", "/biz-types/invoice", `{"step":30}`, "If-Match", `"1"`)
	wantIn(t, answer, "the present one is 2")
	answer, _ = s.do(200, "PUT", "/biz-types/invoice?dryRun=true", `{"start":9000,"step":5}`)
	wantIn(t, answer, `"start":9000`, `"version":2`, `"example":"9000"`)
	next("503")
	s.do(200, "POST", "/biz-types/invoice/disable", "")
	wantCode(t, s.await("/seq/invoice", http.StatusConflict), seqd.CodeDisabled)
	s.await("/readyz", http.StatusOK)
	restart()
	wantCode(t, s.await("/seq/invoice", http.StatusConflict), seqd.CodeDisabled)
	answer, etag = s.do(200, "POST", "/biz-types/invoice/enable", "")
	wantIn(t, answer+etag, `"4"`)
	_, again := s.do(200, "POST", "/biz-types/invoice/enable", "")
	must.Equal(t, again, etag, "the version after what changes nothing")
	next("504")
	answer, _ = s.do(200, "PATCH", "/biz-types/invoice", `{"start":100}`)
	wantIn(t, answer, `"warnings":["start 100 is not above `)
	next("505")
	s.do(200, "PATCH", "/biz-types/invoice", `{"start":7000}`)
	next("7000")
	s.do(204, "DELETE", "/biz-types/invoice?dryRun=true", "")
	next("7001")
	s.do(204, "DELETE", "/biz-types/invoice", "")
	for _, request := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"PATCH", "{}"}} {
		answer, _ = s.do(404, request[0], "/biz-types/invoice", request[1])
		wantCode(t, answer, seqd.CodeUnknownBizType)
	}
	wantCode(t, s.await("/seq/invoice", http.StatusNotFound), seqd.CodeUnknownBizType)
	restart()
	wantCode(t, s.await("/seq/invoice", http.StatusNotFound), seqd.CodeUnknownBizType)
	answer, _ = s.do(201, "PUT", "/biz-types/invoice", `{"start":1}`)
	wantIn(t, answer, `"version":8`, `"warnings":["start 1 is not above `)
	next("7002")
	answer, _ = s.do(200, "GET", "/biz-types?limit=1", "")
	wantIn(t, answer, `"name":"invoice"`, `"next":"invoice"`)
	answer, _ = s.do(200, "GET", "/biz-types?limit=1&after=invoice", "")
	wantIn(t, answer, `"name":"order"`, `"source":"config"`)
}

// The store overrides the configuration, which has only the initial definitions, unless
// bizTypesFrom is config.
func TestTheStoreWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	run := func(bizTypes, from string, check func(s *service, log *testlog.Text)) {
		t.Helper()
		var log testlog.Text
		s := start(t, load(t, fmt.Sprintf("store: {bolt: {path: %s}}\n%s\nbizTypes: %s", path, from, bizTypes)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s.await("/readyz", http.StatusOK)
		check(s, &log)
		must.Do(t, s.stop())
	}
	run("[{name: order, start: 10}, {name: gone}]", "", func(s *service, log *testlog.Text) {
		wantIn(t, s.await("/seq/order", http.StatusOK), `"10"`)
		s.do(204, "DELETE", "/biz-types/gone", "")
		must.Equal(t, log.Count("level=WARN"), log.Count("the store is new"), "a first start warns: %s", log)
	})
	run("[{name: order, start: 1000}, {name: gone}, {name: more}]", "", func(s *service, log *testlog.Text) {
		wantIn(t, s.await("/seq/order", http.StatusOK), `"11"`)
		s.await("/seq/gone", http.StatusNotFound)
		s.await("/seq/more", http.StatusOK)
		if log.Count("bizType=order") != 1 || log.Count("bizType=gone") != 1 {
			t.Errorf("the log does not say what does not count: %s", log)
		}
	})
	run("[]", "bizTypesFrom: store", func(s *service, _ *testlog.Text) { wantIn(t, s.await("/seq/order", http.StatusOK), `"12"`) })
	run("[{name: order, start: 2000}]", "bizTypesFrom: config", func(s *service, _ *testlog.Text) {
		wantIn(t, s.await("/seq/order", http.StatusOK), `"2000"`)
		s.await("/seq/more", http.StatusNotFound)
		answer, _ := s.do(200, "GET", "/biz-types", "")
		wantIn(t, answer, `{"bizTypes":[{"name":"order","version":0,"enabled":true,"source":"config","definition":{"start":2000}}]}`)
		for _, request := range [][3]string{{"PUT", "", "{}"}, {"PATCH", "", "{}"}, {"DELETE", "", ""}, {"POST", "/disable", ""}} {
			answer, _ := s.do(409, request[0], "/biz-types/order"+request[1], request[2])
			wantCode(t, answer, seqd.CodeConflict)
			wantIn(t, answer, "bizTypesFrom")
		}
	})
}

// A wrong definition is rejected with all its mistakes, and changes nothing.
func TestWrongDefinitions(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	for body, want := range map[string]string{
		`{"step":0,"start":"x","nonsense":1}`: `"problems":[{"key":"nonsense","text":"there is no such key for the strategy segment"},{"key":"start","text":"\"x\" is not a whole number, such as 1000"}]`,
		`{"step":0}`:                          `"detail":"step: 0 is outside 1 to maxStep`,
		`{"strategy":"none"}`:                 `"key":"strategy"`,
		`{"name":"other"}`:                    `"key":"name"`,
		`{"plugins":[{"name":"none"}]}`:       `"key":"plugins[0].name"`,
		`{"plugins":[{"name":"format"}]}`:     `"key":"plugins[0].`,
		`{"reset":"daily"}`:                   `"key":"reset"`,
		`{"start":1,"START":2}`:               "twice",
		`{"start":1,"start":2}`:               "start",
		`[]`:                                  "not one JSON object",
		`null`:                                "not one JSON object",
		`{"step":5`:                           "not one JSON object",
		`{"step":5} {}`:                       "not one JSON object",
		`step: 5`:                             "not one JSON object",
		`{"registry":"redis","strategy":"snowflake"}`:                              `"key":"registry"`,
		`{"rejected":[{"name":"webhook","url":"http://h/x","secret":"(secret)"}]}`: "(secret)",
	} {
		answer, _ := s.do(400, "PUT", "/biz-types/order", body)
		wantCode(t, answer, seqd.CodeInvalidDefinition)
		if answer = strings.ReplaceAll(answer, `\u003c`, "<"); !strings.Contains(answer, want) {
			t.Errorf("PUT %s: %s, want %s", body, answer, want)
		}
	}
	answer, etag := s.do(200, "GET", "/biz-types/order", "")
	wantIn(t, answer+etag, `"version":1`, `"definition":{}`)
	wantIn(t, s.await("/seq/order", http.StatusOK), `"1"`)
	for _, wrong := range [][3]string{
		{"PUT", "/biz-types/1x", "{}"}, {"PUT", "/biz-types/order?x=1", "{}"}, {"PUT", "/biz-types/order?dryRun=1", "{}"}, {"GET", "/biz-types?limit=0", ""},
		{"GET", "/biz-types?limit=1001", ""}, {"GET", "/biz-types?after=%ff", ""}, {"GET", "/tokens?after=%ff", ""}, {"GET", "/biz-types?after=a&after=b", ""}, {"GET", "/nodes?x", ""}, {"GET", "/overview?x", ""}, {"POST", "/biz-types/order/enable?force=true", ""},
	} {
		s.do(400, wrong[0], wrong[1], wrong[2])
	}
	for _, header := range [][2]string{{"If-Match", "7"}, {"If-Match", `"x`}, {"If-None-Match", `"1"`}} {
		s.do(400, "PUT", "/biz-types/order", "{}", header[0], header[1])
	}
	s.do(415, "PUT", "/biz-types/order", "{}", "Content-Type", "text/plain")
	s.do(413, "PUT", "/biz-types/order", `{"x":"`+strings.Repeat("x", 70_000)+`"}`)
}

// A definition whose IDs could repeat previous ones is rejected unless it is forced (U6).
func TestShapeOfADefinition(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]"))
	s.await("/seq/order", http.StatusOK)
	const formatted = `{"plugins":[{"name":"format","template":"A-{seq}"}]}`
	for _, dryRun := range []string{"?dryRun=true", ""} {
		answer, _ := s.do(409, "PUT", "/biz-types/order"+dryRun, formatted)
		wantCode(t, answer, seqd.CodeConflict)
		wantIn(t, answer, "force=true")
	}
	s.do(204, "DELETE", "/biz-types/order", "")
	s.do(409, "PUT", "/biz-types/order", formatted)
	s.do(409, "PUT", "/biz-types/order", `{"strategy":"snowflake"}`)
	s.do(201, "PUT", "/biz-types/order?force=true", formatted)
	wantIn(t, s.await("/seq/order", http.StatusOK), `"A-2"`)
	s.do(409, "PUT", "/biz-types/order", `{}`)
}

// Secrets in definitions are not shown, and are kept if a definition is written back as it was
// read.
func TestSecretsOfDefinitions(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	const secret = "correct horse battery staple"
	var all string
	answer, _ := s.do(201, "PUT", "/biz-types/a", `{"plugins":[{"name":"obfuscate","digits":8,"key":"`+secret+`"}],"rejected":[{"name":"webhook","url":"http://127.0.0.1:1/`+"horse"+`"}]}`)
	all += answer
	wantIn(t, answer, `"key":"(secret)"`, `"url":"(secret)"`)
	first := s.await("/seq/a", http.StatusOK)
	answer, _ = s.do(200, "PUT", "/biz-types/a", `{"step":7,"plugins":[{"name":"obfuscate","digits":8,"key":"(secret)"}],"rejected":[{"name":"webhook","url":"(secret)"}]}`)
	all += answer
	answer, _ = s.do(200, "PATCH", "/biz-types/a", `{"step":8}`)
	all += answer
	if second := s.await("/seq/a", http.StatusOK); second == first {
		t.Errorf("%s twice", first)
	}
	answer, _ = s.do(409, "PATCH", "/biz-types/a", `{"plugins":[{"name":"obfuscate","digits":8,"key":"another key that is as long"}]}`)
	all += answer
	answer, _ = s.do(400, "PUT", "/biz-types/a", `{"plugins":[{"name":"format","template":"x{seq}"},{"name":"obfuscate","digits":8,"key":"(secret)"}]}`)
	wantIn(t, answer, "plugins[1](obfuscate).key")
	all += answer
	answer, _ = s.do(200, "GET", "/biz-types", "")
	all += answer
	if strings.Contains(all, "horse") {
		t.Errorf("a secret is shown: %s", all)
	}
}

// A definition that is too large for nodes or their store is rejected, whatever the limit of
// bodies.
func TestDefinitionThatIsTooLarge(t *testing.T) {
	s := start(t, load(t, "server: {maxBodyBytes: 10000000}\nstore: {driver: memory}\nbizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	for _, item := range []string{`"plugins":[{"name":"rate-limit","rate":1}`, `"rejected":[{"name":"webhook","url":"http://127.0.0.1:1/"}`, `"rejected":[{"name":"log"}`} {
		list, first, _ := strings.Cut(item, "[")
		answer, _ := s.do(400, "PUT", "/biz-types/new", "{"+list+"["+first+strings.Repeat(","+first, 32)+"]}")
		wantIn(t, answer, `"invalid_definition"`, "there are 33, more than 32")
	}
	answer, _ := s.do(400, "PUT", "/biz-types/new", `{"rejected":[{"name":"webhook","url":"http://127.0.0.1:1/`+strings.Repeat("x", 1<<20)+`"}]}`)
	wantIn(t, answer, `"invalid_definition"`, "more room")
	s.do(404, "GET", "/biz-types/new", "")
}

// A definition that turns out to be unusable when it is built disables its biz type, not the node.
func TestOneMistakeStopsOneBizType(t *testing.T) {
	s := start(t, load(t, "bizTypeFolder: /proc\nstore: {driver: memory}\nbizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	answer, _ := s.do(201, "PUT", "/biz-types/new", `{"plugins":[{"name":"history","to":"file","file":{"path":"/proc/self/none/x.log"}}]}`)
	wantIn(t, answer, `"warnings":["this node cannot use`)
	wantCode(t, s.await("/seq/new", http.StatusConflict), seqd.CodeConflict)
	wantIn(t, s.await("/readyz", http.StatusOK), `"status":"degraded"`, `"bizType":"new"`)
	s.await("/seq/order", http.StatusOK)
	s.do(204, "DELETE", "/biz-types/new", "")
	wantIn(t, s.await("/readyz", http.StatusOK), `"status":"ready"`)
}

// The commands for a restored backup include biz types that only the store has, even deleted ones.
func TestRaiseWhatTheStoreHas(t *testing.T) {
	t.Parallel()
	cfg := load(t, fmt.Sprintf("store: {bolt: {path: %s}}\nsnowflake: {stateDir: %[1]s.state, horizon: 500ms, renewInterval: 100ms, maxSkew: 200ms}\nbizTypes: [{name: order}]", filepath.Join(t.TempDir(), "seqd.db")))
	s := start(t, cfg)
	s.await("/readyz", http.StatusOK)
	for _, name := range []string{"made", "deleted", "disabled"} {
		s.do(201, "PUT", "/biz-types/"+name, "{}")
		wantIn(t, s.await("/seq/"+name, http.StatusOK), `"1"`)
	}
	s.do(201, "PUT", "/biz-types/flake", `{"strategy":"snowflake"}`)
	s.await("/seq/flake", http.StatusOK)
	s.do(204, "DELETE", "/biz-types/deleted", "")
	s.do(200, "POST", "/biz-types/disabled/disable", "")
	s.do(201, "PUT", "/worker-pools/shop", `{}`)
	must.Do(t, s.stop())
	for _, name := range []string{"order", "made", "deleted", "disabled"} {
		if r, err := ops.Raise(t.Context(), cfg, name, 500, ops.How{}); err != nil || r.After != 500 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for _, wrong := range []string{"nobody", "flake", "made@2026", ""} {
		must.Is(t, must.Err(ops.Raise(t.Context(), cfg, wrong, 500, ops.How{})), ops.ErrRaise, "%s: error", wrong)
	}
	var done []string
	if err := ops.Restored(t.Context(), cfg, func(subject, _ string) { done = append(done, subject) }); err != nil || !slices.Equal(done, []string{"flake", "worker pool shop"}) {
		t.Errorf("%v, %v", done, err)
	}
	s = start(t, cfg)
	s.await("/readyz", http.StatusOK)
	s.do(201, "PUT", "/biz-types/deleted", "{}")
	s.do(200, "POST", "/biz-types/disabled/enable", "")
	for _, name := range []string{"order", "made", "deleted", "disabled"} {
		wantIn(t, s.await("/seq/"+name, http.StatusOK), `"501"`)
	}
}
