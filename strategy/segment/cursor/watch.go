package cursor

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// watch is the task that reads the store while it is away, to notice that it answers again. Without
// it an idle node would report the store as away for ever.
type watch struct{ work }

func (m *Machine) startWatch(now instant) {
	if t := new(watch); m.begin(Watch, t) {
		t.pauses(now, pausing, LastPause)
	}
}

func (t *watch) tick(now instant) {
	busy := t.under(Refill) || t.under(Standby) || t.mode == Mending || t.mode == Alone
	switch {
	case t.away == nil:
		t.end(now, &t.work)
	case busy:
		t.pauses(now, pausing, LastPause)
	case t.sends(now, reading):
		t.emit(ReadStore{t.id, FetchDeadline})
	}
}

func (t *watch) read(now instant, err error) {
	if err == nil {
		t.storeAnswers()
	}
	t.pauses(now, pausing, LastPause)
}

// RedisAway is what the node's watch over Redis has found: since when and why Redis cannot be used.
// The Cause is nil if it can be used.
type RedisAway struct {
	Since time.Time
	Cause error
}

// Health returns why the next caller would be refused, in any mode but Alone.
func (m *Machine) Health(when time.Time, away RedisAway) *seqd.Error {
	now := at(when)
	switch waited := now.sub(m.mendBegan); {
	case m.refusal != nil && m.refusal.Code == seqd.CodeExhausted:
		return nil
	case m.refusal != nil:
		return m.refusal
	case m.mode == Mending && waited >= m.cfg.Patience:
		// Callers have been refused. If there is no known reason, a caller may just have asked for
		// very many numbers.
		if m.failure != nil || m.away != nil || waited > m.cfg.Patience+Hangs {
			return m.Late()
		}
		return nil
	case !m.cfg.Degrade:
		return m.unasked(now, away)
	}
	return nil
}

// Degraded returns why the node issues, but not as it should. It does not report a store that is
// away.
func (m *Machine) Degraded(when time.Time, away RedisAway) *seqd.Error {
	now := at(when)
	if m.outage.reason != nil {
		return m.outage.reason
	}
	if found := m.unasked(now, away); found != nil {
		return found
	}
	return m.belief.contested(now)
}

// Late returns the refusal of a caller whose patience ended.
func (m *Machine) Late() *seqd.Error {
	switch {
	case m.failure != nil:
		return m.failure
	case m.away != nil:
		return StoreError(m.away)
	}
	return &seqd.Error{Code: seqd.CodeTimeout, Detail: "no numbers came within " + m.cfg.Patience.String(), RetryAfter: time.Second}
}

// unasked returns an error if the next caller would find Redis away, although no caller has yet.
func (m *Machine) unasked(now instant, away RedisAway) *seqd.Error {
	r := &m.redis
	switch {
	case away.Cause == nil:
		return nil
	case r.served <= at(away.Since):
		return RedisError(away.Cause)
	}
	// In a Redis Cluster the server of this counter may work while another one does not. So the
	// takes of this counter decide, or a look if there are none.
	if now.sub(r.served) > LastPause && now.sub(r.checked) > LastPause {
		if t := new(check); m.begin(Check, t) {
			r.checked = now
			t.peek(now, false, 0)
		}
	}
	return r.unwell
}

// check looks whether Redis serves the cursor.
type check struct{ work }

func (t *check) looked(now instant, _ rediscursor.Taken, err error) {
	switch r := &t.redis; {
	case t.sent <= r.served:
	case err == nil:
		r.served, r.unwell = t.sent, nil
	default:
		r.unwell = RedisError(err)
	}
	t.end(now, &t.work)
}
