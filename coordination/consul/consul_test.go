package consul

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// What is not an answer of Consul is neither yes nor no, and the next request asks the next agent.
func TestAnswersOfOthers(t *testing.T) {
	doc := persist.Document{Kind: "k", Key: "x", Revision: 1}
	for _, test := range []struct {
		status int
		body   string
	}{
		{200, "<html>welcome</html>"}, {200, ""}, {200, "null"}, {200, "[]"}, {404, "<html>not found</html>"}, {302, ""}, {500, "No cluster leader"}, {403, "ACL not found"},
		{429, "slow down"}, {400, "bad"},
	} {
		name := fmt.Sprint(test.status, " ", test.body)
		wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		asked := 0
		right := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("X-Consul-Index", "1")
			w.WriteHeader(http.StatusNotFound)
		}))
		addr := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
		for what, do := range map[string]func(d *Documents) error{
			"create": func(d *Documents) error { return d.Create(t.Context(), doc) },
			"read":   func(d *Documents) error { return must.Err(d.Read(t.Context(), "k", "x")) },
		} {
			d := New(coordination.Options{Addrs: []string{addr(wrong), addr(right)}, Prefix: "p", Timeout: 2 * time.Minute, Dial: new(net.Dialer).DialContext})
			if err := do(d); !errors.Is(err, coordination.ErrUnavailable) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			before := asked
			_, err := d.Read(t.Context(), "k", "x")
			if asked == before {
				t.Errorf("%s, %s: the next agent is not asked: %v", name, what, err)
			}
			must.Do(t, d.Close())
		}
		wrong.Close()
		right.Close()
	}
}
