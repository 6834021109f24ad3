package resp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

// withTokens makes a service ask for tokens.
func withTokens(t *testing.T) (tokens *access.Tokens, secretOf func(name string, scopes ...string) string) {
	tokens = access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: memory.New(time.Now).Documents()})
	must.Do(t, tokens.Reload(t.Context()))
	return tokens, func(name string, scopes ...string) string {
		_, secret, err := tokens.Create(t.Context(), access.Token{Name: name, Scopes: scopes, Enabled: true}, "")
		must.Do(t, err)
		return secret
	}
}

// TestTokens: without a valid token nothing is answered, and a token allows what its scopes say.
func TestTokens(t *testing.T) {
	tokens, secretOf := withTokens(t)
	shop, ops := secretOf("shop", "issue:order"), secretOf("ops", "read")
	var callers []seqd.Caller
	seen := seqd.BoundPlugin{Name: "seen", Plugin: plugin{before: func(call *seqd.Call) error {
		callers = append(callers, call.Caller)
		return nil
	}}}
	s := serve(t, func(set *settings) { set.gate.Guard = tokens }, define("order", newCounter(1), seen), define("user", newCounter(1)))
	const noAuth = "-NOAUTH unauthorized: Authentication required: a valid token is needed, as AUTH <token>"
	p := s.dial(t)
	for _, test := range []struct {
		name  string
		words []string
		want  string
	}{
		{"nothing", []string{"INCR", "order"}, noAuth},
		{"no ping", []string{"PING"}, noAuth},
		{"not even what there is", []string{"SET", "a", "b"}, noAuth},
		{"hello", []string{"HELLO", "3"}, noAuth},
		{"a wrong token", []string{"AUTH", "nonsense"}, "-WRONGPASS unauthorized: the token is not valid"},
		{"a token of line breaks", []string{"AUTH", "a\r\nb"}, "-WRONGPASS unauthorized: the token is not valid"},
		{"a wrong token in HELLO", []string{"HELLO", "3", "AUTH", "default", "nonsense"}, "-WRONGPASS unauthorized: the token is not valid"},
		{"still nothing", []string{"INCR", "order"}, noAuth},
		{"nor a parse", []string{"SEQ.PARSE", "order", "1"}, noAuth},
		{"a token", []string{"AUTH", shop}, "+OK"},
		{"its scope", []string{"INCR", "order"}, ":1"},
		{"another biz type", []string{"INCR", "user"}, "-NOPERM forbidden: the token has no scope that allows issue:user"},
		{"no biz type", []string{"INCR", "nope"}, "-NOPERM forbidden: the token has no scope that allows issue:nope"},
		{"parse", []string{"SEQ.PARSE", "user", "1"}, "-NOPERM forbidden: the token has no scope that allows issue:user"},
		{"a wrong token keeps the other", []string{"AUTH", "nonsense"}, "-WRONGPASS unauthorized: the token is not valid"},
		{"as before", []string{"INCR", "order"}, ":2"},
		{"a token that reads", []string{"AUTH", "any", ops}, "+OK"},
		{"and does not issue", []string{"INCR", "order"}, "-NOPERM forbidden: the token has no scope that allows issue:order"},
		{"and parses", []string{"SEQ.PARSE", "order", "x"}, "-ERR invalid_id: \"x\" is no ID of order: an ID is a decimal number without sign or leading zeros"},
		{"ping", []string{"PING"}, "+PONG"},
		{"reset", []string{"RESET"}, "+RESET"},
		{"nothing again", []string{"INCR", "order"}, noAuth},
	} {
		must.Equal(t, p.ask(test.words...), test.want, "%s", test.name)
	}
	for _, caller := range callers {
		if caller.Name != "shop" || caller.Addr != "127.0.0.1" || caller.RequestID == "" {
			t.Errorf("the caller is %+v", caller)
		}
	}
}

// TestHelloWithToken: HELLO can say who calls.
func TestHelloWithToken(t *testing.T) {
	tokens, secretOf := withTokens(t)
	secret := secretOf("shop", "issue:order")
	s := serve(t, func(set *settings) { set.gate.Guard = tokens }, define("order", newCounter(1)))
	p := s.dial(t)
	if got := p.ask("HELLO", "3", "AUTH", "default", secret, "SETNAME", "app"); got != "%7" {
		t.Fatal(got)
	}
	p.lines(25)
	must.Equal(t, p.ask("INCR", "order"), ":1")
	must.Equal(t, p.ask("CLIENT", "GETNAME"), "$3")
}

// TestRevoked: a token that is disabled or deleted ends at once, also on connections that are open.
func TestRevoked(t *testing.T) {
	tokens, secretOf := withTokens(t)
	secret := secretOf("shop", "issue:*")
	s := serve(t, func(set *settings) { set.gate.Guard = tokens }, define("order", newCounter(1)))
	p := s.dial(t)
	if got := p.ask("AUTH", secret); got != "+OK" {
		t.Fatal(got)
	}
	if got := p.ask("INCR", "order"); got != ":1" {
		t.Fatal(got)
	}
	must.Get(tokens.Delete(t.Context(), "shop", func(*access.Token) error { return nil }))(t)
	for _, words := range [][]string{{"INCR", "order"}, {"PING"}, {"SEQ.PARSE", "order", "1"}, {"SEQ.NEXT", "order", "COUNT", "2"}} {
		if got := p.ask(words...); !strings.HasPrefix(got, "-NOAUTH unauthorized: ") {
			t.Errorf("%q: %s", words, got)
		}
	}
}

// TestStarting: until the service is ready, requests for numbers say so, and the rest is answered.
func TestStarting(t *testing.T) {
	s := serve(t, nil)
	p := s.dial(t)
	for _, words := range [][]string{{"INCR", "order"}, {"SEQ.PARSE", "order", "1"}, {"SEQ.CONFIRM", "order", "r0"}} {
		must.Equal(t, p.ask(words...), "-LOADING starting: the service is starting", "%q", words)
	}
	must.Equal(t, p.ask("PING"), "+PONG")
	p.send(form("INFO"))
	if got := strings.Join(p.lines(15), "\n"); !strings.Contains(got, "loading:1") {
		t.Error(got)
	}
	s.gate.Ready(&gate.Running{Issuer: newIssuer(t, define("order", newCounter(1)))})
	must.Equal(t, p.ask("INCR", "order"), ":1")
}

// TestTokensStarting: while the tokens are not known, a client is not told that its own is not
// valid.
func TestTokensStarting(t *testing.T) {
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	p := serve(t, func(set *settings) { set.gate.Guard = tokens }, define("order", newCounter(1))).dial(t)
	for _, words := range [][]string{{"AUTH", "x"}, {"HELLO", "3", "AUTH", "default", "x"}, {"HELLO"}, {"PING"}, {"INCR", "order"}, {"SEQ.RELEASE", "order", "r0"}} {
		if got := p.ask(words...); !strings.HasPrefix(got, "-LOADING starting: ") {
			t.Errorf("%q: %s", words, got)
		}
	}
}

// TestOverload: requests above the limit are refused at once, on other connections too, and a
// client that comes back at once is delayed.
func TestOverload(t *testing.T) {
	synctest.Test(t, overload)
}

func overload(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	slow := newCounter(1)
	slow.generate = func(context.Context) error {
		entered <- struct{}{}
		<-leave
		return nil
	}
	s := servePiped(t, func(set *settings) { set.gate.MaxInFlight = 1 }, define("slow", slow), define("order", newCounter(1)))
	waiting, p := s.dial(t), s.dial(t)
	waiting.send(form("INCR", "slow"))
	<-entered
	const busy = "-BUSY overloaded: 1 requests are being answered already"
	for i, words := range [][]string{{"INCR", "order"}, {"SEQ.CONFIRM", "order", "r0"}, {"SEQ.NEXT", "order"}} {
		began := time.Now()
		if got := p.ask(words...); got != busy || time.Since(began) < time.Duration(min(i, 1))*100*time.Millisecond {
			t.Errorf("%q: %s after %s", words, got, time.Since(began))
		}
	}
	must.Equal(t, p.ask("PING"), "+PONG", "PING")
	time.Sleep(time.Second - 100*time.Millisecond)
	began := time.Now()
	if got := p.ask("INCR", "order"); got != busy || time.Now().After(began) {
		t.Errorf("%s: who waits for a second is delayed by %s", got, time.Since(began))
	}
	began = time.Now()
	p.send(strings.Repeat(form("INCR", "order")+form("INCR", "slow"), 50))
	for _, got := range p.lines(100) {
		must.Equal(t, got, busy, "the answer")
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("a pipeline was refused after %s, a delay for each command", took)
	}
	leave <- struct{}{}
	must.Equal(t, waiting.lines(1)[0], ":1", "the answer to the one that waits")
	must.Equal(t, p.ask("INCR", "order"), ":1", "INCR order")
}

// TestRoom: large answers that find no room are refused without a number, and room is given back.
func TestRoom(t *testing.T) {
	s := serve(t, func(set *settings) { set.gate.MaxInFlightBytes = 1 << 20 }, define("order", newCounter(1)))
	loan, ok := s.gate.Room.Borrow("other", 1<<20, gate.Numbers)
	if !ok {
		t.Fatal("there is no room at the start")
	}
	p := s.dial(t)
	if got := p.ask("SEQ.NEXT", "order", "COUNT", "10000"); !strings.HasPrefix(got, "-BUSY overloaded: answers already take the 1048576 bytes") {
		t.Error(got)
	}
	must.Equal(t, p.ask("INCRBY", "order", "10000"), ":10000", "an integer needs no room")
	loan.End()
	for i := range 20 {
		p.send(form("SEQ.NEXT", "order", "COUNT", "10000"))
		if lines := p.lines(1 + 2*10_000); lines[len(lines)-1] != itoa(20_000+10_000*i) {
			t.Errorf("the last of batch %d is %s", i, lines[len(lines)-1])
		}
	}
}

// TestConnections: if there are more than the limit, those make room on which nothing was answered
// for longest; if all are being answered, only what names no biz type is answered on a few more.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wait chan struct{}
		holds := seqd.BoundPlugin{Name: "holds", Plugin: plugin{before: func(*seqd.Call) error { <-wait; return nil }}}
		s := servePiped(t, func(set *settings) { set.gate.MaxConnections = 2 }, define("order", newCounter(1)), define("held", newCounter(1), holds))
		wait = make(chan struct{})
		first := s.dial(t)
		first.ask("PING")
		for range 10 {
			time.Sleep(time.Second)
			silent, other := s.dial(t), s.dial(t)
			must.Equal(t, silent.rest()+first.ask("PING"), "+PONG")
			other.Close()
			synctest.Wait()
		}
		second := s.dial(t)
		second.send(form("INCR", "held"))
		first.send(form("INCR", "held"))
		synctest.Wait()
		third := s.dial(t)
		must.Equal(t, third.ask("PING")+third.rest(), "+PONG")
		third = s.dial(t)
		if got := third.ask("INCR", "order") + third.rest(); !strings.HasPrefix(got, "-BUSY overloaded: so many connections") {
			t.Errorf("got %q", got)
		}
		close(wait)
		if got := first.lines(1)[0] + second.lines(1)[0]; got != ":1:2" && got != ":2:1" {
			t.Errorf("got %q", got)
		}
	})
}

// TestFirstRequest: a client that says nothing, or only what it may not, is cut off after a while.
// One that has shown its token is kept.
func TestFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, secretOf := withTokens(t)
		secret := secretOf("shop", "issue:order")
		var noted []string // refusals
		s := servePiped(t, func(set *settings) {
			set.gate.Guard, set.gate.FirstRequest = tokens, 7500*time.Millisecond
			set.resp.Refused = func(command, token, _, _ string, code seqd.Code) {
				noted = append(noted, fmt.Sprint(command, " ", token, " ", code))
			}
		}, define("order", newCounter(1)))
		silent, refused, known := s.dial(t), s.dial(t), s.dial(t)
		must.Equal(t, known.ask("AUTH", secret), "+OK")
		for range 7 {
			time.Sleep(time.Second)
			if got := refused.ask("PING"); !strings.HasPrefix(got, "-NOAUTH") {
				t.Error(got)
			}
		}
		time.Sleep(time.Second)
		must.Equal(t, silent.rest()+refused.rest(), "")
		time.Sleep(time.Minute)
		must.Equal(t, known.ask("INCR", "order"), ":1")
		noted = nil
		known.ask("INCR", "user")
		known.ask("AUTH", "wrong")
		must.Equal(t, strings.Join(noted, ", "), "INCR shop forbidden, AUTH  unauthorized", "noted")
	})
}

// TestClientThatDoesNotRead: it is cut off after the write time-out, and what it asked for is not
// kept.
func TestClientThatDoesNotRead(t *testing.T) {
	s := serve(t, func(set *settings) {
		set.resp.WriteTimeout = 300 * time.Millisecond
		set.gate.MaxInFlightBytes = 4 << 20
	}, define("order", newCounter(1_000_000)))
	deaf := s.dial(t)
	before := live()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, err := deaf.Write([]byte(strings.Repeat(form("SEQ.NEXT", "order", "COUNT", "10000"), 100))); err != nil {
				return
			}
		}
	}()
	for s.Connections() > 0 {
		if held := heldSince(before); held > 8<<20 {
			t.Errorf("%d bytes are held", held)
		}
	}
	<-ended
	await.True(t, "others are answered, unless the machine stalls longer than the time-out", func() bool {
		p := s.dial(t)
		_, _ = io.WriteString(p, form("INCR", "order"))
		got, _ := p.r.ReadString('\n')
		return strings.HasPrefix(got, ":")
	})
}

// TestManyThatDoNotRead: what many clients asked for and do not read takes no more memory than
// large answers may have.
func TestManyThatDoNotRead(t *testing.T) {
	const most, clients = 4 << 20, 64
	long := prefixed
	long.Plugin = plugin{after: func(call *seqd.Call) error {
		call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
			return append(append(dst, strings.Repeat("x", 100)...), shown...)
		})
		return nil
	}}
	s := serve(t, func(set *settings) { set.gate.MaxInFlightBytes = most }, define("long", newCounter(1), long))
	if got := s.dial(t).ask("SEQ.NEXT", "long", "COUNT", "1000"); got != "*1000" { // now their size is known
		t.Fatal(got)
	}
	before := live()
	for range clients {
		s.dial(t).send(strings.Repeat(form("SEQ.NEXT", "long", "COUNT", "10000"), 5))
	}
	for deadline := time.Now().Add(500 * time.Millisecond); time.Now().Before(deadline); {
		if held := heldSince(before); held > 2*most+clients*(64<<10) {
			t.Fatalf("%d bytes are held", held)
		}
	}
	await.True(t, "answers are held and not what made them", func() bool { return live()-before < most+clients*(8<<10) })
}

// TestLargeBuffers: what a large answer needed is not kept for the small ones behind it, which
// borrow nothing and which a client may not read.
func TestLargeBuffers(t *testing.T) {
	const most, clients = 4 << 20, 16
	s := serve(t, func(set *settings) {
		set.gate.MaxInFlightBytes, set.resp.WriteTimeout = most, time.Hour // nobody is cut off meanwhile
	}, define("order", newCounter(1_000_000_000_000)))
	before := live()
	for range clients {
		p := s.dial(t)
		must.Do(t, p.Conn.(*net.TCPConn).SetReadBuffer(16<<10))
		p.send(form("SEQ.NEXT", "order", "COUNT", "10000") + strings.Repeat("COMMAND\r\n", 400))
		if got := p.lines(1 + 2*10_000)[0]; got != "*10000" {
			t.Fatal(got)
		}
	}
	await.True(t, "nothing is held that is not borrowed", func() bool { return live()-before < most/2+clients*(64<<10) })
}

// TestRefusals: each code has the word that clients of Redis expect, and no secret is shown.
func TestRefusals(t *testing.T) {
	c := newCounter(1)
	s := serve(t, nil, define("order", c))
	p := s.dial(t)
	for code, want := range map[seqd.Code]string{
		seqd.CodeStoreUnavailable: "TRYAGAIN", seqd.CodeRedisUnavailable: "TRYAGAIN", seqd.CodeTimeout: "TRYAGAIN", seqd.CodeNoMachineID: "TRYAGAIN", seqd.CodeClockRollback: "TRYAGAIN",
		seqd.CodeExhausted: "ERR", seqd.CodeConflict: "ERR", seqd.CodeDisabled: "ERR", seqd.CodeRateLimited: "BUSY", seqd.CodeInternal: "ERR",
	} {
		c.generate = func(context.Context) error {
			return &seqd.Error{Code: code, Detail: "one\r\ntwo", Err: errors.New("the password is hunter2")}
		}
		must.Equal(t, p.ask("INCR", "order"), "-"+want+" "+string(code)+": one  two", "%s", code)
	}
	c.generate = func(context.Context) error { return errors.New("the password is hunter2") }
	must.Equal(t, p.ask("INCR", "order"), "-ERR internal: an internal error; the log of the service says more")
	c.generate = func(context.Context) error { panic("no") }
	if got := p.ask("INCR", "order"); !strings.HasPrefix(got, "-ERR internal: ") {
		t.Error(got)
	}
}

// TestChangedMeanwhile: a number that has come to be shown otherwise is not an integer.
func TestChangedMeanwhile(t *testing.T) {
	late := prefixed
	late.Rewrites = false // so that Plain does not know
	p := serve(t, nil, define("ticket", newCounter(1), late)).dial(t)
	must.Equal(t, p.ask("INCR", "ticket"), "-ERR invalid_request: the IDs of ticket are not plain numbers; SEQ.NEXT ticket returns them as text", "INCR ticket")
	// A strategy that went above the bound it gave. Two such numbers would be the same double.
	p = serve(t, nil, define("large", newCounter(seqd.MaxNumber))).dial(t)
	if got := p.ask("INCR", "large") + p.ask("INCR", "large"); !strings.HasPrefix(got, ":9007199254740991-ERR invalid_request: the numbers of large may be above 2^53 - 1") {
		t.Error(got)
	}
}

// TestAccessLog: requests for numbers and refusals are logged, without secrets.
func TestAccessLog(t *testing.T) {
	var log testlog.Text
	away := newCounter(1)
	away.generate = func(context.Context) error { return seqd.Errorf(seqd.CodeStoreUnavailable, "away") }
	ask := func(kind string, perSecond int, send string) string {
		log = testlog.Text{}
		p := serve(t, func(set *settings) {
			set.gate.AccessLog, set.gate.AccessLogPerSecond, set.gate.Log, set.gate.Guard = kind, perSecond, slog.New(slog.NewTextHandler(&log, nil)), &asked{}
		}, define("order", newCounter(1)), define("away", away)).dial(t)
		p.send(send + form("QUIT"))
		p.rest()
		return log.String()
	}
	got := ask("on", 0, form("INCR", "order")+form("INCRBY", "order", "9")+form("AUTH", "seqd_secret")+form("GET", "plain")+form("INCR", "seqd_secret/")+form("INCR", "seqd_secret"))
	for _, want := range []string{
		"msg=command command=INCR bizType=order commands=2 count=10 caller=shop code=ok tookMs=", "addr=127.0.0.1 requestId=",
		"command=other caller=shop code=invalid_request", "command=INCR bizType=\"\" commands=1 count=1 caller=shop code=invalid_biz_type",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(got, "seqd_secret") || strings.Contains(got, "plain") || strings.Contains(got, "skipped") || strings.Count(got, "\n") != 4 {
		t.Error(got)
	}
	if got = ask("refused", 0, form("INCR", "order")+form("INCR", "none")); strings.Contains(got, "code=ok") || strings.Count(got, "\n") != 1 {
		t.Errorf("of those refused: %s", got)
	}
	// What the service is to blame for has lines of its own, so that many others do not displace it.
	one := ask("on", 1, form("INCR", "order")+form("INCR", "none")+form("INCR", "nope")+form("INCR", "away"))
	if strings.Count(one, "\n") != 2 || !strings.Contains(one, "code=store_unavailable") || !strings.Contains(one, "skipped=2") {
		t.Errorf("of one of a kind in a second: %s", one)
	}
}
