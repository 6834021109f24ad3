package httpapi_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/pipes"
	"github.com/seqd/seqd/server/httpapi"
)

const csvType = "text/csv; charset=utf-8; header=present"

// newAccount returns an API whose biz type invoice has issued 1 to 10, except: 2 and 3 are
// released, 5 is void, 7 and 8 are reserved.
func newAccount(t *testing.T) (*httpapi.API, *book) {
	t.Helper()
	api, invoice, _ := newLedgers(t)
	do(t, api, "GET", "/seq/invoice?count=1")
	released := reserve(t, api, "/seq/invoice/reservations?count=2")
	do(t, api, "GET", "/seq/invoice?count=3")
	reserve(t, api, "/seq/invoice/reservations?count=2")
	do(t, api, "GET", "/seq/invoice?count=2")
	wantNothing(t, do(t, api, "DELETE", released))
	wantNothing(t, sendJSON(t, api, "POST", "/biz-types/invoice/voids", `{"id":"5","reason":"printed twice"}`))
	return api, invoice
}

const (
	gap2 = `{"from":"2","to":"2","state":"released","at":"2026-11-20T12:00:00.000Z"}`
	gap3 = `{"from":"3","to":"3","state":"released","at":"2026-11-20T12:00:00.000Z"}`
	gap5 = `{"from":"5","to":"5","state":"void","at":"2026-11-20T12:00:00.000Z","reason":"printed twice"}`
	gap7 = `{"from":"7","to":"8","state":"reserved","reservation":"00000000000000000008","expiresAt":"2026-11-20T12:10:00.000Z"}`
)

// TestAccount checks the pages of an account.
func TestAccount(t *testing.T) {
	api, invoice := newAccount(t)
	const head = `{"bizType":"invoice","period":"2026","first":"1","last":"10","issued":5,"gaps":[`
	all := head + strings.Join([]string{gap2, gap3, gap5, gap7}, ",") + `]}`
	wantJSON(t, do(t, api, "GET", "/biz-types/invoice/gaps"), 200, all)
	wantJSON(t, do(t, api, "GET", "/biz-types/invoice/gaps?after=0&limit=1000"), 200, all)
	wantJSON(t, do(t, api, "GET", "/biz-types/invoice/gaps?limit=3"), 200, head+gap2+","+gap3+","+gap5+`],"next":"5"}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/invoice/gaps?limit=3&after=5"), 200, head+gap7+`]}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/invoice/gaps?after=10"), 200, head+`]}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/gaps?key=new&period=2026-11"), 200,
		`{"bizType":"tenant","key":"new","period":"2026-11","first":"1","last":"0","issued":0,"gaps":[]}`)
	invoice.periods = nil
	for _, period := range []string{"2026", "2026-11", "2026-11-20"} {
		do(t, api, "GET", "/biz-types/invoice/gaps?period="+period)
	}
	if want := []seqd.Period{20260000, 20261100, 20261120}; !slices.Equal(invoice.periods, want) {
		t.Errorf("the periods are %v, want %v", invoice.periods, want)
	}
}

func TestBadAccounts(t *testing.T) {
	api, _ := newAccount(t)
	for _, tt := range []struct {
		status  int
		code    seqd.Code
		targets string
	}{
		{400, seqd.CodeInvalidRequest, "invoice/gaps?limit=0 invoice/gaps?limit=1&limit=1 invoice/gaps?after=-1 invoice/gaps?after=%2B1 invoice/gaps?after= invoice/gaps?after=INV-7 " +
			"invoice/gaps?after=9223372036854775808 invoice/gaps?period= invoice/gaps?period=202611 invoice/gaps?count=1 order/gaps invoice/keys order/keys tenant/keys?limit=0 tenant/keys?key=a " +
			"tenant/keys?after=%ff"},
		{400, seqd.CodeInvalidKey, "invoice/gaps?key=a invoice/gaps?key= tenant/gaps tenant/gaps?key=a%20b"},
		{404, seqd.CodeUnknownBizType, "nobody/gaps nobody/keys"},
	} {
		for target := range strings.FieldsSeq(tt.targets) {
			for _, accept := range []string{"application/json", "text/csv"} {
				w := do(t, api, "GET", "/biz-types/"+target, "Accept: "+accept)
				if w.Code != tt.status || !strings.Contains(w.Body.String(), `"code":"`+string(tt.code)+`"`) {
					t.Errorf("%s as %s: %d %s, want %d %s", target, accept, w.Code, w.Body, tt.status, tt.code)
					continue
				}
				wantProblem(t, w, tt.status, tt.code)
			}
		}
	}
}

// TestAccountCSV checks that a file accounts for each number in exactly one row.
func TestAccountCSV(t *testing.T) {
	api, _ := newAccount(t)
	const head = "\ufefffrom,to,fromId,toId,state,at,reason,caller,reservation,expiresAt\r\n"
	whole := head + "1,1,,,issued,,,,,\r\n" +
		"2,2,,,released,2026-11-20T12:00:00.000Z,,,,\r\n" +
		"3,3,,,released,2026-11-20T12:00:00.000Z,,,,\r\n" +
		"4,4,,,issued,,,,,\r\n" +
		"5,5,,,void,2026-11-20T12:00:00.000Z,printed twice,,,\r\n" +
		"6,6,,,issued,,,,,\r\n" +
		"7,8,,,reserved,,,,00000000000000000008,2026-11-20T12:10:00.000Z\r\n" +
		"9,10,,,issued,,,,,\r\n"
	w := do(t, api, "GET", "/biz-types/invoice/gaps", "Accept: text/csv, application/json;q=0.5")
	wantBody(t, w, csvType, whole)
	if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="invoice-2026.csv"` || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("Content-Disposition is %q, of %v", got, w.Header())
	}
	// the pages put together are the whole
	paged, after := head, ""
	for range 4 {
		w := do(t, api, "GET", "/biz-types/invoice/gaps?limit=1"+after, "Accept: text/csv")
		rows, found := strings.CutPrefix(w.Body.String(), head)
		if !found {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		paged += rows
		lines := strings.Split(strings.TrimSpace(rows), "\r\n")
		after = "&after=" + strings.Split(lines[len(lines)-1], ",")[1]
	}
	must.Equal(t, paged, whole, "the pages")
	wantBody(t, do(t, api, "GET", "/biz-types/tenant/gaps?key=new", "Accept: text/csv"), csvType, head)
	for _, accept := range []string{"", "*/*", "application/json", "text/plain", "text/csv;q=0", "application/json, text/csv;q=0.9"} {
		if got := do(t, api, "GET", "/biz-types/invoice/gaps", "Accept: "+accept).Header().Get("Content-Type"); got != jsonType {
			t.Errorf("Accept %q gets %s", accept, got)
		}
	}
}

// manyVoids returns a book with numbers up to last, of which each second is void.
func manyVoids(last int64) *book {
	b := newBook(false)
	c := b.of("")
	c.last = last
	for n := int64(2); n <= last; n += 2 {
		c.gaps[n] = seqd.NumberGap{From: n, To: n, FromID: fmt.Sprintf("0%d", n), State: seqd.GapVoid, At: ledgerNow, Reason: "r", By: "ops"}
	}
	return b
}

// TestAccountCSVInPages checks an account that is read in several pages: each number is in one row,
// and all pages are of the period of the first.
func TestAccountCSVInPages(t *testing.T) {
	const last = 5001
	b := manyVoids(last)
	w := do(t, newAPI(t, defineBook("invoice", b)), "GET", "/biz-types/invoice/gaps", "Accept: text/csv")
	next := int64(1)
	for _, row := range parseCSV(t, w.Body.String())[1:] {
		from, to := number(t, row[0]), number(t, row[1])
		if from != next || to < from || (row[4] == "void") != (from%2 == 0) || (row[2] == "'0"+row[0]) != (from%2 == 0) {
			t.Fatalf("a row is %q, want one from %d", row, next)
		}
		next = to + 1
	}
	if next != last+1 || b.pages != 3 {
		t.Errorf("the rows end at %d, after %d pages", next-1, b.pages)
	}
	if want := []seqd.Period{0, 20260000, 20260000}; !slices.Equal(b.periods, want) {
		t.Errorf("the periods of the pages are %v, want %v", b.periods, want)
	}
}

// gone is the connection of a caller that has gone.
type gone struct{ http.ResponseWriter }

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestAccountCSVEnds checks that no more pages are read for a caller that has gone, or from a
// ledger that does not get on.
func TestAccountCSVEnds(t *testing.T) {
	for stuck, want := range map[bool]int{false: 1, true: 2} {
		b, w := manyVoids(5001), http.ResponseWriter(httptest.NewRecorder())
		if stuck {
			b.next = 1
		} else {
			w = gone{w}
		}
		api := newAPI(t, defineBook("invoice", b))
		r := must.Get(newRequest("GET", "/biz-types/invoice/gaps", "Accept: text/csv"))(t)
		func() {
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != stuck {
					t.Errorf("it ended with %v", p)
				}
			}()
			api.ServeHTTP(w, r)
		}()
		if b.pages != want {
			t.Errorf("%d pages were read, want %d", b.pages, want)
		}
	}
}

// TestAccountStarting checks that there is no account before the service is ready.
func TestAccountStarting(t *testing.T) {
	api := newStarting(t)
	for _, target := range []string{"gaps", "keys"} {
		wantProblem(t, do(t, api, "GET", "/biz-types/order/"+target), 503, seqd.CodeStarting)
	}
	wantProblem(t, sendJSON(t, api, "POST", "/biz-types/order/voids", `{"id":"1","reason":"x"}`), 503, seqd.CodeStarting)
}

// TestAccountCSVBreaksOff checks that a caller does not take a part of an account for all of it.
func TestAccountCSVBreaksOff(t *testing.T) {
	var log bytes.Buffer
	b := manyVoids(5001)
	api := newStarting(t, func(o *options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	ready(api, newIssuer(t, defineBook("invoice", b)))
	server := httptest.NewServer(api)
	defer server.Close()
	get := func() (*http.Response, error) {
		r := must.Get(http.NewRequest("GET", server.URL+"/biz-types/invoice/gaps", nil))(t)
		r.Header.Set("Accept", "text/csv")
		return http.DefaultClient.Do(r)
	}
	b.failPage = 1
	resp, err := get()
	if err != nil || resp.StatusCode != 503 {
		t.Fatalf("%v, %v; want 503", resp, err)
	}
	resp.Body.Close()
	b.pages, b.failPage = 0, 3
	resp, err = get()
	must.Do(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil || len(body) == 0 || resp.StatusCode != 200 {
		t.Errorf("%d with %d bytes, error %v; want a broken answer", resp.StatusCode, len(body), err)
	}
	server.Close() // the handler has ended
	if !strings.Contains(log.String(), "an answer broke off") || strings.Contains(log.String(), "panic") {
		t.Errorf("logged %s", log.String())
	}
}

// TestAccountCSVTakesItsTime checks that an account may take longer than the write timeout, if each
// page does not.
func TestAccountCSVTakesItsTime(t *testing.T) {
	synctest.Test(t, accountCSVTakesItsTime)
}

func accountCSVTakesItsTime(t *testing.T) {
	b := manyVoids(10_001)
	b.pageTime = 700 * time.Millisecond
	l := pipes.New()
	server := &http.Server{Handler: newAPI(t, defineBook("invoice", b)), WriteTimeout: 3 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return l.Dial() },
	}}
	defer client.CloseIdleConnections()
	r := must.Get(http.NewRequest("GET", "http://seqd/biz-types/invoice/gaps", nil))(t)
	r.Header.Set("Accept", "text/csv")
	resp := must.Get(client.Do(r))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.HasSuffix(string(body), "\r\n10001,10001,,,issued,,,,,\r\n") || b.pages < 5 {
		t.Errorf("%d bytes of %d pages, %v", len(body), b.pages, err)
	}
}

func parseCSV(t *testing.T, text string) [][]string {
	t.Helper()
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = 10
	return must.Get(reader.ReadAll())(t)
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	return must.Get(strconv.ParseInt(text, 10, 64))(t)
}

// FuzzReason sends any reason. If it is accepted, JSON has it as it is, and in the CSV it is in a
// cell of its own that no spreadsheet calculates.
func FuzzReason(f *testing.F) {
	for _, reason := range []string{"printed twice", "=1+1", " =1", ";=1", "\"=1", "a,b", "a\nb", "\t=1", "＝1", "\u2028", "\xff", "", "'=1", "\u00a0=1", strings.Repeat("ü", 201)} {
		f.Add(reason)
	}
	f.Fuzz(func(t *testing.T, reason string) {
		api, _, _ := newLedgers(t)
		do(t, api, "GET", "/seq/invoice")
		body := must.Get(json.Marshal(map[string]string{"id": "1", "reason": reason}))(t)
		w := sendJSON(t, api, "POST", "/biz-types/invoice/voids", string(body))
		if w.Code != 204 {
			checkAnswer(t, w)
			return
		}
		var account struct{ Gaps []struct{ Reason string } }
		must.Do(t, json.Unmarshal(do(t, api, "GET", "/biz-types/invoice/gaps").Body.Bytes(), &account))
		must.Equal(t, account.Gaps[0].Reason, string([]rune(reason)), "%q becomes", reason)
		text := do(t, api, "GET", "/biz-types/invoice/gaps", "Accept: text/csv").Body.String()
		rows := parseCSV(t, text)
		cell := rows[1][6]
		if len(rows) != 2 || strings.Count(text, "\n") != 2 || strings.ReplaceAll(cell, "'", "") != strings.ReplaceAll(account.Gaps[0].Reason, "'", "") {
			t.Errorf("%q becomes %q", reason, text)
		}
		for part := range strings.FieldsFuncSeq(cell, func(r rune) bool { return r == ',' || r == ';' || r == '|' || r == '"' }) {
			if begin := strings.TrimLeft(part, " "); begin != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]) {
				t.Errorf("%q has the cell %q", reason, part)
			}
		}
	})
}

// TestVoids checks that a void can be repeated, and who said so.
func TestVoids(t *testing.T) {
	api := newGuardedBooks(t, map[string][]string{"ops": {"admin"}, "shop": {"issue:*"}, "auditor": {"read"}})
	do(t, api, "GET", "/seq/invoice", auth("shop"))
	do(t, api, "GET", "/seq/tenant?key=t1", auth("shop"))
	for _, reason := range []string{"first", "second"} {
		wantNothing(t, sendJSON(t, api, "POST", "/biz-types/invoice/voids", `{"id":"1","reason":"`+reason+`"}`, auth("ops")))
		wantNothing(t, sendJSON(t, api, "POST", "/biz-types/tenant/voids?key=t1&period=2026", `{"id":"1","reason":"`+reason+`"}`, auth("ops")))
	}
	for target, body := range map[string]string{
		"/biz-types/invoice/gaps":       `{"bizType":"invoice","period":"2026",`,
		"/biz-types/tenant/gaps?key=t1": `{"bizType":"tenant","key":"t1","period":"2026",`,
	} {
		wantJSON(t, do(t, api, "GET", target, auth("auditor")), 200,
			body+`"first":"1","last":"1","issued":0,"gaps":[{"from":"1","to":"1","state":"void","at":"2026-11-20T12:00:00.000Z","reason":"first","caller":"ops"}]}`)
	}
	for _, name := range []string{"shop", "auditor"} {
		wantProblem(t, sendJSON(t, api, "POST", "/biz-types/invoice/voids", `{"id":"1","reason":"x"}`, auth(name)), 403, seqd.CodeForbidden)
	}
	for _, target := range []string{"/biz-types/invoice/gaps", "/biz-types/tenant/keys"} {
		wantProblem(t, do(t, api, "GET", target, auth("shop")), 403, seqd.CodeForbidden)
		for _, name := range []string{"ops", "auditor"} {
			must.Equal(t, do(t, api, "GET", target, auth(name)).Code, 200, "%s by %s", target, name)
		}
	}
}

func TestBadVoids(t *testing.T) {
	api, invoice, _ := newLedgers(t)
	do(t, api, "GET", "/seq/invoice")
	const target = "/biz-types/invoice/voids"
	good := []string{`{"id":"1","reason":"x"}`}
	for _, tt := range []struct {
		target string
		code   seqd.Code
		bodies []string
	}{
		{target, seqd.CodeInvalidID, []string{`{"id":"2","reason":"x"}`, `{"id":"0","reason":"x"}`, `{"id":"-1","reason":"x"}`, `{"id":"INV-1","reason":"x"}`}}, // never issued
		{target, seqd.CodeInvalidRequest, []string{
			`{"id":1,"reason":"x"}`, `{"id":null,"reason":"x"}`, `{"id":"","reason":"x"}`, `{"reason":"x"}`, `{"id":"1"}`, `{"id":"1","reason":""}`, `{"id":"1","reason":null}`, `{"id":"1","reason":7}`,
			`{"id":"1","reason":"` + strings.Repeat("ü", 201) + `"}`, `{"id":"1","reason":"a\nb"}`, `{"id":"1","reason":"\u0000"}`, `{"id":"1","reason":"a\u0085b"}`, `{"id":"1","reason":"a\u2028b"}`,
			"{\"id\":\"1\",\"reason\":\"\xff\"}", `{"id":"1","reason":"x","by":"me"}`, `{"id":"1","reason":"x","key":"a"}`, `{"id":"1","id":"1","reason":"x"}`, `{"id":"1","reason":"x"}{}`,
			`["1","x"]`, `id=1`, ``,
		}},
		{target, seqd.CodeBodyTooLarge, []string{`{"id":"1","reason":"` + strings.Repeat("x", 2000) + `"}`}},
		{target + "?key=a", seqd.CodeInvalidKey, good}, {target + "?key=", seqd.CodeInvalidKey, good}, {"/biz-types/tenant/voids", seqd.CodeInvalidKey, good},
		{target + "?period=x", seqd.CodeInvalidRequest, good}, {target + "?reason=x", seqd.CodeInvalidRequest, good}, {"/biz-types/order/voids", seqd.CodeInvalidRequest, good},
		{"/biz-types/nobody/voids", seqd.CodeUnknownBizType, good},
	} {
		for _, body := range tt.bodies {
			w := sendJSON(t, api, "POST", tt.target, body)
			if status := statusOf(tt.code); w.Code != status || !strings.Contains(w.Body.String(), `"code":"`+string(tt.code)+`"`) {
				t.Errorf("%s %.80s: %d %s, want %d %s", tt.target, body, w.Code, w.Body, status, tt.code)
				continue
			}
			wantProblem(t, w, statusOf(tt.code), tt.code)
		}
	}
	if w := sendJSON(t, api, "POST", target, `{"id":"1","reason":7}`); !strings.Contains(w.Body.String(), "it is not text") {
		t.Errorf("a reason that is a number: %s", w.Body)
	}
	r := must.Get(newRequest("POST", target, "Content-Type: text/plain"))(t)
	w := serveOne(t, api, withBody(r, `{"id":"1","reason":"x"}`, false))
	wantProblem(t, w, 415, seqd.CodeUnsupportedMediaType)
	if len(invoice.of("").gaps) > 0 {
		t.Errorf("the voids are %v", invoice.of("").gaps)
	}
	wantNothing(t, sendJSON(t, api, "POST", target, `{"id":"1","reason":"`+strings.Repeat("ü", 200)+`"}`))
}

// TestKeyList checks the pages of a list of keys.
func TestKeyList(t *testing.T) {
	api, _, _ := newLedgers(t)
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/keys"), 200, `{"bizType":"tenant","keys":[]}`)
	for _, key := range []string{"b", "a", "C"} {
		do(t, api, "GET", "/seq/tenant?key="+key)
	}
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/keys"), 200, `{"bizType":"tenant","keys":["C","a","b"]}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/keys?limit=3"), 200, `{"bizType":"tenant","keys":["C","a","b"]}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/keys?limit=2"), 200, `{"bizType":"tenant","keys":["C","a"],"next":"a"}`)
	wantJSON(t, do(t, api, "GET", "/biz-types/tenant/keys?limit=2&after=a"), 200, `{"bizType":"tenant","keys":["b"]}`)
}
