package seqd

import (
	"cmp"
	"slices"
)

// Unready is a biz type that cannot issue, or not as it should, and why.
type Unready struct {
	BizType string
	Reason  *Error
}

// Details is what a strategy tells an operator.
type Details struct {
	BizType string
	Values  map[string]any
}

// Details returns what the strategies tell an operator, by biz type: the first most of them. It
// does no I/O and is safe for concurrent use.
func (is *Issuer) Details(most int) (list []Details) {
	for i := range is.serving() {
		if d, ok := i.strategy.(DetailReporter); ok {
			list = append(list, Details{i.name, d.Details()})
		}
	}
	slices.SortFunc(list, func(a, b Details) int { return cmp.Compare(a.BizType, b.BizType) })
	return list[:min(most, len(list))]
}

// Health returns the biz types that cannot issue for a reason of this node or its back ends, by
// name: the first most of them, and how many there are in all. It does no I/O and is safe for
// concurrent use.
func (is *Issuer) Health(most int) (unready []Unready, total int) {
	return is.list(most, content.health)
}

// Degraded returns the biz types that can issue, but not as they should, and those that are
// [Definition].Aside and cannot be used here, by name: the first most of them, and how many there
// are in all. Those that [Issuer.Health] lists are not among them. It does no I/O and is safe for
// concurrent use.
func (is *Issuer) Degraded(most int) (degraded []Unready, total int) {
	return is.list(most, content.degraded)
}

// State is how a biz type stands. At most one of the others is set.
type State struct {
	BizType string
	// Unready is why it cannot issue, as [Issuer.Health] has it, and Degraded why not as it should,
	// as [Issuer.Degraded] has it.
	Unready, Degraded *Error
	// Disabled is true where an administrator wants it not to issue.
	Disabled bool
}

// States tells how every biz type that there is stands, in no order. It does no I/O and is safe for
// concurrent use; tell is called by one goroutine.
func (is *Issuer) States(tell func(State)) {
	for name, s := range is.names.all() {
		c := s.look()
		if !c.exists() {
			continue
		}
		state := State{BizType: name, Disabled: c.disabled(), Unready: c.health()}
		if state.Unready == nil {
			state.Degraded = c.degraded()
		}
		tell(state)
	}
}

// list returns the biz types that there is a reason to name, sorted: the first most of them, and
// how many there are in all.
func (is *Issuer) list(most int, reason func(content) *Error) (list []Unready, total int) {
	first := func() {
		slices.SortFunc(list, func(a, b Unready) int { return cmp.Compare(a.BizType, b.BizType) })
		list = list[:min(most, len(list))]
	}
	for name, s := range is.names.all() {
		reason := reason(s.look())
		if reason == nil {
			continue
		}
		total++
		list = append(list, Unready{BizType: name, Reason: reason})
		// anybody may ask, also while 100,000 biz types are starting
		if len(list) >= 2*most+sortAt {
			first()
		}
	}
	first()
	return list, total
}

// sortAt is how many more biz types than twice those wanted are listed before the others are left
// out.
const sortAt = 100
