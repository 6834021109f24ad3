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

// Header values that every answer shares; they are never written to.
var (
	jsonType    = []string{"application/json"}
	textType    = []string{"text/plain; charset=utf-8"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	bearer      = []string{"Bearer"}
)

// status maps every code to its HTTP status. A code that is not here came from foreign code and is
// an internal error.
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

// problem is an error by RFC 9457.
type problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Code      seqd.Code `json:"code"`
	Detail    string    `json:"detail"`
	RequestID string    `json:"requestId,omitempty"`
	// Problems are what is wrong with each setting of a definition.
	Problems []settingProblem `json:"problems,omitempty"`
	BizTypes []unready        `json:"bizTypes,omitempty"`
	// Unready is how many biz types cannot issue, of which BizTypes names the first.
	Unready int `json:"unready,omitempty"`
	// Details is what strategies tell an operator, in the answer of /readyz.
	Details details `json:"details,omitempty"`
}

// settingProblem is what is wrong with one setting.
type settingProblem struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// unready is one line of /readyz.
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

// fail is the one writer of errors.
func (a *API) fail(c *gin.Context, err error) {
	refusal := seqd.AsError(err)
	a.logCause(c, refusal)
	a.failWith(c, refusal, newProblem(refusal))
}

// logCause writes to the log why what an administrator asked for was refused, where the answer does
// not say it all.
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

// readyz says 503 while a biz type cannot issue for a reason of this node or its back ends, and 200
// with a list while all can but some not as they should. Names, machine IDs and addresses are for
// those who may read; balancers, which have no token, need none of them.
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

// readiness is the answer of /readyz when every biz type can issue.
type readiness struct {
	Status string `json:"status"`
	// Degraded is how many biz types do not issue as they should, of which BizTypes names the
	// first.
	Degraded int       `json:"degraded,omitempty"`
	BizTypes []unready `json:"bizTypes,omitempty"`
	Details  details   `json:"details,omitempty"`
}

// details is what strategies tell an operator, by biz type.
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

// lines are the lines of /readyz. The causes stand in the log: they may hold what callers must not
// see.
func lines(list []seqd.Unready) []unready {
	lines := make([]unready, len(list))
	for i, u := range list {
		lines[i] = unready{Name: u.BizType, Code: newProblem(u.Reason).Code, Detail: u.Reason.Detail}
	}
	return lines
}

// writeJSON writes v, which always can be encoded.
func writeJSON(c *gin.Context, code int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	write(c, code, contentType, body)
}

// write sends a complete answer. Where net/http would not compute the length itself, it is given,
// so that large answers are not sent in chunks.
func write(c *gin.Context, code int, contentType []string, body []byte) {
	settle(c, body)
	header := c.Writer.Header()
	header["Content-Type"] = contentType
	if len(body) > 2048 {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Writer.WriteHeader(code)
	// An error means that the caller is gone; its numbers are skipped and nobody is left to tell.
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
		panic(err) // a string always can be encoded
	}
	return append(dst, bytes.TrimRight(buf.Bytes(), "\n")...)
}

// plain reports whether a JSON string holds s as it is.
func plain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// writeLimit says where the caller stands against a rate limit, in the fields of
// draft-ietf-httpapi-ratelimit-headers-07; reset is in seconds, rounded up.
func writeLimit(header http.Header, limit seqd.Limit) {
	header["Ratelimit-Limit"] = []string{strconv.FormatInt(limit.Quota, 10)}
	header["Ratelimit-Remaining"] = []string{strconv.FormatInt(limit.Remaining, 10)}
	header["Ratelimit-Reset"] = []string{strconv.FormatInt(int64(math.Ceil(limit.Reset.Seconds())), 10)}
}
