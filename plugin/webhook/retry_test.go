package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// script is a receiver without a network. It gives the answers in turn, the last one again and
// again, and records the times and contents of the POSTs.
type script struct {
	answers []reply
	at      []time.Time
	posts   []Post
}

// reply is a status, or an error if status is 0.
type reply struct {
	status     int
	retryAfter string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	var post Post
	if err := json.Unmarshal(body, &post); err != nil {
		return nil, err
	}
	s.at, s.posts = append(s.at, time.Now()), append(s.posts, post)
	answer := s.answers[min(len(s.at), len(s.answers))-1]
	switch answer.status {
	case 0:
		return nil, errors.New("connection refused")
	case -1: // hangs
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	h := http.Header{}
	h.Set("Retry-After", answer.retryAfter)
	return &http.Response{StatusCode: answer.status, Header: h, Body: io.NopCloser(strings.NewReader("x"))}, nil
}

// play refuses one request and returns what was posted, and the log.
func play(t *testing.T, change func(*Settings), answers ...reply) (s *script, log string) {
	w, text := open(t, "http://receiver/", change)
	s = &script{answers: answers}
	w.client.Transport = s
	refuse(w, 1)
	time.Sleep(time.Hour)
	shut(t, w)
	return s, text.String()
}

func TestRetries(t *testing.T) {
	for name, test := range map[string]struct {
		answers []reply
		asked   int
	}{
		"taken":               {[]reply{{status: 200}}, 1},
		"taken at last":       {[]reply{{status: 500}, {}, {status: 429}, {status: 202}}, 4},
		"never":               {[]reply{{status: 503}}, 4},
		"nobody there":        {[]reply{{}}, 4},
		"hangs":               {[]reply{{status: -1}}, 4},
		"hangs once":          {[]reply{{status: -1}, {status: 204}}, 2},
		"request timeout":     {[]reply{{status: 408}, {status: 204}}, 2},
		"wrong":               {[]reply{{status: 400}}, 1},
		"no longer there":     {[]reply{{status: 410}}, 1},
		"moved":               {[]reply{{status: 301}}, 1},
		"wrong after a retry": {[]reply{{status: 500}, {status: 401}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := play(t, nil, test.answers...)
				must.Equal(t, len(s.at), test.asked, "the times that it asked")
				last := test.answers[min(test.asked, len(test.answers))-1]
				taken := last.status/100 == 2
				if n := strings.Count(log, "refusals cannot be posted"); n > 1 || (n == 0) != (taken && test.asked == 1) {
					t.Errorf("logged %d times that it failed: %s", n, log)
				}
				if n := strings.Count(log, "can be posted again"); (n == 1) != (taken && test.asked > 1) {
					t.Errorf("logged %d times that it works again: %s", n, log)
				}
			})
		})
	}
}

// TestPauses checks that pauses grow, are random within limits, are never shorter than the receiver
// asked, and never longer than the longest.
func TestPauses(t *testing.T) {
	pauses := func(answer reply, want ...[2]time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s, _ := play(t, func(s *Settings) { s.Retries = len(want) }, answer)
			for i, bounds := range want {
				if d := s.at[i+1].Sub(s.at[i]); d < bounds[0] || d > bounds[1] {
					t.Errorf("%+v: pause %d is %s, want %s to %s", answer, i, d, bounds[0], bounds[1])
				}
			}
		})
	}
	const ms, s = time.Millisecond, time.Second
	grow := [][2]time.Duration{{250 * ms, 500 * ms}, {500 * ms, s}, {s, 2 * s}, {2 * s, 4 * s}, {4 * s, 8 * s}, {8 * s, 16 * s}, {15 * s, 30 * s}, {15 * s, 30 * s}}
	pauses(reply{status: 500}, grow...)
	pauses(reply{status: 500, retryAfter: "20"}, grow[:2]...) // not for this status
	pauses(reply{status: 503, retryAfter: "x"}, grow[:2]...)
	pauses(reply{status: 503, retryAfter: "7"}, [2]time.Duration{7 * s, 7 * s}, [2]time.Duration{7 * s, 7 * s})
	pauses(reply{status: 429, retryAfter: "100000000000"}, [2]time.Duration{30 * s, 30 * s})
	pauses(reply{status: 429, retryAfter: "Fri, 01 Jan 2100 00:00:00 GMT"}, [2]time.Duration{30 * s, 30 * s})
	pauses(reply{status: 429, retryAfter: "Fri, 01 Jan 1999 00:00:00 GMT"}, grow[0])
}

// TestGivenUpIsSaid checks that a batch that is given up is counted, and that the next POST reports
// it.
func TestGivenUpIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := open(t, "http://receiver/", func(s *Settings) { s.Retries = 1 })
		s := &script{answers: []reply{{}, {}, {}, {status: 200}}}
		w.client.Transport = s
		for i := 1; i <= 3; i++ {
			refuse(w, i)
			time.Sleep(time.Minute)
		}
		shut(t, w)
		var dropped []int64
		for _, p := range s.posts {
			dropped = append(dropped, p.Dropped)
		}
		if want := []int64{0, 0, 1, 1, 0}; len(dropped) != len(want) || dropped[2] != 1 || dropped[3] != 1 || dropped[4] != 0 {
			t.Errorf("dropped %v, want %v", dropped, want)
		}
		must.Equal(t, strings.Count(log.String(), "\n"), 2, "the lines, one for the episode and one for its end, of %s", log)
	})
}

// TestStopDuringRetries checks that closing ends a pause and that no POST is repeated then.
func TestStopDuringRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, log := open(t, "http://receiver/", func(s *Settings) { s.Batch = 1 })
		s := &script{answers: []reply{{status: 503, retryAfter: "30"}}}
		w.client.Transport = s
		for i := range 5 {
			refuse(w, i+1)
		}
		synctest.Wait()
		began := time.Now()
		must.Report(t, w.Close(context.Background()))
		if took := time.Since(began); took != 0 || len(s.posts) != 2 {
			t.Errorf("took %s and %d posts", took, len(s.posts))
		}
		if !strings.Contains(log.String(), "dropped=5") {
			t.Errorf("logged %s", log)
		}
	})
}
