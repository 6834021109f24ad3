package issuer

import "github.com/seqd/seqd"

// legacy is what a [seqd.Testator] left.
type legacy struct{ seqd.Strategy }

// legacyOf returns what is kept of the last strategy of a biz type that no longer issues, nil for
// nothing.
func legacyOf(last seqd.Strategy) (kept seqd.Strategy) {
	defer func() {
		if recover() != nil {
			kept = last
		}
	}()
	switch s := last.(type) {
	case legacy:
		return s
	case seqd.Testator:
		if left := s.Legacy(); left != nil {
			return legacy{left}
		}
	case seqd.Heir:
		return last
	}
	return nil
}

// predecessorAfter returns what the strategy after i inherits from. earlier is what i could inherit
// from itself.
func predecessorAfter(i *instance, earlier seqd.Strategy) seqd.Strategy {
	if i == nil || i.strategy == nil {
		return earlier
	}
	if abilitiesOf(i.strategy, nil).heir != nil || earlier == nil {
		return i.strategy
	}
	return earlier
}

// bequeath lets the strategy of i inherit, if it is an heir. It returns what is left for the one
// after it.
func bequeath(i *instance, predecessor seqd.Strategy) (left seqd.Strategy) {
	if i.strategy == nil {
		return legacyOf(predecessor)
	}
	heir := abilitiesOf(i.strategy, nil).heir
	if heir == nil {
		return predecessor
	}
	if l, condensed := predecessor.(legacy); condensed {
		heir.Inherit(l.Strategy)
	} else if predecessor != nil {
		heir.Inherit(predecessor)
	}
	return nil
}
