package snowflake

import (
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// health returns an error if no number can be made now. It does no I/O.
func (h *holder) health() *seqd.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.ms()
	switch {
	case h.state == seeking && h.failure != nil:
		return h.failure
	case h.state == seeking:
		return &seqd.Error{Code: seqd.CodeStarting, Detail: "looking for a machine ID", RetryAfter: time.Second}
	case now > h.bound:
		return h.ended()
	case time.Duration(h.lease.lower+1-now)*time.Millisecond > h.settings.MaxWaitRollback:
		return h.early(now)
	}
	return h.gen.health(now)
}

// early is the error before the lease begins. mu is held.
func (h *holder) early(now int64) *seqd.Error {
	code := seqd.CodeClockRollback
	if h.lease.floored {
		code = seqd.CodeStarting
	}
	wait := time.Duration(h.lease.lower+1-now) * time.Millisecond
	return &seqd.Error{Code: code, RetryAfter: wait, Detail: fmt.Sprintf("machine ID %d can be used from %s on, after every time that may have been used with it",
		h.lease.id, at(h.lease.lower+1))}
}

// ended is the error after the lease. mu is held.
func (h *holder) ended() *seqd.Error {
	e := &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second,
		Detail: fmt.Sprintf("the lease of machine ID %d ended at %s and could not be renewed", h.lease.id, at(h.bound))}
	if h.failure != nil {
		e.Err = h.failure
	}
	return e
}

// details returns what operators see of the lease.
func (h *holder) details() map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == seeking {
		return map[string]any{"key": h.key}
	}
	left := time.Duration(max(0, h.bound-h.ms())) * time.Millisecond
	d := map[string]any{"key": h.key, "machineId": h.lease.id, "leaseUntil": at(h.bound), "timeLeft": left.String()}
	if h.lease.lower > 0 {
		d["leaseFrom"] = at(h.lease.lower + 1)
	}
	return d
}

// rolledBack is called when the generator begins to refuse because the clock was set back, and when
// that is over.
func (h *holder) rolledBack(begins bool, gap time.Duration) {
	if !begins {
		h.env.Log.Info("the clock has passed the last time that was used")
		return
	}
	h.env.Log.Error("the clock was set back; nothing is issued until it has passed the last time that was used", "gap", gap.String())
	h.event(seqd.EventClockRollback, nil)
}

// degraded returns why the machine ID is not renewed, nil if it is.
func (h *holder) degraded() *seqd.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failure
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// note keeps the current problem, and logs each change once.
func (h *holder) note(err error) {
	h.mu.Lock()
	was := h.failure
	var now *seqd.Error
	if err != nil {
		now = callerError(err)
	}
	h.failure = now
	state, id := h.state, h.lease.id
	h.mu.Unlock()
	switch {
	case now == nil && was != nil && state == holding:
		h.env.Log.Info("the registry of machine IDs answers again", "machineId", id)
	case now == nil, was != nil && was.Code == now.Code && was.Detail == now.Detail:
		// causes contain port numbers and differ each time
	case state == seeking:
		h.env.Log.Warn("no machine ID", "registry", h.name, "error", now)
	default:
		h.env.Log.Error("the machine ID cannot be renewed", "machineId", id, "error", now)
	}
}

// callerError converts an error to what callers and /readyz see.
func callerError(err error) *seqd.Error {
	var e *seqd.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errLayout), errors.Is(err, errCluster), errors.Is(err, persist.ErrNewer), errors.Is(err, statefile.ErrForeign), errors.Is(err, redisslots.ErrForeign):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: err.Error(), Err: err}
	case errors.Is(err, redisslots.ErrUnfit), errors.Is(err, persist.ErrInvalid), errors.Is(err, errStandby), errors.Is(err, errSkew):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
	case errors.Is(err, errFile):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: "stateDir: the file of the reservation cannot be used", RetryAfter: time.Second, Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the registry of machine IDs cannot be asked", RetryAfter: time.Second, Err: err}
}

func (h *holder) event(kind seqd.EventKind, err error) {
	h.env.Observer.Event(seqd.Event{Kind: kind, Err: err})
}
