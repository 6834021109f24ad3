package format

// addMod97 continues ISO/IEC 7064 MOD 97-10 with the letters and digits of text. It computes the
// remainder modulo 97 of the number formed by their values. A letter has two digits, A = 10 to Z =
// 35, as in an IBAN; the case does not matter.
func addMod97(s state, text []byte) state {
	r := s.even
	for _, c := range text {
		if digit := uint32(c - '0'); digit <= 9 {
			r = (r*10 + digit) % 97
		} else if letter := uint32(c|0x20) - 'a'; letter < 26 {
			r = (r*100 + 10 + letter) % 97
		}
	}
	s.even = r
	return s
}

// endMod97 appends the two digits, 02 to 98, that make the remainder 1.
func endMod97(dst []byte, s state) []byte {
	check := byte(98 - s.even*100%97)
	return append(dst, '0'+check/10, '0'+check%10)
}
