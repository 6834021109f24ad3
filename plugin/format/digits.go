package format

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/seqd/seqd"
)

// alphabets are the digits of each radix. Those of radix 32 are Douglas Crockford's (no I, L, O,
// U). Those of radix 62 start with the upper-case letters, so that in every radix texts of the same
// length sort like their numbers.
var alphabets = map[int]string{
	10: "0123456789",
	16: "0123456789ABCDEF",
	32: "0123456789ABCDEFGHJKMNPQRSTVWXYZ",
	36: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	62: "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
}

// numeral is how numbers are written.
type numeral struct {
	// width is the smallest number of digits, 1 to 64.
	width    int
	alphabet string
}

// most returns the largest number of width digits. ok is false if numbers are not padded or every
// number fits.
func (u numeral) most() (n int64, ok bool) {
	if u.width == 1 {
		return 0, false
	}
	for range u.width {
		if n = n*int64(len(u.alphabet)) + int64(len(u.alphabet)) - 1; n >= seqd.MaxNumber {
			return 0, false
		}
	}
	return n, true
}

// append appends n.
func (u numeral) append(dst []byte, n uint64) []byte {
	var buf [64]byte
	digits := buf[:0]
	if len(u.alphabet) == 10 {
		digits = strconv.AppendUint(digits, n, 10)
	} else {
		digits = u.convert(&buf, n)
	}
	for range u.width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// convert writes n to the end of buf and returns that part of it.
func (u numeral) convert(buf *[64]byte, n uint64) []byte {
	radix, at := uint64(len(u.alphabet)), len(buf)
	for {
		at--
		buf[at] = u.alphabet[n%radix]
		n /= radix
		if n == 0 {
			return buf[at:]
		}
	}
}

// parse is the inverse of append. ok is false for every other text, so each number has one text.
func (u numeral) parse(text string) (n uint64, ok bool) {
	if len(text) < u.width || len(text) > u.width && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		digit := strings.IndexByte(u.alphabet, text[i])
		if digit < 0 {
			return 0, false
		}
		if n, ok = shift(n, uint64(len(u.alphabet)), uint64(digit)); !ok {
			return 0, false
		}
	}
	return n, true
}

// shift returns n·radix + digit. ok is false if that exceeds 2^64 − 1.
func shift(n, radix, digit uint64) (sum uint64, ok bool) {
	over, product := bits.Mul64(n, radix)
	sum, carry := bits.Add64(product, digit, 0)
	return sum, over+carry == 0
}

// decimal is the form in which the sequence or a previous plugin passes a number.
type decimal struct {
	// width is the number of digits, 0 for as many as the number needs.
	width int
}

// value returns the number of a text. ok is false unless the text has exactly this form, so that
// two texts never have the same value.
func (d decimal) value(shown []byte) (n uint64, ok bool) {
	if d.width > 0 && len(shown) != d.width || d.width == 0 && len(shown) > 1 && shown[0] == '0' {
		return 0, false
	}
	ok = len(shown) > 0
	for i := 0; ok && i < len(shown); i++ {
		digit := shown[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n, ok = shift(n, 10, uint64(digit))
	}
	return n, ok
}

// text is the inverse of value. ok is false for a number with too many digits.
func (d decimal) text(n uint64) (shown string, ok bool) {
	digits := strconv.AppendUint(nil, n, 10)
	if d.width == 0 {
		return string(digits), true
	}
	if len(digits) > d.width {
		return "", false
	}
	return string(slices.Concat([]byte(strings.Repeat("0", d.width-len(digits))), digits)), true
}
