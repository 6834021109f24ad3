package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// Reservations expire after a restart, and their webhook is told, although nobody has asked for the biz
// type since and it is in no configuration.
func TestReservationsExpireAfterARestart(t *testing.T) {
	told := newHook(t)
	text := fmt.Sprintf("bizTypesFrom: store\nstore: {bolt: {path: %s}}\n", filepath.Join(t.TempDir(), "seqd.db"))
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	s.do(201, "PUT", "/biz-types/invoice", fmt.Sprintf(`{"strategy":"gapless","rejected":[{"name":"webhook","url":%q,"timeout":"1m"}]}`, told.URL))
	s.do(201, "POST", "/seq/invoice/reservations?count=3&ttl=1s", "")
	must.Do(t, s.stop())
	s = start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	// An expiry has no request, so the hook finds what it is told incomplete.
	await.True(t, "the webhook is told", func() bool { return told.times("invoice incomplete") == 1 })
	must.Do(t, s.stop())
}

// times returns how often a hook was told something.
func (h *hook) times(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rejected[what]
}
