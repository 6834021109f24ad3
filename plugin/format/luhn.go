package format

// luhnDoubled is the value of a doubled digit: the sum of the digits of the double.
const luhnDoubled = "\x00\x02\x04\x06\x08\x01\x03\x05\x07\x09"

// addLuhn continues the Luhn algorithm (ISO/IEC 7812-1, annex B) with the digits of text. Every
// second digit is doubled, starting with the one beside the check digit. Which digits these are is
// known only at the end, so the state has both sums modulo 10: even, if the last digit so far is
// doubled, and odd, if it is not.
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
