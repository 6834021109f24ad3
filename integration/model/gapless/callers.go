package gapless

import (
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// request is a caller's request on its way through a node.
type request struct {
	ledger.Request
	node  *node
	began int64 // the time of the store
	// lineage and write are those when it was submitted.
	lineage, write int
	raised         bool  // whether the counter had been raised since the store last went back
	first, last    int64 // what the store knew then
	key            *onceKey
	res            *booking // what it is about
	claim          int32
	gone           bool  // nobody waits any more
	fails          bool  // it fails after the machine has carried it out, and before its caller knows
	back           bool  // it gives back what such a request got
	sweeping       bool  // nobody asked for it but the node
	awake          int64 // the latest time that its node took for the end of a pause of all
}

// onceKey is a key under which a request may be repeated.
type onceKey struct {
	name    string
	reserve bool
	count   int64
	ttl     int64
	first   int64 // when it was sent first
	caller  string
	claim   int32
	told    bool
	runs    []ledger.Run // that it was told
	id      string       // the reservation
	lineage int
	done    bool // it is not repeated any more
}

// booking is what callers know about a reservation.
type booking struct {
	id      string
	caller  string
	runs    []ledger.Run // that somebody was told
	due     int64
	lineage int // in which it was told
	claim   int32
	told    bool
	// confirming and releasing are set when somebody asks for it.
	confirming, releasing, abandoned bool
	outcome                          ledger.End // that somebody was told
	outcomeAt                        int        // in which lineage
	outcomeTime                      int64
	made                             int64 // when the request was sent
	lost                             bool  // nobody may know that it is confirmed
	confirmed                        bool  // somebody was told so
	write                            int   // that confirmed it
	composed                         int64 // when that was composed
}

func (w *world) newClaim() int32 {
	w.check.claims++
	return w.check.claims
}

// submit sends a request into a node.
func (n *node) submit(r *request) {
	w := n.w
	r.node, r.began, r.lineage, r.write = n, w.now, w.check.lineage, w.check.writes
	r.Tag, r.awake, r.raised = r, n.policy.Awake, w.check.isRaised
	if s := w.check.state; s != nil {
		r.first, r.last = s.First, s.Last
	}
	n.open = append(n.open, r)
	n.say("%s", r)
	n.m.Submit(&r.Request)
	n.drive()
}

// String describes a request in a schedule.
func (r *request) String() string {
	op := &r.Op
	text := ""
	switch op.Kind {
	case ledger.Issue:
		text = fmt.Sprintf("a caller wants %d", op.Count)
	case ledger.Reserve:
		text = fmt.Sprintf("%s reserves %d as %s for %d", op.Caller, op.Count, short(op.ID), op.TTL)
	case ledger.Find:
		text = "looks for " + short(op.ID)
	case ledger.Confirm:
		text = fmt.Sprintf("%s confirms %s", op.Caller, short(op.ID))
	case ledger.Release:
		text = fmt.Sprintf("%s releases %s", op.Caller, short(op.ID))
	case ledger.Void:
		text = fmt.Sprintf("voids %d", op.Number)
	case ledger.Return:
		text = fmt.Sprintf("returns %v", op.Runs)
	case ledger.Reclaim:
		text = "reclaims"
	default:
		text = fmt.Sprint("op ", op.Kind)
	}
	if op.Once != "" {
		text += " with key " + op.Once
	}
	return text
}

// short shortens a reservation ID.
func short(id string) string { return "r" + id[max(0, len(id)-4):] }

func (w *world) newID() string {
	w.drawn++
	return fmt.Sprintf("%020x", w.drawn)
}

// callerComes is a caller with one of several wishes.
func (w *world) callerComes() bool {
	n := w.running()
	if n == nil || n.stopping || len(n.open) > 6 || w.healing && len(w.served) == len(w.nodes) {
		return false
	}
	switch w.dice.Below(20) {
	case 0, 1, 2, 3, 4:
		n.issues()
	case 5, 6, 7, 8:
		n.reserves()
	case 9, 10, 11:
		return w.settles(n, ledger.Confirm)
	case 12, 13, 14:
		return w.settles(n, ledger.Release)
	case 15:
		return w.settles(n, ledger.Find)
	case 16:
		w.voids(n)
	default:
		return w.repeats(n)
	}
	return true
}

func (n *node) issues() {
	w := n.w
	r := &request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Issue, Count: w.amount(), Caller: w.caller()}}, claim: w.newClaim()}
	if w.dice.OneIn(2) {
		w.withKey(r)
	} else {
		r.fails = w.dice.OneIn(8)
	}
	n.submit(r)
}

func (n *node) reserves() {
	w := n.w
	r := &request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Reserve, Count: w.amount(), Caller: w.caller()}}}
	if w.dice.OneIn(3) {
		r.Op.TTL = worlds.Pick(&w.dice, int64(1000), 5000, 60_000)
	}
	if w.dice.OneIn(3) {
		w.withKey(r)
	}
	w.book(r)
	n.submit(r)
}

// book draws the ID of the reservation that a request is to get.
func (w *world) book(r *request) {
	r.Op.ID = w.newID()
	r.res = &booking{id: r.Op.ID, caller: r.Op.Caller, claim: w.newClaim(), made: w.now}
	w.bookings[r.Op.ID] = r.res
}

func (w *world) amount() int64 { return worlds.Pick(&w.dice, int64(1), 1, 1, 2, 3, 5) }

func (w *world) caller() string { return worlds.Pick(&w.dice, "ann", "bob") }

// withKey gives a request a new key.
func (w *world) withKey(r *request) {
	w.drawn++
	k := &onceKey{name: fmt.Sprintf("k%d", w.drawn), reserve: r.Op.Kind == ledger.Reserve, count: r.Op.Count, ttl: r.Op.TTL, first: w.now, caller: r.Op.Caller, claim: r.claim}
	r.key, r.Op.Once = k, k.name
	w.keys = append(w.keys, k)
}

// repeats sends a request with a key again, answered or not, perhaps to another node.
func (w *world) repeats(n *node) bool {
	if len(w.keys) == 0 {
		return false
	}
	k := w.keys[max(w.dice.Below(len(w.keys)), w.dice.Below(len(w.keys)))]
	if k.done || w.now+margin > k.first+w.keep {
		k.done = true
		return false
	}
	r := &request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Issue, Count: k.count, TTL: k.ttl, Once: k.name, Caller: k.caller}}, key: k, claim: k.claim}
	if k.reserve {
		r.Op.Kind = ledger.Reserve
		w.book(r)
	}
	n.submit(r)
	return true
}

// settles confirms, releases or looks for a reservation: mostly a recent one, sometimes one of long
// ago or of nobody.
func (w *world) settles(n *node, kind ledger.Kind) bool {
	var b *booking
	switch told := w.told; {
	case w.dice.OneIn(40):
		b = &booking{id: w.newID(), caller: w.caller()}
		w.bookings[b.id] = b
	case len(told) == 0:
		return false
	default:
		b = told[max(w.dice.Below(len(told)), w.dice.Below(len(told)), w.dice.Below(len(told)))]
	}
	op := ledger.Op{Kind: kind, ID: b.id, Caller: b.caller}
	switch w.dice.Below(12) {
	case 0:
		op.Caller = "eve"
	case 1:
		op.Caller, op.Admin = "root", true
	}
	r := &request{Request: ledger.Request{Op: op}, res: b, claim: b.claim}
	if kind == ledger.Confirm && w.mayLose && (b.releasing || w.skewed) {
		// Callers do not confirm what they have released, even if the store forgot it. And whether
		// it expired in a history that was lost can only be told by right clocks.
		return false
	}
	if op.Caller != "eve" {
		b.confirming = b.confirming || kind == ledger.Confirm
		b.releasing = b.releasing || kind == ledger.Release
	}
	n.submit(r)
	return true
}

// voids asks for a number to become void: any up to a little above the last.
func (w *world) voids(n *node) {
	number := w.dice.Within(1, max(1, w.check.highest)+1)
	w.check.askVoid(number)
	n.submit(&request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Void, Number: number, Reason: "cancelled", Caller: "root"}}})
}

// callerGoes lets a caller give up.
func (w *world) callerGoes() bool {
	n := w.running()
	if n == nil || len(n.open) == 0 {
		return false
	}
	n.abandon(n.open[w.dice.Below(len(n.open))])
	return true
}

// abandon is a caller who waits no longer.
func (n *node) abandon(r *request) {
	if r.gone || r.sweeping || r.back {
		return
	}
	n.say("gives up: %s", r)
	r.gone = true
	if r.Op.Kind == ledger.Issue && r.key == nil {
		n.givenUp += r.Op.Count
	}
	if b := n.w.bookings[r.Op.ID]; b != nil && r.Op.Kind == ledger.Reserve {
		b.abandoned = true
	}
	if n.w.out[abandons] {
		return
	}
	if n.m.Abandon(&r.Request) {
		n.close(r)
	}
	n.drive()
}

// close forgets a request.
func (n *node) close(r *request) {
	if i := slices.Index(n.open, r); i >= 0 {
		n.open = slices.Delete(n.open, i, i+1)
	}
}
