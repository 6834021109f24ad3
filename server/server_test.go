package server_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// slow is a strategy whose Generate waits for the test.
type slow struct {
	entered, release chan struct{}
	closed           atomic.Int64
}

func (s *slow) Init(context.Context, bool) error { return nil }

func (s *slow) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	s.entered <- struct{}{}
	<-s.release
	seq.Add(7, n, 1)
	return nil
}

func (s *slow) Close(context.Context) error { s.closed.Add(1); return nil }

var theSlow = &slow{entered: make(chan struct{}), release: make(chan struct{})}

func init() {
	for _, name := range []string{"slow", "other"} {
		strategy.Register(strategy.Factory{
			Name:     name,
			Settings: func() any { return &struct{}{} },
			New:      func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return theSlow, nil },
			Shape:    func(seqd.BizType) string { return name },
		})
	}
}

// service is a server.Run under test.
type service struct {
	t      *testing.T
	url    string
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
	err    error
}

// patient are time-outs that a slow machine does not meet, by their keys.
var patient = map[string]string{
	"server.readHeaderTimeout": "1h", "server.readTimeout": "1h", "server.writeTimeout": "1h", "server.idleTimeout": "24h",
	"server.pluginTimeout": "1m", "server.stopTimeout": "10m", "segment.acquireTimeout": "1m", "gapless.acquireTimeout": "1m",
}

// load returns a configuration whose time-outs are patient, except those that yaml names.
func load(t *testing.T, yaml string) *config.Config {
	t.Helper()
	flags := map[string]string{"server.addr": "127.0.0.1:0"}
	for key, value := range patient {
		if _, name, _ := strings.Cut(key, "."); !strings.Contains(yaml, name) {
			flags[key] = value
		}
	}
	return must.Get(config.LoadYAML([]byte(yaml), config.Sources{Flags: flags}))(t)
}

// start runs the server until its port is open.
func start(t *testing.T, cfg *config.Config, opts ...server.Option) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening := make(chan net.Addr, 1)
	s := &service{t: t, cancel: cancel, ended: make(chan error, 1)}
	opts = append([]server.Option{
		server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithOnListen(func(a net.Addr) { listening <- a }),
	}, opts...)
	go func() { s.ended <- server.Run(ctx, cfg, opts...) }()
	select {
	case addr := <-listening:
		s.url = "http://" + addr.String()
	case err := <-s.ended:
		t.Fatalf("the server ended: %v", err)
	}
	t.Cleanup(func() { _ = s.stop() })
	return s
}

// stop stops the server and returns what Run returned.
func (s *service) stop() error {
	s.once.Do(func() { s.cancel(); s.err = <-s.ended })
	return s.err
}

func (s *service) get(path string) (status int, body string) {
	s.t.Helper()
	resp := must.Get(http.Get(s.url + path))(s.t)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))(s.t)
	return resp.StatusCode, strings.TrimSuffix(string(data), "\n")
}

// await repeats a request until the answer has the status.
func (s *service) await(path string, want int) string {
	s.t.Helper()
	var body string
	await.Eventually(s.t, fmt.Sprintf("%s says %d", path, want), func() error {
		var status int
		if status, body = s.get(path); status != want {
			return fmt.Errorf("it says %d: %s", status, body)
		}
		return nil
	})
	return body
}

// byHand starts a server that a test drains and stops itself, and returns it when it issues: so the
// drain takes as long as the test needs.
func byHand(t *testing.T, cfg *config.Config, opts ...server.Option) (*service, *server.Server) {
	t.Helper()
	s := &service{t: t}
	running := server.New(cfg, append([]server.Option{
		server.WithLogger(slog.New(slog.DiscardHandler)),
		server.WithOnListen(func(a net.Addr) { s.url = "http://" + a.String() }),
	}, opts...)...)
	t.Cleanup(func() { _ = running.Stop() })
	must.Do(t, running.Start(t.Context()))
	s.await("/readyz", http.StatusOK)
	return s, running
}

func wantCode(t *testing.T, body string, code seqd.Code) {
	t.Helper()
	var p struct{ Code seqd.Code }
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Code != code {
		t.Errorf("the answer is %s, %v, want the code %s", body, err, code)
	}
}

// While the store waits for its lock, the port is open and answers say so. A stop then is clean.
func TestPortOpensBeforeTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	holder := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	s := start(t, load(t, fmt.Sprintf("store: {bolt: {path: %s, lockTimeout: 1m}}\nbizTypes: [{name: order}]", path)))
	if status, body := s.get("/healthz"); status != http.StatusOK {
		t.Errorf("healthz says %d: %s", status, body)
	}
	for _, route := range []string{"/readyz", "/seq/order", "/seq/order/parse/1"} {
		status, body := s.get(route)
		must.Equal(t, status, http.StatusServiceUnavailable, "the status of %s: %s", route, body)
		wantCode(t, body, seqd.CodeStarting)
	}
	must.Do(t, holder.Close())
	s.await("/seq/order", http.StatusOK)
	must.Report(t, s.stop())
}

func TestStoreThatCannotBeOpenedEndsRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	holder, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	must.Do(t, err)
	defer holder.Close()
	cfg := load(t, fmt.Sprintf("store: {bolt: {path: %s, lockTimeout: 50ms}}\nbizTypes: [{name: order}]", path))
	err = server.Run(t.Context(), cfg, server.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("error %v", err)
	}
}

func TestAddressInUse(t *testing.T) {
	cfg := load(t, "store: {driver: memory}\nbizTypes: [{name: order}]")
	s := start(t, cfg)
	again := *cfg
	again.Server.Addr = strings.TrimPrefix(s.url, "http://")
	err := server.Run(t.Context(), &again, server.WithLogger(slog.New(slog.DiscardHandler)))
	if err == nil || !strings.Contains(err.Error(), "server.addr") || !strings.Contains(err.Error(), again.Server.Addr) {
		t.Errorf("error %v", err)
	}
}

// In a clean stop, first readyz reports it, then requests in progress complete, and then the store
// is closed.
func TestStopInOrder(t *testing.T) {
	s, running := byHand(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order, strategy: slow}, {name: quick}]"))
	closed := theSlow.closed.Load() // other tests close it too
	answer := make(chan string)
	go func() { _, body := s.get("/seq/order"); answer <- body }()
	<-theSlow.entered
	running.Drain()
	status, body := s.get("/readyz")
	must.Equal(t, status, http.StatusServiceUnavailable, "the status of readyz: %s", body)
	wantCode(t, body, seqd.CodeStopping)
	if status, body := s.get("/seq/quick"); status != http.StatusOK {
		t.Errorf("while draining, a request got %d: %s", status, body)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Stop() }()
	await.True(t, "the listener is closed", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			return true
		}
		_ = c.Close()
		return false
	})
	select {
	case err := <-ended:
		t.Fatalf("ended with a request under way: %v", err)
	default:
	}
	if theSlow.closed.Load() > closed {
		t.Error("the strategy was closed with a request under way")
	}
	theSlow.release <- struct{}{}
	must.Equal(t, <-answer, `{"bizType":"order","id":"7"}`, "the request under way")
	must.Report(t, <-ended)
}

// A request that does not end is cut off after stopTimeout, and that is an error.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	cfg := load(t, "server: {stopTimeout: 1s}\nstore: {driver: memory}\nbizTypes: [{name: order, strategy: slow}]")
	s := start(t, cfg)
	s.await("/readyz", http.StatusOK)
	cut := make(chan error)
	go func() {
		resp, err := http.Get(s.url + "/seq/order")
		if err == nil {
			_ = resp.Body.Close()
		}
		cut <- err
	}()
	<-theSlow.entered
	err := s.stop()
	theSlow.release <- struct{}{}
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stopTimeout") {
		t.Errorf("error %v", err)
	}
	if err := <-cut; err == nil {
		t.Error("the request was answered")
	}
}

// stamp is a plugin that shows a text before each number and rejects batches of thirteen.
type stamp struct{ text string }

func (p stamp) Before(_ context.Context, call *seqd.Call) error {
	if call.Count == 13 {
		return seqd.Errorf(seqd.CodeForbidden, "not thirteen")
	}
	return nil
}

func (p stamp) After(_ context.Context, call *seqd.Call) error {
	call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, p.text...), shown...) })
	return nil
}

func (p stamp) OnError(context.Context, *seqd.Call, *seqd.Error) {}

type stampSettings struct {
	Text string `config:"text"`
}

func init() {
	text := func(b seqd.PluginBinding) string { return b.Settings.(*stampSettings).Text }
	plugin.Register(plugin.Factory{
		Name:     "stamp",
		Order:    200,
		Settings: func() any { return &stampSettings{} },
		New: func(_ plugin.Env, _ seqd.BizType, b seqd.PluginBinding) (seqd.Plugin, error) {
			if text(b) == "bad" {
				return nil, errors.New("a text that only New can refuse")
			}
			return stamp{text(b)}, nil
		},
		Shape: func(_ seqd.BizType, b seqd.PluginBinding) (string, error) {
			if text(b) == "lost" {
				return "", errors.New("a shape that cannot be read")
			}
			return text(b), nil
		},
	})
}

// Plugins of the configuration wrap issuing, and how they change numbers is part of the shape (U6).
func TestPlugins(t *testing.T) {
	text := fmt.Sprintf("bizTypesFrom: config\nstore: {bolt: {path: %s}}\nbizTypes: [{name: order, plugins: %%s}]", filepath.Join(t.TempDir(), "seqd.db"))
	run := func(plugins string, check func(*service)) {
		t.Helper()
		s := start(t, load(t, fmt.Sprintf(text, plugins)))
		check(s)
		must.Do(t, s.stop())
	}
	issues := func(want string) func(*service) {
		return func(s *service) {
			t.Helper()
			if body := s.await("/seq/order", http.StatusOK); !strings.Contains(body, want) {
				t.Errorf("got %s, want %s", body, want)
			}
		}
	}
	refuses := func(s *service) {
		t.Helper()
		wantCode(t, s.await("/seq/order", http.StatusConflict), seqd.CodeConflict)
	}
	run("[{name: stamp, text: B-}, {name: stamp, text: A-, order: 100}]", func(s *service) {
		issues(`"B-A-1"`)(s)
		wantCode(t, s.await("/seq/order?count=13", http.StatusForbidden), seqd.CodeForbidden)
	})
	run("[{name: stamp, text: A-, order: 100}, {name: stamp, text: B-}]", issues(`"B-A-2"`))
	run("[{name: stamp, text: B-, order: 100}, {name: stamp, text: A-}]", refuses)
	run("[{name: stamp, text: B-}]", refuses)
	run("[]", refuses)
	run("[{name: stamp, text: A-, order: 1}, {name: stamp, text: B-, order: 2}]", issues(`"B-A-3"`))
	// An unusable plugin stops only its biz type.
	for stamp, want := range map[string]string{"bad": "a text that only New can refuse", "lost": "a shape that cannot be read"} {
		var log testlog.Text
		s := start(t, load(t, fmt.Sprintf(text, "[{name: stamp, text: "+stamp+"}]}, {name: other")), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s.await("/seq/other", http.StatusOK)
		refuses(s)
		if err := s.stop(); err != nil || log.Count(want) == 0 {
			t.Errorf("error %v; the log does not say: %s", err, want)
		}
	}
}

func TestOptionsAreUsed(t *testing.T) {
	var rejected seqd.Code
	o := &counting{}
	s := start(t, load(t, "segment: {acquireTimeout: 10ms}\nstore: {driver: memory}\nbizTypes: [{name: order, start: 9007199254740991}]"),
		server.WithObserver(o), server.WithClock(time.Now),
		server.WithRejected(seqd.RejectedHandlerFunc(func(_ context.Context, _ *seqd.Call, err *seqd.Error) { rejected = err.Code })))
	s.await("/seq/order", http.StatusOK)
	wantCode(t, s.await("/seq/order", http.StatusConflict), seqd.CodeExhausted)
	must.Do(t, s.stop())
	if o.issued != 1 || rejected != seqd.CodeExhausted {
		t.Errorf("%d issued, rejected with %q", o.issued, rejected)
	}
}

type counting struct {
	seqd.NopObserver
	mu     sync.Mutex
	issued int
}

func (c *counting) Issued(_ string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued += n
}

// spied is the last Env that a strategy called spy was built from.
var spied atomic.Pointer[strategy.Env]

func init() {
	strategy.Register(strategy.Factory{
		Name:     "spy",
		Settings: func() any { return &struct{}{} },
		New: func(env strategy.Env, _ seqd.BizType) (seqd.Strategy, error) {
			spied.Store(&env)
			return theSlow, nil
		},
		Shape: func(seqd.BizType) string { return "spy" },
	})
}

// The Env of strategies: without addresses there is no Redis, and the cluster ID is that of the
// store.
func TestEnv(t *testing.T) {
	text := fmt.Sprintf("store: {bolt: {path: %s}}\nbizTypes: [{name: order, strategy: spy}]\nredis: {timeout: 50ms", filepath.Join(t.TempDir(), "seqd.db"))
	clusters := make(map[string]bool)
	for _, more := range []string{"}", ", addrs: [127.0.0.1:1]}", ", addrs: [127.0.0.1:1], keyPrefix: mine}"} {
		s := start(t, load(t, text+more+"\n"))
		s.await("/readyz", http.StatusOK)
		env := spied.Load()
		must.Equal(t, env.Redis != nil, strings.Contains(more, "addrs"), "%s: there is a client", more)
		if got, want := env.RedisPrefix, "mine"; got != want && strings.Contains(more, want) {
			t.Errorf("the prefix is %q", got)
		}
		clusters[env.Cluster] = true
		must.Report(t, s.stop())
		if env.Redis != nil && !errors.Is(env.Redis.Ping(t.Context()).Err(), redis.ErrClosed) {
			t.Error("the client is not closed")
		}
	}
	for id := range clusters {
		if len(clusters) != 1 || len(id) != 32 {
			t.Errorf("the IDs of the cluster are %v", clusters)
		}
	}
}

// The service starts even if Redis is down or does not answer. It logs that once.
func TestRedisOutOfReach(t *testing.T) {
	t.Parallel()
	hanging := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer hanging.Close()
	for _, addr := range []string{"127.0.0.1:1", hanging.Addr().String()} {
		var log testlog.Text
		s := start(t, load(t, fmt.Sprintf("store: {driver: memory}\nredis: {addrs: [%q], timeout: 100ms}\nbizTypes: [{name: order}]", addr)),
			server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		s.await("/seq/order", http.StatusOK)
		time.Sleep(500 * time.Millisecond) // several checks
		must.Report(t, s.stop())
		// to connect can take too long as well
		named := log.Count("redis.addrs: ") + log.Count("redis.addrs, redis.timeout: ")
		if got := log.Count("Redis"); got != 1 || named != 1 {
			t.Errorf("Redis is named in %d lines: %s", got, &log)
		}
	}
}

// A server that is not Redis ends the start.
func TestRedisThatIsNone(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	cfg := load(t, fmt.Sprintf("store: {driver: memory}\nredis: {addrs: [%q]}\nbizTypes: [{name: order}]", strings.TrimPrefix(web.URL, "http://")))
	cfg.Redis.Timeout = await.Patience // more than a file may say: after a time-out the service would run on
	err := server.Run(t.Context(), cfg, server.WithLogger(slog.New(slog.DiscardHandler)))
	if !errors.Is(err, rediscursor.ErrUnfit) || !strings.Contains(err.Error(), "redis.addrs: ") {
		t.Errorf("error %v", err)
	}
}

// A server that rejects the certificate ends the start, even if the client first sees a closed
// connection.
func TestRedisThatHangsUp(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	must.Do(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer listener.Close()
	go func() {
		for i := 0; ; i++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			settings := &tls.Config{Certificates: web.TLS.Certificates}
			if i >= 3 {
				settings.ClientAuth = tls.RequireAnyClientCert
			}
			err = tls.Server(conn, settings).Handshake()
			if i < 3 {
				_ = conn.(*net.TCPConn).SetLinger(0)
			} else if err != nil {
				_, _ = io.Copy(io.Discard, conn) // so that closing resets nothing
			}
			_ = conn.Close()
		}
	}()
	cfg := load(t, fmt.Sprintf("store: {driver: memory}\nredis: {addrs: [%q], tls: {enabled: true, caFile: %s}}\nbizTypes: [{name: order}]", listener.Addr(), ca))
	cfg.Redis.Timeout = await.Patience
	err = server.Run(t.Context(), cfg, server.WithLogger(slog.New(slog.DiscardHandler)))
	if !errors.Is(err, rediscursor.ErrUnfit) || !strings.Contains(err.Error(), "redis.tls.certFile: ") {
		t.Errorf("error %v", err)
	}
}
