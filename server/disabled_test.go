package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// awaitHistory requests the history until it has a record, because the plugin writes with a delay.
func (s *service) awaitHistory(part string) {
	s.t.Helper()
	await.Eventually(s.t, "the history has a record", func() error {
		body, _ := s.do(200, "GET", "/biz-types/order/history", "")
		if !strings.Contains(body, part) {
			return fmt.Errorf("it is %s, want %s", body, part)
		}
		return nil
	})
}

// The history and the statistics of a disabled biz type are shown: at once, after a restart, and
// after a change of its plugins.
func TestDisabledBizTypeIsShown(t *testing.T) {
	cfg := load(t, "store: {bolt: {path: "+filepath.Join(t.TempDir(), "seqd.db")+", lockTimeout: 1m}}\nbizTypes: [{name: order, start: 7, plugins: [{name: history}, {name: stats}]}]\n")
	s := start(t, cfg)
	get := func(path string) string { answer, _ := s.do(200, "GET", path, ""); return answer }
	s.await("/readyz", http.StatusOK)
	get("/seq/order?count=3")
	s.do(200, "POST", "/biz-types/order/disable", "")
	s.awaitHistory(`"first":"7","last":"9","count":3`)
	wantIn(t, get("/biz-types/order/stats"), `"issued":3,"requests":1`)
	s.do(409, "GET", "/seq/order", "")
	must.Do(t, s.stop())

	s = start(t, cfg)
	s.await("/readyz", http.StatusOK)
	s.awaitHistory(`"first":"7","last":"9","count":3`)
	wantIn(t, get("/biz-types/order/stats"), `"issued":0`)
	s.do(409, "GET", "/seq/order", "")
	s.do(200, "PATCH", "/biz-types/order", `{"plugins":[{"name":"history"}]}`)
	s.awaitHistory(`"first":"7"`)
	s.do(404, "GET", "/biz-types/order/stats", "")

	s.do(200, "POST", "/biz-types/order/enable", "")
	wantIn(t, get("/seq/order"), `"id":"10"`)
	s.awaitHistory(`"first":"10"`)
	must.Do(t, s.stop())
}
