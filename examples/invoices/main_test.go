package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/command"
	_ "github.com/seqd/seqd/standard"
)

// integration/invoices tests the service with its database and seqd. These tests need neither.

func TestBadBodies(t *testing.T) {
	h := routes(new(service)) // which would panic if a body got as far
	for _, body := range []string{"", "{", "[]", `"o-1"`, `{"cents":1}`, `{"order":"","cents":1}`, `{"order":7}`, strings.Repeat(" ", 1<<17) + `{"order":"o-1"}`} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/invoices", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%.40q: %d %s", body, w.Code, w.Body)
		}
	}
}

// seqd takes the configuration that users are shown.
func TestConfiguration(t *testing.T) {
	var out strings.Builder
	if code := command.Run(t.Context(), []string{"check-config", "--config", "seqd.yaml"}, &out, &out, command.WithEnv(nil)); code != command.ExitOK {
		t.Errorf("%d: %s", code, out.String())
	}
}

// Without a database the service does not start, and says why.
func TestNoDatabase(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	err = run(t.Context(), options{listen: "127.0.0.1:0", database: "postgres://" + addr + "/invoices", seqd: "http://127.0.0.1:1", bizType: "invoice", ttl: time.Minute})
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v", err)
	}
}
