package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/respconn"
	_ "github.com/seqd/seqd/standard"
)

// A token that is made and revoked on one node is known and unknown on another one as soon as that node
// has asked the store again, also on connections that are open.
func TestTokenRevokedElsewhere(t *testing.T) {
	const admin = "seqd_admin0000000000000000000000000"
	settings := map[string]string{
		"SEQD_AUTH_MODE": "token", "SEQD_COMPAT_TOKEN": "ops",
		"SEQD_AUTH_TOKENS": fmt.Sprintf(`[{"name":"ops","sha256":"%x","scopes":["admin"]}]`, sha256.Sum256([]byte(admin))),
	}
	synctest.Test(t, func(t *testing.T) {
		o := Options{Seed: 1, Say: t.Output(), BizTypes: only("order"), Settings: settings, Script: func(w *World) { revokeElsewhere(t, w, admin) }}
		if report := Run(t, o); report.Total() > 0 {
			t.Error(report)
		}
	})
}

func revokeElsewhere(t *testing.T, w *World, admin string) {
	here, there := w.nodes[0], w.nodes[1]
	ask := func(n *node, token, method, path, body string) (status int, answer string) {
		status, _, answer = w.request(t.Context(), n, method, path, body, "Authorization", "Bearer "+token)
		return status, answer
	}
	var made struct{ Secret string }
	status, body := ask(here, admin, http.MethodPost, "/tokens", `{"name":"shop","scopes":["issue:order"]}`)
	if err := json.Unmarshal([]byte(body), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	time.Sleep(allKnow)
	conn, err := there.DialRESP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := respconn.New(conn)
	for _, command := range []string{"AUTH shop " + made.Secret, "INCR order"} {
		if answer, err := c.Do(command); err != nil {
			t.Errorf("%s: %v, %v", command, answer, err)
		}
	}
	if status, body := ask(here, admin, http.MethodDelete, "/tokens/shop", ""); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	time.Sleep(allKnow)
	if answer, err := c.Do("INCR order"); err == nil || !strings.HasPrefix(err.Error(), "NOAUTH") {
		t.Errorf("a revoked token: %v, %v", answer, err)
	}
	if status, body := ask(there, made.Secret, http.MethodGet, "/seq/order", ""); status != http.StatusUnauthorized {
		t.Errorf("a revoked token: %d %s", status, body)
	}
}
