package load

import (
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// A pipeline is cut within an answer. What arrived before counts, in one call for each biz type, and
// the rest got no answer.
func TestPipelineThatIsCut(t *testing.T) {
	plain, shown := &Shape{BizType: record.BizType{Name: "order"}}, &Shape{BizType: record.BizType{Name: "invoice", Display: "x"}}
	commands := []command{
		{plain, "INCR", 1, ""}, {plain, "INCRBY", 10, ""}, {shown, "SEQ.NEXT", 1, ""}, {plain, "SEQ.NEXT", 2, ""}, {shown, "SEQ.NEXT", 2, ""},
		{plain, "INCR", 1, ""}, {plain, "INCR", 1, ""}, {plain, "INCRBY", 5, ""},
	}
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(there, ":7\r\n:17\r\n$2\r\nx1\r\n*2\r\n$2\r\n18\r\n$2\r\n19\r\n*2\r\n$2\r\nx2\r\n$2\r\nx3\r\n"+
			"-TRYAGAIN store_unavailable: it is away\r\n:12")
		_ = there.Close()
	}()
	c := respconn.New(here)
	var answers []answer
	var err error
	for _, cmd := range commands {
		var a answer
		if a, err = readAnswer(c, cmd); err != nil {
			break
		}
		answers = append(answers, a)
	}
	var got []record.Call
	for _, c := range calls(record.Call{Node: "a"}, commands, answers, err) {
		got = append(got, *c)
	}
	want := []record.Call{
		{Node: "a", BizType: "order", Kind: record.Batch, Asked: 13, Status: 200, Runs: record.Runs{{First: 7, Count: 1, Step: 1}, {First: 8, Count: 10, Step: 1}, {First: 18, Count: 2, Step: 1}}},
		{Node: "a", BizType: "invoice", Kind: record.Single, Asked: 1, Status: 200, Texts: []string{"x1"}},
		{Node: "a", BizType: "invoice", Kind: record.Batch, Asked: 2, Status: 200, Texts: []string{"x2", "x3"}},
		{Node: "a", BizType: "order", Kind: record.Single, Asked: 1, Status: 503, Code: "store_unavailable"},
		{Node: "a", BizType: "order", Kind: record.Batch, Asked: 6, Code: "reset"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}
