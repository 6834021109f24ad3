package cursor

import (
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
)

// Why numbers are skipped or callers refused.
var (
	ErrStopping = counters.ErrStopping
	ErrBelow    = errors.New("numbers above it have been issued since")
)

// ErrYield is the refusal while the store itself sequences the counter.
var ErrYield = &seqd.Error{
	Code: seqd.CodeStarting,
	Detail: "the store has taken over this counter from the cursor in Redis: this node waits until its definition says so too. " +
		"If it does not change, give all nodes the same segment.sequencer, and restart them or change the biz type again",
	RetryAfter: time.Second,
}

// IsExhausted reports whether a counter is at its end.
func IsExhausted(err error) bool { return errors.Is(err, persist.ErrExhausted) }

// IsFinal reports whether it is pointless to ask the store again.
func IsFinal(err error) bool {
	return IsExhausted(err) || errors.Is(err, persist.ErrNotFound) || errors.Is(err, counters.ErrPurged) ||
		errors.Is(err, persist.ErrFailedOver) || isRefused(err)
}

// isRefused reports whether a counter is not created because its biz type or the caller has enough
// keys.
func isRefused(err error) bool {
	refused, ok := errors.AsType[*seqd.Error](err)
	return ok && (refused.Code == seqd.CodeTooManyKeys || refused.Code == seqd.CodeRateLimited)
}

// StoreError gives an error of the store the form that callers see. err is not nil.
func StoreError(err error) *seqd.Error {
	switch {
	case errors.Is(err, counters.ErrPurged), isRefused(err):
		return seqd.AsError(err)
	case IsExhausted(err):
		return &seqd.Error{Code: seqd.CodeExhausted, Detail: "all numbers up to 2^53 − 1 have been handed out", Err: err}
	case errors.Is(err, persist.ErrNotFound):
		return &seqd.Error{
			Code:   seqd.CodeConflict,
			Detail: "the store has lost the counter of this biz type, and it is not created a second time: restore the store",
			Err:    err,
		}
	case errors.Is(err, persist.ErrFailedOver):
		return &seqd.Error{
			Code:   seqd.CodeStoreFailedOver,
			Detail: "the store failed over and may have lost the counter, so it is not created until an operator confirms that it is new",
			Err:    err,
		}
	case errors.Is(err, persist.ErrClosed):
		return ErrStopping
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no numbers now", RetryAfter: time.Second, Err: err}
}

// RedisError is the refusal for a Redis that does not serve the cursor.
func RedisError(cause error) *seqd.Error {
	return &seqd.Error{Code: seqd.CodeRedisUnavailable, Detail: "Redis does not serve the cursor", RetryAfter: time.Second, Err: cause}
}
