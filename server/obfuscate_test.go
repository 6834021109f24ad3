package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server"
)

// Another key, or another number of digits, is rejected because of the shape in the store (U6). The
// key file is created once. A damaged file ends the start and is not treated as another key.
func TestObfuscate(t *testing.T) {
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "keys", "obfuscate.key")
	text := fmt.Sprintf("bizTypesFrom: config\nstore: {bolt: {path: %s}}\nbizTypes: [{name: order, plugins: [{name: obfuscate, %%s}]}]", filepath.Join(dir, "seqd.db"))
	run := func(settings string, status int) (body string) {
		t.Helper()
		s := start(t, load(t, fmt.Sprintf(text, settings)))
		body = s.await("/seq/order", status)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
		return body
	}
	seen := make(map[string]bool)
	for range 3 {
		seen[run("digits: 8, keyFile: "+keyFile, http.StatusOK)] = true
	}
	s := start(t, load(t, fmt.Sprintf(text, "digits: 8, keyFile: "+keyFile)))
	for body := range seen {
		_, id, _ := strings.Cut(strings.TrimRight(strings.TrimSpace(body), `"}`), `"id":"`)
		if answer := s.await("/seq/order/parse/"+id, http.StatusOK); !strings.Contains(answer, `"id":"`+id+`","number":"`) {
			t.Errorf("%s reads as %s", body, answer)
		}
	}
	wantCode(t, s.await("/seq/order/parse/123", http.StatusBadRequest), seqd.CodeInvalidID)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 3 {
		t.Errorf("the answers %v are not three", seen)
	}
	for _, other := range []string{"digits: 9, keyFile: " + keyFile, "bits: 30, keyFile: " + keyFile, "digits: 8, keyFile: " + keyFile + "2", "digits: 8, key: correct horse"} {
		body := run(other, http.StatusConflict)
		wantCode(t, body, seqd.CodeConflict)
		if strings.Contains(body, "correct horse") {
			t.Errorf("%s shows the key", body)
		}
	}
	if err := os.Truncate(keyFile, 30); err != nil {
		t.Fatal(err)
	}
	var log syncLog
	s = start(t, load(t, fmt.Sprintf(text, "digits: 8, keyFile: "+keyFile)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	wantCode(t, s.await("/seq/order", http.StatusConflict), seqd.CodeConflict)
	if err := s.stop(); err != nil || log.count("plugin obfuscate: keyFile "+keyFile+" is damaged") == 0 {
		t.Errorf("error %v; the log does not say that the file is damaged", err)
	}
}
