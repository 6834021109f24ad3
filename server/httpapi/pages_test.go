package httpapi_test

import (
	"bufio"
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/server/httpapi"
)

// newOpen returns an API with every route that requires no token.
func newOpen(t *testing.T, change ...func(*options)) *httpapi.API {
	t.Helper()
	api := newStarting(t, append([]func(*options){func(o *options) {
		o.Metrics, o.Tokens = &tallied{}, newTokens(t, newDocuments(), o.Log)
	}}, change...)...)
	issuer := newIssuer(t, define("order", newCounter(100)))
	issuer.Init(t.Context())
	ready(api, issuer)
	return api
}

// rawRequest reads a request from its lines as net/http does.
func rawRequest(t *testing.T, lines ...string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Join(lines, "\r\n") + "\r\n\r\n")))
	if err != nil {
		t.Fatalf("%q: %v", lines, err)
	}
	r.RemoteAddr = "127.0.0.1:1234"
	return r
}

// eachTarget calls f with a target for every route, and with targets that match none.
func eachTarget(api *httpapi.API, f func(method, target string)) {
	for _, route := range api.Routes() {
		f(route.Method, strings.NewReplacer("{bizType}", "order", "{id}", "100", "{name}", "shop", "{resource}", "history").Replace(route.Path))
	}
	for _, target := range []string{"/", "/nowhere", "/seq/nothing", "/seq/", "/favicon.ico"} {
		f("GET", target)
	}
	f("OPTIONS", "/seq/order") // what a browser asks first
	f("PUT", "/seq/order")
	f("POST", "/readyz")
}

// TestPagesGetNothing checks that a page of another origin gets nothing from any route, and takes
// no number.
func TestPagesGetNothing(t *testing.T) {
	api := newOpen(t)
	for _, page := range []string{
		"Origin: https://example.com", "Origin: null", "Origin:", "Origin: http://localhost", "Origin: http://localhost:3000", "Origin: http://localhost:8080.example.com",
		"Origin: http://example.com/localhost:8080", "Origin: localhost:8080", "Origin: http://", "Origin: ftp://localhost:8080", "Origin: chrome-extension://localhost:8080",
		"Origin: http://localhost:8080\r\nOrigin: http://example.com", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: anything", "Sec-Fetch-Site:",
		"Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin\r\nOrigin: http://example.com",
	} {
		eachTarget(api, func(method, target string) {
			w := serveOne(t, api, rawRequest(t, method+" "+target+" HTTP/1.1", "Host: localhost:8080", page))
			p := wantProblem(t, w, 403, "forbidden")
			if !strings.Contains(p.Detail, "server of that page") || w.Header().Get("Allow") != "" {
				t.Errorf("%s %s: %q, Allow %q", method, target, p.Detail, w.Header().Get("Allow"))
			}
		})
	}
	wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, `{"bizType":"order","id":"100"}`)
}

// TestNoForeignPage checks that programs, addresses that a user typed, and pages of this service
// may pass.
func TestNoForeignPage(t *testing.T) {
	for _, lines := range []string{
		"Accept: */*", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: cors", "Referer: http://example.com/", "Sec-Fetch-Site: same-origin",
		"Origin: http://localhost:8080", "Origin: https://LOCALHOST:8080\r\nSec-Fetch-Site: same-origin",
	} {
		api := newOpen(t)
		for _, method := range []string{"GET", "POST"} {
			if w := serveOne(t, api, rawRequest(t, method+" /seq/order HTTP/1.1", "Host: localhost:8080", lines)); w.Code != 200 {
				t.Errorf("%s with %q got %d: %s", method, lines, w.Code, w.Body)
			}
		}
	}
}

// ownHosts are the hosts of a service in tests.
var ownHosts = []string{"seqd", "seqd-1", "a.example", "localhost", "192.0.2.7", "2001:db8::1"}

// hosts are values of Host, and whether they pass if ownHosts are in server.hosts.
var hosts = map[string]bool{
	"127.0.0.1": true, "127.0.0.1:8080": true, "127.0.0.2:8080": true, "[::1]": true, "[::1]:8080": true, "[0:0::1]": true, "192.0.2.7": true, "192.0.2.7:80": true, "[2001:DB8::1]:1": true,
	"localhost": true, "localhost:8080": true, "LocalHost:8080": true, "localhost:": true, "localhost:1": true,
	"seqd-1": true, "seqd-1:8080": true, "SEQD-1.:8080": true, "a.example": true, "A.Example.:443": true,
	"": true, // in HTTP/1.1 too

	"example.com": false, "example.com:8080": false, "localhost.example.com": false, "localhost.example.com:8080": false, "seqd.localhost": false, "seqd-1.example": false,
	"b.a.example": false, "xseqd-1": false, "example": false, "127.0.0.1.example.com": false, "127.0.0.1.nip.io:8080": false, "127.1": false, "2130706433": false, "0x7f.0.0.1": false,
	"127.0.0.01": false, "localhost..": false, ".": false, ":8080": false, "::1": false, "[::1": false, "[::1]x": false, "[::1].example.com:80": false, "[]": false, "[example.com]": false,
	"localhost:http": false, "localhost:8080:1": false, "localhost:8080.example.com": false, "localhost:123456": false, "localhost:-1": false, "example.com:127.0.0.1": false,
	"localhost@example.com": false, "localhost,example.com": false, "]": false,

	// browsers do not take these for this machine, or nobody can type them
	"0.0.0.0:8080": false, "[::]:8080": false, "[::ffff:127.0.0.1]:8080": false, "[::ffff:7f00:1]:8080": false, "[::ffff:0:0]": false, "[::ffff:192.0.2.7]": false, "[0:0:0:0:0:ffff:7f00:1]": false,
	"[::1%lo]:8080": false, "[fe80::1%lo]:8080": false, "[2001:db8::1%eth0]": false, "localhost.": false, "localhost.:8080": false, "127.0.0.1.": false, "[127.0.0.1]": false, "[192.0.2.7]:80": false,
}

// TestAddresses checks that an IP address that is no loopback address, and that nobody has put into
// server.hosts, gets nothing but probes, and that the answer says what to put there.
func TestAddresses(t *testing.T) {
	open := newOpen(t, func(o *options) { o.Hosts = ownHosts })
	for host, add := range map[string]string{"10.1.2.3:8080": "10.1.2.3", "192.0.2.8": "192.0.2.8", "[FD00::7]:8080": "fd00::7", "[::7f00:1]": "::7f00:1", "[64:ff9b::7f00:1]": "64:ff9b::7f00:1"} {
		eachTarget(open, func(method, target string) {
			w := serveOne(t, open, rawRequest(t, method+" "+target+" HTTP/1.1", "Host: "+host))
			if probe := target == "/healthz" || target == "/readyz" || target == "/metrics"; probe && method != "POST" {
				if w.Code != 200 {
					t.Errorf("%s %s for Host %q got %d: %s", method, target, host, w.Code, w.Body)
				}
				return
			}
			if p := wantProblem(t, w, 403, "forbidden"); !strings.Contains(p.Detail, `add "`+add+`" to server.hosts (SEQD_SERVER_HOSTS)`) {
				t.Errorf("%s %s for Host %q: %q", method, target, host, p.Detail)
			}
		})
	}
	wantBody(t, do(t, open, "GET", "/seq/order"), jsonType, `{"bizType":"order","id":"100"}`)
}

// TestSpeculativeRequests checks that a browser that loads an address before its user wants it
// takes no number, whether or not callers need a token.
func TestSpeculativeRequests(t *testing.T) {
	open, guarded := newOpen(t), newGuarded(t)
	for _, purpose := range []string{"Sec-Purpose: prefetch;prerender", "Sec-Purpose: Prefetch;anonymous-client-ip", "Purpose: prefetch", "X-Moz: prefetch", "X-Purpose: preview", "X-Purpose: x\r\nX-Purpose: prerender"} {
		eachTarget(open, func(method, target string) {
			wantProblem(t, serveOne(t, open, rawRequest(t, method+" "+target+" HTTP/1.1", "Host: localhost", "Sec-Fetch-Site: none", purpose)), 403, "forbidden")
		})
		wantProblem(t, serveOne(t, guarded, rawRequest(t, "GET /seq/order HTTP/1.1", "Host: localhost", purpose, auth("shop"))), 403, "forbidden")
	}
	for _, purpose := range []string{"Purpose: ", "Purpose: order", "Sec-Purpose: ?1"} {
		if w := serveOne(t, open, rawRequest(t, "GET /seq/order HTTP/1.1", "Host: localhost", purpose)); w.Code != 200 {
			t.Errorf("%s got %d: %s", purpose, w.Code, w.Body)
		}
	}
}

// TestHosts checks that a name that somebody else could make resolve to this machine gets nothing
// from any route, and that the answer says what to do.
func TestHosts(t *testing.T) {
	open, guarded := newOpen(t, func(o *options) { o.Hosts = ownHosts }), newGuarded(t)
	for host, passes := range hosts {
		if passes {
			if w := serveOne(t, open, rawRequest(t, "GET /seq/order HTTP/1.1", "Host: "+host)); w.Code != 200 {
				t.Errorf("Host %q got %d: %s", host, w.Code, w.Body)
			}
			continue
		}
		eachTarget(open, func(method, target string) {
			w := serveOne(t, open, rawRequest(t, method+" "+target+" HTTP/1.1", "Host: "+host))
			if w.Code != 403 {
				t.Fatalf("%s %s for Host %q got %d: %s", method, target, host, w.Code, w.Body)
			}
			p := wantProblem(t, w, 403, "forbidden")
			for _, want := range []string{`"` + host + `"`, "server.hosts", "tokens"} {
				if !strings.Contains(p.Detail, want) {
					t.Errorf("the answer for %q says %q, not %s", host, p.Detail, want)
				}
			}
		})
		if w := serveOne(t, guarded, rawRequest(t, "GET /seq/order HTTP/1.1", "Host: "+host, "Origin: http://example.com", "Sec-Fetch-Site: cross-site", auth("shop"))); w.Code != 200 {
			t.Errorf("with a token, Host %q got %d: %s", host, w.Code, w.Body)
		}
	}
}

// TestOnlyHTTPS checks that each answer of a node with TLS tells browsers to use HTTPS from now on,
// and no other node does.
func TestOnlyHTTPS(t *testing.T) {
	for want, encrypted := range map[string]bool{"": false, "max-age=31536000": true} {
		api := newOpen(t, func(o *options) { o.TLS = encrypted })
		eachTarget(api, func(method, target string) {
			if got := serveOne(t, api, rawRequest(t, method+" "+target+" HTTP/1.1", "Host: seqd")).Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s %s: %q, want %q", method, target, got, want)
			}
		})
	}
}

// TestHostOfTarget checks that an absolute target, as some clients send it, wins over the header
// Host.
func TestHostOfTarget(t *testing.T) {
	open := newOpen(t)
	wantProblem(t, serveOne(t, open, rawRequest(t, "GET http://example.com/tokens HTTP/1.1", "Host: localhost")), 403, "forbidden")
	if w := serveOne(t, open, rawRequest(t, "GET http://localhost/tokens HTTP/1.1", "Host: example.com")); w.Code != 200 {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

// TestProbes checks that probes of load balancers and Prometheus need no setting unless they use a
// name.
func TestProbes(t *testing.T) {
	open := newOpen(t)
	for name, lines := range map[string][]string{
		"Kubernetes":           {"GET %s HTTP/1.1", "Host: 10.1.2.3:8080", "User-Agent: kube-probe/1.34", "Accept: */*", "Connection: close"},
		"Kubernetes over IPv6": {"GET %s HTTP/1.1", "Host: [fd00::7]:8080", "User-Agent: kube-probe/1.34"},
		"HAProxy":              {"GET %s HTTP/1.0"},
		"HAProxy, HEAD":        {"HEAD %s HTTP/1.0", "Connection: keep-alive"},
		"curl":                 {"GET %s HTTP/1.1", "Host: localhost:8080", "User-Agent: curl/8.5.0", "Accept: */*"},
		"Compose":              {"GET %s HTTP/1.1", "Host: seqd:8080", "User-Agent: Wget"},
	} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			lines := append([]string{strings.Replace(lines[0], "%s", path, 1)}, lines[1:]...)
			if w := serveOne(t, open, rawRequest(t, lines...)); w.Code != 200 {
				t.Errorf("%s: %s got %d: %s", name, path, w.Code, w.Body)
			}
		}
	}
}

// TestRefusedHostIsLogged checks that a refused Host is logged, because answers to probes are
// rarely read, and that a long Host is cut.
func TestRefusedHostIsLogged(t *testing.T) {
	var log bytes.Buffer
	open := newOpen(t, func(o *options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	p := wantProblem(t, serveOne(t, open, rawRequest(t, "GET /healthz HTTP/1.1", "Host: "+strings.Repeat("x", 3000))), 403, "forbidden")
	if len(p.Detail) > 400 || strings.Count(log.String(), "server.hosts") != 1 {
		t.Errorf("the detail has %d bytes; the log: %s", len(p.Detail), &log)
	}
}

// TestAllocationsWithHosts checks that the rule costs no allocation, whatever Host passes.
func TestAllocationsWithHosts(t *testing.T) {
	api := newStarting(t, func(o *options) { o.Hosts = ownHosts })
	ready(api, newIssuer(t, define("order", newCounter(1_000_000))))
	least := -1.0
	for host, passes := range hosts {
		if !passes {
			continue
		}
		r, w := rawRequest(t, "GET /seq/order HTTP/1.1", "Host: "+host), &reusable{header: make(map[string][]string)}
		perRun := must.Allocs(100, func() {
			clear(w.header)
			api.ServeHTTP(w, r)
		})
		if least < 0 {
			least = perRun
		}
		if !racing.On && perRun != least {
			t.Errorf("Host %q costs %v allocations, another one %v", host, perRun, least)
		}
	}
}
