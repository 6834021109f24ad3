package snowflake

import (
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// environment is the environment of a holder, shared by its parts.
type environment struct{ strategy.Env }

// left returns what strategies of this process share under a key, also one after the other. It is new
// if they leave nothing.
func left[T any](env strategy.Env, key string) *T {
	if env.Left == nil {
		return new(T)
	}
	kept, _ := env.Left.LoadOrStore(Name+" "+key, new(T))
	return kept.(*T)
}

// ms returns the node's time.
func (e *environment) ms() int64 { return e.Now().UnixMilli() }

func (e *environment) event(kind seqd.EventKind, err error) {
	e.Observer.Event(seqd.Event{Kind: kind, Err: err})
}

// rolledBack is called when the generator begins to refuse because the clock was set back, and when
// that is over.
func (e *environment) rolledBack(begins bool, gap time.Duration) {
	if !begins {
		e.Log.Info("the clock has passed the last time that was used")
		return
	}
	e.Log.Error("the clock was set back; nothing is issued until it has passed the last time that was used", "gapMs", gap.Milliseconds())
	e.event(seqd.EventClockRollback, nil)
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// callerError converts an error to what callers and /readyz see.
func callerError(err error) *seqd.Error {
	var e *seqd.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, machineid.ErrLayout), errors.Is(err, machineid.ErrCluster), errors.Is(err, persist.ErrNewer), errors.Is(err, statefile.ErrForeign), errors.Is(err, redisslots.ErrForeign):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: err.Error(), Err: err}
	case errors.Is(err, redisslots.ErrUnfit), errors.Is(err, persist.ErrInvalid), errors.Is(err, machineid.ErrStandby), errors.Is(err, errUnnamed), errors.Is(err, machineid.ErrSkew):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
	case errors.Is(err, errFile):
		return &seqd.Error{Code: seqd.CodeNoMachineID, Detail: "stateDir: the file of the reservation cannot be used", RetryAfter: time.Second, Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the registry of machine IDs cannot be asked", RetryAfter: time.Second, Err: err}
}
