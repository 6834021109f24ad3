package idempotency

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/seqd/seqd"
)

// form is how numbers are shown that only a text before and a text after were added to.
type form struct {
	width         int // of a number, with zeros in front; one with more digits has all of them
	before, after string
}

// formOf returns a form in which the first number of a sequence is shown. Whether the others are
// shown so must be tried. It reports false if there is none.
func formOf(seq *seqd.Sequence) (f form, ok bool) {
	digits := strconv.FormatInt(seq.First(), 10)
	for shown := range seq.Displays() {
		at := bytes.LastIndex(shown, []byte(digits))
		if at < 0 || !utf8.Valid(shown) || digits[0] == '-' {
			break
		}
		start := len(bytes.TrimRight(shown[:at], "0"))
		f = form{width: at - start + len(digits), before: string(shown[:start]), after: string(shown[at+len(digits):])}
		ok = true
		break
	}
	return f, ok
}

// lines returns the numbers of a sequence in this form, separated by line breaks.
func (f form) lines(seq *seqd.Sequence) []byte {
	lines := make([]byte, 0, seq.Len()*f.size())
	var buf [20]byte
	for number := range seq.Numbers() {
		if len(lines) > 0 {
			lines = append(lines, '\n')
		}
		digits := strconv.AppendInt(buf[:0], number, 10)
		lines = append(lines, f.before...)
		for range f.width - len(digits) {
			lines = append(lines, '0')
		}
		lines = append(append(lines, digits...), f.after...)
	}
	return lines
}

// size returns how many bytes a line has at most.
func (f form) size() int { return len(f.before) + max(f.width, 20) + len(f.after) + 1 }

// fits reports whether a record may have count lines in this form.
func (f form) fits(count int) bool {
	return f.size() <= mostShown/count && !strings.Contains(f.before+f.after, "\n")
}

// text returns the form as text, which needs no end.
func (f form) text() string {
	return fmt.Sprintf("%d:%d:%d:%s%s", f.width, len(f.before), len(f.after), f.before, f.after)
}

// parseForm is the inverse of [form.text]. It returns what follows the form, "" for a text that has
// none.
func parseForm(text string) (f form, rest string) {
	var sizes [3]int
	for i := range sizes {
		digits, behind, _ := strings.Cut(text, ":")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || n > mostBytes {
			return form{}, ""
		}
		sizes[i], text = n, behind
	}
	before, after := sizes[1], sizes[1]+sizes[2]
	if after > len(text) {
		return form{}, ""
	}
	return form{width: sizes[0], before: text[:before], after: text[before:after]}, text[after:]
}

// deflaters are reused: one takes a megabyte.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // the level is valid
	return w
}}

// deflate returns data compressed.
func deflate(data []byte) []byte {
	var b bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&b)
	_, _ = w.Write(data) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// inflate is the inverse of deflate and base64.
func inflate(text string) (string, error) {
	r := flate.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
	data, err := io.ReadAll(io.LimitReader(r, mostShown+1))
	if err != nil || len(data) > mostShown {
		return "", errDamaged
	}
	return string(data), nil
}
