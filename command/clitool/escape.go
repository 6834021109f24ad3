package clitool

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a service answers is shown to people, and a hostile one could steer their terminal with it.

// Escape returns text on one line, with control characters written as \u001b.
func Escape(text string) string { return escape(text, "") }

// EscapeLines is [Escape] for text that may have several lines and tabs.
func EscapeLines(text string) string { return escape(text, "\n\t") }

// escape escapes what steers terminals, except the characters in kept. JSON stays what it is: such
// characters are only in its strings.
func escape(text, kept string) string {
	if strings.IndexFunc(text, func(r rune) bool { return steers(r) && !strings.ContainsRune(kept, r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case kept != "" && strings.HasPrefix(text[i:], "\r\n"), !steers(r), strings.ContainsRune(kept, r):
			b.WriteString(text[i : i+size])
		case r == utf8.RuneError && size > 1:
			b.WriteRune(r)
		case r == utf8.RuneError: // a byte of no character, which some terminals obey
			fmt.Fprintf(&b, "\\u%04x", text[i])
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
		i += size
	}
	return b.String()
}

// Row returns the cells of a line of a table for a [text/tabwriter.Writer].
func Row(cells []string) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteString(Escape(cell))
	}
	return b.String()
}

// steers reports whether a terminal may obey a character, or show others elsewhere because of it.
func steers(r rune) bool {
	return r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// escaped escapes what is written to a stream. It keeps lines and tabs.
type escaped struct {
	w    io.Writer
	part []byte // the begin of a character that the next Write continues
}

// Escaped returns a stream that escapes control characters, except ends of lines and tabs.
func Escaped(w io.Writer) io.Writer { return &escaped{w: w} }

// Unwrap returns the stream, for those who control a terminal.
func (e *escaped) Unwrap() io.Writer { return e.w }

// Write implements [io.Writer].
func (e *escaped) Write(p []byte) (int, error) {
	text := string(e.part) + string(p)
	end := len(text)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRuneInString(text[i:]) {
			end = i
		}
	}
	e.part = append(e.part[:0], text[end:]...)
	if _, err := io.WriteString(e.w, EscapeLines(text[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Raw returns the stream below one of [Escaped], for control characters of our own.
func Raw(w io.Writer) io.Writer {
	if e, ok := w.(*escaped); ok {
		return e.w
	}
	return w
}
