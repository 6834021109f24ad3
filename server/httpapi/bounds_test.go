package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// TestHarmless checks the bounds of what may go into logs and headers.
func TestHarmless(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "a": true, "z": true, "A": true, "Z": true, "0": true, "9": true, "-": true, "_": true, ".": true, strings.Repeat("x", 64): true, strings.Repeat("x", 65): false,
		"`": false, "{": false, "@": false, "[": false, "/": false, ":": false, " ": false, "é": false, "a b": false,
	} {
		must.Equal(t, harmless(text), want, "%q is harmless", text)
		if value := text; plainValue(value) != (want || value == "" || value == ":") {
			t.Errorf("%q is a plain value: %v", text, plainValue(value))
		}
	}
	for key, want := range map[string]bool{"": false, "!": true, "~": true, " ": false, "\x7f": false, strings.Repeat("x", 255): true, strings.Repeat("x", 256): false} {
		if validKey(key) != want {
			t.Errorf("%.10q of %d bytes is valid: %v", key, len(key), !want)
		}
	}
}

// TestQuoted checks how a text is written in JSON, and that a plain one costs nothing.
func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{"": `""`, " a~": `" a~"`, "<&>": `"<&>"`, "a\"\\\x1f\x7f": `"a\"\\\u001f` + "\x7f\"", "é": `"é"`} {
		if got := string(appendQuoted([]byte("x"), []byte(text))); got != "x"+want {
			t.Errorf("%q is written as %s, want %s", text, got, want)
		}
	}
	text, dst := []byte("order-7"), make([]byte, 0, 100)
	if n := must.Allocs(10, func() { _ = appendQuoted(dst, text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDiscreet checks that secrets are left out of what is logged, wherever they stand, and that it
// is not long.
func TestDiscreet(t *testing.T) {
	long := strings.Repeat("x", 256)
	for text, want := range map[string]string{
		"/tokens/shop": "/tokens/shop", long: long, long + "y": long + "…",
		"seqd_abc": "(not shown)", "/a/seqd_abc/b?seqd_-._9": "/a/(not shown)/b?(not shown)", "seqd_": "(not shown)",
		long + "seqd_abc": long + "…", strings.Repeat("seqd_a/", 200): strings.Repeat("(not shown)/", 22)[:256] + "…",
	} {
		must.Equal(t, discreet(text), want, "%s is shown as", text)
	}
	for query, want := range map[string]string{
		"": "", "count=5": "count=5", "count=a%20b": "(not shown)", "x=1&limit=2": "(not shown)&limit=2", "count=1&token=a&count=2": "count=1&(not shown)", "key=%zz": "(not shown)",
		"key=seqd_abc": "(not shown)", "from=2026-01-01T00:00:00Z": "from=2026-01-01T00:00:00Z",
		// as the handlers read it
		"f%6Frce=%74rue&to=2026-01-01T00:00:00%2B08:00": "force=true&to=2026-01-01T00:00:00+08:00", strings.Repeat("&", 20) + "force=true": "force=true",
		"%74oken=a&count=2": "(not shown)",
	} {
		must.Equal(t, shownQuery(query), want, "%s is shown as", query)
	}
	method := strings.Repeat("M", 32)
	if whole, long := loggedMethod(method), loggedMethod(method+"M"); whole != method || long != method+"…" {
		t.Errorf("%s and %s", whole, long)
	}
}

// TestTooEarly checks when a refusal on a connection comes too early after the previous one.
func TestTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := must.Get(http.NewRequestWithContext(ConnContext(t.Context(), nil), "GET", "/", nil))(t)
		for _, step := range []struct {
			after time.Duration
			want  bool
		}{{0, false}, {time.Second - time.Nanosecond, true}, {time.Second, false}, {0, true}, {2 * time.Second, false}} {
			time.Sleep(step.after)
			must.Equal(t, tooEarly(r), step.want, "%v after the last", step.after)
		}
		unknown := r.WithContext(context.Background())
		for range 2 {
			if tooEarly(unknown) {
				t.Error("a connection of which nothing is known is too early")
			}
		}
	})
}

// TestRetryAfter checks which refusals say how long to wait, in whole seconds.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		wait   time.Duration
		status int
		want   string
	}{{0, 400, ""}, {0, 500, ""}, {0, 503, "1"}, {0, 429, "1"}, {-1, 503, "1"}, {time.Nanosecond, 400, "1"}, {time.Second, 503, "1"}, {1001 * time.Millisecond, 503, "2"}, {time.Minute, 409, "60"}} {
		header := http.Header{}
		setRetryAfter(header, &seqd.Error{RetryAfter: test.wait}, test.status)
		must.Equal(t, header.Get("Retry-After"), test.want, "%v with %d", test.wait, test.status)
	}
}

// TestPlainErrors checks which answers of net/http become problem documents.
func TestPlainErrors(t *testing.T) {
	for plain, want := range map[string]string{
		"HTTP/1.1 400 Bad Request" + plainError + "400 Bad Request":                        "the request cannot be read: 400 Bad Request",
		"HTTP/1.1 431 Request Header Fields Too Large" + plainError + "431":                "the request line and headers are too large",
		"HTTP/1.1 400 Bad Request\r\nX-Other: x" + plainError + "400 Bad Request":          "",
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nother": "",
		"HTTP/1.1 4x0 Bad Request" + plainError:                                            "",
		"HTTP/1.1 4" + plainError:                                                          "cannot be read",
	} {
		got := string(problemFor([]byte(plain)))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q became %q, want %q", plain, got, want)
		}
	}
	for begin, want := range map[string]bool{"GET /": true, "HEAD ": true, "POST ": true, "PUT /": true, "PATCH": true, "DELET": true, "OPTIO": true, "\x16\x03\x01\x02\x00": false, "GET": false, "get /": false} {
		must.Equal(t, likeHTTP([]byte(begin)), want, "%q is like HTTP", begin)
	}
}

// TestParameters checks the bounds of what a request may ask for.
func TestParameters(t *testing.T) {
	for want, names := range map[seqd.Want]string{seqd.AnyNumbers: "there is count and key", seqd.ReservedNumbers: "there is count, key and ttl"} {
		if err := noParam("x", want); !strings.HasSuffix(seqd.AsError(err).Detail, names) {
			t.Errorf("got %v", err)
		}
	}
	for query, ok := range map[string]bool{
		"": true, "count=1": true, "count=10000": true, "count=0": false, "count=10001": false, "count=+1": false, "count=1&count=1": false, "count=": false, "count": false, "count=-0": false, "count=+5": false, "count=1e9": false, "count=1.0": false, "count=0x10": false, "count=1_000": false, "count=99999999999999999999": false, "&&": true,
		"key=k": true, "key=": false, "key=k&key=k": false, "key=a;b": false, "ttl=1s": true, "ttl=999ms": false, "ttl=24h": true, "ttl=24h1ms": false, "ttl=1s&ttl=1s": false, "x=1": false, "%zz=1": false,
	} {
		if o, err := readOrder(query, seqd.ReservedNumbers, 10_000); (err == nil) != ok {
			t.Errorf("%s: %+v, %v", query, o, err)
		}
		key := keyIn(query)
		if want := query == "key=k"; (key == "k") != want || !want && key != "" {
			t.Errorf("%s: the key is %q", query, key)
		}
	}
	if _, err := readOrder("ttl=1s", seqd.AnyNumbers, 1); err == nil {
		t.Error("a time to reserve for without a reservation")
	}
	for limit, want := range map[string]int{"1": 1, "1000": 1000, "0": 0, "1001": 0, "+1": 0, "x": 0} {
		if got, err := limitIn(map[string]string{"limit": limit}); got != want || (err == nil) != (want > 0) {
			t.Errorf("limit %s: %d, %v", limit, got, err)
		}
	}
	for text, ok := range map[string]bool{"2000": true, "2099": true, "1999": false, "2100": false, "2026-02": true, "2026-13": false, "2026-02-28": true, "2026-02-30": false, "202": false, "": false} {
		if p, err := readPeriod(text); (err == nil) != ok || ok && p.String() != text {
			t.Errorf("%s: %s, %v", text, p, err)
		}
	}
	for reason, ok := range map[string]bool{"": false, "ü": true, strings.Repeat("ü", 200): true, strings.Repeat("ü", 201): false, "a\nb": false, "a\u2028b": false, "a\u2029b": false} {
		if err := checkReason(reason); (err == nil) != ok {
			t.Errorf("%.10q: %v", reason, err)
		}
	}
}

// TestAccountRows checks that each number is in exactly one row, and that no cell is a formula.
func TestAccountRows(t *testing.T) {
	var rows accountRows
	rows.add(0, &seqd.Account{First: 1, Last: 10, Gaps: []seqd.NumberGap{
		{From: 1, To: 1, State: "void", Reason: "=1+1", By: "shop"}, {From: 2, To: 3, State: "reserved", Reservation: "r"}, {From: 5, To: 5, State: "released"}, {From: 9, To: 10, State: "void"},
	}})
	rows.add(10, &seqd.Account{First: 1, Last: 30, Next: 12})
	rows.add(12, &seqd.Account{First: 1, Last: 12})
	rows.add(0, &seqd.Account{First: 40, Last: 41})
	rows.add(0, &seqd.Account{First: 9007199254740993, Last: 9007199254740994})
	want := "1,1,,,void,,'=1+1,shop,,\r\n2,3,,,reserved,,,,r,\r\n4,4,,,issued,,,,,\r\n5,5,,,released,,,,,\r\n6,8,,,issued,,,,,\r\n9,10,,,void,,,,,\r\n11,12,,,issued,,,,,\r\n40,41,,,issued,,,,,\r\n'9007199254740993,'9007199254740994,,,issued,,,,,\r\n"
	if got := rows.buf.String(); got != want {
		t.Errorf("rows\n%s\nwant\n%s", got, want)
	}
}

// TestOnceOf checks that an Idempotency-Key stays what it is in the ledgers of earlier versions,
// and that its parts cannot be taken for each other.
func TestOnceOf(t *testing.T) {
	call := &seqd.Call{BizType: "invoice", Key: "t1", Caller: seqd.Caller{Name: "shop"}}
	must.Equal(t, onceOf(call, "k"), "RWs5auZtDPRQYGSHlX0WUTPHb_Z2Bdph3V4_Gm-tj0o", "it")
	must.Equal(t, fileName("a", "", 0)+fileName("a", "k", 20261120), "a.csva-k-2026-11-20.csv", "the files are named")
}

// TestConditions checks what If-Match may be and what it matches.
func TestConditions(t *testing.T) {
	for lines, want := range map[string]struct{ ok, seven, none bool }{
		"":          {true, true, true},
		"*":         {true, true, false},
		`"7"`:       {true, true, false},
		`"6", "7"`:  {true, true, false},
		`"6"`:       {true, false, false},
		`W/"7"`:     {true, false, false},
		`W/"6","7"`: {true, true, false},
		`7`:         {false, false, false},
		`"7`:        {false, false, false},
		`"7" "8"`:   {false, false, false},
		`"`:         {false, false, false},
		`"6"|"7", `: {true, true, false},
		`"7",*`:     {false, false, false},
	} {
		r := &http.Request{Header: http.Header{}}
		if lines != "" {
			r.Header["If-Match"] = strings.Split(lines, "|")
		}
		m, err := readIfMatch(r)
		if (err == nil) != want.ok {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		if err == nil && ((m.check(7) == nil) != want.seven || (m.check(0) == nil) != want.none || m.asks() != (lines != "")) {
			t.Errorf("%s: revision 7 %v, none %v, asks %v", lines, m.check(7), m.check(0), m.asks())
		}
	}
}

// TestPreferences checks the quality of media types and encodings.
func TestPreferences(t *testing.T) {
	for params, want := range map[string]float64{"": 1, "q=0": 0, "q=1": 1, " Q = 0.5 ": 0.5, "q=1.1": 0, "q=-0.1": 0, "q=x": 0, "q=NaN": 0, "a=b;q=0.3": 0.3, "a=0.3": 1} {
		must.Equal(t, quality(params), want, "%q has the quality", params)
	}
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": true, "text/plain, application/json": false, "text/plain, application/json;q=0.9": true, "text/*": true, "text/*;q=0.5, application/*": false,
		"text/plain;q=0, */*": false, "application/json;q=0, */*": true, "text/*, text/plain;q=0.1, application/json;q=0.2": false, "application/*;q=0.1, application/json, text/plain;q=0.5": false,
		"TEXT/PLAIN": true, "  text/plain ;  q=1.0 ": true, "text/plain; charset=utf-8": true, "text/plain, */*": false, "text/plain, */*;q=0.1": true, "application/*;q=0.5, text/plain;q=0.6": true,
		"text/plain;q=0": false, "text/plain;q=high": false, "text/plain;q=2": false, "text/plain, application/json;q=NaN": true, "text/plain;Q=0.1, application/json;Q=0.2": false, "image/png": false,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": false, ",;=/,,q=;;\"\xff": false, "text/plain;q=0.1|application/json": false, "application/json;q=0.1|text/plain": true,
	} {
		must.Equal(t, Prefers(strings.Split(accept, "|"), "text/plain"), want, "%q prefers text", accept)
	}
	for accept, want := range map[string]bool{"": false, "gzip": true, "GZIP": true, "gzip;q=0": false, "*": true, "*;q=0": false, "*, gzip;q=0": false, "gzip;q=0, gzip;q=0.5": true, "br": false, "*;q=0, gzip": true, "*;q=0, br": false, "gzip;q=0, *": false, "identity": false} {
		must.Equal(t, AcceptsGzip([]string{accept}), want, "%q accepts gzip", accept)
	}
	for accept, want := range map[string]bool{
		"": false, "text/plain": false, "application/openmetrics-text": true, "application/openmetrics-text;q=0": false, "application/openmetrics-text;q=0.5,text/plain;q=0.5": true,
		"application/openmetrics-text;q=0.4,text/plain;q=0.5": false,
		"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.45,*/*;q=0.1": true,
	} {
		must.Equal(t, metricsForm([]string{accept}) == OpenMetrics, want, "%q wants OpenMetrics", accept)
	}
	for accept, want := range map[string]string{
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4,*/*;q=0.1": Protobuf,
		"application/openmetrics-text;version=1.0.0;q=0.6,application/vnd.google.protobuf;encoding=delimited;q=0.5,text/plain;q=0.4":                                                   OpenMetrics,
		"application/vnd.google.protobuf;q=0": "text/plain",
	} {
		must.Equal(t, metricsForm([]string{accept}), want, "the form for %q", accept)
	}
}

// Services in one process may start at the same time.
func TestEnginesAtOnce(t *testing.T) {
	var engines sync.WaitGroup
	for range 2 {
		engines.Go(func() { newEngine() })
	}
	engines.Wait()
}
