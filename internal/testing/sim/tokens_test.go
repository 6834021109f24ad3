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

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/respconn"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	_ "github.com/seqd/seqd/standard"
)

// A token that is made and revoked on one node is known and unknown on another one as soon as that
// node has asked the store again, also on connections that are open.
func TestTokenRevokedElsewhere(t *testing.T) {
	withTokens(t, only("order"), revokeElsewhere)
}

// A caller gets a new secret as docs/operations/rotation.md says, and keeps what it made.
func TestTokenRotated(t *testing.T) {
	withTokens(t, only("bill", "bulk"), rotate)
}

// withTokens runs a script in a world whose nodes ask for tokens.
func withTokens(t *testing.T, bizTypes map[string]load.Settings, script func(t *testing.T, w *World)) {
	inWorld(t, bizTypes, tokenSettings(), script)
}

// inWorld runs a script in a world whose nodes have some settings.
func inWorld(t *testing.T, bizTypes map[string]load.Settings, settings map[string]string, script func(t *testing.T, w *World)) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Seed: 1, Say: t.Output(), BizTypes: bizTypes, Settings: settings, Script: func(w *World) { script(t, w) }}
		if report := Run(t, o); report.Total() > 0 {
			t.Error(report)
		}
	})
}

// rotate is the runbook for the token of a caller that has a reservation, and repeats requests.
func rotate(t *testing.T, w *World) {
	here, there := w.nodes[0], w.nodes[1]
	ask := func(n *node, secret string, want int, method, path, body string, headers ...string) (answer map[string]any) {
		status, _, text := w.request(t.Context(), n, method, path, body, append(headers, "Authorization", "Bearer "+secret)...)
		if _ = json.Unmarshal([]byte(text), &answer); status != want {
			t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
		}
		return answer
	}
	secretOf := func(answer map[string]any) string { secret, _ := answer["secret"].(string); return secret }
	const paid, booked = "/seq/bulk", "/seq/bill/reservations"
	same := func(step, secret string, n *node, id, reservation any) {
		again := ask(n, secret, http.StatusOK, http.MethodPost, paid, "", "Idempotency-Key", "cart")
		booking := ask(n, secret, http.StatusCreated, http.MethodPost, booked+"?ttl=1h", "", "Idempotency-Key", "cart")
		if again["id"] != id || booking["reservation"] != reservation {
			t.Errorf("%s: %v and %v, want %v and %v", step, again, booking, id, reservation)
		}
	}
	create := func() string {
		return secretOf(ask(here, admin, http.StatusCreated, http.MethodPost, "/tokens", `{"name":"shop","scopes":["issue:*"]}`))
	}

	old := create()
	id := ask(here, old, http.StatusOK, http.MethodPost, paid, "", "Idempotency-Key", "cart")["id"]
	reservation := ask(here, old, http.StatusCreated, http.MethodPost, booked+"?ttl=1h", "", "Idempotency-Key", "cart")["reservation"]
	fresh := secretOf(ask(here, admin, http.StatusCreated, http.MethodPost, "/tokens/shop/secrets", ""))
	time.Sleep(allKnow)
	same("with the old secret", old, there, id, reservation)
	same("with the new secret", fresh, there, id, reservation)
	secrets := ask(here, admin, http.StatusOK, http.MethodGet, "/tokens/shop/secrets", "")["secrets"].([]any)
	ask(here, admin, http.StatusNoContent, http.MethodDelete, fmt.Sprint("/tokens/shop/secrets/", secrets[0].(map[string]any)["id"]), "")
	time.Sleep(allKnow)
	ask(there, old, http.StatusUnauthorized, http.MethodGet, "/seq/bulk", "")
	same("after the old secret is gone", fresh, there, id, reservation)

	// A name that is created again is another owner.
	ask(here, admin, http.StatusNoContent, http.MethodDelete, "/tokens/shop", "")
	stranger := create()
	time.Sleep(allKnow)
	if got := ask(there, stranger, http.StatusOK, http.MethodPost, paid, "", "Idempotency-Key", "cart")["id"]; got == id {
		t.Errorf("another owner got %v too", got)
	}
	ask(there, stranger, http.StatusForbidden, http.MethodPost, fmt.Sprintf("%s/%v/confirm", booked, reservation), "")
	ask(here, admin, http.StatusOK, http.MethodPost, fmt.Sprintf("%s/%v/confirm", booked, reservation), "")
}

// A restore brings back the token of before with its owner, and a reservation that was released.
// Who released it releases it again: then nobody gets its number a second time.
func TestTokenAndReleaseRestored(t *testing.T) {
	withTokens(t, only("bill"), func(t *testing.T, w *World) {
		ask := func(secret string, want int, method, path, body string) (answer struct{ Secret, Reservation, State, ID string }) {
			status, _, text := w.request(t.Context(), w.nodes[0], method, path, body, "Authorization", "Bearer "+secret)
			if _ = json.Unmarshal([]byte(text), &answer); status != want {
				t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
			}
			return answer
		}
		issue := func(want string) {
			if got := ask(admin, http.StatusOK, http.MethodGet, "/seq/bill", "").ID; got != want {
				t.Errorf("%s was issued, want %s", got, want)
			}
		}
		const token, booked = `{"name":"shop","scopes":["issue:*"]}`, "/seq/bill/reservations"
		first := ask(admin, http.StatusCreated, http.MethodPost, "/tokens", token).Secret
		reservation := booked + "/" + ask(first, http.StatusCreated, http.MethodPost, booked+"?ttl=10m", "").Reservation
		var second string
		w.while("restored", storeBack, func(f *fault) {
			older := w.store.Backup()
			ask(first, http.StatusNoContent, http.MethodDelete, reservation, "")
			issue("1")
			ask(admin, http.StatusNoContent, http.MethodDelete, "/tokens/shop", "")
			second = ask(admin, http.StatusCreated, http.MethodPost, "/tokens", token).Secret
			w.endNodes(false)
			w.store.Restore(older, false)
			w.raiseAll(f, map[string]int64{"bill": 1})
			w.onAll((*node).start)
		})
		w.load.HTTP.CloseIdleConnections()
		time.Sleep(allKnow)
		ask(second, http.StatusUnauthorized, http.MethodDelete, reservation, "")
		must.Equal(t, ask(first, http.StatusOK, http.MethodGet, reservation, "").State, record.Reserved, "the reservation")
		fresh := ask(admin, http.StatusCreated, http.MethodPost, "/tokens/shop/secrets", "").Secret
		time.Sleep(allKnow)
		ask(fresh, http.StatusNoContent, http.MethodDelete, reservation, "") // a secret of the first owner
		issue("2")
	})
}

// One token cannot create more keys a day than its share, on any node or after a restart. It uses
// those that exist, and others are not refused.
func TestNewKeysOfOneToken(t *testing.T) {
	few := load.Settings{"newKeysPerCaller": 3}
	withTokens(t, map[string]load.Settings{"parcel": few, "shelf": few, "rent": few}, func(t *testing.T, w *World) {
		here, there := w.nodes[0], w.nodes[1]
		secrets := map[string]string{}
		for _, name := range []string{"shop", "other"} {
			_, _, text := w.request(t.Context(), here, http.MethodPost, "/tokens", `{"name":"`+name+`","scopes":["issue:*"]}`, "Authorization", "Bearer "+admin)
			var made struct{ Secret string }
			_ = json.Unmarshal([]byte(text), &made)
			secrets[name] = made.Secret
		}
		time.Sleep(allKnow)
		ask := func(n *node, caller, bizType, key string, want int) {
			status, header, text := w.request(t.Context(), n, http.MethodGet, "/seq/"+bizType+"?key="+key, "", "Authorization", "Bearer "+secrets[caller])
			if status != want || want == http.StatusTooManyRequests && (header.Get("Retry-After") == "" || !strings.Contains(text, ".newKeysPerCaller")) {
				t.Errorf("%s of %s for %s: %d %s %v, want %d", key, bizType, caller, status, text, header, want)
			}
		}
		kinds := []string{"parcel", "shelf", "rent"}
		for _, bizType := range kinds {
			for i := range 3 {
				ask(here, "shop", bizType, fmt.Sprint("k", i), http.StatusOK)
			}
			ask(here, "shop", bizType, "more", http.StatusTooManyRequests)
		}
		time.Sleep(5 * time.Second)
		here.restartWith("SEQD_SERVER_DRAINDELAY", "0s")
		time.Sleep(allKnow)
		for _, bizType := range kinds {
			for _, n := range []*node{here, there} {
				ask(n, "shop", bizType, "more", http.StatusTooManyRequests)
				ask(n, "shop", bizType, "k1", http.StatusOK)
			}
			ask(there, "other", bizType, "more", http.StatusOK)
			ask(here, "shop", bizType, "more", http.StatusOK)
		}
	})
}

// Once tokens are switched on, a token that owns what was made before repeats and confirms it.
func TestTokensSwitchedOn(t *testing.T) {
	const heir = "seqd_heir00000000000000000000000000"
	tokens := fmt.Sprintf(`[{"name":"shop","sha256":"%x","scopes":["issue:*"],"ownsOpen":true}]`, sha256.Sum256([]byte(heir)))
	inWorld(t, only("bill", "bulk"), nil, func(t *testing.T, w *World) {
		ask := func(n *node, want int, path string, headers ...string) (answer map[string]any) {
			status, _, text := w.request(t.Context(), n, http.MethodPost, path, "", append(headers, "Authorization", "Bearer "+heir)...)
			if _ = json.Unmarshal([]byte(text), &answer); status != want {
				t.Errorf("%s: %d %s, want %d", path, status, text, want)
			}
			return answer
		}
		id := ask(w.nodes[0], http.StatusOK, "/seq/bulk", "Idempotency-Key", "cart")["id"]
		reservation := ask(w.nodes[0], http.StatusCreated, "/seq/bill/reservations?ttl=1h")["reservation"]
		for _, n := range w.nodes {
			n.restartWith("SEQD_AUTH_TOKENS", tokens)
		}
		time.Sleep(allKnow)
		if again := ask(w.nodes[1], http.StatusOK, "/seq/bulk", "Idempotency-Key", "cart")["id"]; again != id {
			t.Errorf("%v again, want %v", again, id)
		}
		ask(w.nodes[1], http.StatusOK, fmt.Sprintf("/seq/bill/reservations/%v/confirm", reservation))
	})
}

// A node that is being drained still issues. So it follows changes and counts as there until that
// ends.
func TestDrainedNodeFollows(t *testing.T) {
	withTokens(t, only("order", "bulk"), func(t *testing.T, w *World) {
		here, there := w.nodes[0], w.nodes[1]
		ask := func(n *node, method, path, body string) (status int, answer string) {
			status, _, answer = w.request(t.Context(), n, method, path, body, "Authorization", "Bearer "+admin)
			return status, answer
		}
		change := func(method, path, body string, want int) (answer string) {
			status, answer := ask(here, method, path, body)
			if status != want {
				t.Errorf("%s %s: %d %s, want %d", method, path, status, answer, want)
			}
			return answer
		}
		var made struct{ Secret string }
		_ = json.Unmarshal([]byte(change(http.MethodPost, "/tokens", `{"name":"shop","scopes":["issue:*"]}`, http.StatusCreated)), &made)
		there.restartWith("SEQD_SERVER_DRAINDELAY", "10m")
		time.Sleep(allKnow)
		stopped := make(chan struct{})
		go func() { defer close(stopped); there.stop() }()
		defer func() { <-stopped; there.start() }()
		issue := func(bizType string) int {
			status, _, _ := w.request(t.Context(), there, http.MethodGet, "/seq/"+bizType, "", "Authorization", "Bearer "+made.Secret)
			return status
		}
		change(http.MethodPost, "/biz-types/order/disable", "", http.StatusOK)
		time.Sleep(time.Minute)
		if a, b := issue("order"), issue("bulk"); a != http.StatusConflict || b != http.StatusOK {
			t.Errorf("order is disabled, bulk is not: %d and %d", a, b)
		}
		if nodes := change(http.MethodGet, "/nodes", "", http.StatusOK); !strings.Contains(nodes, there.host) {
			t.Errorf("%s is not among the nodes: %s", there.host, nodes)
		}
		change(http.MethodDelete, "/tokens/shop", "", http.StatusNoContent)
		time.Sleep(allKnow)
		must.Equal(t, issue("bulk"), http.StatusUnauthorized, "a revoked token")
	})
}

// A node with definitions of its own that began without the store says that it is there before it
// takes numbers from the store.
func TestSeenAfterAStartWithoutTheStore(t *testing.T) {
	inWorld(t, only("device", "bulk"), nil, func(t *testing.T, w *World) {
		here, there := w.nodes[0], w.nodes[1]
		there.restartFrom("config", w.bizTypes)
		time.Sleep(time.Minute)
		issues := func(bizType string) bool {
			status, _, _ := w.request(t.Context(), there, http.MethodGet, "/seq/"+bizType, "")
			return status == http.StatusOK
		}
		if !issues("device") {
			t.Error("it does not issue")
		}
		w.store.Set(storesim.Away)
		there.kill(false)
		there.start()
		for !issues("device") {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		w.store.Set(storesim.Up)
		for !issues("bulk") {
			time.Sleep(10 * time.Millisecond)
		}
		_, _, nodes := w.request(t.Context(), here, http.MethodGet, "/nodes", "")
		if !strings.Contains(nodes, there.host) {
			t.Errorf("it is not among the nodes: %s", nodes)
		}
		there.restartFrom("", "")
	})
}

func revokeElsewhere(t *testing.T, w *World) {
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
	conn := must.Get(there.DialRESP())(t)
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
