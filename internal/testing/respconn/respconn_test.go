package respconn

import (
	"io"
	"net"
	"reflect"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// read returns what Read makes of what a server sent before it closed the connection.
func read(t *testing.T, sent string) (any, error) {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		_, _ = io.WriteString(there, sent)
		_ = there.Close()
	}()
	defer func() { _ = here.Close() }()
	return New(here).Read()
}

func TestRead(t *testing.T) {
	for sent, want := range map[string]any{
		":12\r\n": int64(12), "+OK\r\n": "OK", "$2\r\n12\r\n": "12", "$-1\r\n": nil, "_\r\n": nil, "*0\r\n": []any(nil),
		"*2\r\n$1\r\n1\r\n:2\r\n": []any{"1", int64(2)},
	} {
		if got, err := read(t, sent); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %#v, %v", sent, got, err)
		}
	}
	must.Is(t, must.Err(read(t, "-ERR no\r\n")), Error("ERR no"), "an error is")
}

// Half an answer is not an answer, wherever it is cut.
func TestHalfAnAnswer(t *testing.T) {
	for _, whole := range []string{":12345\r\n", "$5\r\n12345\r\n", "*2\r\n$3\r\n123\r\n$3\r\n124\r\n", "+OK\r\n", "-ERR no\r\n"} {
		for end := range len(whole) {
			if got, err := read(t, whole[:end]); err == nil {
				t.Errorf("%q is %v", whole[:end], got)
			}
		}
	}
	for _, wrong := range []string{"HTTP/1.1 200 OK\r\n", ":1x\r\n", ":\r\n", "$2\r\n123\r\n", "*9999999\r\n", "$-2\r\n", "12\r\n", ":12\n"} {
		if got, err := read(t, wrong); err == nil {
			t.Errorf("%q is %v", wrong, got)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		answer any
		count  int
		want   []int64
	}{
		{int64(7), 0, []int64{7}},
		{int64(7), 3, []int64{5, 6, 7}},
		{"9", 0, []int64{9}},
		{[]any{"9", "11"}, 0, []int64{9, 11}},
	} {
		if got, err := Numbers(c.answer, c.count); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v is %v, %v", c.answer, got, err)
		}
	}
	for _, wrong := range []any{nil, "x", []any{"1", nil}} {
		if got, err := Numbers(wrong, 0); err == nil {
			t.Errorf("%v is %v", wrong, got)
		}
	}
}
