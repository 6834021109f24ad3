package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
)

// A reservation that expires is reclaimed by the service itself, also after a restart, and the
// rejection handlers of its biz type are told.
func TestReservationsExpire(t *testing.T) {
	told := newHook(t)
	text := fmt.Sprintf(`
store: {bolt: {path: %s}}
bizTypes: [{name: invoice, strategy: gapless, rejected: [{name: webhook, url: "%s", timeout: 1m}]}]
`, filepath.Join(t.TempDir(), "seqd.db"), told.URL)
	s := start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	s.do(201, "POST", "/seq/invoice/reservations?count=3&ttl=1s", "")
	s.awaitGap(seqd.GapReleased)
	s.do(201, "POST", "/seq/invoice/reservations?count=3&ttl=1s", "")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, load(t, text))
	s.await("/readyz", http.StatusOK)
	s.awaitGap(seqd.GapReleased)
	if answer := s.await("/seq/invoice", http.StatusOK); answer != `{"bizType":"invoice","id":"1"}` {
		t.Error(answer)
	}
	if err := s.stop(); err != nil { // posts what waits
		t.Fatal(err)
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	if n := told.rejected["invoice "+string(seqd.CodeReservationExpired)] + told.rejected["invoice incomplete"]; n != 2 {
		t.Errorf("the webhook was told %v", told.rejected)
	}
}

// awaitGap waits until all gaps of invoice are in one state.
func (s *service) awaitGap(state string) {
	s.t.Helper()
	await.Eventually(s.t, "all gaps are "+state, func() error {
		answer, _ := s.do(200, "GET", "/biz-types/invoice/gaps", "")
		if n := strings.Count(answer, `"state":"`+state+`"`); n == 0 || n != strings.Count(answer, `"state":`) {
			return fmt.Errorf("they are %s", answer)
		}
		return nil
	})
}

// A biz type that is forced to be gapless, and back, continues above all its numbers.
func TestStrategyIsForcedToGaplessAndBack(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: invoice}]"))
	if answer := s.await("/seq/invoice", http.StatusOK); answer != `{"bizType":"invoice","id":"1"}` {
		t.Fatal(answer)
	}
	s.do(409, "PUT", "/biz-types/invoice", `{"strategy":"gapless"}`)
	last := int64(1)
	for _, strategy := range []string{"gapless", "segment", "gapless", "snowflake", "gapless", "segment"} {
		s.do(200, "PUT", "/biz-types/invoice?force=true", `{"strategy":"`+strategy+`"}`)
		for range 3 {
			var got struct {
				ID json.Number `json:"id"`
			}
			answer := s.await("/seq/invoice", http.StatusOK)
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatal(answer, err)
			}
			n, err := got.ID.Int64()
			if strategy != "snowflake" && (err != nil || n <= last) {
				t.Fatalf("%s gave %d after %d, %v", strategy, n, last, err)
			}
			if strategy != "snowflake" {
				last = n
			}
		}
	}
}
