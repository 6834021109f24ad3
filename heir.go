package seqd

// Heir is implemented by strategies that take over what an earlier strategy of the same biz type
// knew and the store does not, such as the highest number that this process has issued.
type Heir interface {
	// Inherit is called once, before Init and after Close of from. That Close may have left
	// something running. from may be of any type.
	Inherit(from Strategy)
}

// Testator is an [Heir] that can condense what the next strategy inherits. If the biz type is
// removed or disabled, the issuer keeps that instead of the strategy. It keeps any other heir for
// as long as the process lives.
type Testator interface {
	Heir
	// Legacy is called after Close. It returns what the next strategy inherits from, which is used
	// for nothing else; nil if there is nothing to inherit.
	Legacy() Strategy
}

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
