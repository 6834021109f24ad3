package machineid

import (
	"errors"

	"github.com/seqd/seqd/persist"
)

// mode is the state of a process.
type mode string

// Modes.
const (
	down     mode = "down"
	looking  mode = "seeking"
	having   mode = "holding"
	stopping mode = "stopping"
)

// file is the state file of a node.
type file struct {
	id                               int64
	token                            string
	lower, until, reserved, progress int64
}

// task is the purpose of an op.
type task string

// Tasks.
const (
	acquiring task = "acquire"
	resuming  task = "resume"
	renewing  task = "renew"
	releasing task = "release"
	covering  task = "cover"
)

// op is one operation on the registry, with at most one message or reply in transit.
type op struct {
	n         *node
	task      task
	over      bool  // nobody waits for it any more
	before    int64 // the node's time when the registry was read
	l         Lease // the lease that it extends or releases
	last      int64 // of a release
	next      Lease // the lease that its change grants
	preparing bool
	drops     int  // the world's drops when the registry was read
	restores  int  // the same for restores
	stands    bool // it extends a lease that had not ended
	answered  bool // the registry was read
}

// node is a machine and the process on it. Its methods are the steps of the holder.
type node struct {
	w    *world
	name string
	key  string
	Member
	offset      int64 // how far its clock is ahead of true time
	paused, cut bool
	behind      bool // it reaches the old side, if there is one
	disk        *file

	mode     mode
	proc     int
	fromFile bool
	lease    Lease
	bound    int64
	owed     Lease
	knows    bool // it saw that the registry was put back, and has not set a floor
	op       *op
	waits    int // the step before which it does not try again

	// The generator.
	open        bool
	id          int64
	lower, upto int64
	last        int64
	lost        bool // the token was seen to have changed
}

func (n *node) clock() int64 { return n.w.now + n.offset }

// start starts a process.
func (n *node) start() {
	n.w.events[processes]++
	*n = node{w: n.w, name: n.name, key: n.key, offset: n.offset, disk: n.disk, behind: n.behind, proc: n.w.events[processes], mode: looking, fromFile: true}
	n.Member = n.w.newMember(n.key)
	n.w.say("%s: starts; key %s, IDs %d to %d, horizon %d, maxSkew %d, offline %d", n.name, n.key, n.First, n.Member.Last, n.Horizon, n.MaxSkew, n.Offline)
}

// die ends the process.
func (n *node) die() {
	n.abandon()
	n.mode, n.open = down, false
}

// abandon gives up the current operation. Its message may still arrive.
func (n *node) abandon() {
	if n.op != nil {
		n.op.over = true
	}
	n.op = nil
}

// begin begins the next operation, if it is time.
func (n *node) begin() bool {
	if n.op != nil || n.paused || n.w.step < n.waits {
		return false
	}
	switch n.mode {
	case looking:
		n.seek()
	case having:
		n.look(&op{n: n, task: renewing, l: n.lease})
	default:
		return false
	}
	return true
}

// seek is holder.seek.
func (n *node) seek() {
	if n.Offline > 0 {
		if f := n.disk; n.fromFile && f != nil && f.id >= n.First && f.id <= n.Member.Last {
			l := Lease{ID: f.id, Token: f.token, Until: f.until, Reserved: f.reserved, Lower: max(f.lower, f.until, f.progress)}
			if n.w.out.rules[restartAbove] {
				l.Lower = f.lower
			}
			n.look(&op{n: n, task: resuming, l: l})
			return
		}
	} else if n.fromFile {
		n.disk = nil
	}
	n.acquires()
}

// acquires is the rest of holder.seek, beginning with what is owed.
func (n *node) acquires() {
	if n.owed.Token != "" {
		n.look(&op{n: n, task: covering, l: n.owed})
		return
	}
	n.look(&op{n: n, task: acquiring})
}

// look reads the registry.
func (n *node) look(o *op) {
	n.op = o
	o.before = n.clock()
	id := o.l.ID
	if o.task == acquiring {
		id = -1
	}
	n.w.inFlight = append(n.w.inFlight, &message{o: o, look: true, id: id})
}

// swap sends a change.
func (n *node) swap(o *op, s persist.SlotSwap) {
	m := &message{o: o, swap: s, drops: o.drops, restores: o.restores}
	m.covers = o.task == covering && !o.preparing
	if !o.preparing && o.task != acquiring {
		m.held, m.reserved = o.l.Until, o.l.Reserved
	}
	n.w.inFlight = append(n.w.inFlight, m)
}

// errUnanswered means that the registry cannot be reached.
var errUnanswered = errors.New("the registry cannot be asked")

// receive handles an answer.
func (n *node) receive(m *message) {
	o := m.o
	switch {
	case m.refused:
		n.failed(o, errUnanswered)
	case m.look:
		o.drops, o.restores = m.drops, m.restores
		n.looked(o, m.table)
	case o.preparing || !m.made:
		o.preparing = false
		n.look(o)
	case o.task == releasing:
		n.w.events[released]++
		n.die()
	case o.task == covering:
		n.covered(false)
	default:
		n.abandon()
		if o.task == acquiring {
			n.w.events[acquired]++
		}
		n.use(o.next, o.next.Until, m.bare, o.stands)
	}
}

// looked continues with the contents of the registry.
func (n *node) looked(o *op, t persist.SlotTable) {
	if o.task == releasing {
		if t.Set == nil {
			n.die()
			return
		}
		swap, err := n.gives(t, o.l, o.last)
		if err != nil {
			n.die()
			return
		}
		n.swap(o, swap)
		return
	}
	if err := n.Skewed(o.before, n.clock(), t); err != nil && !n.w.out.rules[skewGuard] {
		n.w.events[skewRefused]++
		n.failed(o, err)
		return
	}
	swap, err := n.prepares(t)
	if err != nil {
		panic(err)
	}
	if swap != nil {
		o.preparing = true
		n.swap(o, *swap)
		return
	}
	o.answered = true
	if o.task == covering {
		if swap := n.covers(t, o.l); swap != nil {
			n.swap(o, *swap)
			return
		}
		n.covered(n.Member.Covered(t, o.l) != nil)
		return
	}
	var change persist.SlotSwap
	if o.task == acquiring {
		change, o.next, err = n.takes(t, n.clock())
	} else {
		o.stands = n.stands(t, o.l)
		progress := n.bound
		if o.task == resuming {
			progress = o.l.Lower
		}
		change, o.next, err = n.extends(t, o.l, n.clock(), progress)
	}
	if err != nil {
		n.knows = n.knows || errors.Is(err, ErrLost) && n.Member.Covered(t, o.l) != nil
		n.failed(o, err)
		return
	}
	n.swap(o, change)
}

// covered ends what is owed. knows is true if the registry should have got a floor.
func (n *node) covered(knows bool) {
	n.abandon()
	n.owed, n.knows = Lease{}, n.knows && knows
	n.acquires()
}

// owes records a lease that the registry does not know any more.
func (n *node) owes(l Lease) {
	if !n.w.out.rules[coverOwed] {
		n.owed = l
	}
}

// failed ends an operation.
func (n *node) failed(o *op, err error) {
	n.abandon()
	n.waits = n.w.step + n.w.dice.Below(10)
	gone := errors.Is(err, ErrLost)
	switch o.task {
	case releasing:
		n.die()
	case renewing:
		if gone {
			n.owes(o.l)
			n.lose()
		} else if n.Offline > 0 {
			if want := min(n.clock()+n.Horizon, n.lease.Reserved); want > n.bound {
				n.w.say("%s: goes on alone", n.name)
				n.w.events[wentAlone]++
				n.use(n.lease, want, false, true)
			}
		}
	case resuming:
		if gone {
			n.fromFile = false
			n.owes(o.l)
			if !n.w.out.rules[spentKept] {
				n.Spent = Spent{o.l.ID, o.l.Lower}
			}
			n.acquires()
		} else if errors.Is(err, errUnanswered) && !o.answered && n.clock() <= o.l.Reserved {
			n.w.say("%s: starts alone", n.name)
			n.w.events[startedAlone]++
			n.use(o.l, max(o.l.Lower, min(n.clock()+n.Horizon, o.l.Reserved)), false, true)
		}
	}
}

// use is holder.use. bare and stands are for the checker.
func (n *node) use(l Lease, bound int64, bare, stands bool) {
	if n.Offline > 0 && !(n.w.out.rules[progressFirst] && bound > l.Until) {
		if n.w.weights[diskFails] > n.w.weights[diskFails-1] && n.w.dice.OneIn(10) && !n.w.healing {
			n.w.say("%s: cannot write its file", n.name)
			return
		}
		if f := n.disk; f != nil && f.token == l.Token && (l.Until < f.until || l.Reserved < f.reserved || max(bound, l.Until) < f.progress) {
			n.w.check.fail(lowered, "%s: its file says %+v, and shall say %+v", n.name, *f, l)
		}
		n.disk = &file{l.ID, l.Token, l.Lower, l.Until, l.Reserved, max(bound, l.Until)}
	}
	bare, n.knows = bare && !n.knows, false // what it knows excuses nothing that it does
	n.lease, n.bound = l, bound
	n.mode, n.fromFile, n.waits = having, false, n.w.step+n.w.dice.Below(10)
	n.open, n.lost = true, false
	n.id, n.lower, n.upto = l.ID, l.Lower, bound
	n.w.say("%s: may use %d to %d of ID %d with %s", n.name, rel(l.Lower+1), rel(bound), l.ID, n.w.named(l.Token))
	n.w.check.grant(n, l.ID, l.Lower, bound, bare, stands)
}

// lose is holder.lose.
func (n *node) lose() {
	n.w.say("%s: lost ID %d", n.name, n.id)
	n.w.events[lostID]++
	n.mode, n.lease, n.bound = looking, Lease{}, 0
	n.lost = true
	if !n.w.out.rules[stopsAtLost] {
		n.open = false
	}
}

// stop releases the machine ID, as holder.release.
func (n *node) stop() {
	n.abandon()
	n.mode = stopping
	if !n.w.out.rules[closeFirst] {
		n.open = false
		n.w.check.closed(n, n.last)
	}
	if n.lease.Token == "" {
		n.die()
		return
	}
	if n.Offline > 0 && !n.w.out.rules[invalidateFirst] {
		n.disk = nil
	}
	n.look(&op{n: n, task: releasing, l: n.lease, last: n.last})
}

// mayIssue reports whether the generator can make a number now.
func (n *node) mayIssue() bool {
	t := n.clock()
	return n.open && t > n.lower && (t <= n.upto || n.w.out.rules[stopsAtUntil]) && t >= n.last
}

func (n *node) issue() bool {
	if n.paused || !n.mayIssue() {
		return false
	}
	n.last = n.clock()
	n.w.say("%s: uses %d of ID %d", n.name, rel(n.last), n.id)
	n.w.check.use(n, n.id, n.last)
	return true
}

// settled reports whether the node can issue, or other nodes that can issue hold everything that it
// may hold.
func (n *node) settled() bool {
	if n.mode == having {
		return n.mayIssue()
	}
	if n.mode != looking {
		return false
	}
	for id := n.First; id <= n.Member.Last; id++ {
		held := false
		for _, other := range n.w.nodes {
			held = held || other != n && other.mode == having && other.lease.ID == id
		}
		if !held {
			return false
		}
	}
	return true
}
