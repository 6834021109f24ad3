package ratelimit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/ratelimit"
)

// missing is a Redis that cannot be reached. It counts attempts.
type missing struct{ tried atomic.Int64 }

func (m *missing) client(t *testing.T) redis.UniversalClient {
	client := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		m.tried.Add(1)
		return nil, errors.New("nobody there")
	}})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func clusterOf(t *testing.T, env plugin.Env) seqd.Plugin {
	s := settings(1, 3)
	s.Scope = ratelimit.Cluster
	return build(t, env, bound(s), 0)
}

// TestRedisAway checks that, while Redis cannot be reached, the same limit holds on this node,
// Redis is tried once per second, and this is logged once.
func TestRedisAway(t *testing.T) {
	m, c, log := &missing{}, newClock(), &bytes.Buffer{}
	p := clusterOf(t, plugin.Env{Redis: m.client(t), Now: c.now, Log: slog.New(slog.NewTextHandler(log, nil))})
	must.Equal(t, passes(p, "shop", 1), 3, "passed")
	tried := m.tried.Load()
	if tried == 0 {
		t.Error("Redis was not tried")
	}
	for range 5 {
		c.add(100 * time.Millisecond)
		_, _ = ask(p, "shop", 1)
	}
	must.Equal(t, m.tried.Load(), tried, "Redis was tried again too soon")
	c.add(time.Second)
	if n := passes(p, "shop", 1); n != 1 || m.tried.Load() == tried {
		t.Errorf("%d passed after 1.5s, Redis was tried %d times", n, m.tried.Load())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "nobody there") {
		t.Errorf("logged %d lines: %s", n, log)
	}
}

// TestRedisKnownAway checks that a Redis that is known to be away is not tried.
func TestRedisKnownAway(t *testing.T) {
	m, log := &missing{}, &bytes.Buffer{}
	p := clusterOf(t, plugin.Env{Redis: m.client(t), Now: newClock().now, Log: slog.New(slog.NewTextHandler(log, nil)),
		RedisAway: func() (time.Time, error) { return time.Now(), errors.New("since noon") }})
	if n := passes(p, "", 1); n != 3 || m.tried.Load() != 0 {
		t.Errorf("%d passed, Redis was tried %d times", n, m.tried.Load())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "since noon") {
		t.Errorf("logged %d lines: %s", n, log)
	}
}

// TestCallerGone checks that a caller that has gone does not make Redis count as away.
func TestCallerGone(t *testing.T) {
	m, log := &missing{}, &bytes.Buffer{}
	p := clusterOf(t, plugin.Env{Redis: m.client(t), Now: newClock().now, Log: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Before(ctx, &seqd.Call{BizType: "order", Count: 1})
	if seqd.CodeOf(err) != seqd.CodeCanceled || log.Len() > 0 {
		t.Errorf("%v, logged %s", err, log)
	}
}

// fallback returns what the plugin measures, nil for nothing.
func fallback(p seqd.Plugin) (values []float64) {
	p.(seqd.Measurer).Measure(func(m seqd.Measurement) {
		if m.Gauge == seqd.GaugeFallback {
			values = append(values, m.Value)
		}
	})
	return values
}

// TestMeasureFallback checks that a shared limit reports whether each node limits on its own.
func TestMeasureFallback(t *testing.T) {
	m, c := &missing{}, newClock()
	p := clusterOf(t, plugin.Env{Redis: m.client(t), Now: c.now, Log: slog.New(slog.DiscardHandler)})
	if got := fallback(p); !slices.Equal(got, []float64{0}) {
		t.Errorf("before the first request: %v", got)
	}
	_, _ = ask(p, "shop", 1)
	if got := fallback(p); !slices.Equal(got, []float64{1}) {
		t.Errorf("without Redis: %v", got)
	}
	if got := fallback(build(t, plugin.Env{Now: c.now}, bound(settings(1, 3)), 0)); got != nil {
		t.Errorf("a limit of this node: %v", got)
	}
}
