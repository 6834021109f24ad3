package ledger

import (
	"slices"
	"time"

	"github.com/seqd/seqd"
)

// Config is what a machine is made from. It does not change.
type Config struct {
	// Counter is the name of the counter, such as invoice/tenant-42@2026.
	Counter string
	// Writer identifies this machine among all that ever write this counter, also among those of
	// the same node: draw it at random, at most 32 visible ASCII characters.
	Writer string
	// MaxBatch is how many operations share a write, 0 for 256.
	MaxBatch int
	// Without takes rules out. Only tests do that.
	Without RuleSet
}

// Request is an operation that a caller waits for.
type Request struct {
	Op Op
	// Result and Err are set when it is finished.
	Result Result
	Err    error
	// Tag belongs to the shell.
	Tag any

	seq      uint64 // the number of its Submit
	looked   *Looked
	looking  uint64 // the command that looks up, 0 for none
	gone     bool   // nobody waits for it
	internal bool   // the machine made it
}

// Undone reports whether the machine undoes a request that is finished: it handed out numbers,
// nobody waits for it, and nobody can ask for the same again.
func (r *Request) Undone() bool {
	return r.Op.Kind <= Reserve && r.gone && r.Err == nil && r.Op.Once == "" && !r.Result.Replayed
}

// Machine is one counter on one node. It is not safe for concurrent use.
//
// The shell that drives it promises: each command of Next is executed once and answered once by
// Done, also with an error. The slices that Next and Finished return are valid until they are
// called again. After Submit and Done it calls Next, and Finished after each of them.
type Machine struct {
	cfg    Config
	rules  RuleSet
	policy Policy

	// state is that of the document as far as this machine knows, nil if it has to be read. While
	// pending is not nil it is what pending writes, if nothing is in doubt.
	state   *State
	pending *pending
	busy    bool // a Read or Write is under way
	stale   bool // the Read under way may be older than what was seen since
	reading bool // it must read before it goes on
	flush   bool // the outbox is to be emptied
	dropped bool // the state is without entries that the document still has

	queue []*Request // waiting, oldest first
	seq   uint64     // of the last Submit
	sent  uint64     // seq when the Read or Write under way was commanded
	fresh uint64     // the state was current after this Submit

	seen   Seen
	writes int64 // how many writes it has made up
	made   int64 // the number of the last of them that was made
	madeAt int64 // the revision that it wrote
	fence  fence // of the store, as last read
	anew   bool  // the next Read reads the fence from the store
	stats  Stats

	refusal *seqd.Error // what the last requests got, nil if nothing stands in the way
	failure error       // why the last command failed
	pause   time.Duration
	retry   time.Time // no Read before

	keeping  keeping
	looks    map[uint64]*Request
	nextID   uint64
	commands []Command
	finished []*Request
	returned []*Request
	expired  []*Entry
	buf      []byte
}

// pending is a write whose outcome is not known yet.
type pending struct {
	command Command
	n       int64
	era     int64  // of the document that it changes
	born    string // of the same
	batch   []*Request
	expired []*Entry
	again   bool // the same bytes are to be sent again
}

// Seen is what a machine knows of the document, for a successor in the same process.
type Seen struct {
	Born                string
	Era, Revision, Last int64
	// Back is whether the document was older than this, or gone, when it was last read.
	Back bool
}

// Refuses reports whether requests are refused because of what was seen.
func (s Seen) Refuses() bool { return s.Back }

// Stats are numbers of the last state that is known to be durable. Known is false if there is none.
type Stats struct {
	Last, Reserved, Released, Voids int64
	// OldestReleased is since when a number is released, in ms since the Unix epoch, 0 if none is.
	OldestReleased int64
	Known          bool
}

// New returns a machine that has not read the document.
func New(cfg Config, p Policy) *Machine {
	if cfg.MaxBatch == 0 {
		cfg.MaxBatch = 256
	}
	return &Machine{cfg: cfg, rules: cfg.Without, policy: p, looks: make(map[uint64]*Request)}
}

// Inherit notes what a predecessor in this process has seen, before the first command.
func (m *Machine) Inherit(seen Seen) {
	if seen.Era > m.seen.Era || seen.Era == m.seen.Era && seen.Revision > m.seen.Revision {
		m.seen, seen.Last = seen, max(seen.Last, m.seen.Last)
	}
	m.seen.Last = max(m.seen.Last, seen.Last)
}

// Seen returns what this machine has seen, and what it inherited.
func (m *Machine) Seen() Seen { return m.seen }

// SetPolicy changes the policy. What is under way keeps the previous one.
func (m *Machine) SetPolicy(p Policy) { m.policy = p }

// Stats returns the numbers of the last durable state.
func (m *Machine) Stats() Stats { return m.stats }

// Submit adds a request. It is under way until [Machine.Finished] returns it, or
// [Machine.Abandon] removes it.
func (m *Machine) Submit(r *Request) {
	m.seq++
	*r = Request{Op: r.Op, Tag: r.Tag, seq: m.seq, internal: r.internal}
	m.queue = append(m.queue, r)
	m.flush = m.flush || r.Op.Kind == Reclaim
}

// Abandon says that nobody waits for a request any more. If nothing was sent for it, it is removed
// and Abandon returns true: it has done nothing and will not be finished. Otherwise it goes on
// until Finished returns it. Then the machine undoes it if nobody can ask for the same again: it
// returns what Issue handed out without Once, and releases what Reserve reserved without Once.
func (m *Machine) Abandon(r *Request) (removed bool) {
	if m.pending != nil && slices.Contains(m.pending.batch, r) {
		r.gone = true
		return false
	}
	i := slices.Index(m.queue, r)
	if i < 0 {
		return false
	}
	m.queue = slices.Delete(m.queue, i, i+1)
	return true
}

// Finished returns the requests that are finished since the last call.
func (m *Machine) Finished() []*Request {
	m.returned, m.finished = m.finished, m.returned[:0]
	return m.returned
}

// Idle reports whether nothing waits and nothing is under way, also no copy.
func (m *Machine) Idle() bool {
	return len(m.queue) == 0 && m.pending == nil && !m.busy && !m.flush && !m.keeping.active && len(m.looks) == 0
}

// Expired returns the reservations that this machine reclaimed since the last call. That they ended
// is durable. [Result.Expired] has only some of them.
func (m *Machine) Expired() []*Entry {
	expired := m.expired
	m.expired = nil
	return expired
}

// finish ends a request. Its numbers come back if nobody waits for them.
func (m *Machine) finish(r *Request) {
	m.noLook(r)
	if !r.internal {
		m.finished = append(m.finished, r)
	}
	if !r.Undone() || m.rules.Has(RuleUndo) {
		return
	}
	switch r.Op.Kind {
	case Issue:
		m.Submit(&Request{Op: Op{Kind: Return, Runs: r.Result.Runs, Since: r.Result.Since}, internal: true})
	case Reserve:
		m.Submit(&Request{Op: Op{Kind: Release, ID: r.Result.ID, Admin: true}, internal: true})
	}
}

// refuse ends a request with an error.
func (m *Machine) refuse(r *Request, err error) {
	r.Result, r.Err = Result{}, err
	m.finish(r)
}

// durable notes that the state is in the store as its revision.
func (m *Machine) durable() {
	s := m.state
	m.refusal, m.anew, m.failure, m.pause = nil, false, nil, 0
	m.retry = time.Time{}
	m.seen = Seen{Born: s.Born, Era: s.Era, Revision: s.Revision, Last: max(m.seen.Last, s.Last)}
	m.stats = Stats{
		Last: s.Last, Reserved: s.reserved, Released: s.released, Voids: s.Voids, OldestReleased: s.OldestReleased(), Known: true,
	}
	if len(s.Outbox) == 0 {
		m.flush = false
	}
}
