package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// errUnknown is for numbers that may be issued without a caller who knows them.
var errUnknown = &seqd.Error{
	Code:       seqd.CodeStoreUnavailable,
	Detail:     "it is not known whether the store has issued the numbers of this request: an Idempotency-Key would tell",
	RetryAfter: second,
}

func failedOver(format string, args ...any) *seqd.Error {
	return &seqd.Error{
		Code:       seqd.CodeStoreFailedOver,
		Detail:     fmt.Sprintf(format, args...) + ": an operator has to say with raise how far it had come",
		RetryAfter: time.Minute,
	}
}

// storeError returns what a caller gets for an error of the store.
func storeError(err error) *seqd.Error {
	switch {
	case errors.Is(err, persist.ErrNewer):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: "a newer seqd has written this ledger: this node must be upgraded", Err: err}
	case errors.Is(err, persist.ErrInvalid):
		return &seqd.Error{Code: seqd.CodeInternal, Detail: "the ledger is damaged; the log of the service says more", Err: err}
	case errors.Is(err, persist.ErrFailedOver):
		return &seqd.Error{Code: seqd.CodeStoreFailedOver, Detail: "the store failed over", RetryAfter: time.Minute, Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store does not answer", RetryAfter: second, Err: err}
}

// wentBack returns why a state cannot be used: it is older than what this process has seen, or of
// another server. After a Raise it can, unless that did not raise it enough. anew is whether the
// fence has to be read from the store before that is sure.
func (m *Machine) wentBack(s *State) (err *seqd.Error, anew bool) {
	seen, name := m.seen, m.cfg.Counter
	if !m.rules.Has(RuleBack) && seen.Revision > 0 {
		wrote, known := s.lastWrite(m.cfg.Writer, m.madeAt)
		switch {
		case s.Era < seen.Era, s.Era == seen.Era && (s.Born != seen.Born || s.Revision < seen.Revision),
			s.Era == seen.Era && known && wrote < m.made:
			m.seen.Back = true
			return failedOver("the ledger of %s is older than what was acknowledged before, up to %d", name, seen.Last), false
		case s.Last < seen.Last:
			m.seen.Back = true
			return failedOver("the ledger of %s ends with %d, and numbers up to %d were handed out", name, s.Last, seen.Last), false
		}
	}
	if m.fence.on && s.Fence != "" && s.Fence != m.fence.Current && !m.rules.Has(RuleFence) {
		return failedOver("the store failed over and may have lost changes of the ledger of %s", name), !m.anew
	}
	return nil, false
}

// block refuses what waits, except requests that came after the document was read: an operator may
// have raised the counter since. For those, and for each later request, it is read again.
func (m *Machine) block(err *seqd.Error) {
	m.refusal, m.state, m.flush = err, nil, false
	m.failure, m.pause, m.retry = nil, 0, time.Time{}
	m.forgetCopies()
	if p := m.pending; p != nil {
		m.pending = nil
		for _, r := range p.batch {
			m.refuse(r, err)
		}
	}
	queue := m.queue
	m.queue = nil
	for _, r := range queue {
		if r.seq <= m.sent {
			m.refuse(r, err)
		} else {
			m.queue = append(m.queue, r)
		}
	}
}

// Refusal returns the error of the last requests, nil if there is none: the document could not be
// used, or went back.
func (m *Machine) Refusal() *seqd.Error { return m.refusal }

// Late returns the error of a caller whose patience ended.
func (m *Machine) Late() *seqd.Error {
	switch {
	case m.refusal != nil:
		return m.refusal
	case m.failure != nil:
		return storeError(m.failure)
	}
	return &seqd.Error{Code: seqd.CodeTimeout, Detail: "the ledger did not answer in time", RetryAfter: second}
}
