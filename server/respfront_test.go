package server_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// startResp runs a server with a port for Redis clients, and returns a client for it.
func startResp(t *testing.T, yaml string, change func(*redis.Options), opts ...server.Option) (*service, *redis.Client) {
	t.Helper()
	listening := make(chan net.Addr, 1)
	opts = append(opts, server.WithOnListenResp(func(a net.Addr) { listening <- a }))
	s := start(t, load(t, "resp: {addr: '127.0.0.1:0'}\nstore: {driver: memory}\n"+yaml), opts...)
	s.await("/readyz", http.StatusOK)
	settings := &redis.Options{Addr: (<-listening).String(), DialTimeout: await.Patience, ReadTimeout: await.Patience, MaxRetries: -1}
	if change != nil {
		change(settings)
	}
	rdb := redis.NewClient(settings)
	t.Cleanup(func() { _ = rdb.Close() })
	return s, rdb
}

// TestResp: both ports issue the same numbers, under the same limits, and are counted.
func TestResp(t *testing.T) {
	t.Parallel()
	s, rdb := startResp(t, "bizTypes: [{name: order, start: 100}]", nil, server.WithVersion("v7"))
	for i := range int64(3) {
		must.Equal(t, must.Get(rdb.Incr(t.Context(), "order").Result())(t), 100+2*i)
		if _, body := s.get("/seq/order"); !strings.Contains(body, `"10`+string(rune('1'+2*i))+`"`) {
			t.Error(body)
		}
	}
	if err := rdb.IncrBy(t.Context(), "order", 10_001).Err(); err == nil || err.Error() != "ERR invalid_count: count is 10001 and must be a whole number from 1 to 10000" {
		t.Error(err)
	}
	if info := rdb.Info(t.Context()).Val(); !strings.Contains(info, "seqd_version:v7\r\n") {
		t.Error(info)
	}
	_, shown := s.get("/metrics")
	for _, want := range []string{
		`seqd_resp_commands_total{code="ok",command="INCR"} 3`, `seqd_resp_commands_total{code="invalid_count",command="INCRBY"} 1`, "seqd_resp_connections 1",
		`seqd_ids_issued_total{biz_type="order"} 6`,
	} {
		if !strings.Contains(shown, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	must.Report(t, s.stop())
}

// TestRespTokens: tokens hold for both ports, and a deleted one ends at once.
func TestRespTokens(t *testing.T) {
	t.Parallel()
	auth := fmt.Sprintf("auth: {tokens: [{name: ops, sha256: %q, scopes: [admin]}]}\n", access.DigestOf("ops-secret").Hex())
	s, rdb := startResp(t, "bizTypes: [{name: order}]\n"+auth, nil)
	if err := rdb.Incr(t.Context(), "order").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH unauthorized: ") {
		t.Errorf("without a token: %v", err)
	}
	var made struct{ Secret string }
	answer := s.want(201, "POST", "/tokens", "ops-secret", `{"name":"till","scopes":["issue:order"]}`)
	must.Do(t, json.Unmarshal([]byte(answer), &made))
	with := redis.NewClient(&redis.Options{Addr: rdb.Options().Addr, DialTimeout: await.Patience, ReadTimeout: await.Patience, Password: made.Secret, PoolSize: 1, MaxRetries: -1})
	defer with.Close()
	for want := range int64(2) {
		must.Equal(t, must.Get(with.Incr(t.Context(), "order").Result())(t), want+1)
	}
	s.want(204, "DELETE", "/tokens/till", "ops-secret", "")
	if err := with.Incr(t.Context(), "order").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH unauthorized: ") {
		t.Errorf("with a deleted token: %v", err)
	}
}

// TestRespDrain: commands are answered while the node is being drained, and a stop ends
// connections.
func TestRespDrain(t *testing.T) {
	t.Parallel()
	var addr string
	s, running := byHand(t, load(t, "resp: {addr: '127.0.0.1:0'}\nstore: {driver: memory}\nbizTypes: [{name: order}]"),
		server.WithOnListenResp(func(a net.Addr) { addr = a.String() }))
	rdb := redis.NewClient(&redis.Options{Addr: addr, DialTimeout: await.Patience, ReadTimeout: await.Patience, MaxRetries: -1})
	defer rdb.Close()
	must.Do(t, rdb.Incr(t.Context(), "order").Err())
	idle := rdb.Conn()
	defer idle.Close()
	must.Do(t, idle.Ping(t.Context()).Err())
	running.Drain()
	if status, body := s.get("/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz says %d: %s", status, body)
	}
	must.Equal(t, must.Get(rdb.Incr(t.Context(), "order").Result())(t), 2, "while drained")
	if err := running.Stop(); err != nil { // if the idle connection held it up
		t.Error(err)
	}
	if err := rdb.Incr(t.Context(), "order").Err(); err == nil {
		t.Error("the stopped service answers")
	}
}

// TestRespOverTLS: the port speaks TLS with the certificate of the service.
func TestRespOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := config.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	roots := certificateFiles(t, files)
	listening := make(chan net.Addr, 1)
	start(t, load(t, "resp: {addr: '127.0.0.1:0'}\nserver: {tls: {certFile: '"+files.CertFile+"', keyFile: '"+files.KeyFile+"'}}\nstore: {driver: memory}\nbizTypes: [{name: order}]"),
		server.WithOnListenResp(func(a net.Addr) { listening <- a }))
	rdb := redis.NewClient(&redis.Options{Addr: (<-listening).String(), DialTimeout: await.Patience, ReadTimeout: await.Patience, MaxRetries: 20, TLSConfig: &tls.Config{RootCAs: roots, ServerName: "seqd.example"}})
	defer rdb.Close()
	must.Equal(t, must.Get(rdb.Incr(t.Context(), "order").Result())(t), 1)
}

// TestRespPortInUse: a port that is taken ends the start with an error that names it, and leaves
// nothing open.
func TestRespPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer taken.Close()
	cfg := load(t, "resp: {addr: '"+taken.Addr().String()+"'}\nstore: {driver: memory}\nbizTypes: [{name: order}]")
	opened := false
	err = server.Run(context.Background(), cfg, server.WithOnListen(func(net.Addr) { opened = true }))
	if err == nil || !strings.HasPrefix(err.Error(), "resp.addr: ") || opened {
		t.Errorf("got %v, opened %t", err, opened)
	}
}

// TestRespTraces: commands that share a take have one span, which tells no secret.
func TestRespTraces(t *testing.T) {
	t.Parallel()
	var collector tracingtest.Collector
	c := httptest.NewServer(&collector)
	t.Cleanup(c.Close)
	s, rdb := startResp(t, "tracing: {endpoint: '"+c.URL+"', sampleRatio: 1}\nbizTypes: [{name: order}]", nil)
	must.Get(rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Incr(t.Context(), "order")
		return p.IncrBy(t.Context(), "order", 10).Err()
	}))(t)
	if err := rdb.Incr(t.Context(), "seqd_secret/").Err(); err == nil {
		t.Error("it has no such biz type")
	}
	must.Do(t, s.stop())
	spans := 0
	for _, span := range collector.Spans() {
		a := span.Attributes
		switch {
		case span.Name != "INCR":
		case a["seqd.biz_type"] == "order" && a["seqd.commands"] == "2" && a["seqd.count"] == "11" && a["network.protocol.name"] == "redis":
			spans++
		case a["error.type"] == "invalid_biz_type" && a["seqd.biz_type"] == "":
			spans++
		}
	}
	must.Equal(t, spans, 2, "the spans of %+v", collector.Spans())
}
