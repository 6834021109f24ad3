package format

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// with returns text and its check digits.
func with(a *algorithm, text string) string {
	return string(a.end([]byte(text), a.add(state{}, []byte(text))))
}

// holds reports whether the last digits of text are the check digits of the others.
func holds(a *algorithm, text string) bool {
	return len(text) > a.digits && with(a, text[:len(text)-a.digits]) == text
}

// TestPublished checks published examples.
func TestPublished(t *testing.T) {
	for _, test := range []struct{ algorithm, text string }{
		{"luhn", "79927398713"},      // an older version of Wikipedia, "Luhn algorithm"
		{"luhn", "17893729974"},      // Wikipedia, "Luhn algorithm"
		{"luhn", "4111111111111111"}, // a test card number
		{"luhn", "490154203237518"},  // an IMEI
		{"damm", "5724"},             // Wikipedia, "Damm algorithm"
		{"damm", "005724"},           // leading zeros do not count
		// the IBAN GB82 WEST 1234 5698 7654 32, rearranged
		{"mod97", "3214282912345698765432161182"},
		{"mod97", "WEST12345698765432GB82"}, // the same in letters
		{"mod97", "370400440532013000DE89"}, // DE89 3704 0044 0532 0130 00
		{"mod97", "79444"},                  // ISO 7064: 794 has 44
		{"mod97", "west12345698765432gb82"},
	} {
		if !holds(lookupAlgorithm(test.algorithm), test.text) {
			t.Errorf("%s: %s does not hold", test.algorithm, test.text)
		}
	}
}

// TestStates checks that other characters are ignored, and that a text may be added in pieces.
func TestStates(t *testing.T) {
	for _, a := range algorithms {
		whole := with(a, "2026112100000042")
		pieces := a.add(a.add(a.add(state{}, []byte("-2026.")), []byte("1121-")), []byte("_00000042"))
		must.Equal(t, "2026112100000042"+string(a.end(nil, pieces)), whole, "%s: in pieces", a.name)
	}
	for _, name := range []string{"luhn", "damm"} {
		a := lookupAlgorithm(name)
		must.Equal(t, a.add(state{}, []byte("INV-1")), a.add(state{}, []byte("1")), "%s counts letters", name)
	}
}

// samples returns numbers in which to make errors: all short ones, and long ones.
func samples(letters bool) (texts []string) {
	for n := range 1000 {
		texts = append(texts, fmt.Sprintf("%03d", n))
	}
	alphabet := alphabets[10]
	if letters {
		alphabet = alphabets[36]
	}
	random := rand.New(rand.NewPCG(5, 97))
	for range 500 {
		text := make([]byte, 4+random.IntN(20))
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
		}
		texts = append(texts, string(text))
	}
	return texts
}

func isDigit(c byte) bool { return c <= '9' }

// TestSingleErrors checks that every algorithm detects every wrong digit, including in the check
// digits, and that mod97 detects every wrong letter too.
func TestSingleErrors(t *testing.T) {
	for _, a := range algorithms {
		for _, sample := range samples(!a.decimal) {
			text := []byte(with(a, sample))
			for i, right := range text {
				for _, wrong := range []byte(alphabets[36]) {
					if wrong == right || isDigit(wrong) != isDigit(right) {
						continue
					}
					text[i] = wrong
					if holds(a, string(text)) {
						t.Fatalf("%s: %s, made of %s, holds", a.name, text, with(a, sample))
					}
				}
				text[i] = right
			}
		}
	}
}

// missedBy reports whether an algorithm misses a swap of these two neighbours.
func missedBy(name string, x, y byte) bool {
	switch {
	case name == "luhn":
		return x == '0' && y == '9' || x == '9' && y == '0'
	case name == "mod97" && isDigit(y) && !isDigit(x):
		x, y = y, x
		fallthrough
	case name == "mod97" && isDigit(x) && !isDigit(y):
		// the weight of the letter is 11 times that of the digit
		return x == '1' && y == 'B' || x == '2' && y == 'M' || x == '3' && y == 'X'
	}
	return false
}

// TestSwaps checks that every algorithm detects every swap of two neighbours, except those in
// missedBy, which it never detects.
func TestSwaps(t *testing.T) {
	for _, a := range algorithms {
		for _, sample := range samples(!a.decimal) {
			text := []byte(with(a, sample))
			for i := range len(text) - 1 {
				x, y := text[i], text[i+1]
				crosses := i == len(sample)-1 && !isDigit(x) // a letter among the check digits
				if x == y || crosses {
					continue
				}
				text[i], text[i+1] = y, x
				if missed := holds(a, string(text)); missed != missedBy(a.name, x, y) {
					t.Fatalf("%s: %s, made of %s: holds is %v", a.name, text, with(a, sample), missed)
				}
				text[i], text[i+1] = x, y
			}
		}
	}
}
