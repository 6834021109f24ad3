package gapless

import (
	"testing"

	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// stage is a world with one node in which only that happens what a test says.
type stage struct {
	*testing.T
	*world
	n *node
}

func quiet(t *testing.T, without string) *stage {
	t.Helper()
	s, err := parse(without)
	if err != nil {
		t.Fatal(err)
	}
	var w *world
	for seed := uint64(0); w == nil || w.skewed || w.policy.Void || w.policy.Floor > 0 || w.policy.Ends > 0; seed++ {
		w = newWorld(s, seed)
	}
	w.nodes = w.nodes[:1]
	w.trace = func(line string) { t.Log(line) }
	return &stage{t, w, w.nodes[0]}
}

// pass lets everything arrive.
func (s *stage) pass() {
	for len(s.inFlight) > 0 {
		m := s.inFlight[0]
		s.remove(0)
		s.arrive(m)
	}
}

// ask sends a request, and lets everything arrive.
func (s *stage) ask(op ledger.Op) *request {
	r := &request{Request: ledger.Request{Op: op}, claim: s.newClaim()}
	switch op.Kind {
	case ledger.Reserve:
		s.book(r)
	case ledger.Confirm:
		r.res = s.bookings[op.ID]
		r.res.confirming = true
	}
	s.n.submit(r)
	s.pass()
	return r
}

// A reservation is not confirmed after its time, although nobody has reclaimed it yet.
func TestConfirmedLate(t *testing.T) {
	s := quiet(t, "")
	r := s.ask(ledger.Op{Kind: ledger.Reserve, Count: 2, TTL: 1000, Caller: "ann"})
	s.now += 3000
	late := s.ask(ledger.Op{Kind: ledger.Confirm, ID: r.Result.ID, Caller: "ann"})
	if s.check.broken != "" || late.Err == nil {
		t.Errorf("%v %q", late.Err, s.check.broken)
	}
}
