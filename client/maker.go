package client

import (
	"fmt"
	"time"
)

// maker makes IDs under leases of worker IDs, and decides when a lease is asked for or renewed. It
// only decides: it reads no clock and sends nothing. Without a lease it seeks one; with one it
// holds it; after end it does neither.
//
// The rule: the time of an ID is in the interval of a lease that the service granted, and not below
// the time of the ID before. It is checked for the very time that goes into the ID. So no clock and
// no pause can make an ID twice.
//
// There are two clocks. Times of IDs are in ms since the Unix epoch, by a clock that people and
// programs set. Requests are due by one that only advances, so that no other clock delays them.
type maker struct {
	lease *WorkerLease // nil while it seeks, and after its end
	// What IDs are made of: times in (after, until]; until is 0 without a lease.
	after, until, epoch, worker int64
	perMilli                    int64 // how many IDs a time has
	shift, bitsMachine          int   // of the time, and of the sequence

	last  int64 // the highest time used
	used  int64 // how many IDs of it were made
	ended bool

	due      time.Duration // when the next request is to be sent
	ends     time.Duration // when a lease that could not be renewed is given up
	failures int           // since the last lease or renewal
	why      error         // the last of them
}

// mostBehind is how far a clock may have been set back for callers to wait until it is back, in ms.
const mostBehind = 5

// unknown is how long callers wait for something of which nobody knows when it comes.
const unknown = -1

// take makes an ID with a time. If it cannot, it says why, and how long to wait for what keeps it
// from that; 0 is for what callers must not wait for.
func (m *maker) take(ms int64) (id int64, wait time.Duration, err *Error) {
	if ms < m.last || ms <= m.after || ms > m.until {
		wait, err = m.refuse(ms)
		return 0, wait, err
	}
	if ms > m.last {
		m.last, m.used = ms, 0
	}
	if m.used >= m.perMilli {
		return 0, time.Millisecond, errUsedUp
	}
	m.used++
	return (ms-m.epoch)<<m.shift | (m.used-1)<<m.bitsMachine | m.worker, 0, nil
}

var errUsedUp = &Error{Code: ErrTimeout, Detail: "all IDs of this millisecond are made"}

// refuse returns why a time must not be used, and how long to wait.
func (m *maker) refuse(ms int64) (wait time.Duration, err *Error) {
	refused := func(code Code, format string, args ...any) *Error {
		return &Error{Code: code, Detail: fmt.Sprintf(format, args...), Err: m.why}
	}
	begin := max(m.last, m.after+1)
	wait = time.Duration(begin-ms) * time.Millisecond
	switch {
	case m.ended:
		return 0, &Error{Code: ErrClosed, Detail: "the maker of IDs is closed"}
	case m.lease == nil && m.why == nil:
		return unknown, refused(ErrNoMachineID, "no worker ID was leased yet")
	case m.lease == nil:
		return 0, refused(ErrNoMachineID, "no worker ID is leased: %v", m.why)
	case ms > m.until && m.why == nil:
		return 0, refused(ErrNoMachineID, "the lease of worker ID %d ended at %s, and the clock says %s: the program was paused, or its clock is ahead", m.worker, atMilli(m.until), atMilli(ms))
	case ms > m.until:
		return 0, refused(ErrNoMachineID, "the lease of worker ID %d ended at %s and could not be renewed: %v", m.worker, atMilli(m.until), m.why)
	case m.last-ms > mostBehind:
		return 0, refused(ErrClockRollback, "the clock was set back: it is %d ms behind %s, the last time that was used", m.last-ms, atMilli(m.last))
	}
	return wait, refused(ErrClockRollback, "the times of worker ID %d begin at %s, and the clock says %s", m.worker, atMilli(begin), atMilli(ms))
}

func atMilli(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeForm) }

// next returns how long until the next request is to be sent: for a renewal of the lease that it
// returns, or for a lease if that is nil. ms is a time of IDs: once those of the lease are over, a
// renewal is due early, because the machine may have slept while the other clock stood still.
func (m *maker) next(now time.Duration, ms int64) (lease *WorkerLease, wait time.Duration) {
	if m.lease != nil && ms > m.until && m.failures == 0 {
		m.due = min(m.due, m.ends-m.lease.TTL*9/10)
	}
	return m.lease, m.due - now
}

// granted notes a lease, or the renewal of one.
func (m *maker) granted(l *WorkerLease, now time.Duration) {
	m.lease, m.worker, m.epoch = l, l.WorkerID, l.Epoch.UnixMilli()
	m.bitsMachine, m.shift, m.perMilli = l.BitsMachine, l.BitsMachine+l.BitsSequence, 1<<l.BitsSequence
	m.after = max(l.After.UnixMilli(), m.epoch)
	m.until = min(l.Until.UnixMilli(), m.epoch+1<<(63-m.shift)-1)
	m.due, m.ends = now+l.TTL/3, now+l.TTL
	m.failures, m.why = 0, nil
}

// failed notes that a request failed.
func (m *maker) failed(e *Error, now time.Duration) {
	m.due = now + backoff(m.failures, e)
	m.failures++
	m.why = e
	if m.lease != nil && (e.Code == ErrLeaseLost || now >= m.ends) {
		m.lease, m.until, m.due = nil, 0, now // other programs may hold the worker ID
	}
}

// end ends making IDs. It returns the lease, if there is one, and the highest time that may have
// been used under it.
func (m *maker) end() (lease *WorkerLease, last time.Time) {
	lease, last = m.lease, time.UnixMilli(max(min(m.last, m.until), m.after))
	m.lease, m.until, m.ended = nil, 0, true
	return lease, last
}
