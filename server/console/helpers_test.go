package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/console"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// Secrets of the tokens in every world.
const (
	opsSecret    = "seqd_ops-secret-of-the-tests"
	readerSecret = "seqd_reader-secret-of-the-tests"
	briefSecret  = "seqd_brief-secret-of-the-tests"
)

// world is a cluster: nodes on one store, with one clock.
type world struct {
	t     testing.TB
	log   bytes.Buffer // of all nodes
	mu    sync.Mutex   // guards now and log
	now   time.Time
	store *documents
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)}
	w.store = &documents{Documents: memory.New(w.clock).Documents()}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Write makes a world the destination of logs.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// documents are those of a store that can be away.
type documents struct {
	persist.Documents
	mu    sync.Mutex
	gone  bool
	reads int
}

var errGone = errors.New("the store is away")

func (d *documents) setAway(gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = gone
}

func (d *documents) away() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return errGone
	}
	return nil
}

func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if err := d.away(); err != nil {
		return err
	}
	return d.Documents.Create(ctx, doc)
}

func (d *documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	d.mu.Lock()
	d.reads++
	d.mu.Unlock()
	if err := d.away(); err != nil {
		return persist.Document{}, err
	}
	return d.Documents.Read(ctx, kind, key)
}

func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := d.away(); err != nil {
		return err
	}
	return d.Documents.Delete(ctx, kind, key, revision)
}

// looks returns how often documents were read.
func (d *documents) looks() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

// sessions returns the documents of all sessions.
func (w *world) sessions() []persist.Document {
	w.t.Helper()
	list, err := w.store.List(w.t.Context(), "session", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// node is a node of a world.
type node struct {
	documents persist.Documents // nil until its store is open
	w         *world
	handler   http.Handler
	console   *console.Console
	tokens    *access.Tokens
	gate      *gate.Gate
}

// settings are what tests change in a node.
type settings struct {
	open    bool // callers need no token
	noStore bool // the node still starts
	tls     bool
	proxies []string
	metrics httpapi.Metrics
	without bool          // there is no console
	silent  bool          // there is no access log
	ahead   time.Duration // of the common time
}

func (w *world) node(change ...func(*settings)) *node {
	w.t.Helper()
	var s settings
	for _, f := range change {
		f(&s)
	}
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := &node{w: w, tokens: access.New(access.Options{Now: w.clock, Log: log, Config: []access.Token{
		{Name: "ops", Secrets: access.SecretOf(opsSecret), Scopes: []string{"admin", "issue:*"}, Enabled: true},
		{Name: "reader", Secrets: access.SecretOf(readerSecret), Scopes: []string{"read"}, Enabled: true},
		{Name: "brief", Secrets: access.SecretOf(briefSecret), Scopes: []string{"admin"}, Enabled: true, Expires: w.clock().Add(time.Hour)},
	}})}
	proxies, err := forwarded.New(forwarded.For, s.proxies)
	if err != nil {
		w.t.Fatal(err)
	}
	n.console = console.New(console.Options{
		TokensAskedFor: !s.open, Tokens: n.tokens, TLS: s.tls, Proxies: proxies,
		Store: func() (persist.Documents, string) { return n.documents, "node-1" }, Build: "v1", Session: 8 * time.Hour, Log: log,
		Now: func() time.Time { return w.clock().Add(s.ahead) }, Clock: w.clock,
	})
	opts := gate.Options{MaxCount: 10, Log: log, AccessLog: "on"}
	if s.silent {
		opts.AccessLog = "off"
	}
	if !s.open {
		opts.Guard = n.tokens
	}
	n.gate = gate.New(opts)
	var routes []httpapi.Extra
	if !s.without {
		routes = n.console.Routes()
	}
	api, err := httpapi.New(n.gate, httpapi.Options{
		MaxBodyBytes: 1 << 20, Hosts: []string{"seqd"}, Proxies: proxies, Tokens: n.tokens,
		Metrics: s.metrics, Extra: routes, Audit: audit.New(log, w.clock),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if n.handler = n.console.Handler(api); s.without {
		n.handler = api
	}
	if !s.noStore {
		n.opened()
	}
	return n
}

// opened opens the store of a node.
func (n *node) opened() {
	n.w.t.Helper()
	n.tokens.Use(access.Backing{Documents: n.w.store.Documents})
	if err := n.tokens.Reload(n.w.t.Context()); err != nil {
		n.w.t.Fatal(err)
	}
	n.documents = n.w.store
	issuer, err := issuer.New([]issuer.Definition{{BizType: seqd.BizType{Name: "order", Strategy: "counter"}, Strategy: new(counter)}},
		issuer.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		n.w.t.Fatal(err)
	}
	issuer.Init(n.w.t.Context())
	n.gate.Ready(&gate.Running{Issuer: issuer})
}

// counter is a strategy that counts.
type counter struct {
	mu   sync.Mutex
	last int64
}

func (c *counter) Init(context.Context, bool) error { return nil }

func (c *counter) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	seq.Add(c.last+1, n, 1)
	c.last += int64(n)
	return nil
}

func (c *counter) Close(context.Context) error { return nil }

// request reads a request as net/http does, so that a test can send every target that reaches a
// handler. Headers are lines of the form "Name: value".
func request(t testing.TB, method, target, body string, headers ...string) *http.Request {
	t.Helper()
	raw := method + " " + target + " HTTP/1.1\r\nHost: seqd:8080\r\n" + strings.Join(append(headers, "", ""), "\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		t.Fatalf("the test's own request cannot be read: %v", err)
	}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	r.RemoteAddr = "192.0.2.1:1234"
	return r
}

func (n *node) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	n.handler.ServeHTTP(w, r)
	return w
}

// raw sends a request without the header of the page.
func (n *node) raw(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	n.w.t.Helper()
	return n.serve(request(n.w.t, method, target, body, headers...))
}

// page sends a request as the page does.
func (n *node) page(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	n.w.t.Helper()
	return n.raw(method, target, body, append(headers, "Seqd-Console: 1", "Sec-Fetch-Site: same-origin")...)
}

// with is the header of a cookie.
func with(cookie string) string { return "Cookie: seqd-console=" + cookie }

// signIn signs in and returns the value of the cookie.
func (n *node) signIn(secret string) string {
	n.w.t.Helper()
	w := n.page("POST", "/console/session", signInWith(secret))
	if w.Code != http.StatusOK {
		n.w.t.Fatalf("the sign-in got %d: %s", w.Code, w.Body)
	}
	return cookieIn(n.w.t, w).Value
}

func signInWith(secret string) string {
	body, _ := json.Marshal(map[string]string{"token": secret}) // text can always be encoded
	return string(body)
}

// cookieIn returns the only cookie that an answer sets.
func cookieIn(t testing.TB, w *httptest.ResponseRecorder) *http.Cookie {
	t.Helper()
	list := w.Result().Cookies()
	if len(list) != 1 {
		t.Fatalf("the answer sets %d cookies, want 1", len(list))
	}
	return list[0]
}

// want checks the status of an answer and, for a problem, its code.
func want(t testing.TB, w *httptest.ResponseRecorder, status int, code seqd.Code) {
	t.Helper()
	if w.Code != status {
		t.Fatalf("the status is %d, want %d: %s", w.Code, status, w.Body)
	}
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("the answer has no request ID")
	}
	if code == "" {
		return
	}
	var p struct {
		Code      seqd.Code
		Status    int
		RequestID string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Code != code || p.Status != status || p.RequestID == "" {
		t.Fatalf("the answer is %s, %v; want a problem with the code %s", w.Body, err, code)
	}
	must.Equal(t, w.Header().Get("Content-Type"), "application/problem+json", "the content type")
	must.Equal(t, w.Header().Get("Cache-Control"), "no-store", "Cache-Control")
}

// shown is the answer of GET /console/session.
type shown struct {
	TokensAskedFor, SignedIn, Encrypted bool
	Caller, Expires, NodeID, Build      string
	Scopes                              []string
}

func (n *node) session(headers ...string) (s shown) {
	n.w.t.Helper()
	w := n.page("GET", "/console/session", "", headers...)
	want(n.w.t, w, http.StatusOK, "")
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		n.w.t.Fatal(err)
	}
	return s
}

// hanging is documents whose reads wait until the caller has no more patience.
type hanging struct{ persist.Documents }

func (hanging) Read(ctx context.Context, _, _ string) (persist.Document, error) {
	<-ctx.Done()
	return persist.Document{}, ctx.Err()
}
