package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/httpapi"
)

// sendJSON sends a request with a body.
func sendJSON(tb testing.TB, api *httpapi.API, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := must.Get(newRequest(method, target, append([]string{"Content-Type: application/json"}, headers...)...))(tb)
	return serveOne(tb, api, withBody(r, body, false))
}

// wantJSON checks the status and the body of an answer in JSON.
func wantJSON(tb testing.TB, w *httptest.ResponseRecorder, status int, body string) {
	tb.Helper()
	if w.Code != status || w.Body.String() != body {
		tb.Errorf("%d %s, want %d %s", w.Code, w.Body, status, body)
	}
	must.Equal(tb, w.Header().Get("Content-Type"), jsonType, "content type")
	must.Equal(tb, w.Header().Get("Cache-Control"), "no-store", "Cache-Control")
}

// wantNothing checks a 204.
func wantNothing(tb testing.TB, w *httptest.ResponseRecorder) {
	tb.Helper()
	if w.Code != 204 || w.Body.Len() > 0 || w.Header().Get("Cache-Control") != "no-store" {
		tb.Errorf("%d %s, Cache-Control %q; want 204", w.Code, w.Body, w.Header().Get("Cache-Control"))
	}
}

// reserve reserves and returns the path of the reservation.
func reserve(tb testing.TB, api *httpapi.API, target string, headers ...string) string {
	tb.Helper()
	w := do(tb, api, "POST", target, headers...)
	if w.Code != 201 {
		tb.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	return located(tb, w, target)
}

// located returns the path that Location leads to in the answer to a request for target.
func located(tb testing.TB, w *httptest.ResponseRecorder, target string) string {
	tb.Helper()
	base := must.Get(url.Parse(target))(tb)
	to := must.Get(base.Parse(w.Header().Get("Location")))(tb)
	return to.Path
}

// TestReservation checks every answer of the contract for one reservation.
func TestReservation(t *testing.T) {
	api, _, _ := newLedgers(t)
	const id, path = "00000000000000000003", "/seq/invoice/reservations/00000000000000000003"
	w := do(t, api, "POST", "/seq/invoice/reservations?count=3&ttl=1m30s")
	wantJSON(t, w, 201, `{"bizType":"invoice","reservation":"`+id+`","ids":["1","2","3"],"expiresAt":"2026-11-20T12:01:30.000Z"}`)
	if got := w.Header().Get("Location"); got != "reservations/"+id { // below the path of any proxy
		t.Errorf("Location is %q", got)
	}
	body := func(state string) string {
		return `{"bizType":"invoice","reservation":"` + id + `","ids":["1","2","3"],"state":"` + state + `","expiresAt":"2026-11-20T12:01:30.000Z"}`
	}
	wantJSON(t, do(t, api, "GET", path), 200, body("reserved"))
	wantJSON(t, do(t, api, "POST", path+"/confirm"), 200, body("confirmed"))
	wantJSON(t, do(t, api, "POST", path+"/confirm"), 200, body("confirmed"))
	wantProblem(t, do(t, api, "DELETE", path), 409, seqd.CodeReservationConfirmed)
	wantJSON(t, do(t, api, "GET", path), 200, body("confirmed"))

	// without a count and a ttl; a release can be repeated
	w = do(t, api, "POST", "/seq/invoice/reservations")
	wantJSON(t, w, 201, `{"bizType":"invoice","reservation":"00000000000000000004","ids":["4"],"expiresAt":"2026-11-20T12:10:00.000Z"}`)
	second := located(t, w, "/seq/invoice/reservations")
	wantNothing(t, do(t, api, "DELETE", second))
	wantNothing(t, do(t, api, "DELETE", second))
	wantProblem(t, do(t, api, "POST", second+"/confirm"), 409, seqd.CodeReservationReleased)
	wantJSON(t, do(t, api, "GET", "/seq/invoice"), 200, `{"bizType":"invoice","id":"4"}`)
}

func TestReservationExpired(t *testing.T) {
	api, invoice, _ := newLedgers(t)
	path := reserve(t, api, "/seq/invoice/reservations?count=2")
	invoice.expire()
	wantProblem(t, do(t, api, "POST", path+"/confirm"), 409, seqd.CodeReservationExpired)
	wantProblem(t, do(t, api, "POST", path+"/confirm"), 409, seqd.CodeReservationExpired)
	if w := do(t, api, "GET", path); !strings.Contains(w.Body.String(), `"state":"expired"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	wantJSON(t, do(t, api, "GET", "/seq/invoice?count=3"), 200, `{"bizType":"invoice","ids":["1","2","3"]}`) // nothing is lost
}

// TestBadReservations checks the code of every wrong request, and that none loses a number.
func TestBadReservations(t *testing.T) {
	api, _, _ := newLedgers(t)
	const reserving = "/seq/invoice/reservations"
	for _, tt := range []struct {
		method  string
		status  int
		code    seqd.Code
		targets string // of which those without a path reserve
	}{
		{"POST", 400, seqd.CodeInvalidTTL, "?ttl=0 ?ttl=0s ?ttl=999ms ?ttl=24h1ns ?ttl=8760h ?ttl=-1m ?ttl=60 ?ttl= ?ttl=1y ?ttl=1e9h ?ttl=1m&ttl=1m"},
		{"POST", 400, seqd.CodeInvalidCount, "?count=0 ?count=101 ?count=10001 ?count=1&count=1"},
		{"POST", 400, seqd.CodeInvalidRequest, "?Ttl=1m ?x=1 ?ttl=%zz /seq/order/reservations /nothing/confirm?x=1"},
		{"POST", 400, seqd.CodeInvalidKey, "?key=a ?key= /seq/tenant/reservations /seq/tenant/reservations?key=a%2Fb /seq/tenant/reservations?key=a&key=a /seq/tenant/reservations?key=a&k%65y=b"},
		{"POST", 404, seqd.CodeUnknownBizType, "/seq/nobody/reservations"},
		{"POST", 400, seqd.CodeInvalidBizType, "/seq/9/reservations"},
		{"POST", 404, seqd.CodeUnknownReservation, "/nothing/confirm"},
		{"GET", 400, seqd.CodeInvalidRequest, "/seq/invoice?ttl=1m /seq/order/reservations/nothing /nothing?key=a"},
		{"GET", 400, seqd.CodeInvalidKey, "/seq/invoice?key=a /seq/invoice?key= /seq/order?key=a /seq/tenant /seq/tenant?key=-a /seq/tenant?key=%00 /seq/tenant?key=a&key=b /seq/tenant?key=" + strings.Repeat("a", 65)},
		{"GET", 404, seqd.CodeUnknownReservation, "/nothing /%00%2F"},
		{"GET", 404, seqd.CodeUnknownBizType, "/seq/nobody/reservations/nothing"},
		{"DELETE", 404, seqd.CodeUnknownReservation, "/nothing"},
		{"GET", 405, seqd.CodeMethodNotAllowed, reserving + " /nothing/confirm"},
		{"PUT", 405, seqd.CodeMethodNotAllowed, "/nothing"},
	} {
		for target := range strings.FieldsSeq(tt.targets) {
			if !strings.HasPrefix(target, "/seq/") {
				target = reserving + target
			}
			w := do(t, api, tt.method, target)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), `"code":"`+string(tt.code)+`"`) {
				t.Errorf("%s %s: %d %s, want %d %s", tt.method, target, w.Code, w.Body, tt.status, tt.code)
				continue
			}
			wantProblem(t, w, tt.status, tt.code)
		}
	}
	wantJSON(t, do(t, api, "GET", "/seq/invoice"), 200, `{"bizType":"invoice","id":"1"}`)
	wantJSON(t, do(t, api, "GET", "/seq/tenant?key=a"), 200, `{"bizType":"tenant","id":"1"}`)

	reserve(t, api, "/seq/invoice/reservations?count=100")
	w := do(t, api, "POST", "/seq/invoice/reservations")
	if w.Code != 409 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "too_many_reserved") {
		t.Errorf("%d %s, Retry-After %q", w.Code, w.Body, w.Header().Get("Retry-After"))
	}
}

// TestKeys checks that each key counts on its own.
func TestKeys(t *testing.T) {
	api, _, _ := newLedgers(t)
	wantJSON(t, do(t, api, "GET", "/seq/tenant?key=a"), 200, `{"bizType":"tenant","id":"1"}`)
	wantJSON(t, do(t, api, "POST", "/seq/tenant?key=b.x-Y_9"), 200, `{"bizType":"tenant","id":"1"}`)
	wantJSON(t, do(t, api, "POST", "/seq/tenant?count=2&key=%61"), 200, `{"bizType":"tenant","ids":["2","3"]}`)
	wantBody(t, do(t, api, "GET", "/seq/tenant?key=a", "Accept: text/plain"), textType, "4\n")
	path := reserve(t, api, "/seq/tenant/reservations?key=b.x-Y_9")
	if !strings.HasSuffix(path, "..b.x-Y_9") {
		t.Errorf("the reservation is at %s", path)
	}
	if w := do(t, api, "POST", path+"/confirm"); w.Code != 200 || !strings.Contains(w.Body.String(), `"ids":["2"],"state":"confirmed"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestOnceInLedger checks that a gapless biz type keeps answers itself.
func TestOnceInLedger(t *testing.T) {
	api, invoice, tenant := newLedgers(t)
	key := "Idempotency-Key: " + strings.Repeat("k", 255)
	for _, tt := range []struct {
		target, body string
		status       int
	}{
		{"/seq/invoice", `{"bizType":"invoice","id":"1"}`, 200},
		{"/seq/tenant?key=a", `{"bizType":"tenant","id":"1"}`, 200},
		{"/seq/tenant?key=b&count=2", `{"bizType":"tenant","ids":["1","2"]}`, 200},
	} {
		for _, replayed := range []bool{false, true} {
			w := do(t, api, "POST", tt.target, key)
			wantJSON(t, w, tt.status, tt.body)
			wantReplay(t, w, replayed)
		}
	}
	for _, replayed := range []bool{false, true} {
		w := do(t, api, "POST", "/seq/invoice/reservations?count=2&ttl=1m", "Idempotency-Key: r")
		wantJSON(t, w, 201, `{"bizType":"invoice","reservation":"00000000000000000003","ids":["2","3"],"expiresAt":"2026-11-20T12:01:00.000Z"}`)
		wantReplay(t, w, replayed)
	}
	for _, target := range []string{
		"/seq/invoice/reservations?count=3&ttl=1m", "/seq/invoice/reservations?count=2&ttl=2m", "/seq/invoice/reservations?count=2", "/seq/invoice?count=2",
	} {
		wantProblem(t, do(t, api, "POST", target, "Idempotency-Key: r"), 422, seqd.CodeIdempotencyKeyReused)
	}
	wantProblem(t, do(t, api, "POST", "/seq/invoice/reservations", key), 422, seqd.CodeIdempotencyKeyReused)
	for _, b := range []*book{invoice, tenant} {
		for _, c := range b.counters {
			for once := range c.once {
				if len(once) == 0 || len(once) > 64 || strings.ContainsFunc(once, func(r rune) bool { return r <= ' ' || r > '~' }) {
					t.Errorf("the ledger gets %q", once)
				}
			}
		}
	}
	load := api.Load()
	if load.Issued != 4 || load.Replayed != 4 || load.Failed != 5 {
		t.Errorf("counted %+v", load)
	}
}

func TestOnceRefused(t *testing.T) {
	api, _, _ := newLedgers(t)
	wantProblem(t, do(t, api, "GET", "/seq/invoice", "Idempotency-Key: a"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "POST", "/seq/invoice/reservations", "Idempotency-Key: ü"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "POST", "/seq/invoice/reservations", "Idempotency-Key: a", "Idempotency-Key: b"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "POST", "/seq/order/reservations", "Idempotency-Key: a"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "POST", "/seq/tenant/reservations", "Idempotency-Key: a"), 400, seqd.CodeInvalidKey)
	wantProblem(t, do(t, api, "POST", "/seq/nobody/reservations", "Idempotency-Key: a"), 404, seqd.CodeUnknownBizType)
	// a ledger keeps answers itself, also if nothing else does
	bare := newAPI(t, defineBook("invoice", newBook(false)))
	wantJSON(t, do(t, bare, "POST", "/seq/invoice", "Idempotency-Key: a"), 200, `{"bizType":"invoice","id":"1"}`)
}

// TestReservationShown checks display forms in reservations: escaped, and the same after
// confirming.
func TestReservationShown(t *testing.T) {
	show := plugin{after: func(call *seqd.Call) error {
		call.Sequence.Show(func(dst []byte, number int64, _ []byte) []byte { return fmt.Appendf(dst, `"%d"`, number) })
		return nil
	}}
	d := defineBook("invoice", newBook(false), show)
	d.Plugins[0].Rewrites = true
	api := newRemembering(t, d)
	path := reserve(t, api, "/seq/invoice/reservations?count=20")
	w := do(t, api, "POST", path+"/confirm")
	var got struct{ IDs []string }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.IDs) != 20 || got.IDs[19] != `"20"` {
		t.Errorf("%v: %s", err, w.Body)
	}
}

// TestSettlingIsForTheCaller checks who may look at, confirm and release a reservation.
func TestSettlingIsForTheCaller(t *testing.T) {
	newGuardedLedger := func() *httpapi.API {
		return newGuardedBooks(t, map[string][]string{
			"shop": {"issue:invoice"}, "till": {"issue:invoice"}, "ops": {"admin"}, "auditor": {"read"}, "other": {"issue:order"},
		})
	}
	for _, tt := range []struct {
		method, suffix string
		allowed        string
	}{
		{"GET", "", "shop ops auditor"},
		{"POST", "/confirm", "shop ops"},
		{"DELETE", "", "shop ops"},
	} {
		for _, name := range []string{"shop", "till", "ops", "auditor", "other"} {
			api := newGuardedLedger()
			path := reserve(t, api, "/seq/invoice/reservations", auth("shop"))
			w := do(t, api, tt.method, path+tt.suffix, auth(name))
			if !strings.Contains(" "+tt.allowed+" ", " "+name+" ") {
				wantProblem(t, w, 403, seqd.CodeForbidden)
				if w := do(t, api, "GET", path, auth("shop")); !strings.Contains(w.Body.String(), `"state":"reserved"`) {
					t.Errorf("%s %s by %s: it is %s", tt.method, tt.suffix, name, w.Body)
				}
			} else if w.Code > 204 {
				t.Errorf("%s %s by %s: %d %s", tt.method, tt.suffix, name, w.Code, w.Body)
			}
		}
	}
	// administrators and auditors take no numbers
	for _, name := range []string{"ops", "auditor"} {
		wantProblem(t, do(t, newGuardedLedger(), "POST", "/seq/invoice/reservations", auth(name)), 403, seqd.CodeForbidden)
	}
}

// TestTokenOfOneKey checks that a token for one key is worth nothing for another, nor without one.
func TestTokenOfOneKey(t *testing.T) {
	api := newGuardedBooks(t, map[string][]string{"t1": {"issue:tenant/t1"}, "t2": {"issue:tenant/t2"}, "all": {"issue:tenant"}, "ops": {"admin"}})
	foreign := reserve(t, api, "/seq/tenant/reservations?key=t2&count=2", auth("t2"))
	mine := reserve(t, api, "/seq/tenant/reservations?key=t1", auth("t1"))
	forged := strings.TrimSuffix(foreign, "t2") + "t1"
	for _, tt := range []struct {
		method, target string
		status         int
	}{
		{"GET", "/seq/tenant?key=t1", 200},
		{"POST", "/seq/tenant?key=%741&count=2", 200},
		{"GET", "/seq/tenant?key=t2", 403},
		{"GET", "/seq/tenant?key=t10", 403},
		{"GET", "/seq/tenant", 403},
		{"GET", "/seq/tenant?", 403},
		{"GET", "/seq/tenant?count=1", 403},
		{"GET", "/seq/tenant?key=t1&key=t2", 403},
		{"GET", "/seq/tenant?key=t2&key=t1", 403},
		{"GET", "/seq/tenant?key=t2&k%65y=t1", 403},
		{"GET", "/seq/tenant?key=t1&%6Bey=t2", 403},
		{"GET", "/seq/tenant?key=t1;key=t2", 403},
		{"GET", "/seq/tenant?key=t1&%zz", 403},
		{"GET", "/seq/tenant?Key=t1", 403},
		{"GET", "/seq/tenant?key=t1%2Ft2", 403},
		{"GET", "/seq/tenant?key=", 403},
		{"GET", "/seq/tenant%2Ft1", 400}, // no biz type has such a name
		{"GET", "/seq/tenant%2Ft1?key=t1", 403},
		{"GET", "/seq/order?key=t1", 403},
		{"GET", "/seq/tenant/parse/1", 403},
		{"POST", "/seq/tenant/reservations?key=t1", 201},
		{"POST", "/seq/tenant/reservations?key=t2", 403},
		{"POST", "/seq/tenant/reservations", 403},
		{"GET", mine, 200},
		{"GET", foreign, 403},
		{"POST", foreign + "/confirm", 403},
		{"DELETE", foreign, 403},
		{"GET", forged, 404}, // another's ID with one's own key is no reservation
		{"POST", forged + "/confirm", 404},
		{"DELETE", forged, 404},
		{"GET", strings.TrimSuffix(foreign, "..t2"), 403},
		{"GET", "/seq/tenant/reservations/x", 403},
		{"GET", "/seq/tenant/reservations/x..t1", 404},
		{"GET", "/seq/tenant/reservations/x..t1.t2", 403},
		{"GET", "/seq/tenant/reservations/x.t1", 403},
		{"GET", "/seq/tenant/reservations/x..t1%2Ft2", 403},
		{"GET", "/biz-types/tenant/keys", 403},
		{"GET", "/biz-types/tenant/gaps?key=t1", 403},
		{"GET", "/biz-types/tenant/history", 403},
		{"POST", "/biz-types/tenant/voids?key=t1", 403},
	} {
		if w := do(t, api, tt.method, tt.target, auth("t1")); w.Code != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.method, tt.target, w.Code, w.Body, tt.status)
		}
	}
	if w := do(t, api, "GET", foreign, auth("t2")); !strings.Contains(w.Body.String(), `"state":"reserved"`) {
		t.Errorf("the other's reservation is %s", w.Body)
	}
	wantProblem(t, do(t, api, "GET", mine, auth("all")), 403, seqd.CodeForbidden) // not the caller who reserved
	if w := do(t, api, "GET", "/seq/tenant?key=t2", auth("all")); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// newGuardedBooks returns an API that requires tokens, with the biz types of newLedgers.
func newGuardedBooks(tb testing.TB, scopes map[string][]string) *httpapi.API {
	tb.Helper()
	tokens := newTokensOf(tb, scopes)
	api := newStarting(tb, func(o *options) { o.Guard, o.Tokens = tokens, tokens })
	issuer := newIssuer(tb, defineBook("invoice", newBook(false)), defineBook("tenant", newBook(true)), define("order", newCounter(100)))
	issuer.Init(tb.Context())
	ready(api, issuer)
	return api
}
