package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
)

// Reservations expire after a restart, and their webhook is told, although nobody has asked for the biz
// type since.
func TestReservationsExpireAfterARestart(t *testing.T) {
	for _, configured := range []bool{true, false} {
		t.Run(fmt.Sprint("configured=", configured), func(t *testing.T) {
			told := newHook(t)
			text := fmt.Sprintf("bizTypesFrom: store\nstore: {bolt: {path: %s}}\n", filepath.Join(t.TempDir(), "seqd.db"))
			definition := fmt.Sprintf(`{"strategy":"gapless","rejected":[{"name":"webhook","url":%q}]}`, told.URL)
			if configured {
				text += fmt.Sprintf("bizTypes: [{name: invoice, strategy: gapless, rejected: [{name: webhook, url: %q}]}]\n", told.URL)
			}
			s := start(t, load(t, text))
			s.await("/readyz", http.StatusOK)
			if !configured {
				s.do(201, "PUT", "/biz-types/invoice", definition)
			}
			s.do(201, "POST", "/seq/invoice/reservations?count=3&ttl=3s", "")
			if err := s.stop(); err != nil {
				t.Fatal(err)
			}
			s = start(t, load(t, text))
			s.await("/readyz", http.StatusOK)
			time.Sleep(12 * time.Second)
			if err := s.stop(); err != nil { // posts what waits
				t.Fatal(err)
			}
			told.mu.Lock()
			defer told.mu.Unlock()
			if n := told.rejected["invoice "+string(seqd.CodeReservationExpired)] + told.rejected["invoice incomplete"]; n != 1 {
				t.Errorf("9 s after the reservation was due, the webhook was told %v", told.rejected)
			}
		})
	}
}
