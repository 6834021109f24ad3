package seqd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Code is the kind of an [Error]. Callers branch on it, so the meaning of a code never changes.
type Code string

// The codes, grouped by who can act on them.
const (
	// The request is wrong. The same request would fail again.
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
	// CodePreconditionFailed is for a change whose If-Match names another revision than the current
	// one.
	CodePreconditionFailed   Code = "precondition_failed"
	CodeBodyTooLarge         Code = "body_too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeURITooLong           Code = "uri_too_long"
	CodeHeadersTooLarge      Code = "headers_too_large"
	// CodeInvalidKey is for a key that is malformed, missing, or given where none is expected.
	CodeInvalidKey Code = "invalid_key"
	CodeInvalidTTL Code = "invalid_ttl"
	// CodeTooManyKeys is for a new key of a biz type that has as many as its definition allows.
	CodeTooManyKeys Code = "too_many_keys"

	// The state of a reservation is in the way. CodeTooManyReserved ends when reservations do.
	CodeTooManyReserved      Code = "too_many_reserved"
	CodeUnknownReservation   Code = "unknown_reservation"
	CodeReservationExpired   Code = "reservation_expired"
	CodeReservationReleased  Code = "reservation_released"
	CodeReservationConfirmed Code = "reservation_confirmed"

	// CodeNumberVoid is for a request that is repeated after its number was made void.
	CodeNumberVoid Code = "number_void"
	// CodeIdempotencyKeyReused is for a request whose Idempotency-Key was used with another
	// request.
	CodeIdempotencyKeyReused Code = "idempotency_key_reused"

	// An operator has to act.
	CodeConflict  Code = "conflict"
	CodeDisabled  Code = "disabled"
	CodeExhausted Code = "exhausted"
	// CodeStoreFailedOver is for a biz type, key or period that cannot begin, or that cannot continue
	// without a gap: the store failed over and may have lost its counter.
	CodeStoreFailedOver Code = "store_failed_over"

	// The same request may succeed later.
	CodeRateLimited Code = "rate_limited"
	// CodeTooManyAnswers and CodeAnswersFull are for a new Idempotency-Key or reservation: what is
	// kept for those of its owner, or for all, takes as many bytes as it may. It ends when some do.
	CodeTooManyAnswers   Code = "too_many_answers"
	CodeAnswersFull      Code = "answers_full"
	CodeStarting         Code = "starting"
	CodeStopping         Code = "stopping"
	CodeOverloaded       Code = "overloaded"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeRedisUnavailable Code = "redis_unavailable"
	// CodeCursorContested is reported, but refuses nothing: several cursors of one biz type take
	// turns, so numbers are not in order over the nodes.
	CodeCursorContested Code = "cursor_contested"
	CodeClockRollback   Code = "clock_rollback"
	CodeNoMachineID     Code = "no_machine_id"
	CodeTimeout         Code = "timeout"
	CodeCanceled        Code = "canceled"

	// The service or a plugin has a defect.
	CodePluginPanic Code = "plugin_panic"
	CodeInternal    Code = "internal"
)

// Error is a refusal with a code. Detail is shown to the caller, so it must not contain a secret.
// Err is the cause. It is logged and never shown.
type Error struct {
	Code   Code
	Detail string
	// RetryAfter is how long a caller should wait before it tries again, 0 if waiting does not
	// help.
	RetryAfter time.Duration
	// Problems are the problems of settings in the request. They are shown to the caller.
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

// Errorf returns an [Error] whose detail is the formatted text.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// AsError returns err as an [Error]. The error of a context becomes [CodeCanceled] or
// [CodeTimeout]. Any other error becomes [CodeInternal], with a detail that reveals nothing.
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

// Defect reports whether a code means a defect of the program or of a plugin.
func (c Code) Defect() bool { return c == CodeInternal || c == CodePluginPanic }

// CodeOf returns the code of err, [CodeInternal] if it has none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}
