package format

// damm is the totally anti-symmetric quasigroup of order 10 of H. Michael Damm, "Total
// anti-symmetrische Quasigruppen", dissertation, Marburg 2004, p. 111: row is the state, column the
// next digit. Its diagonal is zero, so the state itself is the check digit.
var damm = [10]string{
	"\x00\x03\x01\x07\x05\x09\x08\x06\x04\x02",
	"\x07\x00\x09\x02\x01\x05\x04\x08\x06\x03",
	"\x04\x02\x00\x06\x08\x07\x01\x03\x05\x09",
	"\x01\x07\x05\x00\x09\x08\x03\x04\x02\x06",
	"\x06\x01\x02\x03\x00\x04\x05\x09\x07\x08",
	"\x03\x06\x07\x04\x02\x00\x09\x05\x08\x01",
	"\x05\x08\x06\x09\x07\x02\x00\x01\x03\x04",
	"\x08\x09\x04\x05\x03\x06\x02\x00\x01\x07",
	"\x09\x04\x03\x08\x06\x01\x07\x02\x00\x05",
	"\x02\x05\x08\x01\x04\x03\x06\x07\x09\x00",
}

// addDamm continues the algorithm with the digits of text.
func addDamm(s state, text []byte) state {
	for _, c := range text {
		if digit := c - '0'; digit <= 9 {
			s.even = uint32(damm[s.even][digit])
		}
	}
	return s
}

// endDamm appends the digit that makes the state zero.
func endDamm(dst []byte, s state) []byte { return append(dst, '0'+byte(s.even)) }
