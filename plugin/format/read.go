package format

import (
	"context"
	"strings"

	"github.com/seqd/seqd"
)

// Read implements [seqd.Reader]. It cuts an ID into the parts of the template and returns the
// number as [Plugin.After] received it. If the check digit is wrong, the reading is invalid. Every
// other text that After never makes is an error.
func (p *Plugin) Read(_ context.Context, id string, _ seqd.Counter) (r seqd.Reading, err error) {
	number, keyed, err := p.lengths(id)
	if err != nil {
		return r, err
	}
	var dates []string
	at := 0
	for _, part := range p.template {
		end := at + p.width(part, len(dates), number, keyed)
		text := id[at:end]
		switch part.kind {
		case literal:
			if text != part.text {
				return r, seqd.Errorf(seqd.CodeInvalidID, "character %d: the template has %q here", at, part.text)
			}
		case date:
			dates = append(dates, text)
		case sequence:
			if r.Shown, err = p.readNumber(text, at); err != nil {
				return r, err
			}
		case key:
			if err := seqd.CheckKey(text); err != nil {
				return r, seqd.Errorf(seqd.CodeInvalidID, "character %d: %s", at, seqd.AsError(err).Detail)
			}
			r.Key = text
		case check:
			if r.Invalid, err = p.readCheck(id, at, end); err != nil {
				return r, err
			}
		}
		at = end
	}
	if len(dates) == 0 {
		return r, nil
	}
	if r.Period, err = p.dates.read(strings.Join(dates, between)); err != nil {
		return r, seqd.Errorf(seqd.CodeInvalidID, "its date is not one that the template shows, {date:%s}", strings.Join(p.dates.layouts, "} and {date:"))
	}
	return r, nil
}

// lengths returns how many characters the number and the key have, or an error if the ID cannot be
// of this template.
func (p *Plugin) lengths(id string) (number, key int, err error) {
	number = len(id) - p.fixed()
	if p.cut != nil {
		var ok bool
		if number, key, ok = p.cut.lengths(id); !ok {
			return 0, 0, seqd.Errorf(seqd.CodeInvalidID, "it does not show where the key and the number begin and end as an ID of this template does")
		}
	}
	if number < p.numeral.width {
		return 0, 0, seqd.Errorf(seqd.CodeInvalidID, "an ID of this template has at least %d characters", p.fixed()+p.numeral.width+key)
	}
	return number, key, nil
}

// width returns how many characters a part has. earlier is the number of dates before it, number
// the length of the number and keyed that of the key.
func (p *Plugin) width(part part, earlier, number, keyed int) int {
	switch part.kind {
	case literal:
		return len(part.text)
	case date:
		return p.dates.widths[earlier]
	case check:
		return p.check.digits
	case key:
		return keyed
	case sequence:
	}
	return number
}

// fixed returns the length of an ID without the number and the key.
func (p *Plugin) fixed() (sum int) {
	dates := 0
	for _, part := range p.template {
		sum += p.width(part, dates, 0, 0)
		if part.kind == date {
			dates++
		}
	}
	return sum
}

func (p *Plugin) readNumber(text string, at int) (shown string, err error) {
	n, ok := p.numeral.parse(text)
	if !ok {
		return "", seqd.Errorf(seqd.CodeInvalidID, "character %d: the number does not have at least %d digits of %s, without further leading zeros, up to 2^64 - 1",
			at, p.numeral.width, p.numeral.alphabet)
	}
	if shown, ok = p.given.text(n); !ok {
		return "", seqd.Errorf(seqd.CodeInvalidID, "character %d: the number has more than %d decimal digits", at, p.given.width)
	}
	return shown, nil
}

// readCheck reports whether the check digits, id[at:end], are wrong.
func (p *Plugin) readCheck(id string, at, end int) (invalid bool, err error) {
	for i := at; i < end; i++ {
		if id[i] < '0' || id[i] > '9' {
			return false, seqd.Errorf(seqd.CodeInvalidID, "character %d: a check digit is from 0 to 9", i)
		}
	}
	right := p.check.end(nil, p.check.add(state{}, []byte(id[:at])))
	return string(right) != id[at:end], nil
}
