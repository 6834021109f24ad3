package chaos

import (
	"io"
	"reflect"
	"strings"
	"testing"
)

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
