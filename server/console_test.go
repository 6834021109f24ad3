package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server"
)

// browser keeps cookies, and sends what the page sends.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T, transport http.RoundTripper) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, client: &http.Client{Jar: jar, Transport: transport}}
}

func (b *browser) do(method, target, body string) (status int, text string) {
	b.t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Seqd-Console", "1")
	r.Header.Set("Origin", strings.Join(strings.SplitN(target, "/", 4)[:3], "/"))
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

func (b *browser) want(status int, method, target, body string) string {
	b.t.Helper()
	got, text := b.do(method, target, body)
	if got != status {
		b.t.Fatalf("%s %s got %d, want %d: %s", method, target, got, status, text)
	}
	return text
}

// A session outlives the process that made it. Before the store is open, the page is served, and
// nobody is told that the session has ended.
func TestSessionOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	var log testlog.Text
	logger := server.WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))
	s := start(t, load(t, withToken(path)), logger)
	s.await("/readyz", http.StatusOK)
	b := newBrowser(t, nil)
	b.want(401, "GET", s.url+"/console/api/biz-types", "")
	b.want(200, "POST", s.url+"/console/session", `{"token":"ops-secret"}`)
	b.want(200, "GET", s.url+"/console/api/biz-types", "")
	b.want(401, "GET", s.url+"/biz-types", "") // the cookie is for the console alone
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}

	holder, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	// it has another port, which means nothing to a cookie
	s = start(t, load(t, withToken(path)), logger)
	if status, body := s.get("/console"); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the page says %d: %s", status, body)
	}
	wantCode(t, b.want(503, "GET", s.url+"/console/session", ""), seqd.CodeStarting)
	wantCode(t, b.want(503, "GET", s.url+"/console/api/biz-types", ""), seqd.CodeStarting)
	wantCode(t, newBrowser(t, nil).want(503, "POST", s.url+"/console/session", `{"token":"ops-secret"}`), seqd.CodeStarting)
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	s.await("/readyz", http.StatusOK)
	b.want(200, "GET", s.url+"/console/api/biz-types", "")
	if text := b.want(200, "GET", s.url+"/console/session", ""); !strings.Contains(text, `"signedIn":true,"caller":"ops"`) || !strings.Contains(text, `"nodeId":"`) {
		t.Errorf("the session is %s", text)
	}
	b.want(204, "DELETE", s.url+"/console/session", "")
	b.want(401, "GET", s.url+"/console/api/biz-types", "")
	if log.Count("ops-secret") != 0 {
		t.Error("the log has the secret")
	}
	if got := log.Count(`"msg":"audit","caller":"ops"`); got != 2 { // sign-in and sign-out
		t.Errorf("there are %d audit lines", got)
	}
}

func TestWithoutConsole(t *testing.T) {
	s := start(t, load(t, "server: {console: false}\nstore: {driver: memory}\nbizTypes: [{name: order}]\n"))
	s.await("/readyz", http.StatusOK)
	b := newBrowser(t, nil)
	for _, path := range []string{"/console", "/console/", "/console/session", "/console/api/healthz", "/console/api/seq/order"} {
		wantCode(t, b.want(404, "GET", s.url+path, ""), seqd.CodeNotFound)
	}
	b.want(200, "GET", s.url+"/seq/order", "")
}
