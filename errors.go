package seqd

import (
	"context"
	"errors"
	"fmt"
	"time"
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

// CodeOf returns the code of err, [CodeInternal] if it has none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return AsError(err).Code
}
