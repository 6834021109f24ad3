package admin_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
)

// A result is downloaded in parts, several at a time, from any byte on; a part that is not the one
// that was asked for ends the download, and what was written is the beginning of the result.
func TestJobResult(t *testing.T) {
	var b strings.Builder
	for i := range 3_000_000 {
		fmt.Fprintln(&b, i)
	}
	text := b.String()
	for _, tt := range []struct {
		name string
		from int
		// wrong answers a request from the third on.
		wrong func(w http.ResponseWriter, r *http.Request)
	}{
		{name: "all of it"},
		{name: "from the middle", from: 12_345_678},
		{name: "the last byte", from: len(text) - 1},
		{name: "nothing", from: len(text)},
		{name: "another result", wrong: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"b"`)
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text[1:]))
		}},
		{name: "another part", wrong: func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=0-4194303")
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		}},
		{name: "a shorter part", wrong: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Range", strings.Replace(r.Header.Get("Range"), "=", " ", 1)+fmt.Sprintf("/%d", len(text)))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write([]byte("0\n"))
		}},
		{name: "a refusal", wrong: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var requests atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Set("Etag", `"a"`)
				if requests.Add(1) > 2 && tt.wrong != nil {
					tt.wrong(w, r)
					return
				}
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
			}))
			defer server.Close()
			c, err := client.New(client.Config{Addrs: []string{server.URL}, Wait: -1})
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			n, err := admin.New(c).JobResult(t.Context(), "x", int64(tt.from), false, &got)
			if int(n) != got.Len() || !strings.HasPrefix(text[tt.from:], got.String()) {
				t.Errorf("%d bytes, %d of them written, which are not in the result from %d on", n, got.Len(), tt.from)
			}
			if whole := got.Len() == len(text)-tt.from; whole != (tt.wrong == nil) || whole != (err == nil) {
				t.Errorf("%d of %d bytes, and the error %v", got.Len(), len(text)-tt.from, err)
			}
		})
	}
}
