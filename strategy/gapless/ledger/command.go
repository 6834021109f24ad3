package ledger

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Action is what a command asks for.
type Action uint8

// The actions. At most one Read or Write and one Keep are under way at a time.
const (
	// Read reads the document of the counter, and the fence if the store is fenced.
	Read Action = iota
	// Write creates (Revision 1) or updates Doc: fenced, if Fenced is set.
	Write
	// Keep keeps Docs.
	Keep
	// LookUp does what Look says.
	LookUp
)

// Command is what the shell executes once and answers once by [Machine.Done].
type Command struct {
	// ID is larger than that of every command before.
	ID     uint64
	Action Action
	// Doc is what Write writes, and what Read reads the kind and key of.
	Doc    persist.Document
	Fenced bool
	Fence  string
	// Anew is whether Read reads the fence from the store, not from what is remembered of it.
	Anew bool
	Docs []persist.Document
	Look *Look

	looked Looked // what was known when the look-up began
}

// Outcome is what became of a command.
type Outcome struct {
	// Err is the store's error, nil if the command succeeded. An error other than those that the
	// interfaces of package persist name means that a Write may have happened, or may happen later.
	Err error
	// Doc is what was read.
	Doc persist.Document
	// Fenced is whether the store has fences. Fence is then the present one; it is set also if there is
	// no document.
	Fenced bool
	Fence  persist.Fence
	// Docs are what was looked up.
	Docs []persist.Document
}

type fence struct {
	on bool
	persist.Fence
}

// Execute executes a command. fenced is nil if the store has no fences.
func (c *Command) Execute(ctx context.Context, documents persist.Documents, fenced persist.Fenced) (out Outcome) {
	out.Fenced = fenced != nil
	switch c.Action {
	case Read:
		if fenced != nil {
			if out.Fence, out.Err = fenced.Fence(ctx); out.Err != nil {
				return out
			}
		}
		out.Doc, out.Err = documents.Read(ctx, c.Doc.Kind, c.Doc.Key)
	case Write:
		out.Err = c.write(ctx, documents, fenced)
	case Keep:
		out.Err = documents.Keep(ctx, c.Docs)
	case LookUp:
		out.Docs, out.Err = c.Look.Do(ctx, documents)
	}
	return out
}

func (c *Command) write(ctx context.Context, documents persist.Documents, fenced persist.Fenced) error {
	if c.Fenced {
		return persist.PutFenced(ctx, fenced, c.Doc, c.Fence)
	}
	return persist.Put(ctx, documents, c.Doc)
}

// Pauses between attempts that fail.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

// command adds a command to those that Next returns.
func (m *Machine) command(c Command) *Command {
	m.nextID++
	c.ID = m.nextID
	m.commands = append(m.commands, c)
	return &m.commands[len(m.commands)-1]
}

// Next returns what is to be done now. now is the time of the node, for pauses after failures only,
// and clock that of the store, in ms since the Unix epoch. If wake is not zero, Next is to be called
// at that time, unless it is called earlier.
func (m *Machine) Next(now time.Time, clock int64) (list []Command, wake time.Time) {
	m.commands = m.commands[:0]
	if !m.busy {
		m.advance(now, clock)
	}
	if m.state != nil {
		m.keep(now)
		if !now.Before(m.retry) {
			m.lookAhead()
		}
	}
	return m.commands, m.wake(now)
}

// wake returns when a pause ends that something waits for.
func (m *Machine) wake(now time.Time) (wake time.Time) {
	if m.retry.After(now) && !m.busy && (m.pending != nil || len(m.queue) > 0 || m.flush) {
		wake = m.retry
	}
	k := &m.keeping
	if k.retry.After(now) && !k.busy && m.state != nil && (wake.IsZero() || k.retry.Before(wake)) {
		wake = k.retry
	}
	if !k.since.IsZero() && !k.busy && m.state != nil {
		due := k.since.Add(keepWithin)
		if due.Before(k.retry) {
			due = k.retry
		}
		if due.After(now) && (wake.IsZero() || due.Before(wake)) {
			wake = due
		}
	}
	return wake
}

// advance commands the next Read or Write, if there is one.
func (m *Machine) advance(now time.Time, clock int64) {
	paused := now.Before(m.retry)
	if p := m.pending; p != nil {
		switch {
		case paused:
		case p.again:
			p.again = false
			m.write(p)
		default:
			m.read()
		}
		return
	}
	if m.state != nil && !m.reading && !paused && (len(m.queue) > 0 || m.flush) {
		m.run(clock)
	}
	if !m.busy && m.pending == nil && !paused && (len(m.queue) > 0 || m.flush) && (m.state == nil || m.reading) {
		m.read()
	}
}

func (m *Machine) read() {
	m.busy, m.sent, m.reading, m.stale = true, m.seq, false, false
	m.command(Command{Action: Read, Anew: m.anew, Doc: persist.Document{Kind: persist.LedgerKind, Key: m.cfg.Counter}})
}

func (m *Machine) write(p *pending) {
	m.busy, m.sent = true, m.seq
	p.command.ID = m.command(p.command).ID
}

// lookAhead begins to look up what requests will need, while something else is under way.
func (m *Machine) lookAhead() {
	for _, r := range m.queue {
		if len(m.looks) == mostLooks {
			return
		}
		ahead := r.Op.Once != "" || r.Op.Kind == Void
		if ahead && r.looking == 0 && r.looked == nil {
			m.look(r)
		}
	}
}

// mostLooks is how many look-ups begin ahead.
const mostLooks = 256

// look begins a look-up for a request, if it needs one.
func (m *Machine) look(r *Request) {
	l := m.state.Needs(m.cfg.Counter, &r.Op, r.looked)
	if l == nil {
		return
	}
	c := m.command(Command{Action: LookUp, Look: l, looked: Looked{Since: Since{Era: m.state.Era, Revision: m.state.Revision}}})
	if r.Op.Kind == Return {
		c.looked.Voids = m.state.outboxVoids()
	}
	if l.Kind != persist.AnswerKind && r.Op.Once != "" {
		c.looked.Answer, _ = m.state.answer(&r.Op, r.looked)
	}
	r.looking = c.ID
	m.looks[c.ID] = r
}

func (m *Machine) lookedUp(now time.Time, c *Command, out *Outcome) {
	r := m.looks[c.ID]
	if r == nil { // nobody waits for it any more
		return
	}
	m.noLook(r)
	if out.Err != nil {
		m.failure = out.Err
		m.retryLater(now) // then it is looked up again
		return
	}
	looked := c.looked
	looked.Docs = out.Docs
	r.looked = &looked
	if m.fence.on && m.seen.Revision > 0 && !m.rules.Has(RuleAhead) {
		m.ahead(out.Docs)
	}
}

// ahead notes that the document had come as far as these records, which were copied from it. It is
// read again before anybody is told of them. If it is older then, a failover has lost what they say,
// even if the fence does not show that yet: see [Machine.wentBack].
func (m *Machine) ahead(records []persist.Document) {
	for i := range records {
		e, err := DecodeEntry(&records[i]) // one that is damaged is refused by who uses it
		if err == nil && e.Era == m.seen.Era && e.Rev > m.seen.Revision {
			m.seen.Revision, m.fresh, m.stale = e.Rev, 0, m.busy
		}
	}
}

// noLook forgets the look-up of a request.
func (m *Machine) noLook(r *Request) {
	delete(m.looks, r.looking)
	r.looking = 0
}

func (m *Machine) retryLater(now time.Time) {
	m.pause = min(max(2*m.pause, firstPause), lastPause)
	m.retry = now.Add(m.pause)
}
