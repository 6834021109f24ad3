package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

// hook is a receiver of rejections.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	rejected map[string]int // by biz type and code
	secrets  map[string]bool
	conns    map[string]bool // the addresses of clients
}

func newHook(t *testing.T) *hook {
	h := &hook{rejected: make(map[string]int), secrets: make(map[string]bool), conns: make(map[string]bool)}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var post struct {
		Refused []struct{ BizType, Code, Detail, RequestID string }
		Dropped int
	}
	err := json.NewDecoder(r.Body).Decode(&post)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || post.Dropped != 0 {
		h.rejected["unreadable or dropped"]++
	}
	h.secrets[r.Header.Get("X-Seqd-Signature")] = true
	h.conns[r.RemoteAddr] = true
	for _, refusal := range post.Refused {
		if refusal.Detail == "" || refusal.RequestID == "" {
			refusal.Code = "incomplete"
		}
		h.rejected[refusal.BizType+" "+refusal.Code]++
	}
}

// Biz types share the webhook of their strategy's section, or have their own. A stop posts the
// queue. Stats count the same rejections, although the plugin that rejects runs before them.
func TestWebhook(t *testing.T) {
	shared, own := newHook(t), newHook(t)
	s := start(t, load(t, fmt.Sprintf(`
store: {bolt: {path: %s}}
segment: {rejected: [{name: webhook, url: "%s/x", timeout: 1m}]}
bizTypes:
  - {name: a, plugins: [&limit {name: rate-limit, rate: 0.001, burst: 2}, {name: stats}]}
  - {name: b, plugins: [*limit]}
  - {name: c, plugins: [*limit], rejected: [{name: log}, {name: webhook, url: "%s", timeout: 1m, secret: s}]}
  - {name: d, plugins: [*limit], rejected: []}
`, filepath.Join(t.TempDir(), "seqd.db"), shared.URL, own.URL)))
	s.await("/readyz", http.StatusOK)
	for range 5 {
		for _, name := range []string{"a", "b", "c", "d"} {
			s.get("/seq/" + name)
		}
	}
	_, stats := s.get("/biz-types/a/stats")
	for _, want := range []string{`"issued":2,"requests":2,"refused":{"rate_limited":3}`, `"bizType":"a"`} {
		if !strings.Contains(stats, want) {
			t.Errorf("stats are %s", stats)
		}
	}
	if status, body := s.get("/biz-types/a/stats?from=x"); status != http.StatusBadRequest {
		t.Errorf("a query parameter of stats: %d, %s", status, body)
	}
	must.Do(t, s.stop())
	must.Equal(t, fmt.Sprint(shared.rejected), "map[a rate_limited:3 b rate_limited:3]", "the shared receiver")
	must.Equal(t, fmt.Sprint(own.rejected), "map[c rate_limited:3]", "the receiver of c")
	if len(shared.conns) != 1 || !shared.secrets[""] || own.secrets[""] {
		t.Errorf("%d connections to the shared receiver, signatures %v and %v", len(shared.conns), shared.secrets, own.secrets)
	}
}

// grumpy is a rejection handler that panics. Its Close waits until all handlers of this kind are
// being closed.
type grumpy struct{ closing *sync.WaitGroup }

func (grumpy) Rejected(context.Context, *seqd.Call, *seqd.Error) { panic("not now") }

func (g grumpy) Close(ctx context.Context) error {
	all := make(chan struct{})
	g.closing.Done()
	go func() { g.closing.Wait(); close(all) }()
	select {
	case <-all:
		return errors.New("good riddance")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func init() {
	var closing sync.WaitGroup
	plugin.RegisterRejected(plugin.RejectedFactory{
		Name:     "grumpy",
		Settings: func() any { return &stampSettings{} },
		New: func(plugin.Env, seqd.RejectedBinding) (seqd.RejectedHandler, error) {
			closing.Add(1)
			return grumpy{&closing}, nil
		},
	})
}

// A handler that panics does not affect the others, and a slow Close does not delay the closing of
// others.
func TestHandlersDoNotDisturbEachOther(t *testing.T) {
	h := newHook(t)
	s := start(t, load(t, fmt.Sprintf(`
store: {driver: memory}
bizTypes: [{name: a, plugins: [{name: rate-limit, rate: 0.001}], rejected: [{name: grumpy}, {name: webhook, url: "%s", timeout: 1m}, {name: grumpy}]}]
`, h.URL)))
	s.await("/readyz", http.StatusOK)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, body := s.get("/seq/a"); status != want {
			t.Errorf("got %d, want %d: %s", status, want, body)
		}
	}
	if err := s.stop(); err == nil || strings.Count(err.Error(), "close rejection handler grumpy: good riddance") != 2 {
		t.Errorf("error %v", err)
	}
	must.Equal(t, fmt.Sprint(h.rejected), "map[a rate_limited:1]", "the receiver")
}
