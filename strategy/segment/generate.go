package segment

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
)

// A Generate that fails skips what it had taken. GenerateSome leaves it to the caller, who shares
// it out. GenerateConsecutive looks for one run in what GenerateSome takes.

// takesSome is a [Counter] or a [family].
type takesSome interface {
	// some adds n numbers to seq. After an error, those that it added belong to the caller. n may be
	// more than seqd.MaxCount.
	some(ctx context.Context, n int, seq *seqd.Sequence) error
	// skipped reports numbers that were taken and that nobody gets.
	skipped(n int64, why error)
}

var (
	_ takesSome = (*Counter)(nil)
	_ takesSome = (*family)(nil)
)

// checkCount returns the refusal of a count, nil for 1 to seqd.MaxCount.
func checkCount(n int) error {
	if uint(n)-1 >= seqd.MaxCount {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from 1 to %d", n, seqd.MaxCount)
	}
	return nil
}

// generateSome implements GenerateSome.
func generateSome(ctx context.Context, n int, seq *seqd.Sequence, s takesSome) error {
	if err := checkCount(n); err != nil {
		return err
	}
	return s.some(ctx, n, seq)
}

// mostAttempts is how often generateConsecutive takes. The last take is for 256 times as many
// numbers as are wanted.
const mostAttempts = 9

// generateConsecutive implements GenerateConsecutive. Ranges of other nodes may lie between the
// numbers of one take. Then it takes again, for twice as many numbers each time. A take that is
// larger than all that is in hand brings one range for what is missing, so it ends with one run
// even if the step is 1. All takes are ordinary ones, so numbers are in order.
func generateConsecutive(ctx context.Context, n int, seq *seqd.Sequence, s takesSome) error {
	if err := checkCount(n); err != nil {
		return err
	}
	for attempt := range mostAttempts {
		err := s.some(ctx, n<<attempt, seq)
		got, period, key, asker := seq.Len(), seq.Period(), seq.Key(), seq.Asker()
		first, ok := runOf(seq, n)
		seq.Reset()
		if seq.For(key); key != "" {
			seq.AskedBy(asker)
		}
		if ok {
			seq.Add(first, n, 1)
			seq.In(period)
			s.skipped(int64(got-n), errBroken)
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			s.skipped(int64(got), err)
			return err
		}
		s.skipped(int64(got), errBroken)
	}
	return errNoRun
}

var (
	errBroken = errors.New("they are no run that is long enough, and a caller wanted one")
	errNoRun  = &seqd.Error{Code: seqd.CodeOverloaded, Detail: "no run of consecutive numbers was found; ask for fewer", RetryAfter: time.Second}
)

// runOf returns the first number of n consecutive ones in a sequence.
func runOf(seq *seqd.Sequence, n int) (first int64, ok bool) {
	for _, r := range seq.Runs() {
		if r.Count >= n && (r.Stride == 1 || n == 1) {
			return r.First, true
		}
	}
	return 0, false
}
