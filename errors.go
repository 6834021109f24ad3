package seqd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code says what kind of refusal an [Error] is. The set is closed: callers branch on it, so a value
// is never reused for something else.
type Code string

// The codes, grouped by who can do something about it.
const (
	// The request is wrong; sending it again as it is will not help.
	CodeInvalidBizType    Code = "invalid_biz_type"
	CodeInvalidCount      Code = "invalid_count"
	CodeInvalidID         Code = "invalid_id"
	CodeInvalidRequest    Code = "invalid_request"
	CodeInvalidDefinition Code = "invalid_definition"
	CodeUnauthorized      Code = "unauthorized"
	CodeForbidden         Code = "forbidden"
	CodeUnknownBizType    Code = "unknown_biz_type"
	CodeNotFound          Code = "not_found"
	CodeMethodNotAllowed  Code = "method_not_allowed"
	// CodePreconditionFailed is for a change whose If-Match names another revision than there is.
	CodePreconditionFailed   Code = "precondition_failed"
	CodeBodyTooLarge         Code = "body_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeURITooLong           Code = "uri_too_long"
	CodeHeadersTooLarge      Code = "headers_too_large"

	// CodeIdempotencyKeyReused is for a request that differs from the one which its Idempotency-Key
	// was used with.
	CodeIdempotencyKeyReused Code = "idempotency_key_reused"

	// The biz type is in a state that an operator has to change.
	CodeConflict  Code = "conflict"
	CodeDisabled  Code = "disabled"
	CodeExhausted Code = "exhausted"

	// Not now: trying again later can help.
	CodeRateLimited      Code = "rate_limited"
	CodeStarting         Code = "starting"
	CodeStopping         Code = "stopping"
	CodeOverloaded       Code = "overloaded"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeRedisUnavailable Code = "redis_unavailable"
	// CodeCursorContested is reported, but refuses nothing: cursors of one biz type alternate, so
	// order over the nodes does not hold.
	CodeCursorContested Code = "cursor_contested"
	CodeClockRollback   Code = "clock_rollback"
	CodeNoMachineID     Code = "no_machine_id"
	CodeTimeout         Code = "timeout"
	CodeCanceled        Code = "canceled"

	// A defect in the service or in a plugin.
	CodePluginPanic Code = "plugin_panic"
	CodeInternal    Code = "internal"
)

// Error is a refusal with a code. Detail is shown to the caller and holds no secret; Err is the
// cause for the log and is never shown.
type Error struct {
	Code   Code
	Detail string
	// RetryAfter is how long a caller should wait before trying again; 0 when waiting is not the
	// remedy.
	RetryAfter time.Duration
	// Problems are what is wrong with each setting, where the request brought some; shown to the
	// caller like Detail.
	Problems []Problem
	Err      error
}

// Error returns code, detail and cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return string(e.Code) + ": " + e.Detail + ": " + e.Err.Error()
	}
	return string(e.Code) + ": " + e.Detail
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an [Error] whose detail is the formatted text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// AsError returns err as an [Error]. A context that ended becomes [CodeCanceled] or [CodeTimeout];
// anything without a code becomes [CodeInternal] with a detail that gives nothing away.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeTimeout, Detail: "the request ran out of time", RetryAfter: time.Second, Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeCanceled, Detail: "the caller went away", RetryAfter: time.Second, Err: err}
	}
	return &Error{Code: CodeInternal, Detail: "an internal error; the log of the service says more", Err: err}
}

// CodeOf returns the code of err, [CodeInternal] when it has none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}
