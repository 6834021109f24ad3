package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/fewlines"
	"github.com/seqd/seqd/server/admin"
)

// problem is an error as in RFC 9457.
type problem struct {
	Type      string    `json:"type"`
	Title     string    `json:"title"`
	Status    int       `json:"status"`
	Code      seqd.Code `json:"code"`
	Detail    string    `json:"detail"`
	RequestID string    `json:"requestId,omitempty"`
	// Problems lists what is wrong with the settings of a definition.
	Problems []admin.SettingText `json:"problems,omitempty"`
	BizTypes []unready           `json:"bizTypes,omitempty"`
	// Unready is how many biz types cannot issue. BizTypes names the first of them.
	Unready int `json:"unready,omitempty"`
	// Details are what strategies report to operators, in the answer of /readyz.
	Details details `json:"details,omitempty"`
}

func newProblem(err *seqd.Error) problem {
	m, _ := err.Code.Meaning()
	p := problem{Type: errorsPath + string(m.Code), Title: http.StatusText(m.Status), Status: m.Status, Code: m.Code, Detail: err.Detail}
	for _, wrong := range err.Problems {
		p.Problems = append(p.Problems, admin.SettingText(wrong))
	}
	return p
}

// errorWriter writes every error.
type errorWriter struct {
	failures *fewlines.Log
	tracing  *tracing
	extras   *extras
}

// handler returns a handler that runs f and answers with its error.
func (w *errorWriter) handler(f func(*gin.Context) error) gin.HandlerFunc {
	return func(c *gin.Context) {
		err := f(c)
		switch {
		case err == nil:
		case c.Writer.Written():
			w.breakOff(c, err)
		default:
			w.fail(c, err)
		}
	}
}

// breakOff ends an answer that has begun and cannot be finished. It breaks the connection:
// otherwise the caller would take what it has for all there is.
func (w *errorWriter) breakOff(c *gin.Context, err error) {
	w.tracing.code(c, seqd.CodeOf(err))
	w.failures.Warn("an answer broke off", "requestId", requestID(c), "error", err)
	panic(http.ErrAbortHandler)
}

// fail writes the answer for an error.
func (w *errorWriter) fail(c *gin.Context, err error) {
	shown := seqd.AsError(err)
	if x := w.extras.of(c); x != nil && x.Fail != nil && shown != errSpeculative { // which is for a browser, not for a client of the route
		w.failExtra(c, x, shown)
		return
	}
	w.logCause(c, shown)
	w.write(c, shown, newProblem(shown))
}

// logCause logs why a request of an administrator was refused, if the answer does not say all of
// it.
func (w *errorWriter) logCause(c *gin.Context, err *seqd.Error) {
	if err.Err != nil && administrative(c) && !errors.Is(err, context.Canceled) {
		w.failures.Warn("an administrator's request was refused", "requestId", requestID(c), "error", err)
	}
}

// write writes a problem document and the headers of its error.
func (w *errorWriter) write(c *gin.Context, err *seqd.Error, p problem) {
	w.tracing.code(c, p.Code)
	p.Type, p.RequestID = string(appendType(nil, c, p.Code)), requestID(c)
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	if p.Status == http.StatusUnauthorized {
		header["Www-Authenticate"] = bearer
	}
	setRetryAfter(header, err, p.Status)
	writeJSON(c, p.Status, problemType, p)
}

// failExtra writes the answer of an extra route for an error. The body may not say why, so a header
// does.
func (w *errorWriter) failExtra(c *gin.Context, x *Extra, err *seqd.Error) {
	p := newProblem(err) // whose code is one of those that there are
	w.tracing.code(c, p.Code)
	header := c.Writer.Header()
	header["Seqd-Error"] = []string{string(p.Code)}
	setRetryAfter(header, err, p.Status)
	x.Fail(&Visit{c: c, api: w.extras.api}, err)
}

// setRetryAfter says how long a caller should wait, if that helps.
func setRetryAfter(header http.Header, err *seqd.Error, status int) {
	wait := err.RetryAfter
	if wait <= 0 && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		wait = time.Second
	}
	if wait > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(wait.Seconds())), 10))
	}
}

// recover answers 500 if a handler panicked. Defer it directly.
func (w *errorWriter) recover(c *gin.Context) {
	p := recover()
	switch p {
	case nil:
		return
	case http.ErrAbortHandler: // see breakOff
		panic(p)
	}
	w.failures.Error("panic while answering a request", "path", discreet(c.Request.URL.Path), "requestId", requestID(c), "panic", p, "stack", string(debug.Stack()))
	c.Abort()
	if !c.Writer.Written() {
		w.fail(c, &seqd.Error{Code: seqd.CodeInternal, Detail: "an internal error; the log of the service says more"})
	}
}

// refuse answers a request for which there is no room.
func (w *errorWriter) refuse(c *gin.Context, why *busyReply) {
	c.Abort()
	if x := w.extras.of(c); x != nil && x.Fail != nil {
		why.count(c)
		w.failExtra(c, x, why.refusal())
		return
	}
	w.tracing.code(c, seqd.CodeOverloaded)
	why.answer(c)
}
