package format

// state is how far a check digit algorithm has come. The zero state is that of no text.
type state struct{ even, odd uint32 }

// algorithm makes check digits from the left to the right, so that what stands before the number is
// counted once and not for every ID. It does not allocate beyond what dst needs.
type algorithm struct {
	name string
	// digits is how many decimal digits it appends.
	digits int
	// decimal says that it counts decimal digits only, and no letters.
	decimal bool
	// add returns the state after text, whose other characters do not count.
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
