package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// post sends a POST with an Idempotency-Key, unless that is "".
func (s *service) post(path, key string) (status int, body string, replayed bool) {
	s.t.Helper()
	req := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, nil))(s.t)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp := must.Get(http.DefaultClient.Do(req))(s.t)
	data, err := io.ReadAll(resp.Body)
	must.Do(s.t, errors.Join(err, resp.Body.Close()))
	return resp.StatusCode, strings.TrimSuffix(string(data), "\n"), resp.Header.Get("Idempotent-Replayed") == "true"
}

// A request with a key during the start is rejected like any other.
func TestAnswersWhileStarting(t *testing.T) {
	s := start(t, load(t, "store: {driver: mongo, mongo: {uri: \"mongodb://127.0.0.1:1\", timeout: 100ms}}\nsegment: {ordering: per-node}\nbizTypes: [{name: order}]"))
	if status, body, _ := s.post("/seq/order", "k"); status != http.StatusServiceUnavailable {
		t.Errorf("got %d %s", status, body)
	}
}

// Answers do not grow the file of the counters.
func TestAnswersLeaveTheCountersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := start(t, load(t, fmt.Sprintf("store: {bolt: {path: %s}}\nbizTypes: [{name: order}]", path)))
	s.await("/readyz", http.StatusOK)
	if status, body := s.get("/seq/order"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	size := func() int64 {
		info := must.Get(os.Stat(path))(t)
		return info.Size()
	}
	before := size()
	for i := range 300 {
		if status, body, replayed := s.post("/seq/order", fmt.Sprint("k", i)); status != http.StatusOK || replayed {
			t.Fatal(status, body, replayed)
		}
	}
	must.Equal(t, size(), before, "the bytes after 300 answers")
	must.Do(t, s.stop())
}

// When as much is kept for a caller as may be, a new key is refused and spends nothing, and a key
// of before is answered as before.
func TestAnswersAreBounded(t *testing.T) {
	s := start(t, load(t, `store: {driver: memory}
idempotency: {maxBytesPerCaller: 1048576}
bizTypes:
  - {name: checked, plugins: [{name: format, template: "{seq:012}{check}", check: damm}]}
  - {name: order}
  - {name: bill, strategy: gapless}`))
	for _, name := range []string{"checked", "order", "bill"} {
		s.await("/seq/"+name, http.StatusOK) // 1
		if status, body, _ := s.post("/seq/"+name, "first"); status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	full := false
	for i := 0; i < 2000 && !full; i++ {
		status, body, _ := s.post("/seq/checked?count=1000", fmt.Sprint("key", i))
		if full = status == http.StatusTooManyRequests; full {
			wantCode(t, body, seqd.CodeTooManyAnswers)
		} else if status != http.StatusOK {
			t.Fatal(status, body)
		}
	}
	if !full {
		t.Fatal("nothing is refused")
	}
	for _, name := range []string{"order", "bill"} {
		if status, body, _ := s.post("/seq/"+name, "new"); status != http.StatusTooManyRequests {
			t.Error(name, status, body)
		}
		if status, body, replayed := s.post("/seq/"+name, "first"); status != http.StatusOK || !replayed || !strings.Contains(body, `"2"`) {
			t.Error(name, status, body)
		}
		if body := s.await("/seq/"+name, http.StatusOK); !strings.Contains(body, `"3"`) {
			t.Error(name, body)
		}
	}
}

// Reservations without an Idempotency-Key leave how they ended, and count: when as much is kept for
// a caller as may be, nothing more can be reserved, and what is reserved can be settled. Nothing is
// issued that may become void either.
func TestReservationsAreBounded(t *testing.T) {
	s := start(t, load(t, `store: {driver: memory}
idempotency: {maxBytesPerCaller: 1048576}
gapless: {maxReserved: 1000}
bizTypes: [{name: bill, strategy: gapless}, {name: voids, strategy: gapless, onRelease: void}]`))
	s.await("/seq/bill", http.StatusOK)
	s.await("/seq/voids", http.StatusOK)
	var reserved struct{ Reservation string }
	status, body := http.StatusCreated, ""
	for i := 0; i < 1000 && status == http.StatusCreated; i++ {
		if status, body, _ = s.post("/seq/bill/reservations", ""); status == http.StatusCreated {
			must.Do(t, json.Unmarshal([]byte(body), &reserved))
		}
	}
	if status != http.StatusTooManyRequests {
		t.Fatal(status, body)
	}
	wantCode(t, body, seqd.CodeTooManyAnswers)
	if status, body, _ := s.post("/seq/bill/reservations/"+reserved.Reservation+"/confirm", ""); status != http.StatusOK {
		t.Error(status, body)
	}
	s.await("/seq/bill", http.StatusOK)
	if status, body := s.get("/seq/voids"); status != http.StatusTooManyRequests {
		t.Error(status, body)
	}
}
