package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// must returns a function that returns v, and that ends the test if err is not nil.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// fails returns a function that reports an error that is not want, and the test goes on.
func fails[T any](_ T, err error) func(tb testing.TB, want error) {
	return func(tb testing.TB, want error) {
		tb.Helper()
		if !errors.Is(err, want) {
			tb.Errorf("got %v, want %v", err, want)
		}
	}
}

// service is a fake of the routes that issue numbers. Several nodes may share one.
type service struct {
	mu       sync.Mutex
	next     map[string]int64
	answers  map[string][]string // by Idempotency-Key
	maxCount int
	shown    func(n int64) string
}

func newService() *service {
	return &service{next: map[string]int64{}, answers: map[string][]string{}, maxCount: 10_000, shown: func(n int64) string { return strconv.FormatInt(n, 10) }}
}

// take issues n numbers.
func (s *service) take(bizType, key string, n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.answers[key]; key != "" && kept != nil {
		return kept
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.shown(s.next[bizType])
		s.next[bizType]++
	}
	if key != "" {
		s.answers[key] = ids
	}
	return ids
}

func (s *service) issued(bizType string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next[bizType]
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
	bizType, found := strings.CutPrefix(r.URL.Path, "/seq/")
	if !found || strings.Contains(bizType, "/") {
		refuse(w, 404, "not_found", "there is nothing at this path")
		return
	}
	count, batch := 1, r.URL.Query().Has("count")
	if batch {
		count, _ = strconv.Atoi(r.URL.Query().Get("count"))
	}
	s.mu.Lock()
	most := s.maxCount
	s.mu.Unlock()
	if count < 1 || count > most {
		refuse(w, 400, "invalid_count", fmt.Sprintf("count must be a whole number from 1 to %d", most))
		return
	}
	ids := s.take(bizType, r.Header.Get("Idempotency-Key"), count)
	switch {
	case r.Header.Get("Accept") == "text/plain":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, strings.Join(ids, "\n")+"\n")
	case batch:
		answerJSON(w, map[string]any{"bizType": bizType, "ids": ids})
	default:
		answerJSON(w, map[string]any{"bizType": bizType, "id": ids[0]})
	}
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

func answerJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// refuse answers with a problem document.
func refuse(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "status": status, "code": code, "detail": detail})
}

// start starts a node.
func start(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// patience is how long tests wait for what has to happen, also on a slow machine.
const patience = 3 * time.Minute

// dial returns a client whose calls begin with the first address. Over a network it is patient.
func dial(t testing.TB, cfg Config) *Client {
	t.Helper()
	if strings.HasPrefix(cfg.Addrs[0], "http://127.") {
		cfg.Timeout, cfg.Wait = cmp.Or(cfg.Timeout, patience), cmp.Or(cfg.Wait, patience)
	}
	c := must(New(cfg))(t)
	c.preferred.Store(0)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// roundTrip is a transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// respond returns an answer as it comes from a transport.
func respond(status int, contentType, body string, header ...string) *http.Response {
	h := http.Header{"Content-Type": {contentType}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}
}

// problem is a problem document of the service.
func problem(status int, code string, header ...string) *http.Response {
	return respond(status, "application/problem+json", `{"code":"`+code+`","detail":"so it is"}`, header...)
}

// noLeaks fails a test that ends with more goroutines than it began with.
func noLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			now := runtime.NumGoroutine()
			if now <= before {
				return
			}
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Fatalf("%d goroutines, and %d before the test:\n%s", now, before, buf[:runtime.Stack(buf, true)])
			}
		}
	})
}
