package httpapi_test

import (
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/httpapi"
)

// stuck is a ResponseWriter whose caller does not read until it is released.
type stuck struct {
	reusable
	writing chan struct{} // gets a value when an answer is being written
	release chan struct{}
}

func newStuck() *stuck {
	return &stuck{reusable: reusable{header: make(http.Header)}, writing: make(chan struct{}, 1), release: make(chan struct{})}
}

func (w *stuck) Write(p []byte) (int, error) {
	w.writing <- struct{}{}
	<-w.release
	return w.reusable.Write(p)
}

// wide returns a plugin that displays each number with size bytes.
func wide(size int) plugin {
	shown := []byte(strings.Repeat("x", size))
	return plugin{after: func(call *seqd.Call) error {
		call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, shown...) })
		return nil
	}}
}

// roomy returns an API with room for that many bytes of large answers.
func roomy(t *testing.T, most int64, definitions ...issuer.Definition) *httpapi.API {
	t.Helper()
	api := newStarting(t, func(o *options) { o.MaxInFlightBytes = most })
	issuer := newIssuer(t, definitions...)
	issuer.Init(t.Context())
	ready(api, issuer, remembering())
	return api
}

// hold sends a request whose answer is not read until let is called. It returns once the answer is
// being written.
func hold(t *testing.T, api *httpapi.API, method, target string, headers ...string) (let func() *stuck) {
	t.Helper()
	r := must.Get(newRequest(method, target, headers...))(t)
	w := newStuck()
	var under sync.WaitGroup
	under.Go(func() { api.ServeHTTP(w, r) })
	<-w.writing
	return func() *stuck { close(w.release); under.Wait(); return w }
}

// TestLargeAnswersNeedRoom checks that unread large answers keep other large ones out, before any
// number is taken, and do not affect small ones.
func TestLargeAnswersNeedRoom(t *testing.T) {
	things := showing{show: func(url.Values) (any, error) { return strings.Repeat("x", 2<<20), nil }}
	order := define("order", newCounter(100), wide(100))
	order.Plugins = append(order.Plugins, seqd.BoundPlugin{Name: "things", Plugin: things})
	const large = "/seq/order?count=10000"
	for name, tt := range map[string]struct{ method, target, header string }{
		"json":     {"GET", large, "Accept: */*"},
		"text":     {"GET", large, "Accept: text/plain"},
		"replayed": {"POST", large, "Idempotency-Key: once"},
		"resource": {"GET", "/biz-types/order/things", "Accept: */*"},
	} {
		t.Run(name, func(t *testing.T) {
			api := roomy(t, 1<<20, order, define("other", newCounter(100)), define("third", newCounter(100)))
			if w := do(t, api, tt.method, tt.target, tt.header); w.Code != 200 {
				t.Fatalf("alone it got %d: %s", w.Code, w.Body)
			}
			let := hold(t, api, tt.method, tt.target, tt.header)
			for _, target := range []string{"/seq/other?count=10000", "/biz-types?limit=1000", "/biz-types/order/things?limit=1000"} {
				p := wantProblem(t, do(t, api, "GET", target), 503, seqd.CodeOverloaded)
				if !strings.Contains(p.Detail, "1048576 bytes") {
					t.Errorf("%s: %s", target, p.Detail)
				}
			}
			wantProblem(t, do(t, api, "PUT", "/biz-types/other?limit=1000", "Content-Type: application/json"), 503, seqd.CodeOverloaded)
			wantBody(t, do(t, api, "GET", "/seq/other"), jsonType, `{"bizType":"other","id":"100"}`)
			wantBody(t, do(t, api, "GET", "/seq/other?count=16"), jsonType, `{"bizType":"other","ids":[`+numbers(101, 16, `"`, ",")+"]}")
			// Of two, because one may have the same hash as order, and so the same expected size.
			var small, collided int64
			for _, bizType := range []string{"other", "third"} {
				if w := do(t, api, "GET", "/seq/"+bizType+"?count=20"); w.Code == 200 {
					small++
				} else {
					collided++
				}
			}
			if small == 0 {
				t.Error("small answers are refused")
			}
			if w := do(t, api, "GET", "/biz-types?limit=1"); w.Code != 200 {
				t.Errorf("a small page: %d %s", w.Code, w.Body)
			}
			if shed := api.Load().Shed; shed != 4+collided {
				t.Errorf("%d requests were refused, want 4, and %d small ones", shed, collided)
			}
			must.Equal(t, let().status, 200, "the one that was not read")
			if w := do(t, api, "GET", "/seq/other?count=10000"); w.Code != 200 {
				t.Errorf("afterwards: %d %s", w.Code, w.Body)
			}
			if w := do(t, api, "GET", "/biz-types?limit=1000"); w.Code != 200 {
				t.Errorf("afterwards: %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestRoomIsGivenBack checks that the room is free after every kind of request.
func TestRoomIsGivenBack(t *testing.T) {
	s := newCounter(100)
	api := roomy(t, 1<<20, define("order", s))
	const large = "/seq/order?count=10000"
	for range 20 {
		s.generate = func() error { panic("a strategy that fails") }
		wantProblem(t, do(t, api, "GET", large), 500, seqd.CodeInternal)
		s.generate = func() error { return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"} }
		wantProblem(t, do(t, api, "GET", large), 503, seqd.CodeStoreUnavailable)
		wantProblem(t, do(t, api, "GET", "/seq/nothing?count=10000"), 404, seqd.CodeUnknownBizType)
		wantProblem(t, do(t, api, "GET", "/biz-types?limit=x"), 400, seqd.CodeInvalidRequest)
		s.generate = nil
		if w := do(t, api, "GET", large); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	must.Equal(t, api.Load().Shed, 0, "a request found no room although there was nobody else")
}

// TestNothingIsHeldBesideAnswers checks that only the bytes of answers are held while they are
// written.
func TestNothingIsHeldBesideAnswers(t *testing.T) {
	const answers, count, width = 10, 10_000, 40
	api := roomy(t, 0, define("order", newCounter(100), wide(width), wide(width)))
	for _, request := range [][]string{{"GET", "Accept: */*"}, {"GET", "Accept: text/plain"}, {"POST", "Idempotency-Key: once"}} {
		do(t, api, request[0], "/seq/order?count=10000", request[1])
		before := live()
		var let []func() *stuck
		for range answers {
			let = append(let, hold(t, api, request[0], "/seq/order?count=10000", request[1]))
		}
		each := (live() - before) / answers
		if size := int64(count * (width + 3)); each > size*5/4 {
			t.Errorf("%v: %d bytes are held for an answer of %d", request, each, size)
		}
		for _, f := range let {
			f()
		}
	}
}

// live returns how many bytes are in use, without those in pools.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
