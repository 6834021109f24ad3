package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
)

// hangTime is how long the balancer waits for a node.
const hangTime = 10 * time.Second

// balancer gives each request to the next node, as balancers do: if nothing listens there, to the
// one after it. If a node does not answer in time, the answer is 504 and a page of the balancer.
type balancer struct {
	url   string
	nodes []*url.URL
	next  atomic.Int64
	mu    sync.Mutex // guards what follows
	// answer answers a request before a node gets it, and reports whether it did; nil for never.
	answer func(http.ResponseWriter, *http.Request) bool
}

func newBalancer(t testing.TB, nodes []*fleet.Member) *balancer {
	b := &balancer{}
	for _, n := range nodes {
		b.nodes = append(b.nodes, &url.URL{Scheme: "http", Host: n.HTTP})
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "node" // RoundTrip chooses
			r.Out.Host = r.In.Host
			r.SetXForwarded()
		},
		Transport: b,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			status := http.StatusBadGateway
			if errors.Is(err, context.DeadlineExceeded) {
				status = http.StatusGatewayTimeout
			}
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<h1>" + http.StatusText(status) + "</h1>"))
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := b.answering(); answer == nil || !answer(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

func (b *balancer) answering() func(http.ResponseWriter, *http.Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.answer
}

// intercept sets what answers requests before a node gets them.
func (b *balancer) intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// RoundTrip sends a request to the next node. A connection that is refused has not sent anything.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var err error
	for range b.nodes {
		at := b.nodes[int(b.next.Add(1))%len(b.nodes)]
		ctx, cancel := context.WithTimeout(r.Context(), hangTime)
		out := r.Clone(ctx)
		out.URL.Host = at.Host
		var resp *http.Response
		resp, err = http.DefaultTransport.RoundTrip(out)
		if err == nil {
			resp.Body = &cancelling{resp.Body, cancel}
			return resp, nil
		}
		cancel()
		var dialing *net.OpError
		if !errors.As(err, &dialing) || dialing.Op != "dial" || !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, err
}

// cancelling ends a context when a body is closed.
type cancelling struct {
	body interface {
		Read([]byte) (int, error)
		Close() error
	}
	cancel context.CancelFunc
}

func (c *cancelling) Read(p []byte) (int, error) { return c.body.Read(p) }
func (c *cancelling) Close() error               { defer c.cancel(); return c.body.Close() }
