package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

// ask sends a request on an open connection and reports whether the answer ends it.
func ask(t *testing.T, to io.Writer, answers *bufio.Reader, request string) (closes bool) {
	t.Helper()
	if _, err := io.WriteString(to, request); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatalf("%.40q: %v", request, err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatalf("%.40q: %v", request, err)
	}
	return answer.Close
}

// TestDrainingEndsConnections checks that each answer ends its connection while the service stops.
func TestDrainingEndsConnections(t *testing.T) {
	api := newAPI(t)
	addr := serve(t, api, true)
	type kept struct {
		to      net.Conn
		answers *bufio.Reader
		request string
	}
	var open []kept
	for _, target := range []string{"/seq/order", "/seq/order?count=5000", "/seq/nothing", "/nowhere", "/healthz", "/readyz"} {
		c := dial(t, addr)
		k := kept{c, bufio.NewReader(c), "GET " + target + " HTTP/1.1\r\nHost: seqd\r\n\r\n"}
		for range 2 {
			if ask(t, k.to, k.answers, k.request) {
				t.Errorf("%s: the connection ends although the service goes on", target)
			}
		}
		open = append(open, k)
	}
	api.Gate().Drain()
	for _, k := range open {
		if !ask(t, k.to, k.answers, k.request) {
			t.Errorf("%.40q: the answer does not say that the connection ends", k.request)
		}
		if n, err := k.answers.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%.40q: behind the answer came %d bytes, %v; want the end", k.request, n, err)
		}
	}
}

// TestRequestsThatCanBeReadInTwoWays checks that nothing is read after a request of ambiguous
// length: RFC 9112, section 6.1.
func TestRequestsThatCanBeReadInTwoWays(t *testing.T) {
	addr := serve(t, newAPI(t), true)
	const hidden = "GET /healthz HTTP/1.1\r\nHost: seqd\r\n\r\n"
	const chunked = "Host: seqd\r\nTransfer-Encoding: chunked\r\n"
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"both, the length last":    {"POST /seq/order HTTP/1.1\r\n" + chunked + "Content-Length: 44\r\n\r\n0\r\n\r\n", 200},
		"both, the length first":   {"POST /seq/order HTTP/1.1\r\nContent-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n", 200},
		"both, where a body means": {"PUT /biz-types/order HTTP/1.1\r\nContent-Length: 5\r\nContent-Type: application/json\r\n" + chunked + "\r\n2\r\n{}\r\n0\r\n\r\n", 200},
		"both, nowhere":            {"POST /nowhere HTTP/1.1\r\nContent-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n", 404},
		"an old protocol":          {"GET /seq/order HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			// this fails if there is a second answer
			answer, _ := answerIn(t, exchange(t, addr, tt.request+hidden))
			if answer.StatusCode != tt.status || !answer.Close {
				t.Errorf("status %d, closed %t; want %d and the end of the connection", answer.StatusCode, answer.Close, tt.status)
			}
		})
	}
	c := dial(t, addr)
	answers := bufio.NewReader(c)
	for range 3 {
		if ask(t, c, answers, "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nContent-Length: 2\r\n\r\n{}") {
			t.Error("a request with nothing but a length ends its connection")
		}
	}
}

// TestRefusedInChunks checks that a caller whose request is refused before its body was read gets
// the answer, even if the connection ends with it.
func TestRefusedInChunks(t *testing.T) {
	api := newStarting(t, func(o *options) { o.Guard = shut{} })
	addr := serve(t, api, true)
	body := "c350\r\n" + strings.Repeat("x", 50_000) + "\r\n0\r\n\r\n"
	answer, content := answerIn(t, exchange(t, addr, "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nTransfer-Encoding: chunked\r\n\r\n"+body))
	p, err := problemIn(answer.StatusCode, answer.Header, content)
	if err != nil || answer.StatusCode != 401 || p.Code != "unauthorized" || !answer.Close {
		t.Errorf("status %d, code %q, closed %t, %v; want 401 unauthorized and the end", answer.StatusCode, p.Code, answer.Close, err)
	}
}

// shut is a guard that lets nobody in.
type shut struct{ gate.Guard }

func (shut) Allow([]string, string, string) (access.Identity, error) {
	return access.Identity{}, seqd.Errorf(seqd.CodeUnauthorized, "a token is needed")
}
