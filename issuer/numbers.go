package issuer

import (
	"bytes"
	"errors"

	"github.com/seqd/seqd"
)

// prepare makes an empty sequence ready for a strategy.
func prepare(s *seqd.Sequence, key string, by *seqd.Caller) {
	if s.For(key); key != "" {
		s.AskedBy(by.OwnerID())
	}
}

// sumOf returns a hash of numbers and their period.
func sumOf(s *seqd.Sequence) uint64 {
	const prime = 0x100000001b3 // of FNV-1a
	sum := uint64(s.Period()) ^ 0xcbf29ce484222325
	for _, r := range s.Runs() {
		for _, part := range [3]uint64{uint64(r.First), uint64(r.Stride), uint64(r.Count)} {
			sum = (sum ^ part) * prime
		}
	}
	return sum
}

// checkShown returns an error unless a sequence has this sum, and each number is shown as one line
// that is not empty.
func checkShown(s *seqd.Sequence, sum uint64) error {
	if sumOf(s) != sum {
		return errors.New("other numbers than were issued")
	}
	if !s.Shown() {
		return nil
	}
	for shown := range s.Displays() {
		if len(shown) == 0 {
			return errors.New("a number is shown as nothing")
		}
		if bytes.ContainsAny(shown, "\r\n") {
			return errors.New("a number is shown with a line break")
		}
	}
	return nil
}
