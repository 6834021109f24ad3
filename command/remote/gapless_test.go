package remote_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

const reservation = `{"bizType":"invoice","reservation":"4f..t-1","ids":["INV-7","INV-8"],"state":"reserved","expiresAt":"2026-11-23T06:00:00.123Z"}`

func TestReserve(t *testing.T) {
	f := answering(t, answerJSON(201, reservation))
	l := f.line(t)
	l.want("biz type     invoice\nreservation  4f..t-1\nIDs          INV-7 INV-8\nstate        reserved\nexpires at   2026-11-23T06:00:00Z\n",
		"reserve", "invoice", "-n", "2", "--ttl", "90s", "--key", "t-1", "--idempotency-key", "payment-1")
	if got := f.last(); got.method != "POST" || got.target != "/seq/invoice/reservations?count=2&key=t-1&ttl=1m30s" {
		t.Errorf("asked %+v", got)
	}
	got := l.run("reserve", "invoice", "-n", "2", "--json")
	for _, part := range []string{`"reservation": "4f..t-1"`, `"expiresAt": "2026-11-23T06:00:00.123Z"`} {
		if !strings.Contains(got.out, part) {
			t.Errorf("%+v has no %s", got, part)
		}
	}
	l.wantError(1, "bad_answer", "reserve", "invoice")
	for _, test := range []struct {
		want string
		args []string
	}{
		{"reserve needs BIZTYPE", nil},
		{"-n 0: at least 1", []string{"invoice", "-n", "0"}},
		{"--ttl 999ms: want 1s to 24h", []string{"invoice", "--ttl", "999ms"}},
		{"--ttl 25h0m0s: want 1s to 24h", []string{"invoice", "--ttl", "25h"}},
		{"--key is empty", []string{"invoice", "--key", ""}},
		{"--idempotency-key is empty", []string{"invoice", "--idempotency-key="}},
	} {
		l.wantError(78, test.want, append([]string{"reserve"}, test.args...)...)
	}
	l.wantError(1, "invalid_key", "reserve", "invoice", "--key", "a/b")
}

func TestSettle(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "late"):
			problem(409, "reservation_expired", "it expired")(w, r)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			answerJSON(200, strings.Replace(reservation, "reserved", "confirmed", 1))(w, r)
		}
	})
	l := f.line(t)
	l.want("biz type     invoice\nreservation  4f..t-1\nIDs          INV-7 INV-8\nstate        confirmed\nexpires at   2026-11-23T06:00:00Z\n", "confirm", "invoice", "4f..t-1")
	l.want("4f..t-1: released\n", "release", "invoice", "4f..t-1")
	l.want("{\n  \"bizType\": \"invoice\",\n  \"reservation\": \"4f..t-1\",\n  \"state\": \"released\"\n}\n", "release", "invoice", "4f..t-1", "--json")
	l.wantError(1, "reservation_expired: it expired", "confirm", "invoice", "late")
	l.wantError(1, "reservation_expired: it expired", "release", "invoice", "late")
	l.wantError(1, "unknown_reservation", "confirm", "invoice", "")
	l.wantError(78, "confirm needs BIZTYPE and RESERVATION", "confirm")
	l.wantError(78, "release needs BIZTYPE and RESERVATION", "release", "invoice")
	want := "POST /seq/invoice/reservations/4f..t-1/confirm DELETE /seq/invoice/reservations/4f..t-1"
	must.Equal(t, strings.Join(f.targets()[:2], " "), want, "asked")
}

// account answers with two pages: the second one is asked for by its number and the period of the
// first.
func account(t *testing.T) *fake {
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		head := `{"bizType":"invoice","key":"t-1","period":"2026","first":"1","last":"%d","issued":%d,"gaps":[`
		page := fmt.Sprintf(head, 41, 36) +
			`{"from":"1","to":"2","fromId":"0001","toId":"0002","state":"void","reason":"=1+1","caller":"ops","at":"2026-11-23T06:00:00.123Z"},{"from":"7","to":"7","fromId":"INV-7","toId":"INV-7","state":"released","at":"2026-11-23T06:00:00Z"}],"next":"7"}`
		switch {
		case q.Get("after") == "7" && q.Get("period") == "2026":
			page = fmt.Sprintf(head, 42, 37) + `{"from":"40","to":"41","state":"reserved","reservation":"4f..t-1","expiresAt":"2026-11-23T06:00:00Z"}]}`
		case q.Get("after") != "" || q.Get("key") != "t-1":
			page = "{}"
		}
		answerJSON(200, page)(w, r)
	})
}

func TestGaps(t *testing.T) {
	l := account(t).line(t)
	got := l.run("gaps", "invoice", "--key", "t-1")
	var lines []string
	for line := range strings.Lines(got.out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"FROM TO FROM ID TO ID STATE SINCE REMARK", "1 2 0001 0002 void 2026-11-23T06:00:00Z =1+1 (ops)", "7 7 INV-7 INV-7 released 2026-11-23T06:00:00Z -",
		"40 41 - - reserved - reservation 4f..t-1 until 2026-11-23T06:00:00Z", "1 to 42: 37 issued, 5 not",
	}
	if got.code != 0 || strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%d %s\n%s", got.code, got.errs, strings.Join(lines, "\n"))
	}
	l.want("\ufefffrom,to,fromId,toId,state,at,reason,caller,reservation,expiresAt\r\n1,2,'0001,'0002,void,2026-11-23T06:00:00.123Z,'=1+1,ops,,\r\n3,6,,,issued,,,,,\r\n7,7,INV-7,INV-7,released,2026-11-23T06:00:00.000Z,,,,\r\n"+
		"8,39,,,issued,,,,,\r\n40,41,,,reserved,,,,4f..t-1,2026-11-23T06:00:00.000Z\r\n42,42,,,issued,,,,,\r\n", "gaps", "invoice", "--key", "t-1", "--csv")
	l.want(`{"bizType":"invoice","key":"t-1","gaps":[
  {"from":"1","to":"2","fromId":"0001","toId":"0002","state":"void","at":"2026-11-23T06:00:00.123Z","reason":"=1+1","caller":"ops"},
  {"from":"7","to":"7","fromId":"INV-7","toId":"INV-7","state":"released","at":"2026-11-23T06:00:00Z"},
  {"from":"40","to":"41","state":"reserved","reservation":"4f..t-1","expiresAt":"2026-11-23T06:00:00Z"}
],"period":"2026","first":"1","last":"42","issued":37}
`, "gaps", "invoice", "--key", "t-1", "--json")
	l.wantError(78, "use only one of --csv and --json", "gaps", "invoice", "--csv", "--json")
	l.wantError(1, "bad_answer", "gaps", "invoice", "--key", "other")
	if got := l.run("gaps", "invoice", "--key", "other", "--json"); got.code != 1 || !json.Valid([]byte(got.out)) || strings.Count(got.out, `"error"`) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestGapsOfNone(t *testing.T) {
	l := answering(t, answerJSON(200, `{"bizType":"invoice","first":"100","last":"99","issued":0,"gaps":[]}`)).line(t)
	l.want("no number was handed out; the first one will be 100\n", "gaps", "invoice")
	l.want("\ufefffrom,to,fromId,toId,state,at,reason,caller,reservation,expiresAt\r\n", "gaps", "invoice", "--csv")
	l = answering(t, answerJSON(200, `{"bizType":"invoice","first":"1","last":"2","issued":2,"gaps":[]}`)).line(t)
	l.want("1 to 2: 2 issued, no gaps\n", "gaps", "invoice")
	l.want("\ufefffrom,to,fromId,toId,state,at,reason,caller,reservation,expiresAt\r\n1,2,,,issued,,,,,\r\n", "gaps", "invoice", "--csv")
}

func TestVoid(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	l := f.line(t)
	l.want("INV-7: void\n", "void", "invoice", "INV-7", "--reason", "typed wrong", "--key", "t-1", "--period", "2026", "--yes")
	if got := f.last(); got.method != "POST" || got.target != "/biz-types/invoice/voids?key=t-1&period=2026" || got.body != `{"id":"INV-7","reason":"typed wrong"}` {
		t.Errorf("asked %+v", got)
	}
	l.want("{\n  \"bizType\": \"invoice\",\n  \"id\": \"7\",\n  \"state\": \"void\"\n}\n", "void", "invoice", "7", "--reason", "x", "--yes", "--json")
	l.wantError(78, "add --yes", "void", "invoice", "7", "--reason", "x")
	l.wantError(78, "void needs --reason", "void", "invoice", "7", "--yes")
	l.wantError(78, "--reason is empty", "void", "invoice", "7", "--reason", " ", "--yes")
	l.wantError(78, "void needs BIZTYPE and ID", "void", "invoice", "--reason", "x")
	if n := len(f.targets()); n != 2 {
		t.Errorf("%d requests: %s", n, f.targets())
	}
}

func TestKeys(t *testing.T) {
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		page := `{"bizType":"ticket","keys":["a","b"],"next":"b"}`
		if r.URL.Query().Get("after") == "b" {
			page = `{"bizType":"ticket","keys":["c"]}`
		}
		answerJSON(200, page)(w, r)
	})
	l := f.line(t)
	l.want("a\nb\nc\n", "keys", "ticket")
	l.want("{\"keys\": [\n  \"a\",\n  \"b\",\n  \"c\"\n]}\n", "keys", "ticket", "--json")
	answering(t, answerJSON(200, `{"keys":["a"],"next":"a"}`)).line(t).wantFails(t, "does not end", "keys", "ticket")
}

// wantFails runs a command line that fails after some output.
func (l line) wantFails(t *testing.T, want string, args ...string) {
	t.Helper()
	if got := l.run(args...); got.code != 1 || !strings.Contains(got.errs, want) {
		t.Errorf("%q: %+v, want %q", args, got, want)
	}
}

// A key goes with every request of seqd next, also if it is split.
func TestNextOfAKey(t *testing.T) {
	issued := 0
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("key") != "t-1" {
			problem(400, "invalid_key", "name one with key")(w, r)
			return
		}
		issuing := r.URL.Query().Get("count")
		if issuing != "2" {
			problem(400, "invalid_count", "at most 2")(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		for range 2 {
			issued++
			_, _ = io.WriteString(w, fmt.Sprintln(issued))
		}
	})
	l := f.line(t)
	l.want("1\n2\n3\n4\n", "next", "ticket", "--key", "t-1", "-n", "4")
	l.wantError(1, "invalid_key: ", "next", "ticket", "-n", "2")
	l.wantError(1, "invalid_key: ", "next", "ticket", "--key", "")
	l.wantError(1, "invalid_count", "next", "ticket", "--key", "t-1", "--idempotency-key", "x", "-n", "4")
}
