package issuer

import "context"

// Increment returns how far the numbers of a biz type are apart: see [seqd.Traits]. The error is
// that of [Issuer.Issue] if nothing issues.
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
	// Exact is whether no number is above [seqd.MaxNumber], so that programs which keep numbers as
	// doubles read each one as it is.
	Exact bool
}

// Form returns the form of the IDs of a biz type. The error is that of [Issuer.Issue] if nothing
// issues. A change of the biz type may follow: [seqd.Sequence.Shown] says whether plugins changed
// how numbers are shown.
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
