package format

// luhnDoubled is what a doubled digit counts: the sum of its own digits.
const luhnDoubled = "\x00\x02\x04\x06\x08\x01\x03\x05\x07\x09"

// addLuhn carries the Luhn algorithm (ISO/IEC 7812-1, annex B) on over the digits of text. Every
// second digit counts double, beginning with the one beside the check digit. Which that is shows
// only at the end, so a state holds both sums, modulo 10: even, where the last digit so far is
// doubled, and odd, where it is not.
func addLuhn(s state, text []byte) state {
	for _, c := range text {
		if digit := uint32(c - '0'); digit <= 9 {
			s.even, s.odd = (s.odd+uint32(luhnDoubled[digit]))%10, (s.even+digit)%10
		}
	}
	return s
}

// endLuhn appends the digit that makes the sum a multiple of ten.
func endLuhn(dst []byte, s state) []byte {
	return append(dst, '0'+byte((10-s.even)%10))
}
