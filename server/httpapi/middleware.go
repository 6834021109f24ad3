package httpapi

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/connections"
	"github.com/seqd/seqd/server/gate"
)

// middleware is what happens around every request. There is no other middleware.
type middleware struct {
	gate     *gate.Gate
	counters routeCounters // nil without metrics
	tracing  *tracing
	access   accessLog
	audit    auditLog
	limits   *limits
	inFlight *inFlightLimits
	errors   *errorWriter
	extras   *extras
	noPlace  *busyReply
	// encrypted is true if connections use TLS
	encrypted bool
}

func newMiddleware(g *gate.Gate, opts Options) *middleware {
	tracing, extras := &tracing{opts.Tracer}, newExtras(opts.Extra)
	return &middleware{
		gate: g, tracing: tracing,
		access:   accessLog{lines: &g.AccessLog, log: g.Log, proxies: opts.Proxies},
		audit:    auditLog{opts.Audit, opts.Proxies},
		limits:   newLimits(g, opts, extras),
		inFlight: newInFlightLimits(g, opts), errors: &errorWriter{failures: g.Failures, tracing: tracing, extras: extras},
		extras: extras, encrypted: opts.TLS,
		noPlace: newBusyReply(gate.NewEpisodes("requests were refused: so many connections are open that only probes are answered on new ones", g.Log), gate.NoPlace),
	}
}

// Header values of any answer. Do not modify them.
var (
	closing = []string{"close"} // the answer ends its connection
	noSniff = []string{"nosniff"}
	oneYear = []string{"max-age=31536000"} // browsers use HTTPS alone for so long, for this name
)

// around handles a request: request ID, span, limits that do not depend on the route, panics,
// access log. A request counts as in flight only once its body has arrived. Otherwise a client that
// sends its body byte by byte would take a place.
func (m *middleware) around(c *gin.Context) {
	id, limit, place := idOf(c.Request, m.gate.IDs), m.inFlight.of(c), placeOf(c.Request)
	header := c.Writer.Header()
	header["X-Request-Id"], header["X-Content-Type-Options"] = id, noSniff
	if m.encrypted {
		header["Strict-Transport-Security"] = oneYear
	}
	if m.ends(c.Request) || place.Spare() {
		header["Connection"] = closing
	}
	if m.counters != nil {
		defer m.counters.count(c, uptime())
	}
	// probes and scrapes are frequent and say nothing about issuing, so they are not traced
	if m.tracing.tracer != nil && limit == m.inFlight.requests {
		if span := m.tracing.begin(c); span != nil {
			defer endSpan(c, span, id[0])
		}
	}
	if m.access.lines.On() {
		defer m.access.write(c, id[0], time.Now())
	}
	audit := audited(c) || m.extras.changes(c)
	if audit {
		defer func() { m.audit.write(c, id[0], targetOf(c), c.Writer.Status()) }()
	}
	defer m.errors.recover(c)
	if !place.Begin() {
		m.refuseEnded(c)
		return
	}
	answered := false
	defer func() { place.End(answered) }()
	if err := m.limits.check(c); err != nil {
		closeGently(c)
		c.Abort()
		m.errors.fail(c, err)
		if !audit && m.gate.Guard != nil {
			m.audit.writeRefused(c, id[0], seqd.CodeOf(err))
		}
		return
	}
	if answered = m.shown(c, place); !answered {
		m.refuseEnded(c)
		return
	}
	if place.Spare() && limit != nil {
		m.errors.refuse(c, m.noPlace)
		return
	}
	if limit != nil {
		if !limit.Enter() {
			m.errors.refuse(c, limit.busy)
			return
		}
		defer limit.Leave()
	}
	c.Next()
	if !audit && c.GetBool(auditToo) {
		m.audit.write(c, id[0], targetOf(c), c.Writer.Status())
	}
	if m.gate.Guard == nil || m.extras.of(c) == nil {
		return
	}
	code := seqd.Code(c.Writer.Header().Get("Seqd-Error")) // the route has checked the token itself
	answered = code != seqd.CodeUnauthorized && code != seqd.CodeForbidden
	if !audit {
		m.audit.writeRefused(c, id[0], code)
	}
}

// refuseEnded refuses a request on a connection that has been ended. The connection may not be
// closed yet, so the caller may still get the answer.
func (m *middleware) refuseEnded(c *gin.Context) {
	c.Writer.Header()["Connection"] = closing
	closeGently(c)
	c.Abort()
	m.errors.fail(c, gate.Ended())
}

// shown says that the caller of a request is known, if it is or need not be. It returns false if
// the connection has been closed to make room for others. Probes leave a stranger what it is, and
// extra routes say themselves who is known: see [Visit.As].
func (m *middleware) shown(c *gin.Context, place *connections.Place) bool {
	return m.gate.Guard != nil && callerName(c) == "" || place.Show()
}

// ends reports whether the answer to a request ends the connection.
//
// It does so while the service stops, so that the caller does not send its next request on a
// connection that is about to close.
//
// It also does so if the length of the request was ambiguous: net/http removes a Content-Length
// beside a Transfer-Encoding, and a Transfer-Encoding of an HTTP/1.0 request, without telling. A
// proxy in front may have used the other header, and so may take what follows for the next request.
// Therefore nothing may follow (RFC 9112, section 6.1).
func (m *middleware) ends(r *http.Request) bool {
	if m.gate.Draining() || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		return true
	}
	return m.gate.Connections.Crowded()
}

// limits are the limits of every request, whatever its route does.
type limits struct {
	admission *admission
	extras    *extras
	mostBody  atomic.Int64 // the largest body, in bytes
}

func newLimits(g *gate.Gate, opts Options, extras *extras) *limits {
	l := &limits{admission: newAdmission(g, opts, extras), extras: extras}
	l.mostBody.Store(opts.MaxBodyBytes)
	return l
}

// change applies the options that a reload changes.
func (l *limits) change(opts Options) {
	l.admission.reopen(opts)
	l.mostBody.Store(opts.MaxBodyBytes)
}

// maxURIBytes is the longest request target. A longer one is answered with 414.
const maxURIBytes = 4096

// maxFormBytes is the largest form: its parameters could be in the query.
const maxFormBytes = maxURIBytes

// check returns an error if the target is too long, the caller may not make the request, its
// Idempotency-Key would be ignored, the body is too large, or the route has none. The body of a
// caller without permission is not read. A body that means nothing is read too, so that a caller
// with a too large one gets an answer instead of a reset. A body that means something is kept for
// the handler.
func (l *limits) check(c *gin.Context) error {
	if len(c.Request.RequestURI) > maxURIBytes {
		return seqd.Errorf(seqd.CodeURITooLong, "the request target has more than %d bytes", maxURIBytes)
	}
	if err := l.admission.allow(c); err != nil {
		return err
	}
	if err := l.checkKeyless(c); err != nil {
		return err
	}
	media, bodies := mediaOf(c), bodyReader{most: l.mostBody.Load()}
	if media != nil && l.extras.of(c) == nil {
		return bodies.hold(c, media)
	}
	switch {
	case c.Request.ContentLength == 0:
		return nil
	case l.extras.readsForm(c): // of somebody who has shown no token yet
		return bodyReader{most: min(bodies.most, maxFormBytes)}.hold(c, mediaForm)
	case l.extras.object(c) > 0:
		return bodyReader{most: l.extras.object(c)}.hold(c, mediaJSON)
	case l.extras.of(c) == nil && c.FullPath() != "":
		return bodies.refuse(c)
	}
	return bodies.discard(c)
}
