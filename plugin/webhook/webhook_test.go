package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

// receiver is a server that keeps what was posted and answers as the test says.
type receiver struct {
	*httptest.Server
	// n counts requests from 1; nil answers 204
	answer func(n int, w http.ResponseWriter, r *http.Request)

	mu      sync.Mutex
	posts   []Post
	bodies  []string
	headers []http.Header
}

func newReceiver(t testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var post Post
	err := json.Unmarshal(body, &post)
	r.mu.Lock()
	r.posts, r.bodies, r.headers = append(r.posts, post), append(r.bodies, string(body)), append(r.headers, req.Header)
	n := len(r.posts)
	r.mu.Unlock()
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.answer != nil:
		r.answer(n, w, req)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (r *receiver) received() []Post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posts
}

func open(t testing.TB, url string, change func(*Settings)) (*Webhook, *strings.Builder) {
	t.Helper()
	settings, log := DefaultSettings(), &strings.Builder{}
	settings.URL, settings.Timeout = url, time.Minute
	if change != nil {
		change(&settings)
	}
	if p := settings.Validate(); len(p) > 0 {
		t.Fatal(p)
	}
	settings.Timeout *= 10 // so that no slow machine meets it
	w := must.Get(New(settings, time.Now, slog.New(slog.NewTextHandler(log, nil))))(t)
	return w, log
}

// refuse refuses request i.
func refuse(w *Webhook, i int) {
	w.Rejected(context.Background(), &seqd.Call{BizType: "order", Count: i}, seqd.Errorf(seqd.CodeRateLimited, "slowly"))
}

func shut(t testing.TB, w *Webhook) {
	t.Helper()
	must.Report(t, w.Close(context.Background()))
}

func TestPost(t *testing.T) {
	began := time.Now()
	r := newReceiver(t, nil)
	w, log := open(t, r.URL+"/hook?token=hunter2", func(s *Settings) { s.Secret = "key" })
	call := &seqd.Call{BizType: "order", Count: 7, Caller: seqd.Caller{Name: "shop", Addr: "10.0.0.1", RequestID: "r1"}}
	w.Rejected(t.Context(), call, &seqd.Error{Code: seqd.CodeTimeout, Detail: "late", Err: fmt.Errorf("inner")})
	w.Rejected(t.Context(), call, seqd.Errorf(seqd.CodeCanceled, "gone"))
	shut(t, w)
	if len(r.received()) != 1 {
		t.Fatalf("received %+v", r.received())
	}
	got := r.posts[0]
	want := Refusal{BizType: "order", Code: seqd.CodeTimeout, Detail: "late", Count: 7, Caller: "shop", Addr: "10.0.0.1", RequestID: "r1", At: got.Refused[0].At}
	if len(got.Refused) != 1 || got.Refused[0] != want || got.Dropped != 0 || want.At.Before(began.Truncate(time.Second)) || want.At.After(time.Now()) {
		t.Errorf("received %+v", got)
	}
	if body := r.bodies[0]; strings.Contains(body, "inner") || !strings.HasPrefix(body, `{"refused":[{"bizType":"order","code":"timeout","detail":"late","count":7,`) {
		t.Errorf("the body is %s", body)
	}
	h := r.headers[0]
	if h.Get("Content-Type") != "application/json" || h.Get("X-Seqd-Signature") != sign([]byte(r.bodies[0]), "key") {
		t.Errorf("the headers are %v", h)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

// TestSignature checks the signature with a published example: RFC 4231, test case 2.
func TestSignature(t *testing.T) {
	const want = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
	must.Equal(t, sign([]byte("what do ya want for nothing?"), "Jefe"), want)
	r := newReceiver(t, nil)
	w, _ := open(t, r.URL, nil)
	refuse(w, 1)
	shut(t, w)
	if h := r.headers[0].Values(signatureHeader); len(h) > 0 {
		t.Errorf("signed without a secret: %v", h)
	}
}

// TestQueue checks that refusals neither wait nor use unlimited memory while a POST hangs: the
// queue fills up and the others are counted. The queued ones arrive in order, in batches, and the
// next POST reports the number of the others.
func TestQueue(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	r := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			close(arrived)
			<-release
		}
		w.WriteHeader(http.StatusOK)
	})
	w, _ := open(t, r.URL, func(s *Settings) { s.Queue, s.Batch, s.Timeout = 25, 10, time.Minute })
	refuse(w, 1)
	<-arrived
	for i := 2; i <= 1000; i++ {
		refuse(w, i) // returns although nobody reads
	}
	wantGauges(t, w, 25, 25, 999-25)
	close(release)
	shut(t, w)
	wantGauges(t, w, 0, 25, 999-25) // still counted after a POST has reported them
	posts, next := r.received(), 1
	var dropped []int64
	for _, p := range posts {
		dropped = append(dropped, p.Dropped)
		for _, refusal := range p.Refused {
			must.Equal(t, refusal.Count, next, "received")
			next++
		}
	}
	if want := []int64{0, 999 - 25, 0, 0}; fmt.Sprint(dropped) != fmt.Sprint(want) || next != 27 {
		t.Errorf("%d refusals in %d posts, dropped %v", next-1, len(posts), dropped)
	}
}

// TestCloseIsBounded checks that closing never takes longer than allowed, however the receiver
// hangs, and that the error says how much was lost.
func TestCloseIsBounded(t *testing.T) {
	arrived := make(chan struct{}, 1)
	r := newReceiver(t, func(_ int, _ http.ResponseWriter, req *http.Request) { arrived <- struct{}{}; <-req.Context().Done() })
	w, _ := open(t, r.URL, func(s *Settings) { s.Timeout = time.Minute })
	refuse(w, 1)
	<-arrived
	refuse(w, 2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Close(ctx); err == nil || !strings.Contains(err.Error(), "2 refusals were not posted") {
		t.Errorf("error %v", err)
	}
}

func TestCloseOfWhatNeverBegan(t *testing.T) {
	w, _ := open(t, "http://127.0.0.1:1", nil)
	shut(t, w)
	refuse(w, 1) // against the contract; it has no effect
}

// TestRedirect checks that a redirect is not followed.
func TestRedirect(t *testing.T) {
	other := newReceiver(t, nil)
	r := newReceiver(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, other.URL, http.StatusTemporaryRedirect)
	})
	w, log := open(t, r.URL, nil)
	refuse(w, 1)
	shut(t, w)
	if len(r.received()) != 1 || len(other.received()) != 0 || !strings.Contains(log.String(), "the answer is 307") {
		t.Errorf("%d and %d posts, logged %s", len(r.received()), len(other.received()), log)
	}
}

// TestEndlessAnswer checks that an endless answer is not read to its end.
func TestEndlessAnswer(t *testing.T) {
	r := newReceiver(t, func(_ int, w http.ResponseWriter, req *http.Request) {
		for req.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	w, log := open(t, r.URL, nil)
	refuse(w, 1)
	shut(t, w)
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

// TestLogHidesTheURL checks that the log shows only the host of the URL.
func TestLogHidesTheURL(t *testing.T) {
	w, log := open(t, "http://user:hunter2@127.0.0.1:1/hunter2?token=hunter2", nil)
	refuse(w, 1)
	shut(t, w)
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "user") || !strings.Contains(text, "host=127.0.0.1:1") {
		t.Errorf("logged %s", text)
	}
}

func TestSettings(t *testing.T) {
	with := func(change func(*Settings)) Settings {
		s := DefaultSettings()
		s.URL = "https://example.com/hook"
		change(&s)
		return s
	}
	url := func(u string) Settings { return with(func(s *Settings) { s.URL = u }) }
	for _, s := range []Settings{url("http://a"), url("https://u:p@a:65535/b?c=d"), url("http://[::1]:80/"), url("HTTPS://a")} {
		if p := s.Validate(); len(p) > 0 {
			t.Errorf("%s: %v", s.URL, p)
		}
	}
	for key, list := range map[string][]Settings{
		"url": {url(""), url("hunter2"), url("ftp://hunter2"), url("http://"), url("http:///hunter2"), url("http://a:0/hunter2"), url("http://a:99999/hunter2"),
			url("http://a:b/hunter2"), url("http://a/%zzhunter2"), url("http://hunter2 a/"), url("http:hunter2"), url("http://a/#hunter2"), url("//hunter2"), url("http://a\nhunter2")},
		"timeout": {with(func(s *Settings) { s.Timeout = 0 }), with(func(s *Settings) { s.Timeout = time.Hour })},
		"queue":   {with(func(s *Settings) { s.Queue = 0 }), with(func(s *Settings) { s.Queue = 100_001 })},
		"batch":   {with(func(s *Settings) { s.Batch = 0 }), with(func(s *Settings) { s.Batch = 10_001 })},
		"retries": {with(func(s *Settings) { s.Retries = -1 }), with(func(s *Settings) { s.Retries = 11 })},
	} {
		for _, s := range list {
			if p := s.Validate(); len(p) != 1 || p[0].Key != key || strings.Contains(p[0].Text, "hunter2") {
				t.Errorf("%+v: %v, want a problem with %s that does not show the URL", s, p, key)
			}
		}
	}
}

func TestRegistered(t *testing.T) {
	factory := must.Get(plugin.LookupRejected("webhook"))(t)
	settings := factory.Settings().(*Settings)
	env := plugin.Env{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	if _, err := factory.New(env, seqd.RejectedBinding{Settings: settings}); err == nil {
		t.Error("it was made without a URL")
	}
	settings.URL = "http://a"
	if h, err := factory.New(env, seqd.RejectedBinding{Settings: settings}); err != nil || h == nil {
		t.Error(err)
	}
}

// wantGauges compares what a handler measures.
func wantGauges(t testing.TB, w *Webhook, queued, size, dropped float64) {
	t.Helper()
	want := map[seqd.Gauge]float64{seqd.GaugeQueued: queued, seqd.GaugeQueueSize: size, seqd.GaugeDropped: dropped}
	got := make(map[seqd.Gauge]float64)
	w.Measure(func(m seqd.Measurement) { got[m.Gauge] = m.Value })
	if !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}
