package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Header values shared by all answers. Do not modify them.
var (
	jsonType    = []string{"application/json"}
	textType    = []string{"text/plain; charset=utf-8"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	bearer      = []string{"Bearer"}
)

// status maps every code to its HTTP status. Any other code comes from foreign code and is an
// internal error.
var status = map[seqd.Code]int{
	seqd.CodeInvalidBizType:       http.StatusBadRequest,
	seqd.CodeInvalidCount:         http.StatusBadRequest,
	seqd.CodeInvalidID:            http.StatusBadRequest,
	seqd.CodeInvalidRequest:       http.StatusBadRequest,
	seqd.CodeInvalidDefinition:    http.StatusBadRequest,
	seqd.CodeUnauthorized:         http.StatusUnauthorized,
	seqd.CodeForbidden:            http.StatusForbidden,
	seqd.CodeUnknownBizType:       http.StatusNotFound,
	seqd.CodeNotFound:             http.StatusNotFound,
	seqd.CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	seqd.CodeConflict:             http.StatusConflict,
	seqd.CodeDisabled:             http.StatusConflict,
	seqd.CodeExhausted:            http.StatusConflict,
	seqd.CodePreconditionFailed:   http.StatusPreconditionFailed,
	seqd.CodeBodyTooLarge:         http.StatusRequestEntityTooLarge,
	seqd.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	seqd.CodeURITooLong:           http.StatusRequestURITooLong,
	seqd.CodeHeadersTooLarge:      http.StatusRequestHeaderFieldsTooLarge,
	seqd.CodeRateLimited:          http.StatusTooManyRequests,
	seqd.CodeIdempotencyKeyReused: http.StatusUnprocessableEntity,
	seqd.CodePluginPanic:          http.StatusInternalServerError,
	seqd.CodeInternal:             http.StatusInternalServerError,
	seqd.CodeStarting:             http.StatusServiceUnavailable,
	seqd.CodeStopping:             http.StatusServiceUnavailable,
	seqd.CodeOverloaded:           http.StatusServiceUnavailable,
	seqd.CodeStoreUnavailable:     http.StatusServiceUnavailable,
	seqd.CodeRedisUnavailable:     http.StatusServiceUnavailable,
	seqd.CodeClockRollback:        http.StatusServiceUnavailable,
	seqd.CodeNoMachineID:          http.StatusServiceUnavailable,
	seqd.CodeCursorContested:      http.StatusServiceUnavailable,
	seqd.CodeTimeout:              http.StatusServiceUnavailable,
	seqd.CodeCanceled:             http.StatusServiceUnavailable,
}

// problem is an error as in RFC 9457.
type problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Code      seqd.Code `json:"code"`
	Detail    string    `json:"detail"`
	RequestID string    `json:"requestId,omitempty"`
	// Problems lists what is wrong with the settings of a definition.
	Problems []settingProblem `json:"problems,omitempty"`
	BizTypes []unready        `json:"bizTypes,omitempty"`
	// Unready is how many biz types cannot issue. BizTypes names the first of them.
	Unready int `json:"unready,omitempty"`
	// Details are what strategies report to operators, in the answer of /readyz.
	Details details `json:"details,omitempty"`
}

// settingProblem is what is wrong with one setting.
type settingProblem struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// unready is one biz type in the answer of /readyz.
type unready struct {
	Name   string    `json:"name"`
	Code   seqd.Code `json:"code"`
	Detail string    `json:"detail"`
}

func newProblem(err *seqd.Error) problem {
	code := err.Code
	number, known := status[code]
	if !known {
		code, number = seqd.CodeInternal, http.StatusInternalServerError
	}
	p := problem{Type: "about:blank", Title: http.StatusText(number), Status: number, Code: code, Detail: err.Detail}
	for _, wrong := range err.Problems {
		p.Problems = append(p.Problems, settingProblem(wrong))
	}
	return p
}

// fail writes the answer for an error. Every error is written here.
func (a *API) fail(c *gin.Context, err error) {
	shown := seqd.AsError(err)
	a.logCause(c, shown)
	a.failWith(c, shown, newProblem(shown))
}

// logCause logs why a request of an administrator was refused, if the answer does not say all of
// it.
func (a *API) logCause(c *gin.Context, err *seqd.Error) {
	if err.Err != nil && administrative(c) && !errors.Is(err, context.Canceled) {
		a.opts.Log.LogAttrs(c.Request.Context(), slog.LevelWarn, "an administrator's request was refused", slog.String("requestId", requestID(c)), slog.Any("error", err))
	}
}

func (a *API) failWith(c *gin.Context, err *seqd.Error, p problem) {
	a.traceCode(c, p.Code)
	p.RequestID = requestID(c)
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	wait := err.RetryAfter
	if wait <= 0 && (p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests) {
		wait = time.Second
	}
	if p.Status == http.StatusUnauthorized {
		header["Www-Authenticate"] = bearer
	}
	if wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
	writeJSON(c, p.Status, problemType, p)
}

// mostListed is how many biz types /readyz names.
const mostListed = 100

// readyz answers 503 while a biz type cannot issue for a reason of this node or its back ends.
// Otherwise it answers 200, with a list of the biz types that are degraded. Names, machine IDs and
// addresses are only shown to callers with the scope read. Load balancers, which have no token, do
// not need them.
func (a *API) readyz(c *gin.Context) {
	issuer := a.issuer.Load()
	switch {
	case a.draining.Load():
		a.fail(c, &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping"})
		return
	case issuer == nil:
		a.fail(c, a.waiting.Load())
		return
	}
	list, total := issuer.Health(mostListed)
	if total == 0 {
		a.ready(c, issuer)
		return
	}
	worst := list[0].Reason
	p := newProblem(&seqd.Error{Code: worst.Code, Detail: "biz types cannot issue; a caller whose token has the scope read is told which and why"})
	p.Status, p.Title = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)
	if a.mayRead(c) {
		p.Detail = strconv.Itoa(total) + " biz types cannot issue"
		p.Unready = total
		p.BizTypes, p.Details = lines(list), detailsOf(issuer)
	}
	a.failWith(c, worst, p)
}

// readiness is the answer of /readyz if every biz type can issue.
type readiness struct {
	Status string `json:"status"`
	// Degraded is how many biz types are degraded. BizTypes names the first of them.
	Degraded int       `json:"degraded,omitempty"`
	BizTypes []unready `json:"bizTypes,omitempty"`
	Details  details   `json:"details,omitempty"`
}

// details are what strategies report to operators, by biz type.
type details map[string]map[string]any

func detailsOf(issuer *seqd.Issuer) details {
	list := issuer.Details(mostListed)
	if len(list) == 0 {
		return nil
	}
	d := make(details, len(list))
	for _, of := range list {
		d[of.BizType] = of.Values
	}
	return d
}

// ready answers that every biz type can issue.
func (a *API) ready(c *gin.Context, issuer *seqd.Issuer) {
	answer := readiness{Status: "ready"}
	list, total := issuer.Degraded(mostListed)
	if total > 0 {
		answer.Status = "degraded"
	}
	if a.mayRead(c) {
		answer.Degraded, answer.BizTypes, answer.Details = total, lines(list), detailsOf(issuer)
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, answer)
}

// lines converts a list for the answer of /readyz. It leaves out the causes, which may contain what
// callers must not see. The log has them.
func lines(list []seqd.Unready) []unready {
	lines := make([]unready, len(list))
	for i, u := range list {
		lines[i] = unready{Name: u.BizType, Code: newProblem(u.Reason).Code, Detail: u.Reason.Detail}
	}
	return lines
}

// writeJSON writes v, which must be encodable.
func writeJSON(c *gin.Context, code int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	write(c, code, contentType, body)
}

// write sends a complete answer. It sets the Content-Length if net/http would not, so that large
// answers are not chunked.
func write(c *gin.Context, code int, contentType []string, body []byte) {
	settle(c, body)
	header := c.Writer.Header()
	header["Content-Type"] = contentType
	if len(body) > 2048 {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Writer.WriteHeader(code)
	// An error means that the caller has gone. Its numbers are skipped.
	_, _ = c.Writer.Write(body)
}

// appendQuoted appends s as a JSON string without HTML escaping.
func appendQuoted(dst []byte, s []byte) []byte {
	if plain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(string(s)); err != nil {
		panic(err) // a string can always be encoded
	}
	return append(dst, bytes.TrimRight(buf.Bytes(), "\n")...)
}

// plain reports whether s needs no escaping in a JSON string.
func plain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// writeLimit sets the fields of draft-ietf-httpapi-ratelimit-headers-07 for the caller's rate
// limit. reset is in seconds, rounded up.
func writeLimit(header http.Header, limit seqd.Limit) {
	header["Ratelimit-Limit"] = []string{strconv.FormatInt(limit.Quota, 10)}
	header["Ratelimit-Remaining"] = []string{strconv.FormatInt(limit.Remaining, 10)}
	header["Ratelimit-Reset"] = []string{strconv.FormatInt(int64(math.Ceil(limit.Reset.Seconds())), 10)}
}
