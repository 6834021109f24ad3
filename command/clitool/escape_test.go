package clitool

import (
	"bytes"
	"io"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// What a service says cannot steer a terminal, however it is cut into writes, and other text stays.
func TestEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nü 漢 \ufffd\r\n":            "a\tb\nü 漢 \ufffd\r\n",
		"\x1b]0;title\a\x1b[2J":           `\u001b]0;title\u0007\u001b[2J`,
		"x\rforged \b\x7f \u009b31m":      `x\u000dforged \u0008\u007f \u009b31m`,
		"8 bits \x9b2J \xff":              `8 bits \u009b2J \u00ff`,
		"\u202eright to left\u2066\u2028": `\u202eright to left\u2066\u2028`,
		`{"a":"` + "\u0085\x7f" + `"}`:    `{"a":"\u0085\u007f"}`,
	} {
		must.Equal(t, EscapeLines(text), want, "%q", text)
		for step := 1; step <= 3 && text[len(text)-2] != '\r'; step++ {
			var b bytes.Buffer
			w := Escaped(&b)
			for at := 0; at < len(text); at += step {
				if n, err := io.WriteString(w, text[at:min(at+step, len(text))]); err != nil || n == 0 {
					t.Fatal(n, err)
				}
			}
			must.Equal(t, b.String(), want, "%q by %d bytes", text, step)
		}
	}
	must.Equal(t, Row([]string{"a\tb", "c\nd", ""}), "a\\u0009b\tc\\u000ad\t")
	var b bytes.Buffer
	if Raw(Escaped(&b)) != io.Writer(&b) || Raw(&b) != io.Writer(&b) {
		t.Error("not the stream below")
	}
}
