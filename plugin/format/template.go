package format

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Limits of a template.
const (
	mostBytes = 256
	mostWidth = 64
)

// kind is what a part of a template shows.
type kind int

// Kinds of parts.
const (
	literal kind = iota
	date
	sequence
	check
	key
)

// part is a part of a template.
type part struct {
	kind kind
	// at is the position of the part in the template, in bytes.
	at int
	// text is the text of a literal, or the layout of a date.
	text string
	// numeral is how the number is written.
	numeral numeral
}

// template is the parts of a template: one sequence, at most one check after it, and at most one key.
type template []part

// count returns the number of parts of a kind.
func (t template) count(k kind) (n int) {
	for _, p := range t {
		if p.kind == k {
			n++
		}
	}
	return n
}

// find returns the index of the first part of a kind, or −1.
func (t template) find(k kind) int {
	for i, p := range t {
		if p.kind == k {
			return i
		}
	}
	return -1
}

// layouts returns the layouts of all dates.
func (t template) layouts() (layouts []string) {
	for _, p := range t {
		if p.kind == date {
			layouts = append(layouts, p.text)
		}
	}
	return layouts
}

// parse parses a template. Its errors contain the position of the mistake, in bytes from 0.
func parse(text string) (template, error) {
	if len(text) > mostBytes {
		return nil, fmt.Errorf("byte %d: a template has at most %d bytes", mostBytes, mostBytes)
	}
	var t template
	for at := 0; at < len(text); {
		p, next, err := scan(text, at)
		if err != nil {
			return nil, err
		}
		if err := t.takes(p); err != nil {
			return nil, err
		}
		t, at = append(t, p), next
	}
	if t.count(sequence) == 0 {
		return nil, fmt.Errorf("byte %d: the template ends without {seq}, the number itself", len(text))
	}
	return t, nil
}

// takes returns an error if p must not be the next part.
func (t template) takes(p part) error {
	switch {
	case p.kind >= sequence && t.count(p.kind) > 0:
		return fmt.Errorf("byte %d: the template has this part already", p.at)
	case p.kind == check && t.count(sequence) == 0:
		return fmt.Errorf("byte %d: {check} is before {seq}: it covers only what is before it, so it would not cover the number", p.at)
	}
	return nil
}

// scan parses the part that begins at a byte and returns where the next one begins.
func scan(text string, at int) (p part, next int, err error) {
	if text[at] != '{' || strings.HasPrefix(text[at:], "{{") {
		return scanLiteral(text, at)
	}
	length := strings.IndexByte(text[at:], '}')
	if length < 0 {
		return p, 0, fmt.Errorf("byte %d: this brace is not closed; {{ shows a brace", at)
	}
	name, argument, has := strings.Cut(text[at+1:at+length], ":")
	p.at = at
	switch {
	case name == "seq":
		p.kind = sequence
		p.numeral, err = scanNumeral(argument, has, at+len("{seq:"))
	case name == "date" && argument != "":
		p.kind, p.text = date, argument
		err = checkLayout(argument, at+len("{date:"))
	case name == "check" && !has:
		p.kind = check
	case name == "key" && !has:
		p.kind = key
	default:
		err = fmt.Errorf("byte %d: %q is not one of the parts {seq}, {seq:06}, {seq:r36}, {seq:08r32}, {date:2006} (the year), {date:20060102} (the day), {check} and {key}", at, text[at:at+length+1])
	}
	return p, at + length + 1, err
}

// foreign are patterns of dates as other programs write them, such as yyyyMMdd, YYYY-MM-DD and
// %Y%m%d.
var foreign = regexp.MustCompile(`(?i)y{2,}|m{2,}|d{2,}|h{2,}|s{2,}|%[a-z]`)

// checkLayout returns an error for a layout of a date that shows nothing of the date, or letters of
// another language in its place. at is its position.
func checkLayout(layout string, at int) error {
	one, other := time.Date(2026, 11, 21, 13, 37, 48, 0, time.UTC), time.Date(2031, 2, 5, 6, 8, 9, 0, time.FixedZone("XYZ", 20700))
	if foreign.MatchString(layout) || one.Format(layout) == other.Format(layout) {
		return fmt.Errorf("byte %d: {date:%s}, or a part of it, shows the same on every day: write {date:%s}; 2006 is the year, 01 the month, 02 the day, 15 the hour, 04 the minute and 05 the second",
			at, layout, goLayout(layout))
	}
	return checkBytes(layout, at)
}

// words are the parts of dates as other programs write them.
var words = regexp.MustCompile(`(?i)%?(y+|m+|d+|h+|s+)`)

// goLayout returns the layout that a pattern of another program means; that of a day if it means
// none.
func goLayout(pattern string) string {
	clock := false // after an hour m is the minute
	layout := words.ReplaceAllStringFunc(pattern, func(word string) string {
		letter := word[len(word)-1]
		switch part := letter | 0x20; {
		case part == 'y' && (len(word) == 2 && word[0] != '%' || word == "%y"):
			return "06"
		case part == 'y':
			return "2006"
		case part == 'd':
			return "02"
		case part == 'h':
			clock = true
			return "15"
		case part == 's':
			return "05"
		case clock:
			return "04"
		}
		return "01"
	})
	if layout == pattern {
		return "20060102"
	}
	return layout
}

// scanLiteral parses text up to the next part.
func scanLiteral(text string, at int) (p part, next int, err error) {
	var shown strings.Builder
	for next = at; next < len(text); next++ {
		c := text[next]
		doubled := (c == '{' || c == '}') && strings.HasPrefix(text[next+1:], string(c))
		switch {
		case doubled:
			next++
		case c == '{':
			return part{kind: literal, at: at, text: shown.String()}, next, nil
		case c == '}':
			return p, 0, fmt.Errorf("byte %d: this brace closes nothing; }} shows a brace", next)
		}
		if err := checkBytes(text[next:next+1], next); err != nil {
			return p, 0, err
		}
		shown.WriteByte(c)
	}
	return part{kind: literal, at: at, text: shown.String()}, next, nil
}

// plain reports whether a character may be in an ID: visible ASCII, except characters that end or
// change the path of a URL or need escaping in JSON.
func plain(c byte) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune(`/?#%"\`, rune(c)) }

// checkBytes returns an error if text, which is at a byte of the template, has a character that is
// not plain.
func checkBytes(text string, at int) error {
	for i := range len(text) {
		if !plain(text[i]) {
			return fmt.Errorf(`byte %d: %q cannot stand in an ID: only visible ASCII characters can, without / ? # %% " \`, at+i, text[i:i+1])
		}
	}
	return nil
}

// scanNumeral parses what follows {seq:, such as 06, r36 or 08r32. at is its position.
func scanNumeral(argument string, has bool, at int) (numeral, error) {
	width, radix := 1, 10
	digits, base, converts := strings.Cut(argument, "r")
	if pads := digits != ""; pads {
		n, err := strconv.ParseUint(strings.TrimPrefix(digits, "0"), 10, 16)
		if err != nil || digits[0] != '0' || n < 1 || n > mostWidth || digits[1] == '0' {
			return numeral{}, fmt.Errorf("byte %d: %q is not a padding such as 06: a zero and a width from 1 to %d", at, digits, mostWidth)
		}
		width = int(n)
	} else if has && !converts {
		return numeral{}, fmt.Errorf("byte %d: a padding such as 06 or a radix such as r36 is missing", at)
	}
	if converts {
		radix, _ = strconv.Atoi(base)
	}
	alphabet := alphabets[radix]
	if alphabet == "" || converts && strconv.Itoa(radix) != base {
		return numeral{}, fmt.Errorf("byte %d: %q is not one of the radixes r10, r16, r32, r36 and r62", at+len(digits), "r"+base)
	}
	return numeral{width, alphabet}, nil
}
