package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/testing/record"
)

// ledger is what the record says about one gapless counter.
type ledger struct {
	counter
	claims       []*issue // numbers that callers were told as issued
	reservations []*reservation
	voids        []*booking
	pages        []record.Account // by start
	// holdings are who was told a number, by number.
	holdings map[int64][]holding
}

// holding is that a caller was told a number.
type holding struct {
	start, end int64
	call       *call
	// reservation is nil if the number is issued.
	reservation *reservation
}

func (h *evidence) addAccount(a *record.Account) error {
	if h.bizTypes[a.BizType] == nil {
		return fmt.Errorf("an account of %q, which the world does not have", a.BizType)
	}
	h.accounts = append(h.accounts, *a)
	h.see(a.End)
	return nil
}

// ledgers returns what the record says about each gapless counter.
func (h *evidence) ledgers(issues []issue, reservations map[string]*reservation) map[counter]*ledger {
	all := make(map[counter]*ledger)
	of := func(c counter) *ledger {
		if all[c] == nil {
			all[c] = &ledger{counter: c, holdings: make(map[int64][]holding)}
		}
		return all[c]
	}
	for i := range issues {
		if issues[i].bizType.Strategy == record.Gapless {
			l := of(issues[i].counter())
			l.claims = append(l.claims, &issues[i])
			l.hold(holding{issues[i].start, issues[i].end, issues[i].call, nil}, issues[i].runs)
		}
	}
	for _, v := range reservations {
		if v.first == nil {
			continue
		}
		l := of(v.counter)
		l.reservations = append(l.reservations, v)
		if v.confirmed == nil { // the others are claims
			l.hold(holding{v.start, v.end, &v.first.call, v}, v.first.runs)
		}
	}
	for i := range h.bookings {
		if b := &h.bookings[i]; b.kind == record.VoidOne {
			l := of(counter{b.bizType, b.of, b.period})
			l.voids = append(l.voids, b)
		}
	}
	for _, a := range h.accounts {
		l := of(counter{h.bizTypes[a.BizType], h.one(a.Of), h.one(a.Period)})
		l.pages = append(l.pages, a)
	}
	return all
}

func (l *ledger) hold(by holding, runs []record.Run) {
	for _, run := range runs {
		for n := range run.Count {
			number := run.First + n*run.Step
			l.holdings[number] = append(l.holdings[number], by)
		}
	}
}

// checkLedgers requires of each gapless counter what NEXT.md §3 promises: every number from the
// first to the last is issued, reserved, released or void; what a caller was told as issued is
// issued in every later account, or void because an administrator asked for that; it is never
// handed out again; nor is a reserved number before its reservation has ended. Numbers that are
// issued in the last account although nobody was told belong to calls without an answer.
func (h *evidence) checkLedgers(r *Report, issues []issue) {
	reservations := h.reservations()
	h.checkReservations(r, reservations)
	for _, l := range h.ledgers(issues, reservations) {
		h.checkHoldings(r, l)
		for i := range l.pages {
			h.checkPage(r, l, &l.pages[i])
		}
		h.checkLast(r, l)
	}
	slices.SortFunc(r.Ledgers, func(a, b Ledger) int { return cmp.Compare(a.Counter, b.Counter) })
}

// checkHoldings requires that no number is handed out while somebody else holds it (G2). That two
// callers were told a number as issued is left to checkDuplicates.
func (h *evidence) checkHoldings(r *Report, l *ledger) {
	for number, all := range l.holdings {
		for n, a := range all {
			for _, b := range all[:n] {
				if a.reservation == nil && b.reservation == nil || a.end < b.start && l.endsBy(a, number, b.end) || b.end < a.start && l.endsBy(b, number, a.end) {
					continue
				}
				overlap := a.end >= b.start && b.end >= a.start
				if overlap && (l.endsBy(a, number, b.end) || l.endsBy(b, number, a.end)) || h.storeLost(min(a.start, b.start), max(a.end, b.end)) {
					continue
				}
				r.Duplicates++
				h.fail(r, RuleReservation, l.bizType.Name, 1, max(a.end, b.end), fmt.Sprintf("%d of %s was handed out to two callers at once", number, l), b.call, a.call)
			}
		}
	}
	for _, v := range l.voids {
		for _, by := range l.holdings[v.void] {
			if v.answered() && by.start > v.end && !h.storeLost(v.start, by.end) {
				h.fail(r, RuleReservation, l.bizType.Name, 1, by.end, fmt.Sprintf("%d of %s was handed out after it became void", v.void, l), &v.call, by.call)
			}
		}
	}
}

// endsBy reports whether a holder may have lost a number by then.
func (l *ledger) endsBy(of holding, number, then int64) bool {
	v := of.reservation
	if v == nil {
		return false
	}
	if v.released <= then || v.expires > 0 && v.ends <= then+int64(early) {
		return true
	}
	return slices.ContainsFunc(l.voids, func(b *booking) bool { return b.void == number && b.start <= then })
}

// covers returns the numbers that a page of an account is about.
func covers(p *record.Account) (from, to int64) {
	if from, to = max(p.First, p.After+1), p.Last; p.Next > 0 {
		to = p.Next
	}
	return from, to
}

// checkPage checks a page of an account by itself, and against what callers were told before it was
// asked for.
func (h *evidence) checkPage(r *Report, l *ledger, p *record.Account) {
	if wrong := wrongPage(p); wrong != "" {
		if !p.Final && h.storeLost(p.Start, p.End) {
			return // a node that was not stopped reads a store that is being filled: voids come after their ledger
		}
		h.fail(r, RuleAccount, l.bizType.Name, 1, p.End, fmt.Sprintf("the account of %s from %s: %s", l, p.Node, wrong))
		return
	}
	from, to := covers(p)
	for _, g := range p.Gaps {
		for number := max(from, g.From); number <= min(to, g.To); number++ {
			h.checkGap(r, l, p, &g, number)
		}
	}
	for _, v := range l.voids {
		if !v.answered() || v.end >= p.Start || v.void < from || v.void > to || h.storeLost(v.start, p.End) {
			continue
		}
		if g := gapOfNumber(p, v.void); g == nil || g.State != record.Void {
			h.fail(r, RuleAccount, l.bizType.Name, 1, p.End, fmt.Sprintf("%d of %s is not void, says %s", v.void, l, p.Node), &v.call)
		}
	}
}

// checkGap checks a number that is not issued.
func (h *evidence) checkGap(r *Report, l *ledger, p *record.Account, g *record.Gap, number int64) {
	for _, by := range l.holdings[number] {
		switch {
		case by.end >= p.Start || h.storeLost(by.start, p.End):
		case by.reservation == nil && (g.State != record.Void || !l.askedVoid(number, p.End)):
			h.fail(r, RuleAccount, l.bizType.Name, 1, p.End, fmt.Sprintf("%d of %s was issued, and is %s %s, says %s", number, l, g.State, g.Reason, p.Node), by.call)
		case by.reservation != nil && g.Reservation == by.reservation.id && by.reservation.over != nil && by.reservation.over.end < p.Start:
			h.fail(r, RuleAccount, l.bizType.Name, 1, p.End, fmt.Sprintf("%d of %s is %s by a reservation that has ended, says %s", number, l, g.State, p.Node), by.call)
		}
	}
}

// askedVoid reports whether an administrator asked for a number to become void by then.
func (l *ledger) askedVoid(number, then int64) bool {
	return slices.ContainsFunc(l.voids, func(b *booking) bool { return b.void == number && b.start <= then })
}

// gapOfNumber returns the gap of a page that a number is in.
func gapOfNumber(p *record.Account, number int64) *record.Gap {
	i, found := slices.BinarySearchFunc(p.Gaps, number, func(g record.Gap, n int64) int {
		switch {
		case g.To < n:
			return -1
		case g.From > n:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &p.Gaps[i]
}

// wrongPage returns what is wrong with a page by itself.
func wrongPage(p *record.Account) string {
	before, missing := p.First-1, int64(0)
	if p.First < 1 || p.Last < p.First-1 || p.Issued < 0 || p.Issued > p.Last-p.First+1 {
		return fmt.Sprintf("%d of %d to %d are issued", p.Issued, p.First, p.Last)
	}
	for i, g := range p.Gaps {
		switch {
		case g.From <= before || g.To < g.From || g.To > p.Last:
			return fmt.Sprintf("the gap %d to %d comes after %d and before %d", g.From, g.To, before, p.Last)
		case g.State != record.Released && g.State != record.Reserved && g.State != record.Void:
			return fmt.Sprintf("%d to %d are %q", g.From, g.To, g.State)
		case g.State == record.Void && g.Reason == "":
			return fmt.Sprintf("%d to %d are void for no reason", g.From, g.To)
		case g.State == record.Reserved && g.Reservation == "":
			return fmt.Sprintf("%d to %d are reserved by nothing", g.From, g.To)
		case i == 0 && g.To <= p.After:
			return fmt.Sprintf("the gap %d to %d is on the page after %d", g.From, g.To, p.After)
		}
		before, missing = g.To, missing+g.To-g.From+1
	}
	if whole := p.After < p.First && p.Next == 0; whole && p.Issued != p.Last-p.First+1-missing {
		return fmt.Sprintf("%d of %d to %d are issued, and %d are in gaps", p.Issued, p.First, p.Last, missing)
	}
	return ""
}

// checkLast compares the last account of a counter with everything that callers were told.
func (h *evidence) checkLast(r *Report, l *ledger) {
	final := slices.DeleteFunc(slices.Clone(l.pages), func(p record.Account) bool { return !p.Final })
	if len(final) == 0 {
		if h.done && len(l.claims)+len(l.reservations) > 0 {
			h.fail(r, RuleRecord, l.bizType.Name, 1, h.end, fmt.Sprintf("there is no account of %s at the end", l))
		}
		return
	}
	last := &final[len(final)-1]
	sum := Ledger{Counter: l.String(), Last: last.Last, Reservations: len(l.reservations), Accounts: len(l.pages)}
	voided := l.countGaps(final, &sum)
	for _, c := range l.claims {
		if c.high > last.Last {
			h.fail(r, RuleAccount, l.bizType.Name, 1, h.end, fmt.Sprintf("%d of %s was issued, and the last number of the account is %d", c.high, l, last.Last), c.call)
		}
		for _, run := range c.runs {
			for n := range run.Count {
				if !voided[run.First+n*run.Step] {
					sum.Told++
				}
			}
		}
	}
	for _, v := range l.reservations {
		if v.confirmed != nil {
			sum.Confirmed++
		}
		if v.over != nil {
			sum.Ended++
		}
	}
	sum.Unknown, sum.Bound = last.Issued-sum.Told, h.untold(l)
	r.Ledgers = append(r.Ledgers, sum)
	if sum.Unknown < 0 || sum.Unknown > sum.Bound {
		h.fail(r, RuleUnknown, l.bizType.Name, 1, h.end, fmt.Sprintf("%d numbers of %s are issued and nobody was told; calls without an answer explain %d", sum.Unknown, l, sum.Bound))
	}
}

// countGaps counts the numbers of the last account that are not issued, and returns the void ones.
func (l *ledger) countGaps(pages []record.Account, sum *Ledger) (void map[int64]bool) {
	void = make(map[int64]bool)
	for i := range pages {
		from, to := covers(&pages[i])
		for _, g := range pages[i].Gaps {
			size := min(to, g.To) - max(from, g.From) + 1
			switch g.State {
			case record.Reserved:
				sum.Reserved += size
			case record.Released:
				sum.Released += size
			case record.Void:
				sum.Void += size
				for number := max(from, g.From); number <= min(to, g.To); number++ {
					void[number] = true
				}
			}
		}
	}
	return void
}

// unheard are the codes of calls that no biz type heard of.
var unheard = map[string]bool{"refused": true, "starting": true, "stopping": true, "overloaded": true, "disabled": true, "unknown_biz_type": true}

// untold returns how many numbers of a counter may be issued without anyone knowing: those of
// issuing calls that got no answer, or an error that leaves the outcome open, and those of
// reservations whose confirmation got none. A key whose request was answered once has its numbers.
func (h *evidence) untold(l *ledger) (bound int64) {
	answered, counted := make(map[string]bool), make(map[string]bool)
	mine := func(c *call) bool { return c.bizType == l.bizType && c.of == l.of }
	for i := range h.calls {
		if c := &h.calls[i]; mine(c) && c.kind == record.Idempotent && c.answered() {
			answered[c.key] = true
		}
	}
	for i := range h.calls {
		c := &h.calls[i]
		switch {
		case !mine(c) || c.answered() || c.status >= 400 && c.status < 500 || unheard[c.code]:
		case c.kind == record.Idempotent && (answered[c.key] || counted[c.key]):
		default:
			counted[c.key] = c.kind == record.Idempotent
			bound += int64(c.asked)
		}
	}
	open := make(map[string]bool)
	for i := range h.bookings {
		b := &h.bookings[i]
		if mine(&b.call) && b.kind == record.Confirm && !b.answered() && !unheard[b.code] && !open[b.reservation] {
			open[b.reservation] = true
			bound += int64(b.asked)
		}
	}
	return bound
}
