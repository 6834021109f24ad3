package check

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

// Biz types of these stories.
const (
	bond = "bond" // gapless, reuse
	rent = "rent" // gapless, keyed
)

// books adds the gapless biz types to the world of a story.
func books(s *story) {
	w := s.entries[0].World
	b := record.BizType{Name: bond, Strategy: record.Gapless, Start: 1, OnRelease: record.Reuse}
	w.BizTypes = append(w.BizTypes, b)
	b.Name, b.Keys = rent, []string{"t1", "t2"}
	w.BizTypes = append(w.BizTypes, b)
}

// reserve adds a reservation, which expires at a time of the story.
func (s *story) reserve(from, to int64, id string, expires int64, runs ...record.Run) *record.Call {
	c := s.call(from, to, "a", bond, runs...)
	c.Kind, c.Status, c.Reservation, c.State, c.Expires = record.Reserve, 201, id, "reserved", began.UnixMilli()+expires
	return c
}

// settle adds a call about a reservation and its answer: a state of HTTP, a code or a state.
func (s *story) settle(from, to int64, kind, id string, status int, said string) *record.Call {
	c := s.call(from, to, "b", bond)
	c.Kind, c.Reservation, c.Status = kind, id, status
	if status >= 400 {
		c.Code = said
	} else {
		c.State = said
	}
	return c
}

// confirms adds a confirmation that succeeds.
func (s *story) confirms(from, to int64, id string, runs ...record.Run) {
	c := s.settle(from, to, record.Confirm, id, 200, "confirmed")
	c.Runs = runs
}

func (s *story) voids(at, number int64) *record.Call {
	c := s.call(at, at+1, "a", bond, numbers(number, 1))
	c.Kind, c.Status, c.Texts, c.Key = record.VoidOne, 204, []string{decimal(number)}, "cancelled"
	return c
}

// account adds an account of one page.
func (s *story) account(at, last int64, gaps ...record.Gap) *record.Account {
	a := &record.Account{Start: at * ms, End: (at + 1) * ms, Node: "c", BizType: bond, First: 1, Last: last, Issued: last, Gaps: gaps}
	for _, g := range gaps {
		a.Issued -= g.To - g.From + 1
	}
	s.add(record.Entry{Account: a})
	return a
}

func (s *story) closes(last int64, gaps ...record.Gap) { s.account(9000, last, gaps...).Final = true }

func away(from, to int64, state string) record.Gap {
	g := record.Gap{From: from, To: to, State: state}
	switch state {
	case record.Void:
		g.Reason = "cancelled"
	case record.Reserved:
		g.Reservation = "r1"
	}
	return g
}

func TestLedgers(t *testing.T) {
	restored := func(f *record.Fault) { f.StoreBack = true }
	all := stories{
		{"issued", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)); s.closes(3) }, ""},
		{"no account", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)) }, RuleRecord},
		{"issued twice", func(s *story) {
			s.call(0, 1, "a", bond, numbers(1, 3))
			s.call(2, 3, "b", bond, numbers(3, 1))
			s.closes(3)
		}, RuleDuplicate + ", " + RuleUnknown},
		{"issued and released", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)); s.closes(3, away(2, 2, record.Released)) }, RuleAccount + ", " + RuleUnknown},
		{"issued and void", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)); s.closes(3, away(2, 2, record.Void)) }, RuleAccount},
		{"issued and void, as somebody asked", func(s *story) {
			s.call(0, 1, "a", bond, numbers(1, 3))
			s.voids(2, 2)
			s.closes(3, away(2, 2, record.Void))
		}, ""},
		{"void and issued", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)); s.voids(2, 2); s.closes(3) }, RuleAccount},
		{"handed out after it was void", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 1))
			s.voids(2, 1)
			s.reserve(4, 5, "r2", 5000, numbers(1, 1))
			s.closes(1, away(1, 1, record.Void))
		}, RuleReservation},
		{"issued and above the last", func(s *story) { s.call(0, 1, "a", bond, numbers(1, 3)); s.closes(2) }, RuleAccount + ", " + RuleUnknown},
		{"issued later than the account", func(s *story) {
			s.account(0, 2)
			fails(s.call(0, 1, "a", bond), 2)
			s.call(5, 6, "a", bond, numbers(3, 1))
			s.closes(3)
		}, ""},
		{"lost in an earlier account", func(s *story) {
			s.call(0, 1, "a", bond, numbers(1, 3))
			s.account(5, 3, away(1, 1, record.Released))
			s.closes(3)
		}, RuleAccount},
		{"unknown", func(s *story) { fails(s.call(0, 1, "a", bond), 2); s.closes(2) }, ""},
		{"more unknown than were asked for", func(s *story) { fails(s.call(0, 1, "a", bond), 2); s.call(2, 3, "a", bond, numbers(4, 1)); s.closes(4) }, RuleUnknown},
		{"unknown under a key that was answered", func(s *story) {
			fails(s.post(0, 1, "a", bond, "k"), 2)
			s.post(2, 3, "b", bond, "k", numbers(3, 2))
			s.closes(4)
		}, RuleUnknown},
		{"confirmed", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2))
			s.confirms(2, 3, "r1", numbers(1, 2))
			s.confirms(700, 701, "r1", numbers(1, 2))
			s.closes(2)
		}, ""},
		{"confirmed by a stranger", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2)).Caller = "shop.1"
			c := s.settle(2, 3, record.Confirm, "r1", 200, "confirmed")
			c.Caller, c.Runs = "shop.2", []record.Run{numbers(1, 2)}
			s.closes(2)
		}, RuleReservation},
		{"a stranger is refused, and its owner too", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2)).Caller = "shop.1"
			s.settle(2, 3, record.Confirm, "r1", 403, "forbidden").Caller = "till.1"
			s.confirms(4, 5, "r1", numbers(1, 2))
			s.settle(6, 7, record.Confirm, "r1", 403, "forbidden").Caller = "shop.1"
			s.closes(2)
		}, RuleReservation},
		{"confirmed and released", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2))
			s.confirms(2, 3, "r1", numbers(1, 2))
			s.settle(5, 6, record.Release, "r1", 204, "")
			s.closes(2)
		}, RuleReservation},
		{"released and found confirmed", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2))
			s.settle(5, 6, record.Release, "r1", 204, "")
			s.settle(7, 8, record.Find, "r1", 200, "confirmed")
			s.closes(2)
		}, RuleReservation},
		{"released by nobody", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2))
			s.settle(7, 8, record.Confirm, "r1", 409, "reservation_released")
			s.closes(2, away(1, 2, record.Released))
		}, RuleReservation},
		{"expired", func(s *story) {
			s.reserve(0, 1, "r1", 500, numbers(1, 2))
			s.settle(600, 601, record.Confirm, "r1", 409, "reservation_expired")
			s.reserve(700, 701, "r2", 5000, numbers(1, 2))
			s.closes(2, away(1, 2, record.Released))
		}, ""},
		{"expired too early", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 2))
			s.settle(600, 601, record.Confirm, "r1", 409, "reservation_expired")
			s.closes(2, away(1, 2, record.Released))
		}, RuleReservation},
		{"unknown reservation", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 2))
			s.settle(600, 601, record.Confirm, "r1", 404, "unknown_reservation")
			s.closes(2, away(1, 2, record.Released))
		}, RuleReservation},
		{"unknown reservation after a restore", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 2))
			s.fault(300, 500, "restore", "all", restored)
			s.settle(600, 601, record.Confirm, "r1", 404, "unknown_reservation")
			s.closes(2, away(1, 2, record.Void))
		}, ""},
		{"other numbers", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 2))
			s.confirms(2, 3, "r1", numbers(3, 2))
			s.closes(2)
		}, RuleReservation},
		{"reserved by two", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 1))
			s.reserve(2, 3, "r2", 5000, numbers(1, 1))
			s.closes(1, away(1, 1, record.Reserved))
		}, RuleReservation},
		{"reserved after it was released", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 1))
			s.settle(2, 3, record.Release, "r1", 204, "")
			s.reserve(4, 5, "r2", 5000, numbers(1, 1))
			s.closes(1, away(1, 1, record.Released))
		}, ""},
		{"reserved after it was issued", func(s *story) {
			s.call(0, 1, "a", bond, numbers(1, 1))
			s.reserve(2, 3, "r2", 5000, numbers(1, 1))
			s.closes(1)
		}, RuleReservation},
		{"still reserved after it was released", func(s *story) {
			s.reserve(0, 1, "r1", 5000, numbers(1, 1))
			s.settle(2, 3, record.Release, "r1", 204, "")
			s.closes(1, away(1, 1, record.Reserved))
		}, RuleAccount},
		{"gaps that overlap", func(s *story) {
			s.call(0, 1, "a", bond, numbers(3, 1))
			s.closes(3, away(1, 2, record.Void), away(2, 2, record.Released))
		}, RuleAccount + ", " + RuleUnknown},
		{"keys are apart", func(s *story) {
			for _, of := range []string{"t1", "t2"} {
				s.call(0, 1, "a", rent, numbers(1, 1)).Of = of
				a := s.account(9000, 1)
				a.BizType, a.Of, a.Final = rent, of, true
			}
		}, ""},
	}
	for i := range all {
		tell := all[i].tell
		all[i].tell = func(s *story) { books(s); tell(s) }
	}
	all.run(t)
}
