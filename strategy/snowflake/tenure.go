package snowflake

import (
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// tenure is the machine ID that is held now and the generator that uses it, or why there is none.
// Only the run goroutine of the holder changes it. Everything else is safe for concurrent use.
type tenure struct {
	gen      *generator
	env      *environment
	key      string        // of the instance
	registry string        // the name of the registry
	maxWait  time.Duration // the longest wait for a clock that was set back

	mu    sync.Mutex // guards what follows; gen's lock is taken under it
	state state      // seeking or holding
	lease machineid.Lease
	// the generator may use times up to bound: the lease's until, or later ones of the reservation
	bound   int64
	failure *seqd.Error // why there is no machine ID, or why it is not renewed
}

// state says whether a holder has a machine ID.
type state int

const (
	seeking state = iota // without a machine ID
	holding              // with one
)

// held reports whether there is a machine ID.
func (t *tenure) held() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == holding
}

// now returns what is held.
func (t *tenure) now() (s state, l machineid.Lease, bound int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state, t.lease, t.bound
}

// set lets the generator use a lease up to bound.
func (t *tenure) set(l machineid.Lease, bound int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lease, t.bound = l, bound
	t.gen.set(l.ID, l.Lower, bound, l.Floored)
	if t.state == seeking {
		t.state = holding
		t.env.Log.Info("machine ID", "machineId", l.ID, "registrationKey", t.key, "from", at(l.Lower+1), "until", at(bound))
	}
}

// clear forgets a lease that was lost, and returns its machine ID. The generator must be stopped.
func (t *tenure) clear() (id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id = t.lease.ID
	t.state, t.lease, t.bound = seeking, machineid.Lease{}, 0
	return id
}

// health returns an error if no number can be made now. It does no I/O.
func (t *tenure) health() *seqd.Error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.gen.health(t.env.ms())
}

// usable returns an error if no lease can be used now.
func (t *tenure) usable() *seqd.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.env.ms()
	switch {
	case t.state == seeking && t.failure != nil:
		return t.failure
	case t.state == seeking:
		return &seqd.Error{Code: seqd.CodeStarting, Detail: "looking for a machine ID", RetryAfter: time.Second}
	case now > t.bound:
		return t.ended()
	case time.Duration(t.lease.Lower+1-now)*time.Millisecond > t.maxWait:
		return t.early(now)
	}
	return nil
}

// early is the error before the lease begins. mu is held.
func (t *tenure) early(now int64) *seqd.Error {
	code := seqd.CodeClockRollback
	if t.lease.Floored {
		code = seqd.CodeStarting
	}
	wait := time.Duration(t.lease.Lower+1-now) * time.Millisecond
	return &seqd.Error{Code: code, RetryAfter: wait, Detail: fmt.Sprintf("machine ID %d can be used from %s on, after every time that may have been used with it",
		t.lease.ID, at(t.lease.Lower+1))}
}

// ended is the error after the lease. mu is held.
func (t *tenure) ended() *seqd.Error {
	e := &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second,
		Detail: fmt.Sprintf("the lease of machine ID %d ended at %s and could not be renewed", t.lease.ID, at(t.bound))}
	if t.failure != nil {
		e.Err = t.failure
	}
	return e
}

// details returns what operators see of the lease.
func (t *tenure) details() map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == seeking {
		return map[string]any{"key": t.key}
	}
	left := time.Duration(max(0, t.bound-t.env.ms())) * time.Millisecond
	d := map[string]any{"key": t.key, "machineId": t.lease.ID, "leaseUntil": at(t.bound), "timeLeftMs": left.Milliseconds()}
	if t.lease.Lower > 0 {
		d["leaseFrom"] = at(t.lease.Lower + 1)
	}
	return d
}

// degraded returns why the machine ID is not renewed, nil if it is.
func (t *tenure) degraded() *seqd.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// note keeps the current problem, and logs each change once.
func (t *tenure) note(err error) {
	t.mu.Lock()
	was := t.failure
	var now *seqd.Error
	if err != nil {
		now = callerError(err)
	}
	t.failure = now
	state, id := t.state, t.lease.ID
	t.mu.Unlock()
	switch {
	case now == nil && was != nil && state == holding:
		t.env.Log.Info("the registry of machine IDs answers again", "machineId", id)
	case now == nil, was != nil && was.Code == now.Code && was.Detail == now.Detail:
		// causes contain port numbers and differ each time
	case state == seeking:
		t.env.Log.Warn("no machine ID", "registry", t.registry, "error", now)
	default:
		t.env.Log.Error("the machine ID cannot be renewed", "machineId", id, "error", now)
	}
}
