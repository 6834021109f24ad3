package seqd

// legacy is what a [Testator] left.
type legacy struct{ Strategy }

// legacyOf returns what is kept of the last strategy of a biz type that no longer issues, nil for
// nothing.
func legacyOf(last Strategy) (kept Strategy) {
	defer func() {
		if recover() != nil {
			kept = last
		}
	}()
	switch s := last.(type) {
	case legacy:
		return s
	case Testator:
		if left := s.Legacy(); left != nil {
			return legacy{left}
		}
	case Heir:
		return last
	}
	return nil
}

// predecessorAfter returns what the strategy after i inherits from. earlier is what i could inherit
// from itself.
func predecessorAfter(i *instance, earlier Strategy) Strategy {
	if i == nil || i.strategy == nil {
		return earlier
	}
	if _, heir := i.strategy.(Heir); heir || earlier == nil {
		return i.strategy
	}
	return earlier
}

// bequeath lets the strategy of i inherit, if it is an heir. It returns what is left for the one
// after it.
func bequeath(i *instance, predecessor Strategy) (left Strategy) {
	if i.strategy == nil {
		return legacyOf(predecessor)
	}
	heir, ok := i.strategy.(Heir)
	if !ok {
		return predecessor
	}
	if l, condensed := predecessor.(legacy); condensed {
		heir.Inherit(l.Strategy)
	} else if predecessor != nil {
		heir.Inherit(predecessor)
	}
	return nil
}
