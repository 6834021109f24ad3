package ledger

import (
	"cmp"
	"time"

	"github.com/seqd/seqd/persist"
)

// keeping is the copying of the outbox.
type keeping struct {
	docs   []persist.Document // still to be kept
	revs   []int64            // the revisions that they belong to
	active bool               // a copy is under way or to be repeated
	busy   bool
	retry  time.Time
	since  time.Time      // when an entry began to wait for its copy; zero while none is known to
	mine   map[int64]bool // revisions that this machine has written and not copied
	copied map[int64]bool // revisions whose entries are copied and still in the outbox
}

var (
	// mostKept is how many records are kept at a time. Tests make it and keepFrom smaller.
	mostKept = 500
	// keepFrom is how many entries wait before they are copied, and keepWithin for how long they wait
	// if there are fewer. A copy is a write to the store, which delays that of the next callers.
	keepFrom = 128
)

const (
	keepWithin = 300 * time.Millisecond
	// othersAfter is after how many revisions a machine copies what another one has not copied.
	othersAfter = 32
)

// keep commands a copy of what is in the outbox and durable.
func (m *Machine) keep(now time.Time) {
	k := &m.keeping
	if k.busy || now.Before(k.retry) {
		return
	}
	if !k.active && m.copyDue(now) {
		m.collect()
	}
	if !k.active {
		return
	}
	k.busy = true
	m.command(Command{Action: Keep, Docs: k.docs[:min(len(k.docs), mostKept)]})
}

// copyDue reports whether the outbox is to be copied now.
func (m *Machine) copyDue(now time.Time) bool {
	k, waiting := &m.keeping, 0
	for _, e := range m.state.Outbox {
		if m.copies(e) {
			waiting++
		}
	}
	switch {
	case waiting == 0:
		k.since = time.Time{}
		return false
	case m.flush || waiting >= keepFrom:
	case k.since.IsZero():
		k.since = now
		return false
	case now.Before(k.since.Add(keepWithin)):
		return false
	}
	k.since = time.Time{}
	return true
}

// copies reports whether this machine copies an entry: one that is durable and not copied, and that
// it has added, or that others should have copied long ago.
func (m *Machine) copies(e *Entry) bool {
	k, present := &m.keeping, m.state.Revision
	return e.Rev <= present && !k.copied[e.Rev] && (m.flush || k.mine[e.Rev] || e.Rev+othersAfter <= present)
}

// collect chooses what is copied next: what this machine has added, and what others should have
// copied long ago.
func (m *Machine) collect() {
	k := &m.keeping
	s := m.state
	var chosen []*Entry
	for _, e := range s.Outbox {
		if !m.copies(e) {
			continue
		}
		chosen = append(chosen, e)
		if n := len(k.revs); n == 0 || k.revs[n-1] != e.Rev {
			k.revs = append(k.revs, e.Rev)
		}
		k.docs = append(k.docs, e.Records(m.cfg.Counter)...)
	}
	k.docs = append(k.docs, s.batches(m.cfg.Counter, chosen)...)
	k.active = true
	if m.rules.Has(RuleCopied) {
		m.markCopied()
	}
}

// markCopied notes that all of a copy is in the store.
func (m *Machine) markCopied() {
	k := &m.keeping
	if k.copied == nil {
		k.copied = make(map[int64]bool)
	}
	for _, rev := range k.revs {
		k.copied[rev] = true
	}
}

func (m *Machine) kept(now time.Time, c *Command, err error) {
	k := &m.keeping
	k.busy = false
	if err != nil {
		k.retry = now.Add(cmp.Or(min(2*m.pause, lastPause), 5*firstPause))
		return
	}
	if k.docs = k.docs[min(len(c.Docs), len(k.docs)):]; len(k.docs) > 0 {
		return
	}
	if k.active {
		m.markCopied()
	}
	k.docs, k.revs, k.active = nil, k.revs[:0], false
}

// forgetCopies forgets what was copied of another era.
func (m *Machine) forgetCopies() {
	k := &m.keeping
	k.docs, k.revs, k.active = nil, nil, false
	clear(k.mine)
	clear(k.copied)
}

// drop removes from the outbox what is copied, and forgets what has left it.
func (m *Machine) drop() (dropped bool) {
	return m.state.Drop(func(rev int64) bool { return m.keeping.copied[rev] })
}

// forgetDropped forgets the revisions that have no entry in the outbox any more.
func (m *Machine) forgetDropped() {
	for _, set := range [...]map[int64]bool{m.keeping.mine, m.keeping.copied} {
		for rev := range set {
			if !m.state.hasEntries(rev) {
				delete(set, rev)
			}
		}
	}
}
