package issuer

import (
	"cmp"
	"context"
	"slices"

	"github.com/seqd/seqd"
)

// Unready is a biz type that cannot issue or is degraded, and why.
type Unready struct {
	BizType string
	Reason  *seqd.Error
}

// Details is what a strategy reports to operators. See [seqd.Reporter].
type Details struct {
	BizType string
	Values  map[string]any
}

// Details returns what the strategies report to operators, sorted by biz type, at most that many.
// It does no I/O and is safe for concurrent use.
func (is *Issuer) Details(most int) (list []Details) {
	for i := range is.serving() {
		values, ok, err := i.details()
		switch {
		case err != nil:
			is.log.Error("a strategy cannot report its details", "bizType", i.name, "error", err)
		case ok:
			list = append(list, Details{i.name, values})
		}
	}
	slices.SortFunc(list, func(a, b Details) int { return cmp.Compare(a.BizType, b.BizType) })
	return list[:min(most, len(list))]
}

// Health returns the biz types that cannot issue because of this node or its back ends, sorted by
// name, at most that many; total is how many there are. It looks at those that the issuer holds.
// Those that could not be fetched count too if the issuer holds no other. It does no I/O and is
// safe for concurrent use.
func (is *Issuer) Health(most int) (unready []Unready, total int) {
	unread := is.fetcher.unreadNow()
	if !is.cutOff() {
		unread = nil
	}
	return is.list(most, seatState.health, unread)
}

// cutOff reports whether the issuer holds no biz type beside those that could not be fetched. If it
// holds one, the others only degrade the node: they may be names that do not exist, which anybody
// can ask for.
func (is *Issuer) cutOff() bool {
	for range is.serving() {
		return false
	}
	return true
}

// Serves reports whether the node should get requests: every biz type that the issuer was given had
// its first chance to start, and not everything is unready. A biz type that is disabled, stands
// still after a failover of the store, or is made bearable by [Definition].OnlyDegrades does not
// keep requests away by itself: callers get the reason from the node. Serves does no I/O and is
// safe for concurrent use.
func (is *Issuer) Serves() bool {
	issues, unready := false, len(is.fetcher.unreadNow()) > 0
	for _, s := range is.names.all() {
		c := s.look()
		switch {
		case c.kind == serving && c.instance.starts():
			return false
		case c.health() != nil:
			unready = true
		case c.kind == changing, c.kind == serving && c.trouble() == nil:
			issues = true
		}
	}
	return issues || !unready
}

// Holds reports whether the issuer holds a biz type, or will after the change under way, so that
// nothing has to be fetched for it. It does no I/O and is safe for concurrent use.
func (is *Issuer) Holds(name string) bool {
	s := is.names.find(name)
	return s != nil && s.look().exists()
}

// Look returns the state of one biz type, which counts as used. A biz type that the issuer does not
// hold is fetched first, which takes at most 2 s. It is unready until it has been initialised, and,
// if it is not disabled, also for the reasons that [Definition].OnlyDegrades makes bearable for a
// node. An error says that there is no such biz type: [seqd.CodeUnknownBizType] or
// [seqd.CodeInvalidBizType]. Look is safe for concurrent use.
func (is *Issuer) Look(ctx context.Context, name string) (State, error) {
	_, c, err := is.settled(ctx, name, &waits{looks: true})
	state := State{BizType: name, Disabled: c.disabled()}
	switch code := seqd.CodeOf(err); {
	case code == seqd.CodeUnknownBizType, code == seqd.CodeInvalidBizType:
		return state, err
	case state.Disabled:
		return state, nil
	case err != nil:
		state.Unready = seqd.AsError(err)
		return state, nil
	}
	c.instance.used.Store(true) // so it is not closed for being idle
	switch why := c.trouble(); {
	case why == nil && !c.instance.ready.Load():
		state.Unready = errInitialising
	case why == nil, why.Code == seqd.CodeStoreFailedOver:
		state.Degraded = c.degraded()
	default:
		state.Unready = why
	}
	return state, nil
}

// Degraded returns the biz types that issue, but not as they should, and those that
// [Definition].OnlyDegrades or [seqd.CodeStoreFailedOver] make bearable, and those that could not
// be fetched, sorted by name, at most that many; total is how many there are. It contains none that
// [Issuer.Health] returns. It does no I/O and is safe for concurrent use.
func (is *Issuer) Degraded(most int) (degraded []Unready, total int) {
	unread := is.fetcher.unreadNow()
	if is.cutOff() {
		unread = nil
	}
	return is.list(most, seatState.degraded, unread)
}

// State is the state of a biz type. At most one field besides BizType is set.
type State struct {
	BizType string
	// Unready is the reason that [Issuer.Health] gives, and Degraded the one that [Issuer.Degraded]
	// gives.
	Unready, Degraded *seqd.Error
	// Disabled is true if an administrator disabled it.
	Disabled bool
}

// States calls tell with the state of every biz type that the issuer holds or that could not be
// fetched, in no order. It does no I/O and is safe for concurrent use. tell is called by one
// goroutine.
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
	unread := is.fetcher.unreadNow()
	cutOff := is.cutOff()
	for _, u := range unread {
		state := State{BizType: u.BizType, Unready: u.Reason}
		if !cutOff {
			state.Unready, state.Degraded = nil, u.Reason
		}
		tell(state)
	}
}

// list returns the biz types that there is a reason to list, with others, sorted by name, at most
// that many, and how many there are.
func (is *Issuer) list(most int, reason func(seatState) *seqd.Error, others []Unready) (list []Unready, total int) {
	list, total = others, len(others)
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
		// Anybody may ask, even while 100,000 biz types are starting.
		if len(list) >= 2*most+sortAt {
			first()
		}
	}
	first()
	return list, total
}

// sortAt is how many biz types are listed, beyond twice those wanted, before the list is cut.
const sortAt = 100
