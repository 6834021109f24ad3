package lease

import (
	"errors"
	"time"

	"github.com/seqd/seqd/client"
)

// tenure decides what happens to the command while its worker ID is leased. It only decides: it
// reads no clock and does nothing itself.
//
// The rule: the command begins after lease.After, and is gone before lease.Until. So a command that
// makes IDs with the time of this machine makes them within the lease.
type tenure struct {
	lease    *client.WorkerLease
	answered time.Time // when the lease or its last renewal came
	due      time.Time // when the next renewal is
	err      error     // of the last renewal; nil if it succeeded
	lost     bool      // the service says that the lease has ended
	looked   time.Time // when the clock was looked at
	latest   time.Time // what it can have shown so far

	started, renewing, ending, killed bool
}

// act is what is to be done.
type act int

const (
	nothing act = iota
	start
	renew
	terminate
	kill
)

// lookAgain is how often the clock is looked at, which can be set.
const lookAgain = time.Second

// granted notes a lease, or its renewal.
func (t *tenure) granted(l *client.WorkerLease, now time.Time) {
	t.lease, t.answered, t.due, t.err = l, now, now.Add(l.TTL/3), nil
}

// renewed notes how a renewal ended.
func (t *tenure) renewed(l *client.WorkerLease, err error, now time.Time) {
	t.renewing = false
	if err == nil {
		t.granted(l, now)
		return
	}
	t.err, t.due = err, now.Add(t.lease.TTL/15)
	t.lost = errors.Is(err, client.ErrLeaseLost)
}

// passed returns the latest time that the clock can have shown until now. That is later than now if
// the clock was set back, and the command may have used it.
func (t *tenure) passed(now time.Time) time.Time {
	t.latest = t.latest.Add(max(0, now.Sub(t.looked))) // by the clock that nobody sets
	if wall := now.Round(0); wall.After(t.latest) {
		t.latest = wall
	}
	t.looked = now
	return t.latest
}

// next returns what is to be done now, or how long there is nothing to be done.
//
// A command has the last third of a lease to end by itself, without the very last part, in which
// nothing of it must be left.
func (t *tenure) next(now time.Time) (act, time.Duration) {
	t.passed(now)
	ttl := t.lease.TTL
	// the first is by the clock of IDs, the second by one that nobody sets
	left := min(t.lease.Until.Sub(now), t.answered.Add(ttl).Sub(now))
	begin := t.lease.After.Add(time.Millisecond).Sub(now)
	switch {
	case t.started && !t.killed && left <= ttl/20:
		t.ending, t.killed = true, true
		return kill, 0
	case t.killed:
		return nothing, lookAgain
	case t.ending:
		return nothing, min(left-ttl/20, lookAgain)
	case t.lost || left <= ttl/3:
		t.ending = true
		return terminate, 0
	case !t.started && begin <= 0:
		t.started = true
		return start, 0
	case !t.renewing && !now.Before(t.due):
		t.renewing = true
		return renew, 0
	}
	wait := min(left-ttl/3, lookAgain)
	if !t.renewing {
		wait = min(wait, t.due.Sub(now))
	}
	if !t.started {
		wait = min(wait, begin)
	}
	return nothing, wait
}
