package load

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

func TestRead(t *testing.T) {
	plain, dressed := &Shape{BizType: record.BizType{Name: "a"}}, &Shape{BizType: record.BizType{Display: "x"}}
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
		{request{shape: plain, kind: record.Parse}, 200, `{"number":"7","valid":true,"at":"2026-01-01T00:00:00.005Z","machineId":3,"sequence":4}`,
			record.Call{Runs: []record.Run{{First: 7, Count: 1, Step: 1}}, Parsed: &record.Parsed{Valid: true, Time: 1767225600005, Machine: 3, Sequence: 4}}},
	} {
		c.want.Status = c.status
		got := record.Call{Status: c.status}
		if c.q.read(&got, []byte(c.body)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.body, got, c.want)
		}
	}
}

// The checker and seqd must get the same biz types.
func TestShapes(t *testing.T) {
	text, _, err := Configuration(Shapes(Options{}))
	must.Do(t, err)
	cfg := must.Get(config.Load(config.Sources{Env: []string{"SEQD_BIZTYPES=" + text, "SEQD_STORE_DRIVER=mongo", "SEQD_REDIS_ADDRS=127.0.0.1:1"}}))(t)
	named := map[string]bool{}
	for _, b := range cfg.BizTypes {
		named[b.Name] = true
	}
	for _, s := range Shapes(Options{}) {
		if named[s.Name] == s.Late {
			t.Errorf("%s: in the configuration %v", s.Name, named[s.Name])
		}
	}
}

func TestLinesOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	writer := must.Get(record.Create(path))(t)
	j, err := NewJournal(writer, io.Discard, Shapes(Options{}))
	must.Do(t, err)
	for _, line := range []string{
		`{"level":"INFO","msg":"the cursor was begun","bizType":"order","first":100,"last":1099}`,
		`{"level":"INFO","msg":"machine ID","machineId":7}`,
		`{"level":"INFO","msg":"listening"}`,
		`{"level":"ERROR","msg":"no range from the store","bizType":"order"}`,
		`panic: oh`,
	} {
		j.Line("a", 2, []byte(line))
	}
	must.Do(t, writer.Close())
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

func TestAnswersThatBreakOff(t *testing.T) {
	q := request{shape: &Shape{BizType: record.BizType{Name: "a"}}, kind: record.Batch, count: 4, text: true}
	for body, want := range map[string]int64{"": 0, "10": 0, "10\n11\n1": 2, "10\n11\n12\n": 3} {
		c := record.Call{Code: "reset"}
		q.readTorn(&c, []byte(body))
		if c.Code != "reset" || record.Runs(c.Runs).Numbers() != want {
			t.Errorf("%q: %+v", body, c)
		}
	}
}
