package resp_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/tracing"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// TestSpans: each run of requests for numbers, and each end of a reservation, is a span that says
// what it was and how it was answered.
func TestSpans(t *testing.T) {
	var collector tracingtest.Collector
	server := httptest.NewServer(&collector)
	defer server.Close()
	tracer := must.Get(tracing.New(tracing.Options{Endpoint: server.URL, Ratio: 1, Log: slog.New(slog.DiscardHandler)}))(t)
	broken := newCounter(1)
	broken.generate = func(context.Context) error { return seqd.Errorf(seqd.CodeStoreUnavailable, "away") }
	var log testlog.Text
	p := serve(t, func(set *settings) {
		set.resp.Tracer, set.gate.AccessLog, set.gate.Log = tracer, "on", slog.New(slog.NewTextHandler(&log, nil))
	}, define("order", newCounter(1)), define("broken", broken), define("invoice", newLedger())).dial(t)
	p.send(form("INCR", "order") + form("INCRBY", "order", "9") + form("INCR", "broken") + form("INCR", "seqd_secret") + form("SEQ.RESERVE", "invoice", "COUNT", "2") +
		form("SEQ.CONFIRM", "invoice", "r0") + form("SEQ.RELEASE", "invoice", "r7") + form("PING") + form("QUIT"))
	p.rest()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	tracer.Close(ctx)
	var got []string
	for _, span := range collector.Spans() {
		if span.Attributes["network.protocol.name"] != "redis" || span.Attributes["seqd.request_id"] == "" {
			t.Errorf("attributes %v", span.Attributes)
		}
		delete(span.Attributes, "network.protocol.name")
		delete(span.Attributes, "seqd.request_id")
		text := span.Name
		for _, key := range slices.Sorted(maps.Keys(span.Attributes)) {
			text += " " + key + "=" + span.Attributes[key]
		}
		if span.Failed {
			text += " failed"
		}
		got = append(got, text)
	}
	want := []string{
		"INCR error.type=store_unavailable seqd.biz_type=broken seqd.commands=1 seqd.count=1 failed",
		"INCR error.type=unknown_biz_type seqd.commands=1 seqd.count=1",
		"INCR seqd.biz_type=order seqd.commands=2 seqd.count=10",
		"SEQ.CONFIRM seqd.biz_type=invoice seqd.commands=1 seqd.count=2",
		"SEQ.RELEASE error.type=unknown_reservation seqd.biz_type=invoice seqd.commands=1 seqd.count=0",
		"SEQ.RESERVE seqd.biz_type=invoice seqd.commands=1 seqd.count=2",
	}
	if n := log.Count("traceId="); n != 5 { // what does not reach a biz type has none
		t.Errorf("%d lines name their trace:\n%s", n, &log)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("spans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSettlementsAreLogged: the end of a reservation is one line of the access log, done or
// refused.
func TestSettlementsAreLogged(t *testing.T) {
	var log testlog.Text
	p := serve(t, func(set *settings) {
		set.gate.AccessLog, set.gate.Log = "on", slog.New(slog.NewTextHandler(&log, nil))
	}, define("invoice", newLedger())).dial(t)
	p.send(form("SEQ.RESERVE", "invoice", "COUNT", "2") + form("SEQ.CONFIRM", "invoice", "r0") + form("SEQ.RELEASE", "invoice", "r7") + form("QUIT"))
	p.rest()
	got := log.String()
	for _, want := range []string{
		"command=SEQ.RESERVE bizType=invoice commands=1 count=2 code=ok", "command=SEQ.CONFIRM bizType=invoice commands=1 count=2 code=ok", "command=SEQ.RELEASE bizType=invoice code=unknown_reservation",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	must.Equal(t, strings.Count(got, "msg=command"), 3, "the commands in %s", got)
}

// counts counts answers by command and code.
type counts struct {
	mu sync.Mutex
	by map[string]int
}

func (m *counts) Command(name string) func(seqd.Code, int) {
	return func(code seqd.Code, n int) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.by[strings.TrimSpace(name+" "+string(code))] += n
	}
}

// TestCounts: each command is counted once, with its code.
func TestCounts(t *testing.T) {
	m := &counts{by: map[string]int{}}
	p := serve(t, func(set *settings) { set.resp.Metrics = m }, define("order", newCounter(1)), define("invoice", newLedger())).dial(t)
	p.send(form("INCR", "order") + form("INCR", "order") + form("INCRBY", "order", "5") + form("INCRBY", "order", "0") + form("INCR", "none") + form("SEQ.NEXT", "order") +
		form("SEQ.RESERVE", "invoice") + form("SEQ.CONFIRM", "invoice", "r0") + form("SEQ.CONFIRM", "invoice", "r7") + form("PING") + form("GET", "x") + form("QUIT"))
	p.rest()
	p.Close()
	want := map[string]int{
		"INCR": 2, "INCRBY": 1, "INCRBY invalid_count": 1, "INCR unknown_biz_type": 1, "SEQ.NEXT": 1, "SEQ.RESERVE": 1, "SEQ.CONFIRM": 1, "SEQ.CONFIRM unknown_reservation": 1,
		"PING": 1, "other invalid_request": 1, "QUIT": 1,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.by, want) {
		t.Errorf("counted %v, want %v", m.by, want)
	}
}

// asked is a guard that counts how often it is asked, and lets everybody in.
type asked struct{ times atomic.Int64 }

func (a *asked) Allow([]string, string, string) (access.Identity, error) {
	return access.Identity{Name: "shop"}, nil
}

func (a *asked) AllowDigest(*access.Digest, string, string) (access.Identity, error) {
	a.times.Add(1)
	return access.Identity{Name: "shop"}, nil
}

// TestTokensAreCheckedOnce: the token of commands that share a take is checked once.
func TestTokensAreCheckedOnce(t *testing.T) {
	a := &asked{}
	p := serve(t, func(set *settings) { set.gate.Guard = a }, define("order", newCounter(1))).dial(t)
	p.send(strings.Repeat(form("INCR", "order"), 5) + form("QUIT"))
	p.rest()
	must.Equal(t, a.times.Load(), 1, "the times that it was checked")
}
