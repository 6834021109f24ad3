package openloop

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// stalling answers at once, except during one stall. The stall begins some time after the first
// request; requests wait until it is over.
type stalling struct {
	after, length time.Duration

	mu         sync.Mutex // guards what follows
	begin, end time.Time  // of the stall
	keys       map[string]int
	paths      map[string]int
}

func (s *stalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	s.mu.Lock()
	if s.begin.IsZero() {
		s.begin, s.end = now.Add(s.after), now.Add(s.after+s.length)
		s.keys, s.paths = make(map[string]int), make(map[string]int)
	}
	s.keys[r.Header.Get("Idempotency-Key")]++
	s.paths[r.URL.Path]++
	begin, end := s.begin, s.end
	s.mu.Unlock()
	if now.After(begin) {
		time.Sleep(time.Until(end))
	}
	if r.URL.Path == "/refuse" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte("an answer"))
}

// load records a load on a server that stalls for half a second.
func load(t *testing.T, job Job) (*stalling, recording) {
	t.Helper()
	s := &stalling{after: 300 * time.Millisecond, length: 500 * time.Millisecond}
	server := httptest.NewServer(s)
	defer server.Close()
	job.URL, job.Connections, job.Duration, job.Patience = server.URL+job.URL, 4, 1200*time.Millisecond, await.Patience
	h := must.Get(record(t.Context(), job))(t)
	return s, h
}

// Every request that was due during the stall must have waited until its end, even if no connection
// was free for it.
func TestStallCountsForAllItKeptWaiting(t *testing.T) {
	const rate = 1000
	var s *stalling
	var h recording
	await.True(t, "the stall is within the load", func() bool { // not if the machine is slow to begin
		s, h = load(t, Job{Rate: rate})
		return s.end.Before(h.begin.Add(1150 * time.Millisecond))
	})
	during := 0
	for _, e := range h.events {
		due := h.begin.Add(time.Duration(e.due))
		// a request sent just as the stall begins may pass
		if due.Before(s.begin.Add(20*time.Millisecond)) || due.After(s.end) {
			continue
		}
		during++
		if took, least := time.Duration(e.done-e.due), s.end.Sub(due); took < least {
			t.Fatalf("due %s into a stall of %s, a request took %s", due.Sub(s.begin), s.length, took)
		}
	}
	if during < rate*45/100 {
		t.Errorf("%d requests were due during the stall, at %d a second", during, rate)
	}
	r := h.report()
	if r.Took.P90 < 100_000 || r.Took.Most < 400_000 {
		t.Errorf("two fifths of all requests waited up to 500 ms, and the percentiles are %+v", r.Took)
	}
	if want := rate * 12 / 10; r.Sent != want || r.Status[http.StatusOK] != want || r.Unanswered != 0 {
		t.Errorf("%d requests were sent, want %d; the answers are %v", r.Sent, want, r.Status)
	}
}

func TestUnansweredCount(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	h := must.Get(record(t.Context(), Job{URL: server.URL, Rate: 100, Connections: 2, Duration: 200 * time.Millisecond, Patience: 100 * time.Millisecond}))(t)
	r := h.report()
	if r.Sent != 20 || r.Unanswered != 20 || r.Took.N != 20 || r.Took.P50 < 150_000 {
		t.Errorf("20 requests without an answer are reported as %+v", r)
	}
}

func TestRejectionsAndKeys(t *testing.T) {
	s, h := load(t, Job{Rate: 500, URL: "/refuse", Method: "POST", Keys: "run-"})
	r := h.report()
	if r.Status[http.StatusServiceUnavailable] != 600 || r.Good() != 0 {
		t.Errorf("600 rejections are reported as %v, %d good", r.Status, r.Good())
	}
	for key, times := range s.keys {
		if times != 1 || len(key) != len("run-")+keyDigits {
			t.Fatalf("the key %q came %d times", key, times)
		}
	}
}

// An answer may arrive in any pieces.
func TestPieces(t *testing.T) {
	const answer = "HTTP/1.1 503 Service Unavailable\r\nX: y\r\nContent-Length: 5\r\n\r\nhello"
	for at := range len(answer) {
		c, n := &conn{}, 0
		var err error
		for _, piece := range []string{answer[:at], answer[at:]} {
			if c.body {
				n += len(piece)
				continue
			}
			c.header = append(c.header, piece...)
			if n, err = c.parse(); err != nil {
				t.Fatal(err)
			}
		}
		if !c.body || c.status != 503 || c.missing != n || n != len("hello") {
			t.Errorf("in pieces at %d: %+v, %d bytes of the body", at, c, n)
		}
	}
}

func TestNotAnAnswer(t *testing.T) {
	for _, text := range []string{"HTTP/1.1 200 OK\r\n\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1 x\r\nContent-Length: 1\r\n\r\n"} {
		c := &conn{header: []byte(text)}
		if _, err := c.parse(); err == nil {
			t.Errorf("%q is accepted as an answer", text)
		}
	}
}
