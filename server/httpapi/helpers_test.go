package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/jobs"
	"github.com/seqd/seqd/server/subscriptions"
	"github.com/seqd/seqd/server/terms"
	"github.com/seqd/seqd/server/workers"
)

const (
	jsonType    = "application/json"
	textType    = "text/plain; charset=utf-8"
	problemType = "application/problem+json"
)

// statusOf returns the status of a code.
func statusOf(code seqd.Code) int {
	m, _ := code.Meaning()
	return m.Status
}

// counter is a strategy that counts. Its fields change what it does.
type counter struct {
	next     atomic.Int64
	init     func() error
	health   error
	degraded *seqd.Error
	generate func() error // runs before counting
}

func newCounter(first int64) *counter {
	c := &counter{}
	c.next.Store(first)
	return c
}

func (c *counter) Init(context.Context, bool) error {
	if c.init != nil {
		return c.init()
	}
	return nil
}

func (c *counter) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	if c.generate != nil {
		if err := c.generate(); err != nil {
			return err
		}
	}
	seq.Add(c.next.Add(int64(n))-int64(n), n, 1)
	return nil
}

func (c *counter) Health() error               { return c.health }
func (c *counter) Degraded() *seqd.Error       { return c.degraded }
func (c *counter) Details() map[string]any     { return nil }
func (c *counter) Close(context.Context) error { return nil }

// plugin is a plugin made of functions; nil functions do nothing.
type plugin struct {
	before, after func(*seqd.Call) error
	onError       func(*seqd.Call, *seqd.Error)
}

func (p plugin) Before(_ context.Context, call *seqd.Call) error {
	if p.before == nil {
		return nil
	}
	return p.before(call)
}

func (p plugin) After(_ context.Context, call *seqd.Call) error {
	if p.after == nil {
		return nil
	}
	return p.after(call)
}

func (p plugin) OnError(_ context.Context, call *seqd.Call, err *seqd.Error) {
	if p.onError != nil {
		p.onError(call, err)
	}
}

func define(name string, s seqd.Strategy, plugins ...plugin) issuer.Definition {
	d := issuer.Definition{BizType: seqd.BizType{Name: name, Strategy: "counter"}, Strategy: s}
	for i, p := range plugins {
		d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: "p" + strconv.Itoa(i), Order: i, Plugin: p})
	}
	return d
}

func newIssuer(tb testing.TB, definitions ...issuer.Definition) *issuer.Issuer {
	tb.Helper()
	return must.Get(issuer.New(definitions, issuer.Options{Log: slog.New(slog.DiscardHandler)}))(tb)
}

// options are all options of an API in a test.
type options struct {
	httpapi.Options
	gateOptions
}

type gateOptions = gate.Options

// newGate returns a gate.
func newGate(opts gate.Options) *gate.Gate {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return gate.New(opts)
}

// newStarting returns an API that has no issuer yet.
func newStarting(tb testing.TB, change ...func(*options)) *httpapi.API {
	tb.Helper()
	opts := options{httpapi.Options{MaxBodyBytes: 1024, Hosts: []string{"seqd"}}, gate.Options{MaxCount: 10_000}}
	for _, f := range change {
		f(&opts)
	}
	if opts.Audit == nil {
		opts.Audit = newAudit(opts.Log)
	}
	if opts.Settings == nil {
		opts.Settings = func() any { return map[string]string{"step": "1 to 5"} }
	}
	return must.Get(httpapi.New(newGate(opts.gateOptions), opts.Options))(tb)
}

// newAudit returns an audit log with a store in memory, which it writes to when it is closed. log
// is nil to drop the lines.
func newAudit(log *slog.Logger) *audit.Log {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	store := memory.New(time.Now)
	l := audit.New(log, time.Now)
	l.Open(audit.Store{Documents: store.Documents(), Clock: storeclock.New(store, time.Now, nil), ID: "n1", Host: "web-1", Node: "a:1"})
	return l
}

// newAPI returns an API that issues for the given biz types, all of them initialised. Without any,
// it issues for order, from 100.
func newAPI(tb testing.TB, definitions ...issuer.Definition) *httpapi.API {
	tb.Helper()
	if len(definitions) == 0 {
		definitions = append(definitions, define("order", newCounter(100)))
	}
	issuer := newIssuer(tb, definitions...)
	issuer.Init(tb.Context())
	api := newStarting(tb)
	ready(api, issuer)
	return api
}

// ready lets an API issue, and administrators manage some definitions. It keeps answers if there is
// something that does.
func ready(api *httpapi.API, issuer *issuer.Issuer, answers ...gate.Answers) {
	r := &gate.Running{Issuer: issuer, Catalogue: newDefinitions(), Nodes: alone{}, Figures: still{}, Snapshot: saved, Standings: counted{}, Workers: newWorkers(func() time.Time { return now }, api.Gate())}
	docs := memory.New(func() time.Time { return now }).Documents()
	r.Jobs = jobs.New(jobs.Options{
		Documents: docs, Terms: terms.New(terms.Options{Documents: docs, Now: time.Now, Log: slog.New(slog.DiscardHandler)}), Issuer: issuer,
		Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler), Most: 100, ResultTTL: time.Hour,
		HasEvents: func(context.Context, string) error { return nil },
	})
	r.Subscriptions = newSubscriptions(docs)
	r.Events = newEvents(docs)
	if len(answers) > 0 {
		r.Answers = answers[0]
	}
	api.Gate().Ready(r)
}

// newSubscriptions returns subscriptions that nobody sends for.
func newSubscriptions(docs persist.Documents) *subscriptions.Subscriptions {
	log, clock := slog.New(slog.DiscardHandler), func() time.Time { return now }
	t := terms.New(terms.Options{Documents: docs, Now: clock, Log: log})
	return subscriptions.New(subscriptions.Options{
		Documents: docs, Terms: t, Now: clock, Log: log, Streams: newEvents(docs),
	})
}

// newWorkers returns pools of worker IDs in a store of their own, at a node with that clock.
func newWorkers(now func() time.Time, g *gate.Gate) *workers.Workers {
	store := memory.New(now)
	return workers.New(workers.Options{
		Documents: store.Documents(), Slots: store.Slots(), Cluster: strings.Repeat("c", 32), Now: now, Stopping: g.Draining, Log: slog.New(slog.DiscardHandler),
	})
}

// newRequest reads a request as net/http does, so that a test can send every target that reaches a
// handler. headers are lines of the form "Name: value".
func newRequest(method, target string, headers ...string) (*http.Request, error) {
	raw := method + " " + target + " HTTP/1.1\r\nHost: seqd\r\n"
	for _, line := range headers {
		raw += line + "\r\n"
	}
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw + "\r\n")))
	if err != nil {
		return nil, err
	}
	r.RemoteAddr = "192.0.2.1:1234"
	return r, nil
}

// do sends a well-formed request to a handler.
func do(tb testing.TB, h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r, err := newRequest(method, target, headers...)
	if err != nil {
		tb.Fatalf("the test's own request cannot be read: %v", err)
	}
	return serveOne(tb, h, r)
}

// serveOne returns the answer to a request. A JSON answer must end with a newline, which serveOne
// cuts off.
func serveOne(tb testing.TB, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	tb.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	w.Body.Truncate(len(cutLine(tb, w.Header(), w.Body.Bytes())))
	return w
}

// cutLine returns the body of an answer without the newline that a JSON answer must end with.
func cutLine(tb testing.TB, header http.Header, body []byte) []byte {
	tb.Helper()
	if len(body) == 0 || !strings.Contains(header.Get("Content-Type"), "json") {
		return body
	}
	line, ok := bytes.CutSuffix(body, []byte("\n"))
	if !ok {
		tb.Errorf("the answer does not end with a newline: %.300q", body)
	}
	return line
}

// withBody gives a request a body, with or without a known length.
func withBody(r *http.Request, body string, chunked bool) *http.Request {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	if chunked {
		r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
	}
	return r
}

// problem is a problem document as a caller sees it.
type problem struct {
	Type, Title, Code, Detail, RequestID string
	Status                               int
	Unready                              int
	BizTypes                             []struct{ BizType, Code, Detail, Cause string }
}

// problemIn returns the problem document in an answer, and what is wrong with the answer.
func problemIn(status int, header http.Header, body []byte) (p problem, wrong error) {
	if got := header.Get("Content-Type"); got != problemType {
		return p, fmt.Errorf("content type is %q, want %q", got, problemType)
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return p, fmt.Errorf("the problem is not JSON: %w", err)
	}
	if p.Type == "" || p.Title == "" || p.Code == "" || p.Detail == "" {
		return p, fmt.Errorf("the problem lacks type, title, code or detail: %s", body)
	}
	if p.Status != status {
		return p, fmt.Errorf("the problem says status %d, the answer %d", p.Status, status)
	}
	if p.Title != http.StatusText(status) {
		return p, fmt.Errorf("title is %q, want %q", p.Title, http.StatusText(status))
	}
	if _, known := seqd.Code(p.Code).Meaning(); !known {
		return p, fmt.Errorf("code %q is not in the closed set", p.Code)
	}
	if got := header.Get("Cache-Control"); got != "no-store" {
		return p, fmt.Errorf("Cache-Control is %q, want no-store", got)
	}
	after := header.Get("Retry-After")
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		if seconds, err := strconv.Atoi(after); err != nil || seconds < 1 {
			return p, fmt.Errorf("Retry-After is %q with status %d, want whole seconds of 1 or more", after, status)
		}
	} else if status < 500 && after != "" && p.Code != "too_many_reserved" {
		return p, fmt.Errorf("Retry-After is %q with status %d, where waiting does not help", after, status)
	}
	return p, nil
}

// wantProblem checks a recorded error answer completely and returns its problem.
func wantProblem(tb testing.TB, w *httptest.ResponseRecorder, status int, code seqd.Code) problem {
	tb.Helper()
	if w.Code != status {
		tb.Fatalf("status is %d, want %d; body: %s", w.Code, status, w.Body)
	}
	p := must.Get(problemIn(w.Code, w.Header(), w.Body.Bytes()))(tb)
	if p.Code != string(code) {
		tb.Fatalf("code is %q, want %q; detail: %s", p.Code, code, p.Detail)
	}
	if id := w.Header().Get("X-Request-Id"); id == "" || p.RequestID != id {
		tb.Fatalf("requestId is %q, the header X-Request-Id %q; want the same, not empty", p.RequestID, id)
	}
	return p
}

// wantBody checks a recorded answer that is no error.
func wantBody(tb testing.TB, w *httptest.ResponseRecorder, contentType, body string) {
	tb.Helper()
	if w.Code != http.StatusOK {
		tb.Fatalf("status is %d, want 200; body: %s", w.Code, w.Body)
	}
	must.Equal(tb, w.Header().Get("Content-Type"), contentType, "content type")
	if got := w.Body.String(); got != body {
		tb.Errorf("body is %.300q, want %.300q", got, body)
	}
	if w.Header().Get("X-Request-Id") == "" {
		tb.Error("the answer has no X-Request-Id")
	}
	if got := w.Header().Get("Retry-After"); got != "" {
		tb.Errorf("Retry-After is %q on a good answer", got)
	}
}

// numbers returns count numbers from first, each in quotes, separated by sep.
func numbers(first, count int, quote, sep string) string {
	list := make([]string, count)
	for i := range list {
		list[i] = quote + strconv.Itoa(first+i) + quote
	}
	return strings.Join(list, sep)
}

// trusting returns proxies with these addresses and networks.
func trusting(proxies ...string) forwarded.Proxies {
	p, err := forwarded.New(forwarded.For, proxies)
	if err != nil {
		panic(err)
	}
	return p
}
