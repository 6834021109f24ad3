package segment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// allKinds is a strategy that gives numbers in every way.
type allKinds interface {
	seqd.Strategy
	seqd.PartialGenerator
	seqd.ConsecutiveGenerator
	seqd.Ranger
}

var (
	_ allKinds = (*Counter)(nil)
	_ allKinds = (*family)(nil)
)

// kind is a way to ask for numbers.
type kind uint8

const (
	whole kind = iota
	some
	consecutive
	ranged
	allOfThem
)

// anyKind returns whole half of the time.
func anyKind(random *rand.Rand) kind {
	return kind(max(0, random.IntN(2*int(allOfThem)-1)-int(allOfThem)+1))
}

// get asks for n numbers, and fails the test if what it gets is not of the kind. If the kind is
// some, fewer numbers are no error.
func (k kind) get(ctx context.Context, t testing.TB, s allKinds, n int) ([]int64, error) {
	t.Helper()
	var seq seqd.Sequence
	var err error
	switch k {
	case whole:
		err = s.Generate(ctx, n, &seq)
	case some:
		err = s.GenerateSome(ctx, n, &seq)
		if n > 0 && (err == nil) != (seq.Len() == n) {
			t.Errorf("some: %d numbers instead of %d, error %v", seq.Len(), n, err)
		}
		if seq.Len() > 0 {
			return slices.Collect(seq.Numbers()), nil
		}
	case consecutive:
		err = s.GenerateConsecutive(ctx, n, &seq)
	case ranged:
		err = s.GenerateRange(ctx, int64(n), &seq)
	}
	switch {
	case err != nil && k >= consecutive && seq.Len() > 0:
		t.Errorf("kind %d: %d numbers with the error %v", k, seq.Len(), err)
	case err == nil && seq.Len() != n:
		t.Errorf("kind %d: %d numbers instead of %d", k, seq.Len(), n)
	case err == nil && k >= consecutive && !seq.Consecutive():
		t.Errorf("kind %d: not one run: %v", k, seq.Runs())
	}
	if err != nil {
		return nil, err
	}
	return slices.Collect(seq.Numbers()), nil
}

// both are records of numbers that are in order, and of those that are not.
type both struct{ ordered, ranges *ordercheck.Record }

func newBoth() both { return both{ordercheck.New(), ordercheck.New()} }

// ask asks for n numbers and records them.
func (b both) ask(ctx context.Context, t testing.TB, s allKinds, k kind, n int, who string) error {
	t.Helper()
	began := b.ordered.Now()
	got, err := k.get(ctx, t, s, n)
	if err != nil {
		return err
	}
	call := ordercheck.Call{Start: began, End: b.ordered.Now(), Who: fmt.Sprintf("%s kind %d", who, k), Numbers: got}
	if k == ranged {
		b.ranges.AddCall(call)
	} else {
		b.ordered.AddCall(call)
	}
	return nil
}

// duplicates checks all numbers together.
func (b both) duplicates() error {
	all := ordercheck.New()
	b.ordered.Each(all.AddCall)
	b.ranges.Each(all.AddCall)
	return all.Duplicates()
}
