package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
)

// awaitAudit requests the audit lines until there are n, because they are written with a delay.
func (s *service) awaitAudit(n int) []admin.AuditLine {
	s.t.Helper()
	var page struct{ Lines []admin.AuditLine }
	await.Eventually(s.t, "the audit lines are written", func() error {
		answer, _ := s.do(200, "GET", "/audit", "")
		page.Lines = nil
		must.Do(s.t, json.Unmarshal([]byte(answer), &page))
		if len(page.Lines) < n {
			return fmt.Errorf("they are %s, want %d", answer, n)
		}
		return nil
	})
	return page.Lines
}

// Audit lines are there after a restart, also the one just before a stop, and those of routes for
// clients of other services, which ignore parameters that they do not know. The list of settings is
// there as well.
func TestAuditOverRestarts(t *testing.T) {
	text := fmt.Sprintf("{store: {bolt: {path: %q}}, compat: {cosid: create}, bizTypes: [{name: order}], segment: {step: 77}}",
		filepath.Join(t.TempDir(), "seqd.db"))
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	wantIn(t, s.await("/settings", http.StatusOK), `"name":"segment"`, `"default":77`)
	s.do(201, "PUT", "/biz-types/invoice", `{}`, "X-Request-Id", "first")
	s.do(200, "POST", "/segments/distributor/dev/fresh?offset=0&step=100&dryRun=true", "")
	s.do(200, "PUT", "/biz-types/invoice", `{"step":5}`, "X-Request-Id", "last")
	must.Do(t, s.stop())
	s = start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	s.do(204, "DELETE", "/biz-types/invoice", "", "X-Request-Id", "after")
	lines := s.awaitAudit(4)
	var got []string
	for _, line := range lines {
		got = append(got, fmt.Sprint(line.Method, " ", line.Target, " ", line.Status, " ", line.Version))
		if line.Node == "" || line.Addr != "127.0.0.1" || len(line.NodeID) != 32 {
			t.Errorf("%+v", line)
		}
	}
	must.Equal(t, strings.Join(got, ", "), "DELETE invoice 204 3, PUT invoice 200 2, POST dev.fresh 200 1, PUT invoice 201 1", "the lines")
	if lines[0].Node == lines[1].Node {
		t.Error("two processes have one ID")
	}
}
