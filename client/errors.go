package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code is the kind of an [Error]. It is an error itself, so that it can be the target of
// [errors.Is]. A later version of the service may have codes that are not listed here.
type Code string

// Error returns the code.
func (c Code) Error() string { return "seqd: " + string(c) }

// Codes of the service, with their status. They are written from codes.go of the service.
const (
	ErrInvalidBizType       Code = "invalid_biz_type"       // 400: This is not a name of a biz type
	ErrInvalidCount         Code = "invalid_count"          // 400: This is not a possible count
	ErrInvalidID            Code = "invalid_id"             // 400: This is not an ID of this biz type
	ErrInvalidKey           Code = "invalid_key"            // 400: The key is wrong or missing
	ErrInvalidTTL           Code = "invalid_ttl"            // 400: This is not a possible time
	ErrInvalidRequest       Code = "invalid_request"        // 400: The request is not valid
	ErrInvalidDefinition    Code = "invalid_definition"     // 400: The definition has problems
	ErrUnauthorized         Code = "unauthorized"           // 401: You are not signed in
	ErrForbidden            Code = "forbidden"              // 403: This is not allowed
	ErrUnknownBizType       Code = "unknown_biz_type"       // 404: There is no biz type of this name
	ErrUnknownReservation   Code = "unknown_reservation"    // 404: There is no such reservation
	ErrUnknownPool          Code = "unknown_pool"           // 404: There is no pool of this name
	ErrUnknownJob           Code = "unknown_job"            // 404: There is no such job
	ErrUnknownSubscription  Code = "unknown_subscription"   // 404: There is no subscription of this name
	ErrNotFound             Code = "not_found"              // 404: There is nothing at this address
	ErrMethodNotAllowed     Code = "method_not_allowed"     // 405: The node does not support this
	ErrConflict             Code = "conflict"               // 409: This does not fit what is there already
	ErrExhausted            Code = "exhausted"              // 409: All numbers are used up
	ErrStoreFailedOver      Code = "store_failed_over"      // 409: The store failed over and may have lost counters
	ErrDisabled             Code = "disabled"               // 409: The biz type is disabled
	ErrTooManyKeys          Code = "too_many_keys"          // 409: There are as many keys as allowed
	ErrTooManyReserved      Code = "too_many_reserved"      // 409: Too many numbers are reserved
	ErrReservationExpired   Code = "reservation_expired"    // 409: The reservation has expired
	ErrReservationReleased  Code = "reservation_released"   // 409: The reservation was released
	ErrReservationConfirmed Code = "reservation_confirmed"  // 409: The reservation is confirmed
	ErrNumberVoid           Code = "number_void"            // 409: The number is void
	ErrLeaseLost            Code = "lease_lost"             // 409: The lease has ended
	ErrJobNotDone           Code = "job_not_done"           // 409: The job has not issued all its numbers yet
	ErrEventsGone           Code = "events_gone"            // 410: These events are not kept any more
	ErrJobEnded             Code = "job_ended"              // 409: The job has ended, perhaps before it had issued all its numbers
	ErrPreconditionFailed   Code = "precondition_failed"    // 412: Somebody else changed this meanwhile
	ErrBodyTooLarge         Code = "body_too_large"         // 413: This is too large
	ErrURITooLong           Code = "uri_too_long"           // 414: The address is too long
	ErrUnsupportedMediaType Code = "unsupported_media_type" // 415: The node does not read this kind of text
	ErrIdempotencyKeyReused Code = "idempotency_key_reused" // 422: An Idempotency-Key was used twice
	ErrHeadersTooLarge      Code = "headers_too_large"      // 431: The headers are too large
	ErrRateLimited          Code = "rate_limited"           // 429: Too many requests
	ErrTooManyJobs          Code = "too_many_jobs"          // 429: There are as many jobs as allowed
	ErrTooManyAnswers       Code = "too_many_answers"       // 429: Too much is kept for your Idempotency-Keys and reservations
	ErrAnswersFull          Code = "answers_full"           // 507: Too much is kept for Idempotency-Keys and reservations
	ErrStarting             Code = "starting"               // 503: The node is starting
	ErrStopping             Code = "stopping"               // 503: The node is stopping
	ErrOverloaded           Code = "overloaded"             // 503: The node has too much to do
	ErrStoreUnavailable     Code = "store_unavailable"      // 503: The store does not answer
	ErrNoCoordinator        Code = "no_coordinator"         // 503: The coordinator does not answer
	ErrRedisUnavailable     Code = "redis_unavailable"      // 503: Redis does not answer
	ErrCursorContested      Code = "cursor_contested"       // 503: Nodes take numbers in turns
	ErrClockRollback        Code = "clock_rollback"         // 503: A clock went back
	ErrNoMachineID          Code = "no_machine_id"          // 503: No machine ID is free
	ErrTimeout              Code = "timeout"                // 503: It took too long
	ErrCanceled             Code = "canceled"               // 503: The caller did not wait for the answer
	ErrPluginPanic          Code = "plugin_panic"           // 500: A plugin has a defect
	ErrInternal             Code = "internal"               // 500: Something in the node is broken
)

// Codes of the client. The service does not have them.
const (
	// ErrUnreachable is for a node that gave no answer in time, or no whole one.
	ErrUnreachable Code = "unreachable"
	// ErrBadAnswer is for an answer that is not one of the service to this request: a proxy's page,
	// an answer out of a cache, a wrong number of IDs, an ID twice. None of its numbers is used.
	ErrBadAnswer Code = "bad_answer"
	// ErrClosed is for a [Buffer] or a [Snowflake] that was closed.
	ErrClosed Code = "closed"
)

// Error is a refusal of the service, or what came of a request instead of an answer. It contains no
// secret.
type Error struct {
	// Code is what to branch on, directly or by [errors.Is].
	Code Code
	// Detail is for people.
	Detail string
	// Status is the HTTP status, 0 without an answer.
	Status int
	// RetryAfter is how long the service asks callers to wait, 0 if it does not.
	RetryAfter time.Duration
	// RequestID identifies the request in the log of the service.
	RequestID string
	// Addr is the address of the node.
	Addr string
	// Problems says what is wrong with the settings of a definition.
	Problems []Problem
	// Unknown is true if the request may have been carried out all the same. A request for numbers
	// then skips some.
	Unknown bool
	// Err is the cause, if there is one.
	Err error
}

// Problem is what is wrong with one setting of a definition.
type Problem struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// Error returns code, detail, and which request it was.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("seqd: " + string(e.Code))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, p := range e.Problems {
		if !strings.Contains(e.Detail, p.Text) {
			b.WriteString("; " + p.Key + ": " + p.Text)
		}
	}
	sep := " ("
	for _, text := range []string{statusText(e.Status), e.Addr, e.request()} {
		if text != "" {
			b.WriteString(sep + text)
			sep = ", "
		}
	}
	if sep == ", " {
		b.WriteByte(')')
	}
	return b.String()
}

func (e *Error) request() string {
	if e.RequestID == "" {
		return ""
	}
	return "request " + e.RequestID
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

// Is reports whether target is the code of e.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later.
func (e *Error) Temporary() bool {
	local := e.Status == 0 && (e.Code == ErrNoMachineID || e.Code == ErrClockRollback || e.Code == ErrTimeout) // of a Snowflake
	return local || e.Code == ErrUnreachable || e.Status == http.StatusTooManyRequests || e.gateway()
}

// gateway reports whether the node, or a proxy before it, cannot answer now.
func (e *Error) gateway() bool {
	return e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout
}

// untouched reports whether the node refused the request before it did anything.
func (e *Error) untouched() bool {
	switch e.Code {
	case ErrStarting, ErrStopping, ErrOverloaded, ErrRateLimited, ErrAnswersFull:
		return true
	}
	return e.Status >= 400 && e.Status < 500
}

// longestDetail is how much of a text of the service goes into an error, in bytes.
const longestDetail = 4096

// refusal returns the error that an answer with another status than 2xx means.
func (c *Client) refusal(a *answer) *Error {
	e := &Error{Status: a.status, RequestID: a.id, Addr: a.addr, RetryAfter: retryAfter(a.header.Get("Retry-After"), time.Now())}
	var p struct {
		Code      Code      `json:"code"`
		Detail    string    `json:"detail"`
		RequestID string    `json:"requestId"`
		Problems  []Problem `json:"problems"`
	}
	if mediaType(a.header) == "application/problem+json" && json.Unmarshal(a.body, &p) == nil && p.Code != "" {
		e.Code, e.Detail, e.Problems = Code(c.clean(string(p.Code))), c.clean(p.Detail), p.Problems
		for i := range e.Problems {
			e.Problems[i].Key, e.Problems[i].Text = c.clean(e.Problems[i].Key), c.clean(e.Problems[i].Text)
		}
		if p.RequestID != "" {
			e.RequestID = c.clean(p.RequestID)
		}
		e.Unknown = !e.untouched()
		return e
	}
	e.Code, e.Unknown = ErrBadAnswer, e.Status >= 500
	switch {
	case e.Status == http.StatusTooManyRequests:
		e.Code, e.Detail = ErrRateLimited, "a proxy limits requests, not seqd"
	case e.gateway():
		e.Code, e.Detail = ErrUnreachable, "a proxy answered, not seqd"
	case e.Status >= 300 && e.Status < 400:
		e.Detail = "the address redirects, and redirects are not followed; give the address that it leads to"
	default:
		e.Detail = "the answer is not one of seqd: " + c.mediaOf(a)
	}
	return e
}

// mediaOf describes the media type of an answer.
func (c *Client) mediaOf(a *answer) string {
	media := a.header.Get("Content-Type")
	if media == "" {
		return "it has no Content-Type"
	}
	if len(media) > 100 {
		media = media[:100]
	}
	return "its Content-Type is " + c.clean(media)
}

// badAnswer returns the error for an answer whose numbers must not be used.
func badAnswer(format string, args ...any) *Error {
	return &Error{Code: ErrBadAnswer, Detail: fmt.Sprintf(format, args...), Unknown: true}
}

// clean makes a text that came over the network fit for an error: without control characters,
// without the token, and not too long.
func (c *Client) clean(text string) string {
	if c.token != "" {
		text = strings.ReplaceAll(text, c.token, "(token)")
	}
	if len(text) > longestDetail {
		text = text[:longestDetail] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

// longestWait bounds what a Retry-After can say.
const longestWait = 24 * time.Hour

// retryAfter reads the header: seconds, or a date. 0 means that it says nothing.
func retryAfter(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err == nil {
		return min(time.Duration(min(seconds, uint64(longestWait/time.Second)))*time.Second, longestWait)
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(date.Sub(now), 0), longestWait)
	}
	return 0
}

// asError returns err as an [*Error], or nil.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}
