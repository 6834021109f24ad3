package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/certificate/certificatetest"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/logging"
	_ "github.com/seqd/seqd/standard"
)

// healthOf is what Healthcheck finds at an address.
func healthOf(t *testing.T, addr string, files config.TLS) (string, error) {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Addr, cfg.Server.TLS = addr, files
	return healthcheck(t.Context(), &cfg, await.Patience, new(net.Dialer).DialContext)
}

// runNode serves a memory store until the test ends, and returns the address.
func runNode(t *testing.T, flags map[string]string) string {
	t.Helper()
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nserver: {addr: '127.0.0.1:0'}\nbizTypes: [{name: order}]\n"), config.Sources{Flags: flags}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, cfg, server.WithLogger(logging.New(logging.Options{Level: "error"}, io.Discard)), server.WithOnListen(func(a net.Addr) { addr <- a.String() }))
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with %v", err)
		}
	})
	select {
	case a := <-addr:
		return a
	case err := <-ended:
		t.Fatalf("the node does not start: %v", err)
		return ""
	}
}

// awaitReady asks until the node is ready, and returns what the last Healthcheck said.
func awaitReady(t *testing.T, addr string, files config.TLS) string {
	t.Helper()
	var said string
	await.Eventually(t, "the node is ready", func() (err error) {
		if said, err = healthOf(t, addr, files); err == nil && (!strings.HasSuffix(said, "ready") || strings.Contains(said, "not ready")) {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
	return said
}

func TestHealthcheck(t *testing.T) {
	addr := runNode(t, nil)
	if got, want := awaitReady(t, addr, config.TLS{}), "http://"+addr+" is alive, ready"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A node that listens on every address is asked by IPv4: it may be in a container that has no ::1.
func TestHealthcheckReaches(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "[::ffff:0.0.0.0]:8080": "127.0.0.1:8080", "[::ffff:10.0.0.5]:8080": "10.0.0.5:8080",
		"10.1.2.3:80": "10.1.2.3:80", "localhost:80": "localhost:80", "[fe80::1%eth0]:80": "[fe80::1%eth0]:80",
	} {
		must.Equal(t, must.Get(reachable(addr))(t), want, "%s is asked at", addr)
	}
}

func TestHealthcheckOverTLS(t *testing.T) {
	files, other, expired := certificatetest.Files(t), certificatetest.Files(t), certificatetest.Files(t)
	for f, until := range map[config.TLS]time.Time{files: time.Now().Add(time.Hour), other: time.Now().Add(time.Hour), expired: time.Now().Add(-time.Minute)} {
		cert, key := certificatetest.Pair(t, "seqd", until)
		certificatetest.Put(t, f, cert, key)
	}
	flags := func(f config.TLS) map[string]string {
		return map[string]string{"server.tls.certFile": f.CertFile, "server.tls.keyFile": f.KeyFile}
	}
	addr := runNode(t, flags(files))
	if got, want := awaitReady(t, addr, files), "https://"+addr+" is alive, ready"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	late := runNode(t, flags(expired))
	if got, want := awaitReady(t, late, expired), "https://"+late+" is alive, ready"; got != want {
		t.Errorf("with a certificate that has expired it says %q, want %q", got, want)
	}
	if said, err := healthOf(t, addr, other); err == nil || !strings.Contains(err.Error(), "another certificate") {
		t.Errorf("a process with another certificate is %q (%v), want an error that says so", said, err)
	}
	if said, err := healthOf(t, addr, config.TLS{}); err == nil {
		t.Errorf("without TLS, a node that has it is %q, want an error", said)
	}
	if said, err := healthOf(t, runNode(t, nil), files); err == nil {
		t.Errorf("with TLS, a node without is %q, want an error", said)
	}
}

// What cannot be asked is a mistake of the configuration, not a node that is not alive.
func TestHealthcheckOfNothing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.crt")
	noCert := certificatetest.Files(t)
	certificatetest.Put(t, noCert, []byte("no certificate"), nil)
	for name, tt := range map[string]struct {
		addr  string
		files config.TLS
		want  string
	}{
		"any port":          {"127.0.0.1:0", config.TLS{}, "server.addr"},
		"no file":           {"127.0.0.1:1", config.TLS{CertFile: missing, KeyFile: missing}, missing},
		"no certificate":    {"127.0.0.1:1", noCert, "there is no certificate in it"},
		"no address at all": {"", config.TLS{}, "server.addr"},
	} {
		_, err := healthOf(t, tt.addr, tt.files)
		if !errors.Is(err, ErrHealthcheck) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: the error is %v, want ErrHealthcheck with %q", name, err, tt.want)
		}
	}
}

// stranger is a server that is not seqd.
func stranger(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestHealthcheckOfSomethingElse(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"another service": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<h1>It works!</h1>") },
		"another JSON":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"status":"up"}`) },
		"a list":          func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `["ok"]`) },
		"nothing":         func(http.ResponseWriter, *http.Request) {},
		"no such page":    func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
		"the right one, refused": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"an endless answer": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			said, err := healthOf(t, stranger(t, h), config.TLS{})
			if err == nil || !strings.Contains(err.Error(), "not that of seqd") || errors.Is(err, ErrHealthcheck) {
				t.Errorf("it says %q (%v), want an error that says that this is not seqd", said, err)
			}
		})
	}
}

// noise is a port that answers every connection with bytes that are not HTTP.
func noise(t *testing.T) string {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "SSH-2.0-nonsense\r\n")
			c.Close()
		}
	}()
	return l.Addr().String()
}

func TestHealthcheckOfNoise(t *testing.T) {
	if said, err := healthOf(t, noise(t), config.TLS{}); err == nil || errors.Is(err, ErrHealthcheck) {
		t.Errorf("it says %q (%v), want an error", said, err)
	}
}

func TestHealthcheckOfAClosedPort(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close()
	if said, err := healthOf(t, l.Addr().String(), config.TLS{}); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("it says %q (%v), want an error that says that the connection was refused", said, err)
	}
}

// A node that takes the connection and never answers is not alive, and that is known within the
// bound.
func TestHealthcheckOfAHangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default()
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		began := time.Now()
		said, err := healthcheck(t.Context(), &cfg, healthPatience, func(context.Context, string, string) (net.Conn, error) { return here, nil })
		if err == nil || !strings.Contains(err.Error(), "no answer within 2s") {
			t.Errorf("it says %q (%v), want an error that says so", said, err)
		}
		if took := time.Since(began); took != healthPatience {
			t.Errorf("it took %s, want %s", took, healthPatience)
		}
	})
}

// Alive is what /healthz says; of /readyz only the words are taken.
func TestHealthcheckOfReadiness(t *testing.T) {
	for answer, want := range map[string]string{
		`200 {"status":"ready"}`:                       "ready",
		`200 {"status":"degraded","degraded":2}`:       "degraded",
		`503 {"detail":"2 biz types cannot issue"}`:    "not ready: 2 biz types cannot issue",
		`503 {"title":"Service Unavailable"}`:          "/readyz answers 503",
		`500 nonsense`:                                 "/readyz answers 500",
		`200 {"status":"` + strings.Repeat("x", 1<<21): "/readyz answers 200",
	} {
		status, body, _ := strings.Cut(answer, " ")
		addr := stranger(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				_, _ = io.WriteString(w, `{"status":"ok"}`)
				return
			}
			w.WriteHeader(map[string]int{"200": 200, "500": 500, "503": 503}[status])
			_, _ = io.WriteString(w, body)
		})
		if said, err := healthOf(t, addr, config.TLS{}); err != nil || said != "http://"+addr+" is alive, "+want {
			t.Errorf("with %.60s it says %q (%v), want %q at the end", answer, said, err, want)
		}
	}
}
