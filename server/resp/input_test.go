package resp_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

const mostBytes = 16 << 10

// patient lets the server read what follows the last answer for as long as a slow machine needs to
// send it: afterwards a client is cut off, and does not see the answer.
func patient(set *settings) { set.linger = await.Patience }

// TestProtocolErrors: what is no command gets an error that says so, and the connection ends.
func TestProtocolErrors(t *testing.T) {
	s := serve(t, patient, define("order", newCounter(1)))
	for i, test := range []struct{ name, send, want string }{
		{"negative count", "*-1\r\n", "the length after '*' is not a number"},
		{"no count", "*\r\n", "the length after '*' is not a number"},
		{"signed count", "*+1\r\n", "the length after '*' is not a number"},
		{"count without end", "*" + strings.Repeat("1", 100), "the length after '*' is not a number"},
		{"count with another end", "*1\n", "the length after '*' is not a number"},
		{"carriage return alone", "*1\rx", "a line does not end with CR LF"},
		{"too many arguments", "*65\r\n", "a command has at most 64 arguments"},
		{"100,000 arguments", "*100000\r\n" + strings.Repeat("$1\r\na\r\n", 100_000), "a command has at most 64 arguments"},
		{"100,000 words", strings.Repeat("a ", 8000) + "\r\n", "a command has at most 64 arguments"},
		{"negative length", "*1\r\n$-1\r\n", "the length after '$' is not a number"},
		{"length that redcon panics on", "*1\r\n$-2\r\n", "the length after '$' is not a number"},
		{"a bulk of 1 GB", "*2\r\n$4\r\nECHO\r\n$1073741824\r\n" + strings.Repeat("x", 1<<20), "a command has at most 16384 bytes"},
		{"the largest length", "*1\r\n$9999999999999\r\n", "a command has at most 16384 bytes"},
		{"many large arguments", "*9\r\n" + strings.Repeat("$2000\r\n"+strings.Repeat("x", 2000)+"\r\n", 9), "a command has at most 16384 bytes"},
		{"a line without end", strings.Repeat("x", mostBytes+1), "a command has at most 16384 bytes"},
		{"no string", "*1\r\n:1\r\n", "expected '$', got \":\""},
		{"a length too small", "*1\r\n$4\r\nPINGS\r\n", "an argument does not end where its length says"},
		{"quotes", "PING 'a\r\n", "unbalanced quotes in request"},
		{"quotes too early", "PING \"a\"b\r\n", "unbalanced quotes in request"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := s.dial(t)
			// What follows must not be taken for a command. The server does not wait long for all of it.
			_, _ = p.Write([]byte(form("INCR", "order") + test.send + form("INCR", "order")))
			if got := p.rest(); !strings.HasPrefix(got, ":"+itoa(i+1)+"\r\n-ERR Protocol error: "+test.want) || strings.Count(got, "\r\n") != 2 {
				t.Errorf("got %q, want the number %d and %q", got, i+1, test.want)
			}
		})
	}
}

// TestClientIsReadToTheEnd: after its last answer a connection is read for a while, because closing
// it with unread data would take the answer from the client.
func TestClientIsReadToTheEnd(t *testing.T) {
	p := serve(t, patient).dial(t)
	p.send("*-1\r\n")
	p.rest()
	for range 16 {
		p.send(strings.Repeat("x", 64<<10))
	}
	s := serve(t, func(set *settings) { set.linger = time.Millisecond })
	s.dial(t).ask("QUIT") // and does not hang up
	await.True(t, "the server does", func() bool { return s.Connections() == 0 })
}

// TestLargestCommand: a command of the largest size is answered, and one that is a byte larger is
// not, whether it comes at once or in pieces.
func TestLargestCommand(t *testing.T) {
	s := serve(t, patient, define("order", newCounter(1)))
	fits := mostBytes - len("*2\r\n$4\r\nECHO\r\n$16353\r\n\r\n")
	for _, piece := range []int{1 << 20, 4096, 1000} {
		for size, want := range map[int]string{fits: "$" + itoa(fits), fits + 1: "-ERR Protocol error: a command has at most 16384 bytes"} {
			p := s.dial(t)
			for rest := []byte(form("ECHO", strings.Repeat("x", size))); len(rest) > 0; {
				n := min(piece, len(rest))
				_, _ = p.Write(rest[:n]) // the server does not wait long for what is too much
				rest = rest[n:]
			}
			if got := p.lines(1)[0]; got != want {
				t.Errorf("%d bytes in pieces of %d: %.60s, want %.60s", size, piece, got, want)
			}
		}
	}
	p, words := s.dial(t), append([]string{"PING"}, slices.Repeat([]string{"a"}, 63)...)
	p.send(form(words...) + strings.Join(words, " ") + "\r\n")
	for _, got := range p.lines(2) {
		if !strings.HasPrefix(got, "-ERR invalid_request: wrong number of arguments") {
			t.Errorf("64 arguments: %s", got)
		}
	}
}

// TestByteByByte: commands that arrive in the smallest pieces are answered as others.
func TestByteByByte(t *testing.T) {
	p := serve(t, nil, define("order", newCounter(1))).dial(t)
	for _, b := range []byte(form("INCR", "order") + "INCR 'or\\'der'\r\nINCR \"order\"\r\n" + form("ECHO", "") + form("PING", "\r\n")) {
		p.send(string(b))
	}
	want := []string{":1", `-ERR invalid_biz_type: `, ":2", "$0", "", "$2", "", ""}
	for i, line := range p.lines(len(want)) {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
}

// TestHTTP: HTTP gets an answer of HTTP, and nothing that comes with it is a command.
func TestHTTP(t *testing.T) {
	s := serve(t, patient, define("order", newCounter(1)))
	for _, send := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / HTTP/1.1\r\nHost: a\r\n\r\nINCR order\r\n", "INCR order HTTP/1.1\r\n\r\n",
		"post x\r\n", "Host: a\r\nINCR order\r\n", "OPTIONS * HTTP/2.0\r\n",
	} {
		p := s.dial(t)
		p.send(send + form("INCR", "order"))
		if got := p.rest(); !strings.HasPrefix(got, "HTTP/1.1 400 ") || strings.Contains(got, ":1") {
			t.Errorf("%q: %q", send, got)
		}
	}
	answer := must.Get(http.Get("http://" + s.addr))(t)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != 400 || !bytes.Contains(body, []byte("Redis protocol")) {
		t.Errorf("%d %q %v", answer.StatusCode, body, err)
	}
	must.Equal(t, s.dial(t).ask("INCR", "order"), ":1", "a number was spent: the first one")
}

// TestTLSToPlainPort: a client of TLS gets an error at once.
func TestTLSToPlainPort(t *testing.T) {
	s := serve(t, patient)
	_, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
	if header, ok := errors.AsType[tls.RecordHeaderError](err); !ok || string(header.RecordHeader[:]) != "-ERR " {
		t.Errorf("got %v", err)
	}
	p := servePiped(t, nil).dial(t)
	p.send("\x16") // when it returns, the server has read that
	p.send("\x03")
	must.Equal(t, p.lines(1)[0], "-ERR Protocol error: this port does not speak TLS", "byte by byte")
}

// TestHalfACommand: a client that does not finish its command is cut off after the read time-out,
// and what it sent is not kept.
func TestHalfACommand(t *testing.T) {
	synctest.Test(t, halfACommand)
}

func halfACommand(t *testing.T) {
	s := servePiped(t, func(set *settings) { set.resp.ReadTimeout = 50 * time.Millisecond }, define("order", newCounter(1)))
	for _, half := range []string{"*", "*2\r\n$4\r\nINCR\r\n", "*2\r\n$4\r\nINCR\r\n$5\r\nord", "INCR ord", "*1\r\n$10000\r\n" + strings.Repeat("x", 9000)} {
		p := s.dial(t)
		go func() { _, _ = p.Write([]byte(form("INCR", "order") + half)) }() // while p reads
		if got := p.rest(); !strings.HasPrefix(got, ":") || strings.Count(got, "\r\n") != 1 {
			t.Errorf("%.20q: %q", half, got)
		}
	}
	p, began := s.dial(t), time.Now()
	for _, err := p.Write([]byte("x")); err == nil; _, err = p.Write([]byte("x")) {
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); took != 60*time.Millisecond { // when the next byte is refused
		t.Errorf("byte by byte it was cut off after %v", took)
	}
}

// TestIdle: a client that sends nothing is cut off after the idle time-out, and one that sends
// something now and then is not.
func TestIdle(t *testing.T) {
	synctest.Test(t, idleClients)
}

func idleClients(t *testing.T) {
	const idle = 1200 * time.Millisecond
	s := servePiped(t, func(set *settings) { set.resp.IdleTimeout = idle }, define("order", newCounter(1)))
	began := time.Now()
	silent, busy := s.dial(t), s.dial(t)
	ended := make(chan time.Duration, 1)
	go func() {
		_, _ = io.ReadAll(silent)
		ended <- time.Since(began)
	}()
	for i := 1; time.Since(began) < 2*idle; i++ {
		if got := busy.ask("INCR", "order"); got != ":"+itoa(i) {
			t.Fatal(got)
		}
		time.Sleep(idle * 3 / 4)
	}
	if took := <-ended; took < idle*7/8 || took > idle {
		t.Errorf("cut off after %s", took)
	}
}

// TestIdleAfterHalfACommand: a command that arrived in two parts does not shorten the time that the
// client may be idle after it.
func TestIdleAfterHalfACommand(t *testing.T) {
	synctest.Test(t, idleAfterHalfACommand)
}

func idleAfterHalfACommand(t *testing.T) {
	const readTimeout = time.Second
	s := servePiped(t, func(set *settings) { set.resp.IdleTimeout, set.resp.ReadTimeout = time.Minute, readTimeout }, define("order", newCounter(1)))
	p := s.dial(t)
	if got := p.ask("PING"); got != "+PONG" {
		t.Fatal(got)
	}
	p.send("INCR ") // when it returns, the server has read that
	p.send("order\r\n")
	if got := p.lines(1)[0]; got != ":1" {
		t.Fatal(got)
	}
	time.Sleep(readTimeout * 3 / 2)
	must.Equal(t, p.ask("INCR", "order"), ":2")
	for i, part := range []string{"INCR ", "order\r\nINCR ", "order\r\n"} { // each command has the whole time
		if p.send(part); i > 0 {
			must.Equal(t, p.lines(1)[0], ":"+itoa(i+2))
		}
		time.Sleep(readTimeout * 3 / 4)
	}
}

// TestNothingIsHeld: thousands of connections that announce much, and send little, take little
// memory.
func TestNothingIsHeld(t *testing.T) {
	const clients = 500
	s := serve(t, nil, define("order", newCounter(1)))
	before := live()
	for i := range clients {
		s.dial(t).send([]string{"*2\r\n$4\r\nECHO\r\n$16000\r\n", "*64\r\n$1\r\n", "x"}[i%3])
	}
	await.True(t, "all are connected", func() bool { return s.Connections() == clients })
	if each := (live() - before) / clients; each > 16<<10 {
		t.Errorf("a connection takes %d bytes", each)
	}
}

// live returns how many bytes are in use.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// heldSince returns how much more is live than before: the least of some looks, because some of
// what is made during a look is garbage.
func heldSince(before int64) int64 {
	least := int64(math.MaxInt64)
	for range 5 {
		least = min(least, live()-before)
		time.Sleep(10 * time.Millisecond)
	}
	return least
}
