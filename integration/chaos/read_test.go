package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/chaos/record"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

func TestAppendNumber(t *testing.T) {
	for _, c := range []struct {
		numbers []int64
		want    []record.Run
	}{
		{[]int64{5}, []record.Run{{First: 5, Count: 1, Step: 1}}},
		{[]int64{5, 6, 7}, []record.Run{{First: 5, Count: 3, Step: 1}}},
		{[]int64{1024, 2048, 3072, 9}, []record.Run{{First: 1024, Count: 3, Step: 1024}, {First: 9, Count: 1, Step: 1}}},
		{[]int64{1, 2, 10, 11}, []record.Run{{First: 1, Count: 2, Step: 1}, {First: 10, Count: 2, Step: 1}}},
		{[]int64{3, 3}, []record.Run{{First: 3, Count: 1, Step: 1}, {First: 3, Count: 1, Step: 1}}},
		{[]int64{3, 2}, []record.Run{{First: 3, Count: 1, Step: 1}, {First: 2, Count: 1, Step: 1}}},
	} {
		var runs []record.Run
		for _, n := range c.numbers {
			runs = appendNumber(runs, n)
		}
		if !reflect.DeepEqual(runs, c.want) {
			t.Errorf("%v: %v", c.numbers, runs)
		}
	}
}

func TestRead(t *testing.T) {
	plain, dressed := &shape{BizType: record.BizType{Name: "a"}}, &shape{BizType: record.BizType{Display: "x"}}
	for _, c := range []struct {
		q      request
		status int
		body   string
		want   record.Call
	}{
		{request{shape: plain, count: 1}, 200, `{"bizType":"a","id":"7"}`, record.Call{Runs: []record.Run{{First: 7, Count: 1, Step: 1}}}},
		{request{shape: plain, count: 2}, 200, `{"bizType":"a","ids":["7","8"]}`, record.Call{Runs: []record.Run{{First: 7, Count: 2, Step: 1}}}},
		{request{shape: plain, count: 2, text: true}, 200, "7\n8\n", record.Call{Runs: []record.Run{{First: 7, Count: 2, Step: 1}}}},
		{request{shape: dressed, count: 2, text: true}, 200, "X-7\nX-8\n", record.Call{Texts: []string{"X-7", "X-8"}}},
		{request{shape: plain, count: 3, text: true}, 200, "7\n8\n", record.Call{Code: unreadable, Runs: []record.Run{{First: 7, Count: 2, Step: 1}}}},
		{request{shape: plain, count: 1}, 200, `{"bizType":"b","id":"7"}`, record.Call{Code: unreadable, Runs: []record.Run{{First: 7, Count: 1, Step: 1}}}},
		{request{shape: plain, count: 1}, 200, `{"bizType":"a","id":"07"}`, record.Call{Code: unreadable}},
		{request{shape: plain, count: 1}, 200, ``, record.Call{Code: unreadable}},
		{request{shape: plain, count: 1}, 503, `{"code":"starting"}`, record.Call{Code: "starting"}},
		{request{shape: plain, kind: record.Parse}, 200, `{"number":"7","valid":true,"time":"2026-01-01T00:00:00.005Z","machineId":3,"sequence":4}`,
			record.Call{Runs: []record.Run{{First: 7, Count: 1, Step: 1}}, Parsed: &record.Parsed{Valid: true, Time: 1767225600005, Machine: 3, Sequence: 4}}},
	} {
		c.want.Status = c.status
		got := record.Call{Status: c.status}
		if c.q.read(&got, []byte(c.body)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.body, got, c.want)
		}
	}
}

func TestComplaint(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	cancelled := func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(10*time.Millisecond, cancel)
		return ctx, cancel
	}
	timed := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 10*time.Millisecond)
	}
	for _, c := range []struct {
		url, want string
		ctx       func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"http://" + closed.Addr().String(), "refused", context.WithCancel},
		{server.URL + "/reset", "reset", context.WithCancel},
		{server.URL + "/hang", "timeout", timed},
		{server.URL + "/hang", "canceled", cancelled},
	} {
		ctx, cancel := c.ctx(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err == nil {
			resp.Body.Close()
		}
		cancel()
		if got := complaint(err); err == nil || got != c.want {
			t.Errorf("%s: %q and not %q: %v", c.url, got, c.want, err)
		}
	}
	if got := complaint(errors.New("new")); got != "other: new" {
		t.Error(got)
	}
}

func TestLineWriter(t *testing.T) {
	var out strings.Builder
	var lines []string
	w := &lineWriter{out: &out, see: func(line []byte) { lines = append(lines, string(line)) }}
	for _, part := range []string{"a", "b\n\nc", "d\ne"} {
		if n, err := io.WriteString(w, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != "ab\n\ncd\ne" || !reflect.DeepEqual(lines, []string{"ab", "", "cd"}) {
		t.Errorf("%q, %q", out.String(), lines)
	}
}

func TestLinesOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	j, err := newJournal(path, io.Discard, shapes(System{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"level":"INFO","msg":"the cursor was begun","bizType":"order","first":100,"last":1099}`,
		`{"level":"INFO","msg":"machine ID","machineId":7}`,
		`{"level":"INFO","msg":"listening"}`,
		`{"level":"ERROR","msg":"no range from the store","bizType":"order"}`,
		`panic: oh`,
	} {
		j.line("a", 2, []byte(line))
	}
	if err := j.writer.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	_, err = record.Read(path, func(e *record.Entry) error {
		l := e.Line
		got = append(got, fmt.Sprintf("%s %d %s %s %d %d %d %v", l.Node, l.Life, l.What, l.BizType, l.First, l.Last, l.Machine, l.Error))
		return nil
	})
	want := []string{"a 2 begun order 100 1099 0 false", "a 2 got machine  0 0 7 false", "a 2 other order 0 0 0 true", "a 2 other  0 0 0 true"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}

// The checker and seqd must get the same biz types.
func TestShapes(t *testing.T) {
	text, _, err := configuration(shapes(System{}))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Sources{Env: []string{"SEQD_BIZTYPES=" + text, "SEQD_STORE_DRIVER=mongo", "SEQD_REDIS_ADDRS=127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, b := range cfg.BizTypes {
		named[b.Name] = true
	}
	for _, s := range shapes(System{}) {
		if named[s.Name] == s.late {
			t.Errorf("%s: in the configuration %v", s.Name, named[s.Name])
		}
	}
}

func TestAnswersThatBreakOff(t *testing.T) {
	q := request{shape: &shape{BizType: record.BizType{Name: "a"}}, kind: record.Batch, count: 4, text: true}
	for body, want := range map[string]int64{"": 0, "10": 0, "10\n11\n1": 2, "10\n11\n12\n": 3} {
		c := record.Call{Code: "reset"}
		q.readTorn(&c, []byte(body))
		if c.Code != "reset" || record.Runs(c.Runs).Numbers() != want {
			t.Errorf("%q: %+v", body, c)
		}
	}
}
