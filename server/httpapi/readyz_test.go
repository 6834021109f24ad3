package httpapi_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
)

// detailed is a strategy that reports details.
type detailed struct{ *counter }

func (detailed) Details() map[string]any {
	return map[string]any{"machineId": 333, "advertiseIp": "192.0.2.9"}
}

// TestReadinessOfStrangers checks that, with tokens, only callers with the scope read see names,
// machine IDs and addresses. Others see the status.
func TestReadinessOfStrangers(t *testing.T) {
	well := detailed{newCounter(1)}
	limping, sick := detailed{newCounter(1)}, detailed{newCounter(1)}
	limping.degraded = seqd.Errorf(seqd.CodeRedisUnavailable, "redis.internal does not answer")
	sick.health = seqd.Errorf(seqd.CodeStoreUnavailable, "store.internal does not answer")
	api := newGuarded(t)
	for _, tt := range []struct {
		strategy seqd.Strategy
		status   int
		stranger string // without the request's ID
		reader   []string
	}{
		{well, 200, `{"status":"ready"}`, []string{`"status":"ready"`, "invoice", "333", "192.0.2.9"}},
		{limping, 200, `{"status":"degraded"}`, []string{`"status":"degraded"`, `"degraded":1`, "invoice", "redis.internal", "333"}},
		{sick, 503, `{"type":"errors/store_unavailable","title":"Service Unavailable","status":503,"code":"store_unavailable","detail":"biz types cannot issue; a caller whose token has the scope read is told which and why",`,
			[]string{`"code":"store_unavailable"`, `"unready":1`, "invoice", "store.internal", "333"}},
	} {
		issuer := newIssuer(t, define("invoice", tt.strategy))
		issuer.Init(t.Context())
		ready(api, issuer)
		for _, header := range []string{"Accept: */*", auth("nobody"), auth("shop"), auth("expired"), auth("disabled"), "Authorization: Basic x"} {
			w := do(t, api, "GET", "/readyz", header)
			rest, ok := strings.CutPrefix(w.Body.String(), tt.stranger)
			if w.Code != tt.status || !ok || rest != "" && !strings.HasPrefix(rest, `"requestId":"`) || strings.Count(rest, ",") > 0 {
				t.Errorf("%s: %d %s", header, w.Code, w.Body)
			}
			if after := w.Header().Get("Retry-After"); (after != "") != (tt.status == 503) {
				t.Errorf("%s: Retry-After is %q", header, after)
			}
		}
		for _, name := range []string{"reader", "ops"} {
			w := do(t, api, "GET", "/readyz", auth(name))
			must.Equal(t, w.Code, tt.status, "%s", name)
			for _, want := range tt.reader {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("%s is not told %s: %s", name, want, w.Body)
				}
			}
		}
	}
}

// slow is a strategy that takes long to say how it is.
type slow struct {
	detailed
	looks *atomic.Int64
}

func (s slow) Health() error {
	s.looks.Add(1)
	time.Sleep(100 * time.Millisecond)
	return nil
}

// However many strangers ask at once, a node with many biz types looks at them once for all who
// asked before, and rests.
func TestReadinessIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, looks := newGuarded(t), new(atomic.Int64)
		issuer := newIssuer(t, define("invoice", slow{detailed{newCounter(1)}, looks}))
		issuer.Init(t.Context())
		ready(api, issuer)
		looks.Store(0)
		did := do(t, api, "GET", "/readyz")
		each := looks.Load()
		began := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if w := do(t, api, "GET", "/readyz"); w.Code != did.Code {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		if n, took := looks.Load()-each, time.Since(began); each == 0 || n != each || took != 700*time.Millisecond { // a rest, and a look
			t.Errorf("50 probes looked %d times in %s, one looks %d times", n, took, each)
		}
	})
}

// Nodes whose definitions come from different places are ready, and say so.
func TestReadinessWithMixedDefinitions(t *testing.T) {
	api := newGuarded(t)
	issuer := newIssuer(t, define("invoice", newCounter(1)))
	issuer.Init(t.Context())
	mixed := seqd.Errorf(seqd.CodeConflict, "config at a, store at b")
	api.Gate().Ready(&gate.Running{Issuer: issuer, Troubles: func() (store, definitions, coordinator *seqd.Error) { return nil, mixed, nil }})
	for name, want := range map[string]string{
		"shop": `{"status":"degraded"}`, "reader": `{"status":"degraded","definitions":{"code":"conflict","detail":"config at a, store at b"}}`,
	} {
		if w := do(t, api, "GET", "/readyz", auth(name)); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s is told %d %s", name, w.Code, w.Body)
		}
	}
}

// A node whose coordinator is away issues, and says so.
func TestReadinessWithoutCoordinator(t *testing.T) {
	api := newGuarded(t)
	issuer := newIssuer(t, define("invoice", newCounter(1)))
	issuer.Init(t.Context())
	away := seqd.Errorf(seqd.CodeNoCoordinator, "it is away")
	api.Gate().Ready(&gate.Running{Issuer: issuer, Troubles: func() (store, definitions, coordinator *seqd.Error) { return nil, nil, away }})
	const want = `{"status":"degraded","coordinator":{"code":"no_coordinator","detail":"it is away"}}`
	if w := do(t, api, "GET", "/readyz", auth("reader")); w.Code != 200 || w.Body.String() != want {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// After a failover of the store a node is degraded and not unready, also if a biz type cannot
// begin: all nodes lack the same counters.
func TestReadinessAfterAFailover(t *testing.T) {
	api := newGuarded(t)
	lost := newCounter(1)
	lost.health = seqd.Errorf(seqd.CodeStoreFailedOver, "its counter may be lost")
	issuer := newIssuer(t, define("invoice", newCounter(1)), define("order", lost))
	issuer.Init(t.Context())
	var failedOver *seqd.Error
	api.Gate().Ready(&gate.Running{Issuer: issuer, Troubles: func() (store, definitions, coordinator *seqd.Error) { return failedOver, nil, nil }})
	for _, why := range []*seqd.Error{seqd.Errorf(seqd.CodeStoreFailedOver, "run seqd failover"), nil} {
		failedOver = why
		if w := do(t, api, "GET", "/readyz", auth("shop")); w.Code != 200 || w.Body.String() != `{"status":"degraded"}` {
			t.Errorf("a stranger is told %d %s", w.Code, w.Body)
		}
		w := do(t, api, "GET", "/readyz", auth("reader"))
		store := strings.Contains(w.Body.String(), `"store":{"code":"store_failed_over","detail":"run seqd failover"}`)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"bizType":"order","code":"store_failed_over"`) || store != (why != nil) {
			t.Errorf("an operator is told %d %s", w.Code, w.Body)
		}
	}
}

func TestOverview(t *testing.T) {
	api := newStarting(t)
	wantProblem(t, do(t, api, "GET", "/overview"), 503, "starting")
	ready(api, newIssuer(t))
	w := do(t, api, "GET", "/overview")
	if wantBody(t, w, jsonType, "{}"); w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %v", w.Header())
	}
}

// still are figures of a cluster in which nothing happens.
type still struct{}

func (still) Overview(context.Context) ([]byte, error) { return []byte("{}\n"), nil }
