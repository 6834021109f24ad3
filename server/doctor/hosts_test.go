package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// webhooksText has three webhooks on two hosts, one of them twice.
const webhooksText = `
segment: {rejected: [{name: webhook, url: "https://hooks.example.com/seqd?token=hunter2"}]}
tracing: {endpoint: "http://127.0.0.1:4318"}
bizTypes:
  - {name: a}
  - {name: b, rejected: [{name: log}, {name: webhook, url: "https://ops:hunter2@hooks.example.com:443/other"}, {name: webhook, url: "http://[::1]:8000/"}]}
`

func TestHosts(t *testing.T) {
	d := examined(t, webhooksText)
	list := run(t, hostsCheck{d}.run)
	quiet(t, list)
	want(t, list, OK, "a.webhook.url", "hooks.example.com:443 answers, and its certificate is good")
	want(t, list, OK, "b.webhook.url", "[::1]:8000 answers")
	want(t, list, OK, "tracing.endpoint", "127.0.0.1:4318 answers")
	must.Equal(t, len(list), 3, "hosts are looked at twice: %+v", list)
	d.Host.Connect = func(_ context.Context, u *url.URL) (string, error) { return "", errors.New("no such host") }
	list = run(t, hostsCheck{d}.run)
	want(t, list, Warn, "a.webhook.url", "hooks.example.com:443 cannot be used: no such host → correct the URL, or let this machine reach and trust it; until then refusals are dropped")
	want(t, list, Warn, "tracing.endpoint", "spans are dropped")
	d.Host.Connect = func(context.Context, *url.URL) (string, error) { return "proxy:3128", nil }
	want(t, run(t, hostsCheck{d}.run), Info, "a.webhook.url", "by way of the proxy proxy:3128: the proxy answers; what is behind it was not asked")
	for _, f := range list {
		if strings.Contains(f.line(), "hunter2") {
			t.Errorf("a secret is shown: %s", f.line())
		}
	}
}

// Hosts are among the checks that Examine runs.
func TestExamineVisitsHosts(t *testing.T) {
	d := examined(t, "store: {driver: memory}\n"+webhooksText)
	if !slices.ContainsFunc(d.Examine(t.Context()), func(s Section) bool { return s.Name == "hosts" && len(s.Findings) == 3 }) {
		t.Error("it does not")
	}
}

// direct asks for no proxy.
func direct(*http.Request) (*url.URL, error) { return nil, nil }

func parsed(t *testing.T, text string) *url.URL {
	t.Helper()
	return must.Get(url.Parse(text))(t)
}

func TestConnect(t *testing.T) {
	asked := 0
	count := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ })
	plain, secure := httptest.NewServer(count), httptest.NewTLSServer(count)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, test := range map[string]struct {
		c    connector
		url  string
		want string
	}{
		"plain":        {connector{direct, nil}, plain.URL, ""},
		"trusted":      {connector{direct, roots}, secure.URL, ""},
		"not trusted":  {connector{direct, x509.NewCertPool()}, secure.URL, "certificate"},
		"another name": {connector{direct, roots}, strings.Replace(secure.URL, "127.0.0.1", "localhost", 1), "localhost"},
		"no TLS":       {connector{direct, roots}, strings.Replace(plain.URL, "http:", "https:", 1), "tls: "},
		"nobody":       {connector{direct, nil}, gone.URL, "refused"},
		"bad proxy":    {connector{func(*http.Request) (*url.URL, error) { return nil, errors.New("hunter2") }, nil}, plain.URL, "a proxy that cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy, err := test.c.connect(t.Context(), parsed(t, test.url))
			if proxy != "" || (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q, %v, want %q", proxy, err, test.want)
			}
		})
	}
	plain.Close()
	secure.Close()
	if asked > 0 {
		t.Errorf("%d requests were sent", asked)
	}
}

// By a proxy, only that one is asked for.
func TestConnectByProxy(t *testing.T) {
	server := httptest.NewServer(nil)
	defer server.Close()
	c := connector{func(*http.Request) (*url.URL, error) { return parsed(t, server.URL), nil }, nil}
	if proxy, err := c.connect(t.Context(), parsed(t, "https://no-such-host.invalid/")); err != nil || "http://"+proxy != server.URL {
		t.Errorf("%q, %v", proxy, err)
	}
}

// A host that takes connections and says nothing costs no more than the patience.
func TestConnectToAHostThatHangs(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	must.Is(t, must.Err((connector{direct, nil}).connect(ctx, parsed(t, "https://"+l.Addr().String()))), context.DeadlineExceeded)
}
