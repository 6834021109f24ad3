package issuer

import (
	"context"
	"fmt"

	"github.com/seqd/seqd"
)

// checkCall returns why a call cannot be issued by any biz type.
func checkCall(call *seqd.Call) *seqd.Error {
	least := 1
	switch {
	case call.Want > seqd.ReservedNumbers:
		return seqd.Errorf(seqd.CodeInvalidRequest, "there is no kind %d of numbers", call.Want)
	case call.Want == seqd.OneRange:
		least = 0
	}
	if call.Count < least || call.Count > seqd.MaxCount {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from %d to %d", call.Count, least, seqd.MaxCount)
	}
	return nil
}

// can returns why the definition of a biz type does not allow what a call wants.
func (i *instance) can(want seqd.Want, count int) error {
	switch want {
	case seqd.ReservedNumbers:
		if _, ok := i.strategy.(seqd.Ledger); !ok {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s reserves no numbers: only gapless does", i.kind, i.name)
		}
	case seqd.Consecutive:
		if _, ok := i.strategy.(seqd.ConsecutiveGenerator); !ok && count > 1 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s cannot make consecutive numbers; ask for one number at a time", i.kind, i.name)
		}
		if i.increment > 1 && count > 1 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s are %d apart, and none are consecutive; ask for one number at a time", i.name, i.increment)
		}
	case seqd.OneRange:
		if _, ok := i.strategy.(seqd.Ranger); !ok {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s hands out no ranges", i.kind, i.name)
		}
		for _, l := range i.chain {
			if !l.Ranges {
				return seqd.Errorf(seqd.CodeInvalidRequest,
					"%s hands out no ranges: the caller issues their numbers later, without the plugin %s", i.name, l.Name)
			}
		}
	}
	return nil
}

// generateOne makes the numbers of a call that wants one run. can has allowed it.
func generateOne(ctx context.Context, i *instance, want seqd.Want, n int, seq *seqd.Sequence) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	switch {
	case want == seqd.OneRange:
		err = i.strategy.(seqd.Ranger).GenerateRange(ctx, int64(n), seq)
	case n == 1:
		err = i.strategy.Generate(ctx, n, seq)
	default:
		err = i.strategy.(seqd.ConsecutiveGenerator).GenerateConsecutive(ctx, n, seq)
	}
	if err == nil && (len(seq.Runs()) != 1 || want == seqd.Consecutive && !seq.Consecutive()) {
		return fmt.Errorf("strategy %s returned %d runs instead of one", i.kind, len(seq.Runs()))
	}
	return err
}

// Increment returns how far the numbers of a biz type are apart: see [Spaced]. The error is that of
// [Issuer.Issue] if nothing issues.
func (is *Issuer) Increment(bizType string) (int64, error) {
	i, err := is.issuing(bizType)
	if err != nil {
		return 0, err
	}
	return max(1, i.increment), nil
}

// Form is what is known of the IDs of a biz type before it issues.
type Form struct {
	// Plain is whether no plugin changes how numbers are shown, so that each ID is the number in
	// decimal digits.
	Plain bool
	// Exact is whether no number is above [MaxNumber], so that programs which keep numbers as
	// doubles read each one as it is.
	Exact bool
}

// Form returns the form of the IDs of a biz type. The error is that of [Issuer.Issue] if nothing
// issues. A change of the biz type may follow: [Sequence.Shown] says whether plugins changed how
// numbers are shown.
func (is *Issuer) Form(bizType string) (Form, error) {
	i, err := is.issuing(bizType)
	if err != nil {
		return Form{}, err
	}
	return i.form, nil
}

// issuing returns the instance of a biz type that issues, for what never changes in it.
func (is *Issuer) issuing(bizType string) (*instance, error) {
	if s := is.names.find(bizType); s != nil {
		if i := s.serving.Load(); i != nil {
			return i, nil // as nearly always, and without a count of those who use it
		}
	}
	i, err := is.find(context.Background(), bizType, false)
	if err == nil {
		i.leave()
	}
	return i, err
}
