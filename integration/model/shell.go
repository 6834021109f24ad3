package model

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// What surrounds the machine in a node, as the strategy in package segment does in seqd: callers,
// batches, and the execution of commands.

// settle does what is due until nothing is.
func (n *node) settle() {
	for n.up && n.m != nil {
		commands := n.m.Commands()
		if len(commands) == 0 {
			n.pump()
			commands = n.m.Commands()
		}
		if len(commands) == 0 {
			break
		}
		for _, c := range commands {
			n.execute(c)
		}
	}
	n.follow()
	if n.up && n.st != nil {
		n.serveStored()
	}
	switch {
	case !n.up:
	case n.m == nil && n.st == nil && !n.stopping:
		n.serveLocally()
	case n.stopping && n.idle():
		n.finish()
	case n.m != nil && n.m.Mode() == cursor.Online:
		n.w.check.returned(n)
	}
}

// idle reports whether nothing is under way.
func (n *node) idle() bool {
	return !slices.ContainsFunc(n.ops[:], func(o *op) bool { return o != nil })
}

// pump does for waiting callers what the mode says.
func (n *node) pump() {
	if n.m.Refusal() != nil || n.stopping {
		n.refuse()
		return
	}
	switch n.m.Mode() {
	case cursor.Alone:
		n.serveLocally()
	case cursor.Mending:
		for _, c := range n.waiting {
			if c.waiting == 0 {
				c.waiting = int64(c.missing())
				n.m.Waiting(c.waiting)
			}
		}
	case cursor.Online:
		n.sendTake()
	}
}

// refuse sends all waiting callers away.
func (n *node) refuse() {
	if len(n.waiting) > 0 {
		n.say("refuses its %d callers", len(n.waiting))
	}
	for _, c := range n.waiting {
		n.unwait(c)
	}
	n.waiting = nil
}

// unwait tells the machine that a caller does not wait any more.
func (n *node) unwait(c *call) {
	if c.waiting > 0 {
		n.m.Gone(c.waiting)
		c.waiting = 0
	}
}

// sendTake sends a take for all waiting callers, one at a time.
func (n *node) sendTake() {
	if n.ops[taking] != nil || n.ops[beginning] != nil || n.held || len(n.waiting) == 0 {
		return
	}
	var wanted int64
	for _, c := range n.waiting {
		n.unwait(c)
		wanted += int64(c.missing())
	}
	take, wait := n.m.Send(n.clock(), wanted)
	if wait {
		n.w.count("waited for the store's word")
		n.held = true
		return
	}
	if !n.storeAway && n.w.now.Sub(n.inVain) > cursor.TrustEpoch {
		n.tookFresh = n.w.now
	}
	o := n.begin(taking)
	o.calls, o.wanted, n.waiting = n.waiting, wanted, nil
	n.sendRedis(&message{op: o, take: take})
}

// believesFresh reports whether the last word of the store is young.
func (n *node) believesFresh() bool {
	_, asked := n.m.Believed()
	return n.w.now.Sub(asked) <= cursor.TrustEpoch
}

// execute does what the machine commands.
func (n *node) execute(command cursor.Command) {
	switch c := command.(type) {
	case cursor.Take:
		n.sendRedis(&message{op: n.begin(task(c.Task)), take: c.Take})
	case cursor.Install:
		if c.Install.Range == n.spare {
			n.spare = persist.Range{}
		}
		n.sendRedis(&message{op: n.begin(task(c.Task)), question: install, install: c.Install})
	case cursor.Allocate:
		n.allocate(n.begin(task(c.Task)), c.To, c.Want, c.Floor, c.Why == cursor.Standing)
	case cursor.Question:
		n.sendStore(&message{op: n.begin(task(c.Task)), question: readEpoch})
	case cursor.ReadStore:
		n.sendStore(&message{op: n.begin(task(c.Task)), question: readCounter})
	case cursor.OpenLocal:
		n.say("leaves the cursor")
		n.w.count("left")
		n.local = openLocal(c.Ranges, c.Floor)
		n.spare, n.standby = persist.Range{}, persist.Range{}
	case cursor.CloseLocal:
		n.say("goes back")
		n.w.count("returned")
		n.local.closing = true
		o := n.begin(closing)
		o.question = closeLocal
		n.w.send(&message{to: toNode, op: o, question: closeLocal})
	case cursor.Wake:
		for _, waiting := range n.waiting {
			n.unwait(waiting)
		}
	case cursor.Resume:
		n.held = false
		if !n.believesFresh() {
			n.inVain = n.w.now
		}
	case cursor.StoreAnswers:
		n.storeAway = false
	case cursor.Yield:
		n.yields = true
	case cursor.Event:
		n.w.count("event " + string(c.Kind))
	case cursor.Log:
		n.say("%s %v", c.Text, c.Args)
	default:
		panic(fmt.Sprintf("the model does not know %T", command))
	}
}

// result passes on what came of an op.
func (n *node) result(o *op, m *message) {
	n.end(o)
	if n.m != nil {
		if _, asked := n.m.Believed(); m.question.atStore() && o.sent.Before(asked) {
			n.w.count("answer out of order")
		}
	}
	if m.err != nil && !m.question.atStore() {
		n.target = n.w.findPrimary(n)
	}
	switch o.task {
	case taking:
		if o.take != nil {
			n.tookStored(o, m)
			return
		}
		n.took(o, m)
	case reading:
		n.st.Read(n.clock(), m.read, m.err)
	case beginning:
		if m.err == nil {
			n.m.Began(n.clock(), o.sent, m.epoch)
			n.yields = n.m.Yields()
		}
	case fetching:
		n.note(m.err)
		n.fetched(m.r, m.err)
	case closing:
		n.closed()
	case givingBack:
		n.gaveBack(o, m)
	case handingOut:
		n.handsOver(o, m)
	default:
		n.pass(cursor.Task(o.task), m)
	}
}

// pass passes a result on to the machine.
func (n *node) pass(t cursor.Task, m *message) {
	if t == cursor.Comeback && n.local != nil {
		n.m.Local(n.local.issued, n.local.top)
	}
	switch m.question {
	case take:
		n.m.Looked(n.clock(), t, m.taken, m.err)
	case install:
		n.m.Installed(n.clock(), t, m.answer, m.err)
	case allocate:
		n.note(m.err)
		switch t {
		case cursor.Spare, cursor.Comeback:
			n.spare = m.r
		case cursor.Standby:
			n.standby = m.r
		}
		n.m.Allocated(n.clock(), t, m.r, m.err)
	case readEpoch:
		n.m.Asked(n.clock(), t, m.epoch, m.err)
	case readCounter:
		n.m.Read(n.clock(), t, m.err)
	}
}

// note notes whether the store gives ranges.
func (n *node) note(err error) {
	if n.m == nil || errors.Is(err, persist.ErrEpoch) || n.storeAway == (err != nil) {
		return
	}
	n.storeAway = err != nil
	n.m.Store(n.clock(), err)
}

// took hands out what a take brought, in the order in which callers came. Numbers of a caller that
// has gone are skipped. Who lacks some keeps what it got and is first next time.
func (n *node) took(o *op, m *message) {
	outcome := n.m.Took(n.clock(), o.sent, o.wanted, m.taken, m.err)
	if outcome.Wrong > 0 {
		n.w.count("guard")
	}
	n.share(o, numbers{outcome.Runs}, n.w.out[joinBeforeSend])
}

// share hands numbers out to the callers of a take. With late, callers who came after it was sent
// get what others do not need any more.
func (n *node) share(o *op, next numbers, late bool) {
	var lacking []*call
	for _, c := range o.calls {
		if c.gone && late {
			continue // whoever came since gets them
		}
		if n.give(c, &next); c.missing() > 0 && !c.gone {
			lacking = append(lacking, c)
		}
	}
	if late {
		for len(n.waiting) > 0 && next.more() {
			if n.give(n.waiting[0], &next); n.waiting[0].missing() == 0 {
				n.unwait(n.waiting[0])
				n.waiting = n.waiting[1:]
			}
		}
	}
	n.waiting = append(lacking, n.waiting...)
}

// give hands a caller numbers until it has all or there are no more.
func (n *node) give(c *call, next *numbers) {
	for c.missing() > 0 && next.more() {
		c.got = append(c.got, next.take())
		n.highest = max(n.highest, c.got[len(c.got)-1])
	}
	if c.missing() == 0 && !c.gone {
		n.w.check.end(c)
	}
}

// numbers are those of some ranges, one after another.
type numbers struct{ ranges []persist.Range }

func (s *numbers) more() bool { return len(s.ranges) > 0 }

func (s *numbers) take() int64 {
	r := &s.ranges[0]
	number := r.First
	if r.First++; r.First > r.Last {
		s.ranges = s.ranges[1:]
	}
	return number
}

// restoreGap is how far above everything a node continues that finds the store behind.
const restoreGap = 100

// allocate asks the store for a range. The counter is read first, here at once: only what is
// decided by that matters.
func (n *node) allocate(o *op, to persist.Target, want, floor int64, standing bool) {
	req := persist.Request{BizTag: counter, Size: max(n.settings.step, want), Floor: n.above(floor), To: to, FailoverGap: restoreGap}
	if standing {
		req.Size = max(1, want)
	}
	if req.Floor > start {
		req.Gap = restoreGap
	}
	if epoch, ok := to.Cursor(); ok && epoch == "" && n.w.store.counter.Max >= n.passed() {
		req.Gap = 0 // the counter was raised, or is new
	}
	m := &message{op: o, question: allocate, request: req}
	if n.w.store.down {
		m.err = errAway
	}
	n.sendStore(m)
}

// passed returns the number that the counter cannot be below unless the store was restored.
func (n *node) passed() int64 {
	if n.w.out[handOutNew] {
		return n.m.Issued()
	}
	return max(n.m.Issued(), n.handed.beside)
}

// giveBack gives ranges back, the highest first. last is whether the process ends after that.
func (n *node) giveBack(rest []persist.Range, last bool) {
	o := n.begin(givingBack)
	o.rest, o.last = joined(rest), last
	n.giveNext(o)
}

// joined returns ranges with neighbours joined, the highest first.
func joined(ranges []persist.Range) (joined []persist.Range) {
	slices.SortFunc(ranges, func(a, b persist.Range) int { return cmp.Compare(b.First, a.First) })
	for _, r := range ranges {
		if last := len(joined) - 1; last >= 0 && r.Last+1 == joined[last].First {
			joined[last].First = r.First
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// giveNext gives back the highest range that is left.
func (n *node) giveNext(o *op) {
	if len(o.rest) > 0 {
		n.sendStore(&message{op: o, question: giveBack, rest: o.rest[0]})
		o.rest = o.rest[1:]
		return
	}
	n.end(o)
	if o.last {
		n.die("has stopped")
	}
}

// gaveBack continues after a give-back. The ranges below can only be given back after this one.
func (n *node) gaveBack(o *op, m *message) {
	if m.err != nil || !m.given {
		o.rest = nil
	}
	o.over, n.ops[givingBack] = false, o
	n.giveNext(o)
}
