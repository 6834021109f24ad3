package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/idempotency"
)

// remembering keeps answers in memory.
func remembering() gate.Answers {
	store := memory.New(time.Now)
	return idempotency.New(idempotency.Options{
		Backend: idempotency.NewStore(store.Documents(), storeclock.New(store, time.Now, nil)), TTL: time.Hour, Wait: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
}

// newRemembering returns an API that keeps its answers.
func newRemembering(tb testing.TB, definitions ...issuer.Definition) *httpapi.API {
	tb.Helper()
	if len(definitions) == 0 {
		definitions = append(definitions, define("order", newCounter(100)))
	}
	api := newStarting(tb)
	issuer := newIssuer(tb, definitions...)
	issuer.Init(tb.Context())
	ready(api, issuer, remembering())
	return api
}

// wantReplay checks whether an answer says that it is a replay.
func wantReplay(tb testing.TB, w *httptest.ResponseRecorder, replayed bool) {
	tb.Helper()
	want := ""
	if replayed {
		want = "true"
	}
	must.Equal(tb, w.Header().Get("Idempotent-Replayed"), want, "Idempotent-Replayed")
	must.Equal(tb, w.Header().Get("Cache-Control"), "no-store", "the answer may be stored")
}

// full is a quota that is used up.
type full struct{}

func (full) Admit(string) error              { return seqd.Errorf(seqd.CodeTooManyAnswers, "too much") }
func (full) Kept(string, int, time.Duration) {}

// A new key is refused if its answer must not be kept.
func TestRefusedKeys(t *testing.T) {
	store := memory.New(time.Now)
	api := newStarting(t)
	issuer := newIssuer(t, define("order", newCounter(100)))
	issuer.Init(t.Context())
	ready(api, issuer, idempotency.New(idempotency.Options{
		Backend: idempotency.NewStore(store.Documents(), storeclock.New(store, time.Now, nil)), TTL: time.Hour, Wait: time.Minute, Quota: full{}, Log: slog.New(slog.DiscardHandler),
	}))
	wantProblem(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: a"), 429, seqd.CodeTooManyAnswers)
}

func TestIdempotencyKey(t *testing.T) {
	api := newRemembering(t)
	const key = "Idempotency-Key: a!~"
	for i, step := range []struct {
		target, accept string
		contentType    string
		body           string
		replayed       bool
	}{
		{"/seq/order", "*/*", jsonType, `{"bizType":"order","id":"100"}`, false},
		{"/seq/order", "*/*", jsonType, `{"bizType":"order","id":"100"}`, true},
		{"/seq/order", "text/plain", textType, "100\n", true},
		{"/seq/order?count=1", "*/*", jsonType, `{"bizType":"order","ids":["100"]}`, true},
	} {
		w := do(t, api, "POST", step.target, key, "Accept: "+step.accept)
		t.Log(i)
		wantBody(t, w, step.contentType, step.body)
		wantReplay(t, w, step.replayed)
	}
	for _, replayed := range []bool{false, true} {
		w := do(t, api, "POST", "/seq/order?count=10000", "Idempotency-Key: b", "Accept: text/plain")
		wantBody(t, w, textType, numbers(101, 10_000, "", "\n")+"\n")
		wantReplay(t, w, replayed)
	}
	w := do(t, api, "POST", "/seq/order?count=10000", "Idempotency-Key: b")
	wantBody(t, w, jsonType, `{"bizType":"order","ids":[`+numbers(101, 10_000, `"`, ",")+"]}")
	wantProblem(t, do(t, api, "POST", "/seq/order?count=2", key), 422, seqd.CodeIdempotencyKeyReused)
	wantBody(t, do(t, api, "POST", "/seq/order"), jsonType, `{"bizType":"order","id":"10101"}`)
}

func TestIdempotencyKeyRefused(t *testing.T) {
	api := newRemembering(t)
	for _, key := range []string{"", "a b", "a\tb", "ü", strings.Repeat("a", 256)} {
		wantProblem(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: "+key), 400, seqd.CodeInvalidRequest)
	}
	wantProblem(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: a", "Idempotency-Key: b"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "GET", "/seq/order", "Idempotency-Key: a"), 400, seqd.CodeInvalidRequest)
	wantProblem(t, do(t, api, "POST", "/seq/other", "Idempotency-Key: a"), 404, seqd.CodeUnknownBizType)
	wantProblem(t, do(t, api, "POST", "/seq/1", "Idempotency-Key: a"), 400, seqd.CodeInvalidBizType)
	wantProblem(t, do(t, api, "POST", "/seq/order?count=0", "Idempotency-Key: a"), 400, seqd.CodeInvalidCount)
	wantProblem(t, do(t, newAPI(t), "POST", "/seq/order", "Idempotency-Key: a"), 400, seqd.CodeInvalidRequest)
	wantBody(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: "+strings.Repeat("a", 255)), jsonType, `{"bizType":"order","id":"100"}`)
}

// TestIdempotencyKeyWithPlugins checks that display forms of plugins are replayed unchanged, in
// JSON and as text, and that rate limit headers and remains of other requests are not.
func TestIdempotencyKeyWithPlugins(t *testing.T) {
	shown := plugin{after: func(call *seqd.Call) error {
		call.Limit = seqd.Limit{Quota: 5, Remaining: 4}
		call.Sequence.Show(func(dst []byte, number int64, _ []byte) []byte { return fmt.Appendf(dst, `"%d"ü<`, number) })
		return nil
	}}
	api := newRemembering(t, define("order", newCounter(7), shown))
	for _, replayed := range []bool{false, true} {
		w := do(t, api, "POST", "/seq/order?count=2", "Idempotency-Key: a")
		wantBody(t, w, jsonType, `{"bizType":"order","ids":["\"7\"ü<","\"8\"ü<"]}`)
		wantReplay(t, w, replayed)
		if limited := w.Header().Get("Ratelimit-Limit") != ""; limited == replayed {
			t.Errorf("headers of a limit: %v, replayed: %v", limited, replayed)
		}
	}
	wantBody(t, do(t, api, "POST", "/seq/order?count=2", "Idempotency-Key: a", "Accept: text/plain"), textType, "\"7\"ü<\n\"8\"ü<\n")
}

// TestIdempotencyKeyAfterRefusal checks that a refused request can be sent again.
func TestIdempotencyKeyAfterRefusal(t *testing.T) {
	refused := false
	c := newCounter(100)
	c.generate = func() error {
		if !refused {
			refused = true
			return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "away"}
		}
		return nil
	}
	api := newRemembering(t, define("order", c))
	wantProblem(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: a"), 503, seqd.CodeStoreUnavailable)
	wantBody(t, do(t, api, "POST", "/seq/order", "Idempotency-Key: a"), jsonType, `{"bizType":"order","id":"100"}`)
}

// FuzzIdempotencyKey sends any key twice. Either both requests are refused, or both get the same
// number.
func FuzzIdempotencyKey(f *testing.F) {
	for _, key := range []string{"a", "", " a ", "a b", "\"a\"", "ü", "\x00", strings.Repeat("a", 255), strings.Repeat("a", 256), "a,b", "a\r\nX: y"} {
		f.Add(key)
	}
	api := newRemembering(f)
	f.Fuzz(func(t *testing.T, key string) {
		var answers [2]*httptest.ResponseRecorder
		for i := range answers {
			r, err := newRequest("POST", "/seq/order", "Idempotency-Key: "+key)
			if err != nil {
				return // net/http answers this one itself
			}
			answers[i] = httptest.NewRecorder()
			api.ServeHTTP(answers[i], r)
			checkAnswer(t, answers[i])
		}
		first, second := answers[0], answers[1]
		if first.Code != second.Code || first.Code != 200 && first.Code != 400 {
			t.Errorf("%q: %d and then %d", key, first.Code, second.Code)
		}
		if first.Code == 200 && first.Header().Get("Idempotent-Replayed")+second.Header().Get("Idempotent-Replayed") != "" && first.Body.String() != second.Body.String() {
			t.Errorf("%q: %s and then %s", key, first.Body, second.Body)
		}
	})
}
