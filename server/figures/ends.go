package figures

import (
	"cmp"
	"math"
	"strings"
)

const (
	// far is from how many milliseconds on something is not worth knowing, unless there is nothing
	// else.
	far = 10 * 365 * 86_400_000
	// fewest is how many entries are shown even if they are far away.
	fewest = 3
	// nearlyUsed is the share from which on something is urgent even if nothing says when it ends.
	// Then it counts as if the rest of it lasted for its share of lastsAll milliseconds.
	nearlyUsed = 0.8
	lastsAll   = 30 * 86_400_000
)

// urgency returns in how many milliseconds something runs out, or when it should be looked at, if
// that is earlier or the rate is not known.
func (e *runsOut) urgency() float64 {
	ms := float64(e.LastsMS)
	if share := float64(e.Share); share >= nearlyUsed && !e.Resets {
		ms = min(ms, max(1-share, 0)*lastsAll)
	}
	return ms
}

// sooner orders what runs out. What lasts for ever comes last, with what is used most first.
func sooner(a, b runsOut) int {
	return cmp.Or(
		cmp.Compare(a.urgency(), b.urgency()), cmp.Compare(b.Share, a.Share), strings.Compare(a.BizType, b.BizType),
		strings.Compare(string(a.What), string(b.What)), strings.Compare(a.Plugin, b.Plugin), strings.Compare(a.Registry, b.Registry),
	)
}

// worthKnowing leaves out what is far away, unless that leaves almost nothing. The list is sorted.
func worthKnowing(list []runsOut) []runsOut {
	near := 0
	for near < len(list) && list[near].urgency() <= far {
		near++
	}
	return list[:min(max(near, fewest), len(list))]
}

// shortlist is a list of at most so many elements, in an order. Its zero value is not usable.
type shortlist[T any] struct {
	most  int
	order func(a, b T) int
	list  []T
}

// add adds an element, if it is not after all of a full list.
func (s *shortlist[T]) add(v T) {
	if len(s.list) == s.most && s.order(v, s.list[len(s.list)-1]) >= 0 {
		return
	}
	at := len(s.list)
	for at > 0 && s.order(v, s.list[at-1]) < 0 {
		at--
	}
	s.list = append(s.list, v)
	copy(s.list[at+1:], s.list[at:])
	s.list[at] = v
	s.list = s.list[:min(len(s.list), s.most)]
}

// lasts returns for how many milliseconds numbers last at a rate per second.
func lasts(numbers, perSecond float64) amount {
	switch {
	case numbers <= 0:
		return 0
	case perSecond <= 0:
		return amount(math.Inf(1))
	}
	return amount(numbers / perSecond * 1000)
}
