package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// TestStatusOfEveryCode checks the status of every code with which a plugin can refuse.
func TestStatusOfEveryCode(t *testing.T) {
	for _, m := range seqd.Codes() {
		t.Run(string(m.Code), func(t *testing.T) {
			veto := plugin{before: func(*seqd.Call) error { return seqd.Errorf(m.Code, "because") }}
			p := wantProblem(t, do(t, newAPI(t, define("order", newCounter(1), veto)), "GET", "/seq/order"), m.Status, m.Code)
			must.Equal(t, p.Detail, "because", "detail")
		})
	}
}

func TestForeignCodeIsInternal(t *testing.T) {
	veto := plugin{before: func(*seqd.Call) error { return seqd.Errorf("made_up", "because") }}
	wantProblem(t, do(t, newAPI(t, define("order", newCounter(1), veto)), "GET", "/seq/order"), 500, "internal")

	sick := newCounter(1)
	sick.health = seqd.Errorf("made_up", "because")
	p := wantProblem(t, do(t, newAPI(t, define("order", sick)), "GET", "/readyz"), 503, "internal")
	if got := p.BizTypes[0].Code; got != "internal" {
		t.Errorf("/readyz lists the code %q, which is not in the closed set; want internal", got)
	}
}

func TestRetryAfter(t *testing.T) {
	tests := []struct {
		wait time.Duration
		want string
	}{
		{-time.Second, "1"}, {0, "1"}, {1, "1"}, {time.Second, "1"}, {1001 * time.Millisecond, "2"}, {time.Hour, "3600"},
		{math.MaxInt64, strconv.FormatInt(int64(math.MaxInt64/time.Second)+1, 10)},
	}
	for _, tt := range tests {
		for _, code := range []seqd.Code{seqd.CodeRateLimited, seqd.CodeStoreUnavailable} {
			t.Run(tt.wait.String()+" "+string(code), func(t *testing.T) {
				veto := plugin{before: func(*seqd.Call) error { return &seqd.Error{Code: code, Detail: "later", RetryAfter: tt.wait} }}
				w := do(t, newAPI(t, define("order", newCounter(1), veto)), "GET", "/seq/order")
				must.Equal(t, w.Header().Get("Retry-After"), tt.want, "Retry-After")
				wantProblem(t, w, statusOf(code), code)
			})
		}
	}
}

// TestFailuresInForeignCode checks that a panic or an error of foreign code fails its own request
// only, and that the answer does not show the cause.
func TestFailuresInForeignCode(t *testing.T) {
	const secret = "hunter2"
	broken := func() error { return errors.New(secret) }
	boom := func() error { panic(secret) }
	onlyOnce := func(f func() error) func() error {
		done := false
		return func() error {
			if done {
				return nil
			}
			done = true
			return f()
		}
	}
	tests := []struct {
		name   string
		make   func(s *counter, p *plugin)
		status int
		code   seqd.Code
	}{
		{"panic in Generate", func(s *counter, _ *plugin) { s.generate = onlyOnce(boom) }, 500, "internal"},
		{"error in Generate", func(s *counter, _ *plugin) { s.generate = onlyOnce(broken) }, 500, "internal"},
		{"timeout in Generate", func(s *counter, _ *plugin) {
			s.generate = onlyOnce(func() error { return fmt.Errorf("%s: %w", secret, context.DeadlineExceeded) })
		}, 503, "timeout"},
		{"panic in Init", func(s *counter, _ *plugin) { s.init = onlyOnce(boom) }, 500, "internal"},
		{"error in Init", func(s *counter, _ *plugin) { s.init = onlyOnce(broken) }, 500, "internal"},
		{"panic in Before", func(_ *counter, p *plugin) { p.before = perCall(onlyOnce(boom)) }, 500, "plugin_panic"},
		{"error in Before", func(_ *counter, p *plugin) { p.before = perCall(onlyOnce(broken)) }, 500, "internal"},
		{"panic in After", func(_ *counter, p *plugin) { p.after = perCall(onlyOnce(boom)) }, 500, "plugin_panic"},
		{"error in After", func(_ *counter, p *plugin) { p.after = perCall(onlyOnce(broken)) }, 500, "internal"},
		{"panic in OnError", func(s *counter, p *plugin) {
			s.generate = onlyOnce(func() error { return seqd.Errorf(seqd.CodeExhausted, "all gone") })
			p.onError = func(*seqd.Call, *seqd.Error) { panic(secret) }
		}, 409, "exhausted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, p := newCounter(1), plugin{}
			tt.make(s, &p)
			api := newStarting(t)
			ready(api, newIssuer(t, define("order", s, p)))
			w := do(t, api, "GET", "/seq/order")
			wantProblem(t, w, tt.status, tt.code)
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("the cause is shown: %s", w.Body)
			}
			if w := do(t, api, "GET", "/seq/order"); w.Code != http.StatusOK {
				t.Errorf("the request after it got status %d: %s", w.Code, w.Body)
			}
		})
	}
}

func perCall(f func() error) func(*seqd.Call) error { return func(*seqd.Call) error { return f() } }

// TestOnErrorAfterPanicInStrategy checks that a plugin whose Before ran is told of every failure,
// so that it can free what it holds for the request.
func TestOnErrorAfterPanicInStrategy(t *testing.T) {
	s, told := newCounter(1), 0
	s.generate = func() error { panic("boom") }
	p := plugin{onError: func(*seqd.Call, *seqd.Error) { told++ }}
	wantProblem(t, do(t, newAPI(t, define("order", s, p)), "GET", "/seq/order"), 500, "internal")
	if told != 1 {
		t.Errorf("OnError ran %d times, want once", told)
	}
}

func TestRewrittenIDs(t *testing.T) {
	for _, shown := range []string{
		"INV-7", `"`, `\`, `","`, "<b>&amp;</b>", "\x00\x01\x1f\x7f", "\t\v", "žluťoučký", "\u2028\u2029", "😀", strings.Repeat(`"`, 300),
	} {
		t.Run(fmt.Sprintf("%.20q", shown), func(t *testing.T) {
			rewrite := plugin{after: func(call *seqd.Call) error {
				call.Sequence.Show(func(dst []byte, _ int64, present []byte) []byte { return append(append(dst, shown...), present...) })
				return nil
			}}
			api := newAPI(t, define("order", newCounter(7), rewrite))
			var one struct{ BizType, ID string }
			if w := do(t, api, "GET", "/seq/order"); json.Unmarshal(w.Body.Bytes(), &one) != nil || one.ID != shown+"7" || one.BizType != "order" {
				t.Errorf("the ID is %q, want %q; body: %s", one.ID, shown+"7", w.Body)
			}
			var many struct{ IDs []string }
			w := do(t, api, "GET", "/seq/order?count=2")
			if json.Unmarshal(w.Body.Bytes(), &many) != nil || len(many.IDs) != 2 || many.IDs[0] != shown+"8" || many.IDs[1] != shown+"9" {
				t.Errorf("the IDs are %q, want %q and %q; body: %s", many.IDs, shown+"8", shown+"9", w.Body)
			}
		})
	}
}

// TestPluginsCannotBreakAnswers checks that, whatever a plugin does to the call, the caller gets an
// error or a well-formed answer with as many IDs as requested, none of them empty.
func TestPluginsCannotBreakAnswers(t *testing.T) {
	show := func(text string) func(*seqd.Call) error {
		return func(call *seqd.Call) error {
			call.Sequence.Show(func(dst []byte, _ int64, _ []byte) []byte { return append(dst, text...) })
			return nil
		}
	}
	set := func(f func(*seqd.Call)) func(*seqd.Call) error {
		return func(call *seqd.Call) error { f(call); return nil }
	}
	tests := []struct {
		name   string
		plugin plugin
	}{
		{"shows nothing", plugin{after: show("")}},
		{"shows two lines", plugin{after: show("a\nb")}},
		{"empties the sequence", plugin{after: set(func(c *seqd.Call) { c.Sequence.Reset() })}},
		{"adds a number", plugin{after: set(func(c *seqd.Call) { c.Sequence.Add(7, 1, 1) })}},
		{"wants more", plugin{before: set(func(c *seqd.Call) { c.Count = 3 })}},
		{"wants less", plugin{before: set(func(c *seqd.Call) { c.Count = 1 })}},
		{"renames the biz type", plugin{before: set(func(c *seqd.Call) { c.BizType = `x"y` })}},
	}
	for _, tt := range tests {
		for _, asked := range []struct {
			query string
			count int
		}{{"", 1}, {"?count=2", 2}} {
			t.Run(tt.name+asked.query, func(t *testing.T) {
				api := newAPI(t, define("order", newCounter(100), tt.plugin))
				if w := do(t, api, "GET", "/seq/order"+asked.query); w.Code == http.StatusOK {
					wantIDs(t, w.Body.Bytes(), asked.query != "", asked.count)
				} else {
					wantProblem(t, w, 500, "internal")
				}
				w := do(t, api, "GET", "/seq/order"+asked.query, "Accept: text/plain")
				if w.Code != http.StatusOK {
					wantProblem(t, w, 500, "internal")
					return
				}
				lines := strings.Split(strings.TrimSuffix(w.Body.String(), "\n"), "\n")
				if len(lines) != asked.count || lines[0] == "" {
					t.Errorf("as text: %q, want %d lines, none empty", w.Body, asked.count)
				}
			})
		}
	}
}

func wantIDs(t *testing.T, body []byte, batch bool, count int) {
	t.Helper()
	var answer struct {
		BizType string
		ID      *string
		IDs     []string
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("the answer is not JSON: %v: %s", err, body)
	}
	if answer.ID != nil {
		answer.IDs = append(answer.IDs, *answer.ID)
	}
	if answer.BizType != "order" || batch != (answer.ID == nil) || len(answer.IDs) != count || answer.IDs[0] == "" {
		t.Errorf("the answer is %s; want biz type order and %d IDs, none empty", body, count)
	}
}

// TestLimitHeaders checks that rate limit headers come with numbers and with refusals.
func TestLimitHeaders(t *testing.T) {
	left := int64(1)
	limit := plugin{before: func(call *seqd.Call) error {
		left--
		call.Limit.Tighten(seqd.Limit{Quota: 20, Remaining: max(left, 0), Reset: 1500 * time.Millisecond})
		if left < 0 {
			return &seqd.Error{Code: seqd.CodeRateLimited, Detail: "too many", RetryAfter: time.Second}
		}
		return nil
	}}
	api := newAPI(t, define("order", newCounter(1), limit), define("other", newCounter(1)))
	for _, status := range []int{200, 429} {
		w := do(t, api, "GET", "/seq/order")
		h := w.Header()
		if w.Code != status || h.Get("RateLimit-Limit") != "20" || h.Get("RateLimit-Remaining") != "0" || h.Get("RateLimit-Reset") != "2" {
			t.Errorf("%d, %v; want %d and a limit", w.Code, h, status)
		}
	}
	// The call is reused by other requests, which have no limit.
	for range 10 {
		if h := do(t, api, "GET", "/seq/other").Header(); h.Get("RateLimit-Limit") != "" {
			t.Errorf("a limit where there is none: %v", h)
		}
	}
}

// showing is a plugin with a resource.
type showing struct {
	plugin
	show func(url.Values) (any, error)
}

func (s showing) ResourceName() string { return "things" }

func (s showing) Show(_ context.Context, query url.Values) (any, error) { return s.show(query) }

func TestResource(t *testing.T) {
	d := define("order", newCounter(1))
	d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: "things", Plugin: showing{show: func(query url.Values) (any, error) {
		switch query.Get("a") {
		case "wrong":
			return nil, seqd.Errorf(seqd.CodeInvalidRequest, "a is wrong")
		case "panic":
			panic("boom")
		case "channel":
			return make(chan int), nil
		}
		return map[string]string{"a": query.Get("a")}, nil
	}}})
	api := newAPI(t, d)
	if w := do(t, api, "GET", "/biz-types/order/things?a=7"); w.Code != 200 || w.Body.String() != `{"a":"7"}` || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	wantProblem(t, do(t, api, "GET", "/biz-types/order/things?a=wrong"), 400, "invalid_request")
	wantProblem(t, do(t, api, "GET", "/biz-types/order/things?a=%zz"), 400, "invalid_request")
	wantProblem(t, do(t, api, "GET", "/biz-types/order/things?a=panic"), 500, "plugin_panic")
	wantProblem(t, do(t, api, "GET", "/biz-types/order/things?a=channel"), 500, "internal")
	wantProblem(t, do(t, api, "GET", "/biz-types/order/other"), 404, "not_found")
	wantProblem(t, do(t, api, "GET", "/biz-types/other/things"), 404, "unknown_biz_type")
	wantProblem(t, do(t, api, "POST", "/biz-types/order/things"), 405, "method_not_allowed")
	wantProblem(t, do(t, newStarting(t), "GET", "/biz-types/order/things"), 503, "starting")
}
