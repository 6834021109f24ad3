package resp

import (
	"bytes"
	"fmt"
	"sync"
)

// Limits of what a client may send. They are checked against what a client announces, before it
// sends it.
const (
	// mostBytes is the largest command, in the form in which it is sent.
	mostBytes = 16 << 10
	// mostArgs is how many arguments a command may have, with its name.
	mostArgs = 64
	// longestHead is the longest line that announces a length, with its CR LF.
	longestHead = 16
	// smallBuffer is what a connection holds while it waits. Only a client whose commands need more
	// gets a buffer of mostBytes, until they are answered.
	smallBuffer = 4 << 10
)

// buffers holds buffers of mostBytes.
var buffers = sync.Pool{New: func() any { return new([mostBytes]byte) }}

// protocolError is what a client sent instead of a command. The connection ends, because nobody can
// tell where the next command begins.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// errHTTP is the error of a client that speaks HTTP.
const errHTTP = protocolError("this port speaks the Redis protocol and not HTTP")

// input holds what a client has sent and has not been answered yet. It reads each byte once,
// however slowly they come: the fields below begin keep what is known of the unfinished command.
type input struct {
	small      [smallBuffer]byte
	large      *[mostBytes]byte // nil unless it is in use
	buf        []byte           // small or large
	begin, end int              // the part of buf that was sent and not answered

	// The unfinished command, by offsets from begin.
	next   int // what was not looked at yet
	wanted int // how many arguments it still needs; 0 if that is not known
	size   int // the length of the argument at next; -1 if that is not known
	spans  []span
	args   [][]byte // what command returned last
}

// span is where an argument is, by offsets from begin.
type span struct{ from, to int }

// newInput returns an input.
func newInput() *input {
	in := &input{size: -1, spans: make([]span, 0, 4), args: make([][]byte, 0, 4)}
	in.buf = in.small[:]
	return in
}

// empty reports whether everything that the client sent was a complete command.
func (in *input) empty() bool { return in.begin == in.end }

// space returns where to read to. It is never empty after command has said that there is no further
// one. The arguments that command returned are no longer valid.
func (in *input) space() []byte {
	switch {
	case in.empty():
		in.release()
		in.begin, in.end = 0, 0
	case in.end == len(in.buf) && in.begin > 0:
		in.end = copy(in.buf, in.buf[in.begin:in.end])
		in.begin = 0
	}
	if in.end == len(in.buf) && in.large == nil {
		in.large = buffers.Get().(*[mostBytes]byte)
		copy(in.large[:], in.buf)
		in.buf = in.large[:]
	}
	return in.buf[in.end:]
}

// filled says how many bytes were read to the space.
func (in *input) filled(n int) { in.end += n }

// release gives a large buffer back.
func (in *input) release() {
	if in.large == nil {
		return
	}
	buffers.Put(in.large)
	in.large, in.buf = nil, in.small[:]
}

// command returns the next command: its name and arguments, which are valid until the next call of
// space. ok is false if it is not complete yet. An error is a protocolError.
func (in *input) command() (args [][]byte, ok bool, err error) {
	for !in.empty() {
		if in.wanted == 0 && in.buf[in.begin] != '*' {
			ok, err = in.inline()
		} else {
			ok, err = in.array()
		}
		if err != nil || !ok {
			return nil, false, err
		}
		args = in.finish()
		if len(args) > 0 {
			return args, true, nil
		}
	}
	return nil, false, nil
}

// finish returns the arguments of a complete command, and steps behind it.
func (in *input) finish() [][]byte {
	in.args = in.args[:0]
	for _, s := range in.spans {
		in.args = append(in.args, in.buf[in.begin+s.from:in.begin+s.to])
	}
	in.begin += in.next
	in.next, in.wanted, in.size, in.spans = 0, 0, -1, in.spans[:0]
	return in.args
}

// array reads on in a command in the form of an array of strings: *2, $4, INCR, $5, order, each
// with CR LF. ok is true if it is complete.
func (in *input) array() (ok bool, err error) {
	if in.wanted == 0 {
		n, ok, err := in.head('*')
		if err != nil || !ok {
			return false, err
		}
		if n > mostArgs {
			return false, protocolError(fmt.Sprintf("a command has at most %d arguments", mostArgs))
		}
		in.wanted = n
	}
	for in.wanted > 0 {
		if ok, err := in.argument(); err != nil || !ok {
			return false, err
		}
		in.wanted--
	}
	return true, nil
}

// argument reads on in one argument.
func (in *input) argument() (ok bool, err error) {
	if in.size < 0 {
		n, ok, err := in.head('$')
		if err != nil || !ok {
			return false, err
		}
		if n > mostBytes-in.next-len("\r\n") {
			return false, errTooLarge
		}
		in.size = n
	}
	from, to := in.next, in.next+in.size
	if in.end-in.begin < to+len("\r\n") {
		return false, nil
	}
	if in.buf[in.begin+to] != '\r' || in.buf[in.begin+to+1] != '\n' {
		return false, protocolError("an argument does not end where its length says")
	}
	in.spans = append(in.spans, span{from, to})
	in.next, in.size = to+len("\r\n"), -1
	return true, nil
}

var errTooLarge = protocolError(fmt.Sprintf("a command has at most %d bytes", mostBytes))

// head reads a line that announces a length, such as $5.
func (in *input) head(kind byte) (n int, ok bool, err error) {
	line := in.buf[in.begin+in.next : in.end]
	if len(line) == 0 {
		return 0, false, nil
	}
	if line[0] != kind {
		return 0, false, protocolError(fmt.Sprintf("expected '%c', got %q", kind, line[:1]))
	}
	for i := 1; i < len(line); i++ {
		switch c := line[i]; {
		case c >= '0' && c <= '9' && i < longestHead-len("\r\n"):
			n = n*10 + int(c-'0') // at most 13 digits
		case c != '\r' || i == 1:
			return 0, false, protocolError(fmt.Sprintf("the length after '%c' is not a number from 0 to 2^40", kind))
		case i+1 == len(line):
			return 0, false, tooLong(in.next + i)
		case line[i+1] != '\n':
			return 0, false, protocolError("a line does not end with CR LF")
		default:
			in.next += i + len("\r\n")
			return n, true, tooLong(in.next)
		}
	}
	return 0, false, tooLong(in.next + len(line))
}

// tooLong returns errTooLarge if a command cannot be complete within mostBytes.
func tooLong(bytes int) error {
	if bytes >= mostBytes {
		return errTooLarge
	}
	return nil
}

// inline reads on in a command that is a line of words, as people type it.
func (in *input) inline() (ok bool, err error) {
	sent := in.buf[in.begin:in.end]
	length := bytes.IndexByte(sent[in.next:], '\n')
	if length < 0 {
		in.next = len(sent)
		if in.next >= mostBytes {
			return false, errTooLarge
		}
		return false, greeting(sent)
	}
	end := in.next + length
	in.next = end + 1
	line := bytes.TrimSuffix(sent[:end], []byte("\r"))
	if err := greeting(sent); err != nil {
		return false, err
	}
	if err := in.words(line); err != nil {
		return false, err
	}
	if in.likeHTTP(line) {
		return false, errHTTP
	}
	return true, nil
}

// greeting returns an error if what was sent begins as TLS does.
func greeting(sent []byte) error {
	if len(sent) > 1 && sent[0] == 0x16 && sent[1] == 3 {
		return protocolError("this port does not speak TLS")
	}
	return nil
}

// likeHTTP reports whether a line is one of a request of HTTP. A web page can make a browser send
// one here, with commands in its body. Redis looks for POST and Host: as well.
func (in *input) likeHTTP(line []byte) bool {
	if len(in.spans) == 0 {
		return false
	}
	first, last := in.spans[0], in.spans[len(in.spans)-1]
	return bytes.EqualFold(line[first.from:first.to], []byte("POST")) || bytes.EqualFold(line[first.from:first.to], []byte("Host:")) ||
		len(in.spans) > 1 && bytes.HasPrefix(line[last.from:last.to], []byte("HTTP/"))
}

// words finds the words of a line. Quotes are taken off in place, which makes a line shorter and
// never longer.
func (in *input) words(line []byte) error {
	for at := 0; ; {
		for at < len(line) && blank(line[at]) {
			at++
		}
		if at == len(line) {
			return nil
		}
		if len(in.spans) == mostArgs {
			return protocolError(fmt.Sprintf("a command has at most %d arguments", mostArgs))
		}
		from, to, next := word(line, at)
		if next < 0 {
			return protocolError("unbalanced quotes in request")
		}
		in.spans = append(in.spans, span{from, to})
		at = next
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == 0 }

// word reads the word at at. It is line[from:to] then, and next is where the line continues, or -1
// if a quote does not end.
func word(line []byte, at int) (from, to, next int) {
	from, to = at, at
	for at < len(line) && !blank(line[at]) {
		if quote := line[at]; quote == '"' || quote == '\'' {
			to, at = unquote(line, to, at+1, quote)
			if at == -1 || at < len(line) && !blank(line[at]) {
				return 0, 0, -1
			}
			break
		}
		to, at = to+1, at+1
	}
	return from, to, at
}

// unquote moves what is between quotes to line[to:]. It returns the end of that, and what follows
// the closing quote, or -1 if there is none.
func unquote(line []byte, to, at int, quote byte) (end, next int) {
	for at < len(line) {
		c := line[at]
		at++
		if c == quote {
			return to, at
		}
		if c == '\\' && at < len(line) {
			c, at = escaped(line, at, quote)
		}
		line[to] = c
		to++
	}
	return to, -1
}

// escaped returns the byte that an escape stands for, and what follows it. Single quotes know only
// the escape of a quote.
func escaped(line []byte, at int, quote byte) (c byte, next int) {
	c = line[at]
	if quote == '\'' {
		if c == '\'' {
			return c, at + 1
		}
		return '\\', at
	}
	if c == 'x' && at+2 < len(line) {
		high, low := digit(line[at+1]), digit(line[at+2])
		if high >= 0 && low >= 0 {
			return byte(high<<4 | low), at + 3
		}
	}
	switch c {
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case 'a':
		c = '\a'
	}
	return c, at + 1
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
