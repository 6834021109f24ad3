package format

import (
	"fmt"
	"strings"

	"github.com/seqd/seqd"
)

// charset is a set of ASCII characters.
type charset [2]uint64

func (s *charset) add(c byte)     { s[c>>6&1] |= 1 << (c & 63) }
func (s charset) has(c byte) bool { return c < 128 && s[c>>6]>>(c&63)&1 == 1 }

// within reports whether all of s are in other.
func (s charset) within(other charset) bool { return s[0]&^other[0]|s[1]&^other[1] == 0 }

// apart reports whether none of s is in other.
func (s charset) apart(other charset) bool { return s[0]&other[0]|s[1]&other[1] == 0 }

func charsetOf(text string) (s charset) {
	for i := range len(text) {
		s.add(text[i])
	}
	return s
}

// cut says where the key is, in a template that shows it. Every key has 1 to [seqd.MaxKeyLength]
// characters, and the number is not of constant length either, so what is between the two has to
// say where one ends and the other begins.
type cut struct {
	// The key is in this section of a frame (0 head, 1 middle, 2 tail), after its first at bytes.
	section, at int
	// before is the length of what is before both the key and the number, between that of what is
	// between them, and after that of what is after both.
	before, between, after int
	// mark is a position in what is between them that only shows characters that no number has. From
	// there to the number are only characters that numbers have.
	mark   int
	digits charset // of the number
}

// newCut returns nil for a template without {key}, and an error if two keys could have the same ID.
// The dates must be proven.
func newCut(t template, d *dates, a *algorithm) (*cut, error) {
	if t.find(key) < 0 {
		return nil, nil
	}
	number := t[t.find(sequence)]
	c := &cut{digits: charsetOf(number.numeral.alphabet)}
	var shown []charset // between the two
	passed, dates := 0, 0
	for _, p := range t {
		var columns []charset
		switch p.kind {
		case literal:
			for i := range len(p.text) {
				columns = append(columns, charsetOf(p.text[i:i+1]))
			}
		case date:
			columns = d.shows[dates]
			dates++
		case check:
			for range a.digits {
				columns = append(columns, charsetOf(alphabets[10]))
			}
		}
		c.locate(t, p, len(columns))
		switch {
		case p.kind == key || p.kind == sequence:
			passed++
		case passed == 0:
			c.before += len(columns)
		case passed == 1:
			shown = append(shown, columns...)
		default:
			c.after += len(columns)
		}
	}
	c.between = len(shown)
	if c.mark = c.findMark(shown); c.mark < 0 {
		return nil, t.ambiguous()
	}
	return c, nil
}

// locate adds a part of this width to where the key is in a frame.
func (c *cut) locate(t template, p part, width int) {
	if at := t[t.find(key)].at; p.at >= at {
		return
	}
	c.at += width
	if p.kind == sequence || p.kind == check {
		c.section, c.at = c.section+1, 0
	}
}

// findMark returns the mark, −1 if there is none.
func (c *cut) findMark(shown []charset) int {
	for i := range shown {
		at := i
		if c.section == 0 { // the number is behind it: begin there
			at = len(shown) - 1 - i
		}
		switch {
		case shown[at].apart(c.digits):
			return at
		case !shown[at].within(c.digits):
			return -1
		}
	}
	return -1
}

// ambiguous returns the error for a template whose key and number run into each other.
func (t template) ambiguous() error {
	first, second, keys := "{key}", "{seq}", "a and a1"
	if t.find(sequence) < t.find(key) {
		first, second, keys = second, first, "a and 1a"
	}
	sign := "a sign that is no digit"
	if radix := len(t[t.find(sequence)].numeral.alphabet); radix != 10 {
		sign += fmt.Sprintf(" of radix %d", radix)
	}
	return fmt.Errorf("byte %d: nothing between %s and %s shows where one ends and the other begins, so IDs of two keys, such as %s, would be the same: put %s between them, as in %s-%s",
		t[t.find(key)].at, first, second, keys, sign, first, second)
}

// append appends a section of a frame, with the key if it is there.
func (c *cut) append(dst []byte, section int, text, key string) []byte {
	if c.section != section {
		return append(dst, text...)
	}
	dst = append(append(dst, text[:c.at]...), key...)
	return append(dst, text[c.at:]...)
}

// lengths returns how long the number and the key of an ID are. ok is false if it has no mark, or
// not where it can be.
func (c *cut) lengths(id string) (number, key int, ok bool) {
	both := len(id) - c.before - c.between - c.after
	if both < 2 {
		return 0, 0, false
	}
	inner := id[c.before : len(id)-c.after]
	other := func(r rune) bool { return r >= 128 || !c.digits.has(byte(r)) }
	if c.section == 0 {
		key = strings.LastIndexFunc(inner, other) - c.mark
		number = both - key
	} else {
		number = strings.IndexFunc(inner, other) - c.mark
		key = both - number
	}
	return number, key, number > 0 && key > 0 && key <= seqd.MaxKeyLength
}
