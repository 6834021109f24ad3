//go:build go1.25

package client

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// errDial is a connection that could not be made.
var errDial = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// script is a transport that answers request after request to each host.
type script struct {
	began time.Time
	asked []string // host@time since began
	hosts map[string][]func(*http.Request) (*http.Response, error)
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.Host+"@"+time.Since(s.began).Round(time.Millisecond).String())
	list := s.hosts[r.URL.Host]
	if len(list) > 1 {
		s.hosts[r.URL.Host] = list[1:]
	}
	return list[0](r)
}

func ok(*http.Request) (*http.Response, error) {
	return respond(200, "application/json", `{"bizType":"order","id":"7"}`), nil
}

func says(status int, code string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return problem(status, code, header...), nil }
}

func refused(*http.Request) (*http.Response, error) { return nil, errDial }

func cut(*http.Request) (*http.Response, error) {
	resp := respond(200, "application/json", "")
	resp.Body = io.NopCloser(io.MultiReader(strings.NewReader(`{"bizType":"order"`), failingReader{}))
	return resp, nil
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func page(status int) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return respond(status, "text/html", "<html>Oh</html>"), nil
	}
}

func TestTurns(t *testing.T) {
	type answers = []func(*http.Request) (*http.Response, error)
	get := func(ctx context.Context, c *Client) error { _, err := c.Next(ctx, "order"); return err }
	for _, test := range []struct {
		name    string
		a, b    answers
		wait    time.Duration
		context time.Duration // 0: no end
		ask     func(context.Context, *Client) error
		want    string // the requests; backoffs are random and not shown
		err     Code
	}{
		{name: "a node that works", a: answers{ok}, want: "a@0s"},
		{name: "a node that is not there", a: answers{refused}, b: answers{ok}, want: "a@0s b@0s"},
		{name: "a cut answer", a: answers{cut}, b: answers{ok}, want: "a@0s b@0s"},
		{name: "a node that hangs", a: answers{hangs}, b: answers{ok}, want: "a@0s b@5s"},
		{name: "503 of the service", a: answers{says(503, "stopping", "Retry-After", "1")}, b: answers{ok}, want: "a@0s b@0s"},
		{name: "503 of a proxy", a: answers{page(503)}, b: answers{ok}, want: "a@0s b@0s"},
		{name: "502 of a proxy", a: answers{page(502)}, b: answers{ok}, want: "a@0s b@0s"},
		{name: "504 of a proxy", a: answers{page(504)}, b: answers{ok}, want: "a@0s b@0s"},
		{
			name: "Retry-After of all nodes", a: answers{says(503, "overloaded", "Retry-After", "3"), ok}, b: answers{says(503, "overloaded", "Retry-After", "2"), ok},
			want: "a@0s b@0s b@2s",
		},
		{name: "Retry-After as a date", a: answers{func(*http.Request) (*http.Response, error) {
			return problem(503, "starting", "Retry-After", time.Now().Add(4*time.Second).UTC().Format(http.TimeFormat)), nil
		}, ok}, want: "a@0s a@4s"},
		{name: "Retry-After beyond the wait", a: answers{says(503, "overloaded", "Retry-After", "11")}, want: "a@0s", err: ErrOverloaded},
		{name: "Retry-After beyond the context", a: answers{says(503, "overloaded", "Retry-After", "2")}, context: time.Second, want: "a@0s", err: ErrOverloaded},
		{name: "a quota is of the caller", a: answers{says(429, "too_many_answers", "Retry-After", "2"), ok}, b: answers{ok}, want: "a@0s a@2s"},
		{name: "a rate limit is of the caller", a: answers{says(429, "rate_limited", "Retry-After", "2"), ok}, b: answers{ok}, want: "a@0s a@2s"},
		{
			name: "a rate limit does not shorten the Retry-After of others", a: answers{says(503, "overloaded", "Retry-After", "3"), ok}, b: answers{says(429, "rate_limited", "Retry-After", "1")},
			want: "a@0s b@0s b@1s b@2s a@3s",
		},
		{name: "no waiting", a: answers{refused}, b: answers{says(503, "overloaded", "Retry-After", "1")}, wait: -1, want: "a@0s b@0s", err: ErrOverloaded},
		{name: "no waiting for a rate limit", a: answers{says(429, "rate_limited")}, b: answers{ok}, wait: -1, want: "a@0s", err: ErrRateLimited},
		{name: "a page in its place", a: answers{page(200)}, b: answers{ok}, want: "a@0s", err: ErrBadAnswer},
		{name: "a page for an error", a: answers{page(404)}, b: answers{ok}, want: "a@0s", err: ErrBadAnswer},
		{name: "a redirect", a: answers{func(*http.Request) (*http.Response, error) {
			return respond(307, "text/html", "", "Location", "http://b/seq/order"), nil
		}}, b: answers{ok}, want: "a@0s", err: ErrBadAnswer},
		{name: "an error of the caller", a: answers{says(404, "unknown_biz_type")}, b: answers{ok}, want: "a@0s", err: ErrUnknownBizType},
		{name: "a code of later", a: answers{says(409, "too_lazy")}, b: answers{ok}, want: "a@0s", err: "too_lazy"},
		{name: "a defect", a: answers{says(500, "plugin_panic")}, b: answers{ok}, want: "a@0s", err: ErrPluginPanic},
		{name: "a context that ends", a: answers{hangs}, b: answers{ok}, context: time.Second, want: "a@0s", err: ErrUnreachable},
		{
			name: "a key is sent again", a: answers{cut}, b: answers{ok}, want: "a@0s b@0s",
			ask: func(ctx context.Context, c *Client) error {
				_, err := c.Next(ctx, "order", IdempotencyKey("k"))
				return err
			},
		},
		{name: "a change whose outcome is unknown", a: answers{cut}, b: answers{ok}, ask: change, want: "a@0s", err: ErrUnreachable},
		{name: "a change and a time-out of the service", a: answers{says(503, "timeout")}, b: answers{ok}, ask: change, want: "a@0s", err: ErrTimeout},
		{name: "a change and a proxy", a: answers{page(503)}, b: answers{ok}, ask: change, want: "a@0s", err: ErrUnreachable},
		{name: "a change that was not sent", a: answers{refused}, b: answers{ok}, ask: change, want: "a@0s b@0s"},
		{name: "a change that was not begun", a: answers{says(503, "starting")}, b: answers{ok}, ask: change, want: "a@0s b@0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{began: time.Now(), hosts: map[string]answers{"a": test.a, "b": test.b}}
				cfg := Config{Addrs: []string{"http://a"}, Wait: test.wait, Transport: s}
				if test.b != nil {
					cfg.Addrs = append(cfg.Addrs, "http://b")
				}
				ctx := context.Background()
				if test.context > 0 {
					timed, cancel := context.WithTimeout(ctx, test.context)
					defer cancel()
					ctx = timed
				}
				ask := test.ask
				if ask == nil {
					ask = get
				}
				err := ask(ctx, dial(t, cfg))
				if (err == nil) != (test.err == "") || err != nil && !errors.Is(err, test.err) {
					t.Errorf("got %v, want %v", err, test.err)
				}
				if ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not the end of the context", err)
				}
				if got := strings.Join(s.asked, " "); got != test.want {
					t.Errorf("asked %s, want %s", got, test.want)
				}
			})
		})
	}
}

// change sends a request that must not be carried out twice.
func change(ctx context.Context, c *Client) error {
	_, err := c.Do(ctx, Request{Op: "change", Method: "PUT", Path: "/biz-types/order", Body: []byte("{}")})
	return err
}

// While all nodes are away a call asks them again and again, ever more slowly, and gives up in time.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {refused}, "b": {refused}}}
		c := dial(t, Config{Addrs: []string{"http://a", "http://b"}, Transport: s})
		_, err := c.Next(context.Background(), "order")
		took := time.Since(s.began)
		if e := asError(err); !errors.Is(err, ErrUnreachable) || e.Unknown || !errors.Is(err, errDial) {
			t.Errorf("got %#v", e)
		}
		if took > defaultWait || took < defaultWait-longestBackoff || len(s.asked) < 12 || len(s.asked) > 40 {
			t.Errorf("%d requests in %s", len(s.asked), took)
		}
	})
}

// Nodes that hang take longer than the pause after a failure, so that no call has to wait before it
// asks again. It ends in time all the same, and asks every node before it does.
func TestNodesThatHang(t *testing.T) {
	for _, test := range []struct {
		wait time.Duration
		want string
	}{
		{-1, "a@0s b@5s c@10s"},
		{time.Second, "a@0s b@5s c@10s"},
		{12 * time.Second, "a@0s b@5s c@10s"},
		{0, "a@0s b@5s c@10s"},
		{20 * time.Second, "a@0s b@5s c@10s a@15s b@20s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			type answers = []func(*http.Request) (*http.Response, error)
			s := &script{began: time.Now(), hosts: map[string]answers{"a": {hangs}, "b": {hangs}, "c": {hangs}}}
			c := dial(t, Config{Addrs: []string{"http://a", "http://b", "http://c"}, Wait: test.wait, Transport: s})
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			_, err := c.Next(ctx, "order")
			if e := asError(err); !errors.Is(err, ErrUnreachable) || ctx.Err() != nil || !e.Unknown {
				t.Errorf("wait %s: got %v", test.wait, err)
			}
			if got := strings.Join(s.asked[:min(len(s.asked), 10)], " "); got != test.want {
				t.Errorf("wait %s: asked %s (%d requests), want %s", test.wait, got, len(s.asked), test.want)
			}
		})
	}
}

// A context that ends while a call waits ends the call at once, and the error says both.
func TestContextEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {says(503, "overloaded", "Retry-After", "5")}}}
		c := dial(t, Config{Addrs: []string{"http://a"}, Transport: s})
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		_, err := c.Next(ctx, "order")
		if !errors.Is(err, ErrOverloaded) || !errors.Is(err, context.Canceled) || time.Since(s.began) != time.Second {
			t.Errorf("after %s: %v", time.Since(s.began), err)
		}
		s.asked = nil
		if _, err := c.Next(ctx, "order"); !errors.Is(err, context.Canceled) || len(s.asked) > 0 {
			t.Errorf("asked %q: %v", s.asked, err)
		}
	})
}

// A client stays with the node that answers, also when the first one is back.
func TestSticky(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {refused, ok}, "b": {ok, ok, ok, refused, refused, ok}, "c": {refused}}}
		c := dial(t, Config{Addrs: []string{"http://a", "http://b", "http://c"}, Transport: s})
		var asked []string
		for range 5 {
			s.began, s.asked = time.Now(), nil
			must(c.Next(context.Background(), "order"))(t)
			asked = append(asked, strings.Join(s.asked, " "))
			time.Sleep(time.Minute)
		}
		want := []string{"a@0s b@0s", "b@0s", "b@0s", "b@0s c@0s a@0s", "a@0s"}
		if !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
	})
}

// Nodes that failed a moment ago are asked after the others.
func TestShunned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {ok}, "b": {ok}}}
		c := dial(t, Config{Addrs: []string{"http://a", "http://b"}, Transport: s})
		c.nodes[0].shunned.Store(int64(time.Since(c.began) + time.Second))
		if _, err := c.Next(context.Background(), "order"); err != nil || s.asked[0] != "b@0s" {
			t.Errorf("asked %q: %v", s.asked, err)
		}
	})
}

// Events name every request.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Event
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {hangs}, "b": {ok}}}
		c := dial(t, Config{Addrs: []string{"http://a", "http://b"}, Transport: s, Observe: func(e Event) { got = append(got, e) }})
		must(c.Next(context.Background(), "order"))(t)
		if len(got) != 2 || !errors.Is(got[0].Err, ErrUnreachable) || got[0].Duration != defaultTimeout || got[0].Addr != "http://a" || got[0].Attempt != 1 {
			t.Fatalf("got %+v", got)
		}
		if want := (Event{Op: "next", BizType: "order", Count: 1, Addr: "http://b", Attempt: 2, Status: 200}); got[1] != want {
			t.Errorf("got %+v, want %+v", got[1], want)
		}
	})
}

// Large answers get more time.
func TestTimeoutGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {hangs}}}
		c := dial(t, Config{Addrs: []string{"http://a"}, Wait: -1, Transport: s})
		if _, err := c.NextN(context.Background(), "order", 100_000); !errors.Is(err, ErrUnreachable) || time.Since(s.began) != 10*defaultTimeout {
			t.Errorf("after %s: %v", time.Since(s.began), err)
		}
	})
}

// A buffer waits for the service while its callers do, and no longer.
func TestBufferWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		var away atomic.Bool
		c := dial(t, Config{Addrs: []string{"http://a"}, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return problem(503, "store_unavailable", "Retry-After", "1"), nil
			}
			return fromHandler(service, r), nil
		})})
		b := must(c.Buffer("order", BufferOptions{Size: 10}))(t)
		defer b.Close()
		ctx := context.Background()
		next := func(want string) {
			t.Helper()
			if id, err := b.Next(ctx); err != nil || id != want {
				t.Fatalf("got %q, %v, want %s", id, err, want)
			}
		}
		next("0")
		synctest.Wait()
		away.Store(true)
		for _, want := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			next(want) // in hand
		}
		began := time.Now()
		short, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
		defer cancel()
		if _, err := b.Next(short); !errors.Is(err, ErrStoreUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 3500*time.Millisecond {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if _, err := b.Next(ctx); !errors.Is(err, ErrStoreUnavailable) || time.Since(began) < defaultWait || time.Since(began) > 2*defaultWait {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		time.AfterFunc(2500*time.Millisecond, func() { away.Store(false) })
		began = time.Now()
		next("10")
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("after %s", took)
		}
	})
}

// IDs that are too old are skipped, in the current half and in the next one.
func TestBufferMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		c := dial(t, Config{Addrs: []string{"http://a"}, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return fromHandler(service, r), nil
		})})
		b := must(c.Buffer("order", BufferOptions{Size: 10, MaxAge: time.Minute}))(t)
		defer b.Close()
		next := func(want string) {
			t.Helper()
			if id, err := b.Next(context.Background()); err != nil || id != want {
				t.Fatalf("got %q, %v, want %s", id, err, want)
			}
			synctest.Wait()
		}
		next("0")
		time.Sleep(time.Minute)
		next("1")
		time.Sleep(time.Nanosecond)
		next("10") // both halves are too old
		time.Sleep(30 * time.Second)
		for _, want := range []string{"11", "12", "13", "14", "15"} {
			next(want) // the request for 20 to 24 is sent with the last one
		}
		time.Sleep(40 * time.Second)
		next("20")
	})
}

// fromHandler is an answer of a handler, without a network.
func fromHandler(h http.Handler, r *http.Request) *http.Response {
	w := newRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// A service that asks callers to wait longer than they do is left alone meanwhile, however often
// they ask.
func TestBufferLeavesTheServiceAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{began: time.Now(), hosts: map[string][]func(*http.Request) (*http.Response, error){"a": {says(503, "starting", "Retry-After", "40")}}}
		b := must(dial(t, Config{Addrs: []string{"http://a"}, Wait: 100 * time.Millisecond, Transport: s}).Buffer("order", BufferOptions{}))(t)
		defer b.Close()
		for range 5 {
			fails(b.Next(t.Context()))(t, ErrStarting)
		}
		if want := []string{"a@0s", "a@100ms", "a@200ms", "a@300ms", "a@400ms"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
	})
}
