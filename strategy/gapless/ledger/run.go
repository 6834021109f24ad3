package ledger

import (
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
)

// run carries out what waits on the state, and commands a write if that changed it.
func (m *Machine) run(clock int64) {
	s := m.state
	m.dropped = m.drop() || m.dropped
	p := &pending{}
	changed := false
	if due := s.Due(&m.policy); due > 0 && due <= clock {
		res, _ := s.Apply(clock, &m.policy, &Op{Kind: Reclaim}, nil)
		changed, p.expired = res.Changed, res.Expired
	}
	waiting := m.queue[:0]
	for _, r := range m.queue {
		if r.looking != 0 || len(p.batch) >= m.cfg.MaxBatch || !m.apply(clock, r, &changed) {
			waiting = append(waiting, r)
			continue
		}
		p.batch = append(p.batch, r)
	}
	clear(m.queue[len(waiting):])
	m.queue = waiting
	if changed || m.flush && m.dropped {
		m.begin(clock, p)
		return
	}
	m.report(p.batch)
}

// apply carries out a request, and reports false if that has to wait.
func (m *Machine) apply(clock int64, r *Request, changed *bool) bool {
	res, err := m.state.Apply(clock, &m.policy, &r.Op, r.looked)
	*changed = *changed || res.Changed
	switch {
	case err == errFull && len(m.state.Outbox) > 0: //nolint:errorlint // never wrapped
		m.flush = true // then there is room
		return false
	case !errors.Is(err, ErrLook):
		r.Result, r.Err = res, err
		return true
	case r.Op.Kind >= Find && r.Op.Kind <= Release && r.seq > m.fresh:
		m.reading = true // most likely another node has made the reservation
	default:
		m.look(r)
	}
	return false
}

// report finishes requests that change nothing, if what they are told is sure: it is as old as the
// state, which others may have changed since. Otherwise the document is read first.
func (m *Machine) report(batch []*Request) {
	var unsure []*Request
	for _, r := range batch {
		if r.seq <= m.fresh || m.lasts(r) || m.rules.Has(RuleFresh) {
			m.finish(r)
		} else {
			unsure = append(unsure, r)
		}
	}
	if len(unsure) > 0 {
		m.queue, m.reading = append(unsure, m.queue...), true
	}
}

// lasts reports whether what a request is told stays true, although the state is older than the
// request. A failover can undo also what no other node can change.
func (m *Machine) lasts(r *Request) bool {
	return r.Result.known && (!m.fence.on || m.rules.Has(RuleKnown))
}

// begin commands the write of the state.
func (m *Machine) begin(clock int64, p *pending) {
	s := m.state
	m.writes++
	p.n, p.era, p.born = m.writes, m.eraOf(), s.Born
	s.wrote(m.cfg.Writer, p.n)
	switch {
	case !m.fence.on:
		s.Fence = ""
	case s.Fence == "" || m.rules.Has(RuleFence):
		s.Fence = m.fence.Current
	}
	doc, err := s.document(m.cfg.Counter, clock, &m.buf)
	if err != nil { // there was room for each of the operations
		m.unfit(p, err)
		return
	}
	p.command = Command{Action: Write, Doc: doc, Fenced: m.fence.on && !m.rules.Has(RuleFence), Fence: s.Fence}
	m.pending = p
	m.write(p)
	if m.rules.Has(RuleDurable) {
		for _, r := range p.batch {
			m.finish(r)
		}
		p.batch = nil
	}
}

// Done says what became of a command.
func (m *Machine) Done(now time.Time, _ int64, c *Command, out Outcome) {
	switch c.Action {
	case Read:
		m.busy = false
		m.wasRead(now, &out)
	case Write:
		m.busy = false
		m.wasWritten(now, out.Err)
	case Keep:
		m.kept(now, c, out.Err)
	case LookUp:
		m.lookedUp(now, c, &out)
	}
}

func (m *Machine) wasWritten(now time.Time, err error) {
	p := m.pending
	switch {
	case err == nil:
		s := m.state
		if s == nil { // it was repeated
			if s, err = Decode(&p.command.Doc); err != nil {
				m.block(storeError(err))
				return
			}
			s.rules, m.state = m.rules, s
		}
		s.Revision = p.command.Doc.Revision
		m.fresh, m.dropped = m.sent, false
		m.succeeded(p)
		m.durable()
		m.forgetDropped()
		return
	case errors.Is(err, persist.ErrInvalid):
		m.unfit(p, err)
		return
	case errors.Is(err, persist.ErrConflict), errors.Is(err, persist.ErrExists), errors.Is(err, persist.ErrNotFound):
	default: // ErrFailedOver, and all that leaves it unknown
		m.failure, m.anew = err, m.anew || errors.Is(err, persist.ErrFailedOver)
		m.retryLater(now)
	}
	m.state = nil // it is what could not be written
}

// unfit refuses the requests of a write that no store takes.
func (m *Machine) unfit(p *pending, err error) {
	m.pending, m.state = nil, nil
	for _, r := range p.batch {
		m.refuse(r, err)
	}
}

// succeeded finishes the requests of a write that was made.
func (m *Machine) succeeded(p *pending) {
	m.pending, m.made, m.madeAt = nil, p.n, p.command.Doc.Revision
	if m.keeping.mine == nil {
		m.keeping.mine = make(map[int64]bool)
	}
	m.keeping.mine[p.command.Doc.Revision] = true
	m.expired = append(m.expired, p.expired...)
	for _, r := range p.batch {
		m.expired = append(m.expired, r.Result.Expired...)
		m.finish(r)
	}
}

func (m *Machine) wasRead(now time.Time, out *Outcome) {
	if m.stale {
		m.reading = m.state != nil // without a state it is read again anyway
		return
	}
	m.fence = fence{out.Fenced, out.Fence}
	switch {
	case errors.Is(out.Err, persist.ErrNotFound):
		m.missing(now)
	case out.Err != nil:
		m.failed(now, out.Err)
	default:
		s, err := Decode(&out.Doc)
		if err != nil {
			m.failed(now, err)
			return
		}
		s.rules = m.rules
		m.arrived(now, s)
	}
}

// failed notes that the document could not be read.
func (m *Machine) failed(now time.Time, err error) {
	if errors.Is(err, persist.ErrNewer) || errors.Is(err, persist.ErrInvalid) {
		m.block(storeError(err))
		return
	}
	m.failure = err
	m.reading = m.state != nil
	m.retryLater(now)
}

// missing notes that there is no document.
func (m *Machine) missing(now time.Time) {
	switch {
	case m.seen.Revision > 0 && !m.rules.Has(RuleBack):
		m.seen.Back = true
		m.block(failedOver("the ledger of %s is gone, which had come to %d", m.cfg.Counter, m.seen.Last))
	case m.fence.on && m.fence.FailedOver() && !m.rules.Has(RuleFence):
		m.block(failedOver("the store may have lost the ledger of %s", m.cfg.Counter))
	default:
		s := Fresh(&m.policy, m.cfg.Writer, m.fence.Current)
		s.rules = m.rules
		if m.resolve(now, s) {
			m.stats = Stats{Last: s.Last, Known: true}
		}
	}
}

// arrived notes the document.
func (m *Machine) arrived(now time.Time, s *State) {
	if p := m.pending; p != nil && !m.rules.Has(RuleWriters) {
		if n, _ := s.lastWrite(m.cfg.Writer, p.command.Doc.Revision); n >= p.n {
			m.succeeded(p)
		}
	}
	switch err, anew := m.wentBack(s); {
	case anew:
		m.anew, m.state = true, nil
		return
	case err != nil:
		m.block(err)
		return
	}
	if s.Era != m.seen.Era || s.Born != m.seen.Born {
		m.forgetCopies()
		m.made = 0 // those of the era before count no more
	}
	if m.resolve(now, s) {
		m.durable()
	}
}

// resolve decides about the write that is in doubt, and uses the state unless that write may still
// come.
func (m *Machine) resolve(now time.Time, s *State) (usable bool) {
	if p := m.pending; p != nil {
		_, known := s.lastWrite(m.cfg.Writer, p.command.Doc.Revision)
		switch {
		case s.Revision == p.command.Doc.Revision-1 && m.sameLine(p, s) && !m.rules.Has(RuleSameBytes):
			p.again = true
			m.retryLater(now)
			return false
		case !known && !m.rules.Has(RuleEvicted):
			m.unknown(p)
		default:
			m.requeue(p.batch)
		}
		m.pending = nil
	}
	m.state, m.fresh, m.dropped, m.refusal = s, m.sent, false, nil
	m.flush = m.flush && len(s.Outbox) > 0
	return true
}

// sameLine reports whether a write was made up for this document and can still come. After a Raise
// it was for another one. After a failover it names a fence that the store has left for good.
func (m *Machine) sameLine(p *pending, s *State) bool {
	if p.command.Fenced && p.command.Fence != m.fence.Current {
		return false
	}
	return s.Revision == 0 || p.era == s.Era && p.born == s.Born || m.rules.Has(RuleLineage)
}

// eraOf returns the era of the document that was read or written last.
func (m *Machine) eraOf() int64 { return m.seen.Era }

// requeue carries requests out again whose write was never made.
func (m *Machine) requeue(batch []*Request) {
	again := make([]*Request, 0, len(batch)+len(m.queue))
	for _, r := range batch {
		if r.gone && r.Op.Kind != Return {
			m.refuse(r, m.Late())
			continue
		}
		again = append(again, r)
	}
	m.queue = append(again, m.queue...)
}

// unknown decides about requests whose write may have been made. What cannot be repeated without
// harm is refused.
func (m *Machine) unknown(p *pending) {
	var again []*Request
	for _, r := range p.batch {
		if r.Op.Kind == Return || r.Op.Kind == Issue && r.Op.Once == "" {
			m.refuse(r, errUnknown)
			continue
		}
		again = append(again, r)
	}
	m.requeue(again)
}
