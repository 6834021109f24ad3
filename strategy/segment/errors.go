package segment

import (
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

var (
	errStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
	errLeft     = errors.New("the node issues from the cursor again")
	errLate     = errors.New("no numbers came in time")
	errBelow    = errors.New("numbers above it have been issued since")
	errTaken    = errors.New("others have taken numbers above them since")
	errPurged   = errors.New("the period was removed")
	errBehind   = errors.New("the store is behind what this node has seen")
)

func isExhausted(err error) bool { return errors.Is(err, persist.ErrExhausted) }

// isFinal reports whether asking the store again is pointless.
func isFinal(err error) bool {
	return isExhausted(err) || errors.Is(err, persist.ErrNotFound) || errors.Is(err, errPurged)
}

// refusal gives an error of the store the form that callers see, and nil for nil.
func refusal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errPurged):
		return seqd.AsError(err)
	case isExhausted(err):
		return &seqd.Error{Code: seqd.CodeExhausted, Detail: "all numbers up to 2^53 − 1 have been handed out", Err: err}
	case errors.Is(err, persist.ErrNotFound):
		return &seqd.Error{
			Code:   seqd.CodeConflict,
			Detail: "the store has lost the counter of this biz type; it does not begin again by itself, restore the store",
			Err:    err,
		}
	case errors.Is(err, persist.ErrClosed):
		return errStopping
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no numbers now", RetryAfter: time.Second, Err: err}
}

// redisAway is the refusal for a Redis that does not serve the cursor.
func redisAway(cause error) *seqd.Error {
	return &seqd.Error{Code: seqd.CodeRedisUnavailable, Detail: "Redis does not serve the cursor", RetryAfter: time.Second, Err: cause}
}
