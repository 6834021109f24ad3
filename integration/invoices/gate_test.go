package invoices

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

// gate is a proxy before a node. While it is shut, nothing is confirmed.
type gate struct {
	url  string
	shut atomic.Bool
}

func newGate(t *testing.T, addr string) *gate {
	t.Helper()
	g := new(gate)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr})
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.shut.Load() && strings.HasSuffix(r.URL.Path, "/confirm") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}
