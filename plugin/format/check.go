package format

// state is the progress of a check digit algorithm. The zero state is that of an empty text.
type state struct{ even, odd uint32 }

// algorithm computes check digits from left to right, so that the text before the number is
// processed once and not for every ID. It allocates only to grow dst.
type algorithm struct {
	name string
	// digits is how many decimal digits it appends.
	digits int
	// decimal is true if it processes decimal digits only, and no letters.
	decimal bool
	// add returns the state after text. Other characters are ignored.
	add func(s state, text []byte) state
	// end appends the check digits.
	end func(dst []byte, s state) []byte
}

// algorithms are the values of the setting check.
var algorithms = []*algorithm{
	{"luhn", 1, true, addLuhn, endLuhn},
	{"damm", 1, true, addDamm, endDamm},
	{"mod97", 2, false, addMod97, endMod97},
}

// lookupAlgorithm returns nil for an unknown name.
func lookupAlgorithm(name string) *algorithm {
	for _, a := range algorithms {
		if a.name == name {
			return a
		}
	}
	return nil
}
