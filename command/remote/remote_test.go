package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/must"
)

// outcome is the output and the exit code of a command line.
type outcome struct {
	code      int
	out, errs string
}

// patient lets commands wait for an answer for as long as a slow machine needs.
const patient = "--timeout=10m"

// line runs a command line against a service.
type line struct {
	t   *testing.T
	env []string
	in  string
}

func (l line) run(args ...string) outcome {
	l.t.Helper()
	var out, errs strings.Builder
	if reads := strings.HasPrefix(args[0], "__") || args[0] == "help" || args[0] == "completion"; l.env != nil && !reads && !slices.Contains(args, "--timeout") {
		args = append(slices.Clone(args), patient)
	}
	code := command.Run(l.t.Context(), args, &out, &errs, command.WithEnv(l.env), command.WithInput(strings.NewReader(l.in)))
	return outcome{code, out.String(), errs.String()}
}

// want runs a command line that succeeds.
func (l line) want(want string, args ...string) {
	l.t.Helper()
	if got := l.run(args...); got != (outcome{0, want, ""}) {
		l.t.Errorf("%q: %+v, want %q", args, got, want)
	}
}

// wantError runs a command line that fails, with an error that contains a text, and without output.
func (l line) wantError(code int, want string, args ...string) {
	l.t.Helper()
	got := l.run(args...)
	printed := got.out != "" && (!slices.Contains(args, "--json") || !json.Valid([]byte(got.out)))
	if got.code != code || printed || !strings.HasPrefix(got.errs, "seqd: ") || !strings.Contains(got.errs, want) || !strings.HasSuffix(got.errs, "\n") {
		l.t.Errorf("%q: %+v, want %d and %q", args, got, code, want)
	}
}

// asked is one request that a fake service got.
type asked struct{ method, target, body, match, none, auth, media string }

// fake is a service that answers as it is told, and remembers requests.
type fake struct {
	mu    sync.Mutex
	asked []asked
	url   string
}

// answering returns a fake service. answer gets each request.
func answering(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *fake {
	t.Helper()
	f := &fake{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		must.Report(t, err)
		f.mu.Lock()
		f.asked = append(f.asked, asked{r.Method, r.URL.RequestURI(), string(body), r.Header.Get("If-Match"), r.Header.Get("If-None-Match"), r.Header.Get("Authorization"), r.Header.Get("Content-Type")})
		f.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func (f *fake) line(t *testing.T) line {
	return line{t: t, env: []string{"SEQD_CLIENT_ADDR=" + f.url}}
}

// targets returns what was asked.
func (f *fake) targets() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		list = append(list, a.method+" "+a.target)
	}
	return list
}

func (f *fake) last() asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}

// answerJSON answers with JSON.
func answerJSON(status int, text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// problem answers with a problem document.
func problem(status int, code, detail string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"about:blank","title":"x","status":%d,"code":%q,"detail":%q}`, status, code, detail)
	}
}

// issuing answers as a service with a largest count, and counts numbers.
func issuing(most int) func(http.ResponseWriter, *http.Request) {
	issued := 0
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("count"))
		if n > most {
			problem(400, "invalid_count", fmt.Sprintf("count is %d and must be 1 to %d", n, most))(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		for range n {
			issued++
			fmt.Fprintln(w, issued)
		}
	}
}

func TestNext(t *testing.T) {
	f := answering(t, issuing(10_000))
	l := f.line(t)
	l.want("1\n", "next", "order")
	l.want("2\n3\n", "next", "order", "-n", "2")
	l.want("{\"bizType\":\"order\",\"ids\":[\"4\",\"5\"]}\n", "next", "-n2", "order", "--json")
	got := l.run("next", "order", "-n", "25000")
	lines := strings.Split(got.out, "\n")
	if got.code != 0 || len(lines) != 25001 || lines[0] != "6" || lines[24999] != "25005" {
		t.Errorf("exit code %d, %d lines, %q", got.code, len(lines), got.errs)
	}
	want := []string{"GET /seq/order?count=1", "GET /seq/order?count=2", "GET /seq/order?count=2", "GET /seq/order?count=10000", "GET /seq/order?count=10000", "GET /seq/order?count=5000"}
	if got := f.targets(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

// If server.maxCount is smaller than usual, the requests become smaller, and no number is skipped.
func TestNextOfAServiceWithASmallMaximum(t *testing.T) {
	for _, most := range []int{1, 7, 300} {
		f := answering(t, issuing(most))
		got := f.line(t).run("next", "order", "-n", "1000", "--json")
		var answer struct{ IDs []string }
		if err := json.Unmarshal([]byte(got.out), &answer); err != nil || got.code != 0 || len(answer.IDs) != 1000 {
			t.Fatalf("%v: %d numbers, %q", err, len(answer.IDs), got.errs)
		}
		for i, id := range answer.IDs {
			if id != strconv.Itoa(i+1) {
				t.Fatalf("number %d is %s", i+1, id)
			}
		}
	}
}

// What was issued before a failure is printed, and the error says how much that is.
func TestNextFailsInBetween(t *testing.T) {
	issue, requests := issuing(10_000), 0
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests%3 == 0 {
			problem(409, "exhausted", "all numbers are used up")(w, r)
			return
		}
		issue(w, r)
	})
	got := f.line(t).run("next", "order", "-n", "30000")
	if got.code != 1 || strings.Count(got.out, "\n") != 20_000 || got.errs != "seqd: after 20000 of 30000 numbers: exhausted: all numbers are used up\n" {
		t.Errorf("exit code %d, %d lines, %q", got.code, strings.Count(got.out, "\n"), got.errs)
	}
	got = f.line(t).run("next", "order", "-n", "30000", "--json")
	if got.code != 1 || !json.Valid([]byte(got.out)) || !strings.HasSuffix(got.out, `,"error":"after 20000 of 30000 numbers: exhausted: all numbers are used up"}`+"\n") {
		t.Errorf("exit code %d, %q", got.code, got.errs)
	}
}

func TestNextWithAKey(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "payment-1" || r.Method != http.MethodPost {
			t.Errorf("%s with the key %q", r.Method, r.Header.Get("Idempotency-Key"))
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		_, _ = io.WriteString(w, "7\n")
	})
	l := f.line(t)
	l.want("7\n", "next", "invoice", "--idempotency-key", "payment-1")
	l.wantError(78, "for one request", "next", "invoice", "--idempotency-key", "a", "-n", "10001")
	l.wantError(1, "invalid_request", "next", "invoice", "--idempotency-key", "")
}

func TestUsage(t *testing.T) {
	l := line{t: t, env: []string{"SEQD_CLIENT_ADDR=http://127.0.0.1:1"}}
	for _, test := range []struct {
		want string
		args []string
	}{
		{"next needs BIZTYPE; see seqd help next", []string{"next"}},
		{`the level "loud" is not one of debug, info, warn, error`, []string{"log-level", "loud"}},
		{`unexpected argument "now"`, []string{"reload", "now"}},
		{`unexpected argument "b"; see seqd help next`, []string{"next", "a", "b"}},
		{"-n 0: at least 1", []string{"next", "a", "-n", "0"}},
		{"-n -3: at least 1", []string{"next", "a", "-n", "-3"}},
		{`unexpected argument "3"; for 3 numbers say -n 3; see seqd help next`, []string{"next", "a", "3"}},
		{`--count "x": want a whole number; see seqd help next`, []string{"next", "a", "-n", "x"}},
		{`--count "010": want a whole number`, []string{"next", "a", "-n", "010"}}, // 8 in C
		{`--count "0x10": want a whole number`, []string{"next", "a", "-n", "0x10"}},
		{`--if-match "1_000": want a whole number`, []string{"biz-types", "delete", "a", "--if-match", "1_000"}},
		{`--ttl "1h1h": want a duration such as 10s`, []string{"reserve", "a", "--ttl", "1h1h"}},
		{`--json "1": want true or false`, []string{"next", "a", "--json=1"}},
		{`--timeout "10": want a duration such as 10s`, []string{"next", "a", "--timeout", "10"}},
		{"unknown flag: --server.addr; this command reads no configuration: --addr says where the service is; see seqd help next", []string{"next", "a", "--server.addr", "x"}},
		{"unknown flag: --colour; see seqd help next", []string{"next", "a", "--colour"}},
		{"generate needs --count and --output; see seqd help generate", []string{"generate", "a"}},
		{"parse needs BIZTYPE and ID", []string{"parse", "order"}},
		{`no command "lst" in seqd biz-types; see seqd help biz-types; did you mean list?`, []string{"biz-types", "lst"}},
		{`no command "lst" in seqd biz-types; see seqd help biz-types; did you mean list?`, []string{"--timeout=10m", "biz-types", "lst"}},
		{`no command "lst" in seqd biz-types; see seqd help biz-types; did you mean list?`, []string{"biz-types", "--json", "--addr", "list", "lst", "x"}},
		{"biz-types needs a command: list, get, put, patch, enable, disable, delete", []string{"biz-types"}},
		{"biz-types needs a command", []string{"biz-types", "--timeout", "10m", "--addr", "lst"}},
		{"tokens needs a command: list, get, create, change, delete", []string{"tokens", "--json"}},
		{"biz-types get needs BIZTYPE", []string{"biz-types", "get"}},
		{"it has no scheme", []string{"nodes", "--addr", "localhost:8080"}},
		{"--if-match 0: versions begin at 1", []string{"biz-types", "enable", "a", "--if-match", "0"}},
		{"--if-match -1", []string{"tokens", "delete", "a", "--yes", "--if-match", "-1"}},
		{"use only one of --create and --if-match; see", []string{"biz-types", "put", "a", "--if-match", "1", "--create"}},
		{"add --yes", []string{"biz-types", "delete", "a"}},
		{"add --yes", []string{"tokens", "delete", "a"}},
		{"at least one --scope", []string{"tokens", "create", "a"}},
		{"--expires tomorrow: want a time", []string{"tokens", "create", "a", "--scope", "read", "--expires", "tomorrow"}},
		{"--expires 0001-01-01T00:00:00Z: want a time", []string{"tokens", "create", "a", "--scope", "read", "--expires", "0001-01-01T00:00:00Z"}},
		{"--expires -1h: want a time", []string{"tokens", "change", "a", "--expires", "-1h"}},
		{"there is nothing to change", []string{"tokens", "change", "a"}},
		{"no such file", []string{"biz-types", "put", "a", "missing.yaml"}},
		{"standard input is empty", []string{"biz-types", "put", "a"}},
		{"--set \"step\": want KEY=VALUE", []string{"biz-types", "patch", "a", "--set", "step"}},
		{"--set a.b: it is set twice", []string{"biz-types", "patch", "a", "--set", "a=1", "--set", "a.b=2"}},
		{"--set a: it is set twice", []string{"biz-types", "patch", "a", "--set", "a=1", "--set", "a=2"}},
		{"--set a: ", []string{"biz-types", "patch", "a", "--set", "a={"}},
		{"cannot be used together", []string{"biz-types", "patch", "a", "x.yaml", "--set", "a=1"}},
	} {
		l.wantError(78, test.want, test.args...)
	}
}

// What goes wrong on the way to the service is an error that says what to do.
func TestNoService(t *testing.T) {
	html := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<html>It works!</html>")
	})
	redirect := answering(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere/", http.StatusFound)
	})
	notJSON := answering(t, answerJSON(200, `{"nodes":`))
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, test := range []struct{ name, addr, want string }{
		{"nobody listens", gone.URL, gone.URL + " cannot be reached: connection refused; is seqd running? --addr or SEQD_CLIENT_ADDR names another address"},
		{"a web server", html.url, "bad_answer: "},
		{"a redirect", redirect.url, "redirects"},
		{"half JSON", notJSON.url, "bad_answer: "},
		{"no such host", "http://nowhere.invalid", "http://nowhere.invalid cannot be reached: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := line{t: t, env: []string{"SEQD_CLIENT_ADDR=" + test.addr}}
			for _, args := range [][]string{{"next", "a"}, {"parse", "a", "1"}, {"nodes"}, {"biz-types", "list"}, {"biz-types", "get", "a"}, {"tokens", "list"}, {"top"}, {"biz-types", "delete", "a", "--yes"}} {
				if test.addr == notJSON.url && args[len(args)-1] == "--yes" {
					continue // the answer to DELETE has no body
				}
				got := l.run(args...)
				if got.code != 1 || got.out != "" || !strings.Contains(got.errs, test.want) && !(strings.Contains(got.errs, "bad_answer: ") && strings.HasPrefix(test.want, "bad_answer")) || strings.Count(got.errs, "\n") != 1 {
					t.Errorf("%q: %+v, want %q", args, got, test.want)
				}
			}
		})
	}
}

// One node is away and the other answers.
func TestFailsOver(t *testing.T) {
	gone := httptest.NewServer(nil)
	f := answering(t, issuing(10_000)) // before the port of gone is free
	gone.Close()
	for range 8 { // a client begins with one of them at random
		l := line{t: t}
		if got := l.run("next", "order", "--addr", gone.URL, "--addr", f.url); got.code != 0 || got.errs != "" {
			t.Errorf("%+v", got)
		}
	}
}

// A variable that no command reads is refused: else a mistyped SEQD_CLIENT_ADDR would lead to
// another service.
func TestUnknownVariable(t *testing.T) {
	f := answering(t, answerJSON(200, `{"bizType":"order","id":"1"}`))
	l := f.line(t)
	l.env = append(l.env, "SEQD_CLIENT_ADDRS=http://b")
	l.wantError(78, "environment variable SEQD_CLIENT_ADDRS: there is none of this name; there are SEQD_CLIENT_ADDR, SEQD_CLIENT_TOKEN, SEQD_CLIENT_DSN", "next", "order")
}

// The token is sent, and shown nowhere.
func TestToken(t *testing.T) {
	f := answering(t, problem(401, "unauthorized", "a token is needed"))
	l := f.line(t)
	l.wantError(1, "unauthorized: a token is needed; set SEQD_CLIENT_TOKEN to a token of the service", "next", "order")
	must.Equal(t, f.last().auth, "", "sent")
	l.env = append(l.env, "SEQD_CLIENT_TOKEN=seqd_secret")
	l.wantError(1, "is wrong, expired or disabled", "nodes")
	must.Equal(t, f.last().auth, "Bearer seqd_secret", "sent")
	if got := l.run("nodes", "--token", "seqd_other"); strings.Contains(got.errs, "seqd_other") || f.last().auth != "Bearer seqd_other" {
		t.Errorf("sent %q: %+v", f.last().auth, got)
	}
}

// A reader that has seen enough ends the command quietly; a full disk does not.
func TestOutputEnds(t *testing.T) {
	f := answering(t, issuing(10_000))
	for _, test := range []struct {
		err  error
		code int
		errs string
	}{
		{syscall.EPIPE, 0, ""},
		{&os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, 0, ""},
		{syscall.ENOSPC, 1, "seqd: write the output: no space left on device\n"},
	} {
		out := &endingWriter{left: 2, err: test.err}
		var errs strings.Builder
		code := command.Run(t.Context(), []string{patient, "next", "order", "-n", "1000000"}, out, &errs, command.WithEnv([]string{"SEQD_CLIENT_ADDR=" + f.url}))
		if code != test.code || errs.String() != test.errs {
			t.Errorf("%v: exit code %d, %q", test.err, code, errs.String())
		}
	}
	if n := len(f.targets()); n > 20 {
		t.Errorf("%d requests were sent after the output had ended", n)
	}
}

// endingWriter fails after some writes.
type endingWriter struct {
	left int
	err  error
}

func (w *endingWriter) Write(p []byte) (int, error) {
	if w.left == 0 {
		return 0, w.err
	}
	w.left--
	return len(p), nil
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	var out, errs strings.Builder
	code := command.Run(ctx, []string{patient, "next", "order"}, &out, &errs, command.WithEnv([]string{"SEQD_CLIENT_ADDR=" + f.url}))
	if code != 1 || errs.String() != "seqd: interrupted\n" || out.String() != "" {
		t.Errorf("exit code %d, %q", code, errs.String())
	}
}

func TestTokens(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			answerJSON(201, `{"name":"till","scopes":["issue:order"],"enabled":true,"source":"api","version":1,"secret":"seqd_s"}`)(w, r)
		case r.URL.Path == "/tokens":
			answerJSON(200, `{"tokens":[{"name":"ops","scopes":["admin","read"],"enabled":true,"source":"config"},{"name":"till","scopes":["issue:order"],"enabled":false,"source":"api","version":4,"expires":"2027-01-01T00:00:00.000Z"}]}`)(w, r)
		default:
			answerJSON(200, `{"name":"till","scopes":["issue:order"],"enabled":false,"source":"api","version":2,"expires":"2027-01-01T00:00:00.000Z"}`)(w, r)
		}
	})
	l := f.line(t)
	l.want("till: enabled, scopes issue:order, expires never, from api, version 1\n\nThe secret is for the caller. It is shown only now and stored nowhere:\n\n  seqd_s\n", "tokens", "create", "till", "--scope", "issue:order")
	must.Equal(t, f.last().body, `{"enabled":true,"name":"till","scopes":["issue:order"]}`, "sent")
	if got := l.run("tokens", "create", "till", "--scope", "read,admin", "--scope", "issue:*", "--disabled", "--expires", "2027-12-31T00:00:00Z", "--json"); !strings.Contains(got.out, `"secret": "seqd_s"`) {
		t.Errorf("%+v", got)
	}
	if got := f.last().body; got != `{"enabled":false,"expires":"2027-12-31T00:00:00Z","name":"till","scopes":["read","admin","issue:*"]}` {
		t.Errorf("sent %s", got)
	}
	const shown = "till: disabled, scopes issue:order, expires 2027-01-01T00:00:00Z, from api, version 2\n"
	l.want(shown, "tokens", "get", "till")
	for body, args := range map[string][]string{
		`{"enabled":false}`:                 {"--disable"},
		`{"enabled":true,"expires":null}`:   {"--enable", "--expires", "never"},
		`{"scopes":["read","issue:order"]}`: {"--scope", "read,issue:order"},
	} {
		l.want(shown, append([]string{"tokens", "change", "till", "--if-match", "1"}, args...)...)
		if got := f.last(); got.body != body || got.method != http.MethodPatch || got.match != `"1"` {
			t.Errorf("sent %+v", got)
		}
	}
	l.want("NAME  VERSION  STATE     EXPIRES               SOURCE  SCOPES\nops   -        enabled   never                 config  admin,read\ntill  4        disabled  2027-01-01T00:00:00Z  api     issue:order\n", "tokens", "list")
}

// Each node is asked for itself, and those that fail are named.
func TestReload(t *testing.T) {
	good := answering(t, answerJSON(200, `{"node":"0123456789","version":"5d2f","applied":["log.level","auth.tokens"],"restart":[]}`))
	l := good.line(t)
	l.want("NODE      ADDRESS                 CONFIG  APPLIED                 NEEDS A RESTART\n01234567  "+good.url+"  5d2f    log.level, auth.tokens  -\n", "reload")
	if got := good.last(); got.method != http.MethodPost || got.target != "/reload" {
		t.Errorf("sent %+v", got)
	}
	bad := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(409)
		_, _ = io.WriteString(w, `{"code":"conflict","detail":"it is wrong","problems":[{"key":"server.addr","text":"bad"}]}`)
	})
	got := l.run("reload", "--addr", good.url+","+bad.url, "--json")
	if got.code != 1 || !strings.Contains(got.out, `"applied": [`) || !strings.Contains(got.errs, bad.url+": conflict") || !strings.Contains(got.errs, "server.addr: bad") {
		t.Errorf("%+v", got)
	}
	if got := bad.line(t).run("reload"); got.code != 1 || got.out != "" || !strings.Contains(got.errs, "server.addr: bad") {
		t.Errorf("%+v", got)
	}
}

func TestLogLevel(t *testing.T) {
	f := answering(t, answerJSON(200, `{"node":"0123456789","level":"debug","configured":"info"}`))
	l := f.line(t)
	for _, args := range [][]string{{"log-level"}, {"log-level", "debug"}} {
		if got := l.run(args...); got.code != 0 || !strings.Contains(got.out, "debug  info\n") {
			t.Errorf("%+v", got)
		}
	}
	if got := f.last(); got.method != http.MethodPut || got.body != `{"level":"debug"}` {
		t.Errorf("sent %+v", got)
	}
}

func TestNodes(t *testing.T) {
	const nodes = `{"nodes":[{"id":"0123456789","node":"10.0.0.1:8080","host":"a","build":"v1","startedAt":"2026-11-20T12:00:00.123Z","seenAt":"2026-11-20T12:00:00Z","catalogue":4,"bizTypesFrom":"store","bizTypes":2,"config":{"version":"5d2f0c1a9e37","restart":true},"backends":{"store":{"state":"ok"},"redis":{"state":"away","detail":"x"}}},{"id":"abc","self":true,"node":"10.0.0.2:8080","host":"b","build":"v1","startedAt":"2026-11-20T12:00:00Z","backends":{"store":{"state":"ok"}}}],"complete":%t}`
	l := answering(t, answerJSON(200, fmt.Sprintf(nodes, true))).line(t)
	l.want(`   ID        ADDRESS        HOST  VERSION  STARTED               BIZ TYPES  FROM   CHANGE  CONFIG                          STORE  REDIS
   01234567  10.0.0.1:8080  a     v1       2026-11-20T12:00:00Z  2          store  4       5d2f0c1a9e37 (needs a restart)  ok     away
*  abc       10.0.0.2:8080  b     v1       2026-11-20T12:00:00Z  0          -      0       -                               ok     -
`, "nodes")
	l = answering(t, answerJSON(200, fmt.Sprintf(nodes, false))).line(t)
	if got := l.run("nodes", "--json"); got.code != 0 || !json.Valid([]byte(got.out)) || !strings.Contains(got.errs, "its store is away") {
		t.Errorf("%+v", got)
	}
}

func TestParse(t *testing.T) {
	f := answering(t, answerJSON(200, `{"bizType":"user","id":"5 / 6","number":"5","valid":true,"at":"2026-11-20T12:00:00.123Z","machineId":7,"sequence":0}`))
	f.line(t).want("biz type    user\nID          5 / 6\nnumber      5\nvalid       true\nat          2026-11-20T12:00:00.123Z\nmachine ID  7\nsequence    0\n", "parse", "user", "5 / 6")
	must.Equal(t, f.last().target, "/seq/user/parse/5%20%2F%206", "asked")
	f = answering(t, answerJSON(200, `{"bizType":"ticket","id":"7","number":"3","valid":true,"key":"t-1"}`))
	f.line(t).want("biz type    ticket\nID          7\nnumber      3\nvalid       true\nkey         t-1\n", "parse", "ticket", "7", "--key", "t-1")
	must.Equal(t, f.last().target, "/seq/ticket/parse/7?key=t-1", "asked")
}

// Completion offers names of the service, and nothing if it cannot be asked.
func TestCompletion(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/tokens") {
			answerJSON(200, `{"tokens":[{"name":"ops"}]}`)(w, r)
			return
		}
		answerJSON(200, `{"bizTypes":[{"name":"orc"},{"name":"order"},{"name":"ordinal"},{"name":"orf"}]}`)(w, r)
	})
	l := f.line(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"next", "ord"}, "order\nordinal\n:4\n"},
		{[]string{"next", "order", ""}, ":4\n"},
		{[]string{"parse", "orf"}, "orf\n:4\n"},
		{[]string{"biz-types", "put", "order", ""}, "yaml\nyml\njson\n:8\n"},
		{[]string{"tokens", "delete", ""}, "ops\n:4\n"},
		{[]string{"tokens", "create", ""}, ":4\n"},
		{[]string{"next", "--addr", "http://127.0.0.1:1", ""}, ":4\n"},
		{[]string{"next", "--addr", "nonsense", ""}, ":4\n"},
		{[]string{"completion", "z"}, "zsh\n:4\n"},
		{[]string{"ne"}, "next\tIssue numbers of a biz type\n:4\n"},
		{[]string{"help", "biz-types", "pu"}, "put\tCreate or replace a biz type\n:4\n"},
	} {
		got := l.run(append([]string{"__complete"}, test.args...)...)
		if got.code != 0 || got.out != test.want {
			t.Errorf("%q: %+v, want %q", test.args, got, test.want)
		}
	}
	must.Equal(t, f.asked[0].target, "/biz-types?after=orc~&limit=200", "asked")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := l.run("completion", shell); got.code != 0 || !strings.Contains(got.out, "seqd") || got.errs != "" {
			t.Errorf("%s: %d, %q", shell, got.code, got.errs)
		}
	}
	l.wantError(78, `no script for "csh"`, "completion", "csh")
}
