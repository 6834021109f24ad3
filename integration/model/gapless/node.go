package gapless

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// node is a process around a machine. It does what the shell in package gapless does.
type node struct {
	w      *world
	name   string
	up     bool
	paused bool
	// stopping is set from when it takes no more callers until its machine is idle.
	stopping bool
	cut      bool  // the store does not hear it
	skew     int64 // how much its clock of the store is off, in ms
	life     int
	m        *ledger.Machine
	policy   ledger.Policy
	wake     time.Time
	under    []*message // commands that were not answered yet
	open     []*request
	// sweptAt is when it looked for what is due, and seen when it knew since when somebody was there.
	sweptAt, seen, since int64
	givenUp              int64 // numbers of requests whose callers gave up
}

// message is a command on its way to the store, or its outcome on its way back.
type message struct {
	node     *node
	life     int
	cmd      ledger.Command
	answered bool // the outcome is on its way back
	over     bool // the node does not wait for it any more
	repeated bool
	until    int // it does not arrive before this step
	out      ledger.Outcome
}

func (n *node) say(format string, args ...any) {
	if n.w.trace != nil {
		n.w.say("%s: %s", n.name, fmt.Sprintf(format, args...))
	}
}

// time is the node's own clock, and clock what it takes for the time of the store.
func (n *node) time() time.Time { return time.UnixMilli(n.w.now) }
func (n *node) clock() int64    { return n.w.now + n.skew }

// start begins a process.
func (n *node) start() {
	n.up, n.paused, n.stopping, n.under, n.open = true, false, false, nil, nil
	n.life++
	n.policy = n.w.newPolicy()
	n.m = n.machine()
	n.sweptAt, n.seen, n.givenUp = 0, 0, 0
	n.beat()
}

// machine returns a new machine.
func (n *node) machine() *ledger.Machine {
	n.w.drawn++
	writer := fmt.Sprintf("%016x", n.w.drawn)
	if n.w.out[ownWriter] {
		writer = fmt.Sprintf("%016x", n.name[1])
	}
	return ledger.New(ledger.Config{Counter: counter, Writer: writer, MaxBatch: n.w.maxBatch, Without: n.w.machineWithout}, n.policy)
}

// renew makes a machine for another definition in the same process. The former one is idle.
func (n *node) renew() {
	seen := n.m.Seen()
	n.policy = n.w.newPolicy()
	n.m = n.machine()
	if !n.w.out[inherits] {
		n.m.Inherit(seen)
	}
	n.life++
	n.under, n.givenUp = nil, 0
}

// die ends a process at once. What it sent may still arrive.
func (n *node) die(how string) {
	n.say("%s", how)
	for _, r := range n.open {
		n.w.check.unfinished(r)
	}
	n.w.check.lost += n.givenUp
	n.up, n.m, n.under, n.open = false, nil, nil, nil
	n.life++
}

// drive does what the machine wants.
func (n *node) drive() {
	n.awake()
	for busy := true; busy; {
		list, wake := n.m.Next(n.time(), n.clock())
		n.wake, busy = wake, len(list) > 0
		for i := range list {
			n.send(&message{node: n, life: n.life, cmd: list[i]})
		}
		for _, r := range n.m.Finished() {
			busy = true
			n.finish(r.Tag.(*request))
		}
		n.w.check.expired(n.m.Expired())
	}
}

func (n *node) send(m *message) {
	n.under = append(n.under, m)
	n.w.inFlight = append(n.w.inFlight, m)
}

// finish tells a caller what became of a request.
func (n *node) finish(r *request) {
	n.close(r)
	w := n.w
	switch {
	case r.back:
		if r.Err == nil {
			w.count("returned")
		}
	case r.sweeping:
	case r.gone:
		w.count("undone or kept for later")
		if r.Op.Kind == ledger.Issue && r.Op.Once == "" && r.Err == nil && w.out[abandons] {
			w.count("nobody was told")
		}
	case r.fails && r.Err == nil && !w.healing:
		n.say("fails afterwards: %s", r)
		if w.out[returns] {
			return
		}
		back := &request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Return, Runs: slices.Clone(r.Result.Runs), Since: r.Result.Since}}, back: true}
		back.node, back.Tag = n, back
		n.open = append(n.open, back)
		n.m.Submit(&back.Request)
	default:
		w.check.tell(r)
	}
}

// arrive executes a command, or brings its outcome back.
func (w *world) arrive(m *message) {
	n := m.node
	if !m.answered {
		if n.cut || w.store.down {
			m.out = ledger.Outcome{Err: errAway}
		} else {
			w.execute(m)
		}
		m.answered = true
		if m.repeated {
			return
		}
		w.inFlight = append(w.inFlight, m)
		return
	}
	if m.over || m.life != n.life {
		return
	}
	n.answer(m, m.out)
}

// answer says what became of a command.
func (n *node) answer(m *message, out ledger.Outcome) {
	m.over = true
	if i := slices.Index(n.under, m); i >= 0 {
		n.under = slices.Delete(n.under, i, i+1)
	}
	n.awake()
	n.m.Done(n.time(), n.clock(), &m.cmd, out)
	n.drive()
}

// execute does what a command says, in the store.
func (w *world) execute(m *message) {
	s, c, n := w.store, &m.cmd, m.node
	ctx := context.Background()
	m.out = ledger.Outcome{}
	switch c.Action {
	case ledger.Read:
		m.out.Doc, m.out.Err = w.reading(readsLinear).Read(ctx, persist.LedgerKind, counter)
		if s.kind == lossy && !w.out[readsFence] {
			m.out.Fenced, m.out.Fence = true, s.Fence()
		}
		if s.kind == lossy && w.out[createsNone] {
			m.out.Fence.Confirmed = m.out.Fence.Current
		}
		n.say("the store: %s", describe(&m.out))
	case ledger.Write:
		m.out.Err = w.write(c)
		if w.trace != nil {
			n.say("writes revision %d: %v %s", c.Doc.Revision, m.out.Err, c.Doc.Body)
		}
		w.count("write " + errorName(m.out.Err))
		if m.out.Err == nil {
			w.check.written(&c.Doc)
		}
	case ledger.Keep:
		s.forgetful = w.out[keepDurable] && w.dice.OneIn(2)
		m.out.Err = s.Keep(ctx, c.Docs)
		s.forgetful = false
		if w.trace != nil {
			for _, d := range c.Docs {
				n.say("keeps %s: %s", d.PersistID(), d.Body)
			}
		}
		w.count("kept")
	case ledger.LookUp:
		m.out.Docs, m.out.Err = c.Look.Do(ctx, w.reading(looksLinear))
		n.say("looks up %s %s: %d found", c.Look.Kind, c.Look.Until, len(m.out.Docs))
		w.count("looked up")
	}
}

// write writes the document.
func (w *world) write(c *ledger.Command) error {
	if c.Fenced {
		if err := w.store.fenced(c.Fence); err != nil {
			return err
		}
	}
	return persist.Put(context.Background(), w.store, c.Doc)
}

// reading returns what a question is answered from: without the rule sometimes the standby.
func (w *world) reading(r rule) persist.Documents {
	if w.out[r] && w.dice.OneIn(3) {
		return &store{docs: w.store.standby}
	}
	return w.store
}

func describe(out *ledger.Outcome) string {
	if out.Err != nil {
		return errorName(out.Err)
	}
	text := fmt.Sprintf("revision %d", out.Doc.Revision)
	if out.Fenced {
		text += fmt.Sprintf(", server %s of %s", out.Fence.Current, out.Fence.Confirmed)
	}
	return text
}

func errorName(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, persist.ErrConflict):
		return "conflict"
	case errors.Is(err, persist.ErrExists):
		return "exists"
	case errors.Is(err, persist.ErrNotFound):
		return "not found"
	case errors.Is(err, persist.ErrFailedOver):
		return "failed over"
	case errors.Is(err, errAway), errors.Is(err, context.DeadlineExceeded):
		return "away"
	}
	if e, ok := errors.AsType[*seqd.Error](err); ok {
		return string(e.Code)
	}
	return "other: " + err.Error()
}

// The interval at which nodes look for what is due, that at which they say that they are awake, and
// how long the pause is after which nobody was.
const (
	sweepEvery = 1000
	beatEvery  = 5000
	longPause  = 15_000
)

// beat is the node's part in the attendance of all, as package storeclock keeps it: the store knows
// since when somebody was there.
func (n *node) beat() {
	w := n.w
	now := n.clock()
	if w.skewed || n.cut || w.store.down || n.seen > 0 && now-n.seen < beatEvery && now >= n.seen {
		return
	}
	b := &w.beats
	if b.last == 0 || apart(now, b.last) {
		if b.last > 0 {
			w.count("nobody was awake")
		}
		b.since = now
	}
	b.last = now
	n.since, n.seen = b.since, now
	if w.beaten == 0 || w.now-w.beaten > longPause+2*jitter {
		w.check.awakeFrom = w.now
	}
	w.beaten = w.now
}

func apart(one, other int64) bool { return one-other > longPause || other-one > longPause }

// awake tells the machine since when somebody was there: now if the node does not know.
func (n *node) awake() {
	if n.w.out[grace] || n.w.skewed {
		return
	}
	awake := n.since
	if now := n.clock(); n.seen == 0 || apart(now, n.seen) {
		awake = now
	}
	if awake != n.policy.Awake {
		n.policy.Awake = awake
		n.m.SetPolicy(n.policy)
	}
	for _, r := range n.open {
		r.awake = max(r.awake, awake)
	}
}

// sweep looks for what is due.
func (n *node) sweep() {
	w := n.w
	if n.stopping || w.out[sweeps] || n.cut || w.store.down || n.clock()-n.sweptAt < sweepEvery {
		return
	}
	n.sweptAt = n.clock()
	n.beat()
	due, _ := w.store.Due(context.Background(), persist.LedgerKind, n.clock(), 1)
	if len(due) > 0 && !slices.ContainsFunc(n.open, func(r *request) bool { return r.sweeping }) {
		n.submit(&request{Request: ledger.Request{Op: ledger.Op{Kind: ledger.Reclaim}}, sweeping: true})
	}
}
