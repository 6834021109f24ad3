package httpapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestErrorPages checks that the type of a problem leads to the page of its code, without a token
// and below the path of a proxy.
func TestErrorPages(t *testing.T) {
	api := newGuarded(t)
	for _, target := range []string{"/nowhere", "/seq/order", "/seq/order/", "/a%2Fb/c", "/seq/order/reservations/x/confirm?a=/b", "/errors/nothing"} {
		w := do(t, api, "GET", target)
		var p struct{ Type, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
			t.Fatalf("%s: %v: %s", target, err, w.Body)
		}
		base := must.Get(url.Parse("http://proxy.example/ids" + target))(t)
		path, below := strings.CutPrefix(must.Get(base.Parse(p.Type))(t).Path, "/ids")
		if !below || path != "/errors/"+p.Code {
			t.Errorf("%s: the type %q of %s leads to %s", target, p.Type, p.Code, path)
		}
		for accept, contentType := range map[string]string{"*/*": "text/plain; charset=utf-8", "text/html,*/*;q=0.8": "text/html; charset=utf-8"} {
			w := do(t, api, "GET", path, "Accept: "+accept)
			if w.Code != 200 || w.Header().Get("Content-Type") != contentType || !strings.Contains(w.Body.String(), p.Code) || w.Header().Get("Vary") != "Accept" {
				t.Errorf("%s as %s: %d %v %s", path, accept, w.Code, w.Header(), w.Body)
			}
		}
	}
	wantProblem(t, do(t, api, "GET", "/errors/nothing"), 404, "not_found")
}
