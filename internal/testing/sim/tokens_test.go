package sim

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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
func TestTokenRevokedElsewhere(t *testing.T) { synctest.Test(t, tokenRevokedElsewhere) }

func tokenRevokedElsewhere(t *testing.T) {
	time.Sleep(time.Until(begins))
	w, err := newWorld(t, Options{Seed: 1, Say: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	w.bizTypes = `[{"name":"order"}]`
	w.sparse = w.bizTypes
	const admin = "seqd_admin0000000000000000000000000"
	here, there := w.nodes[0], w.nodes[1]
	for _, n := range w.nodes {
		n.configure("SEQD_AUTH_MODE", "token")
		n.configure("SEQD_COMPAT_TOKEN", "ops")
		n.configure("SEQD_AUTH_TOKENS", fmt.Sprintf(`[{"name":"ops","sha256":"%x","scopes":["admin"]}]`, sha256.Sum256([]byte(admin))))
		n.start()
	}
	w.awaitReady("at the start")
	ask := func(n *node, token, method, path, body string) (status int, answer string) {
		req, err := http.NewRequestWithContext(t.Context(), method, n.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := w.load.HTTP.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
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
