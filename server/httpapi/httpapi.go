// Package httpapi serves the HTTP API: routes, JSON, errors. It knows the [seqd.Issuer] and nothing
// of strategies, stores or plugins.
//
// [API] is the handler. [New] builds it and lists the routes; API.around is the middleware;
// API.fail writes every error. To add a route, register it in New, decide in API.need which scope
// it needs, and describe it in package openapi. To add an error code, add it to the map status.
package httpapi

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Options are the options of [New].
type Options struct {
	// MaxCount is the largest ?count=.
	MaxCount int
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// TrustedProxies are addresses and networks whose X-Forwarded-For header is trusted.
	TrustedProxies []string
	// Guard decides who may call. Without it everybody may, except web pages of other origins.
	Guard Guard
	// Hosts are names, without a port, that are accepted in the Host header if Guard is nil,
	// besides IP addresses and localhost.
	Hosts []string
	// PublicMetrics serves what describes the service, but not its numbers, without a token.
	PublicMetrics bool
	// Tokens is what /tokens manages. If it is nil, there are no such routes.
	Tokens Tokens
	// MaxInFlight is how many requests are answered at once; 0 means no limit. Further requests are
	// refused at once with [seqd.CodeOverloaded], except /healthz, /readyz and /metrics, which are
	// neither refused nor counted.
	MaxInFlight int
	// MaxInFlightBytes is how much memory large answers may take in total; 0 means no limit.
	// Further requests for large answers are refused as those above MaxInFlight are.
	MaxInFlightBytes int64
	// AccessLog logs requests: per second at most AccessLogPerSecond with a status below 500, and
	// as many with a higher one. If that is 0, it logs all.
	AccessLog          bool
	AccessLogPerSecond int
	// Answers keeps the answers to requests with an Idempotency-Key. If it is nil, such requests
	// are refused.
	Answers Answers
	// Metrics counts requests and serves /metrics. If it is nil, there is no such route.
	Metrics Metrics
	Log     *slog.Logger
}

// closing is the Connection header of an answer that ends its connection. Do not modify it.
var closing = []string{"close"}

// maxURIBytes is the longest request target. A longer one is answered with 414.
const maxURIBytes = 4096

// API is the handler of all requests. It answers that the service is starting until [API.Ready] is
// called.
type API struct {
	opts     Options
	engine   *gin.Engine
	issuer   atomic.Pointer[seqd.Issuer]
	draining atomic.Bool
	waiting  atomic.Pointer[seqd.Error] // why there is no issuer yet
	admin    atomic.Pointer[administration]
	ids      requestIDs
	pages    *pages // nil if callers need a token
	inFlight *inFlight
	room     *room
	scrapes  *inFlight // the places for requests of /metrics
	// counts requests, by gin's name of the route; nil without metrics
	counters map[string]func(method string, status int)
	keyed    keyed
	access   *accessLog
	tracer   Tracer                   // nil without tracing
	listener atomic.Pointer[listener] // nil without a Listener
}

// New returns an API that is starting.
func New(opts Options) (*API, error) {
	gin.SetMode(gin.ReleaseMode)
	a := &API{
		opts: opts, engine: gin.New(), ids: newRequestIDs(),
		inFlight: newInFlight(opts.MaxInFlight, "server.maxInFlight", opts.Log), access: newAccessLog(opts.AccessLogPerSecond),
		room: newRoom(opts.MaxInFlightBytes, opts.Log),
	}
	if opts.Guard == nil {
		a.pages = newPages(opts.Hosts, opts.Log)
	}
	a.waiting.Store(&seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second})
	e := a.engine
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.UseRawPath = true // an escaped slash is part of a name and not a separator
	e.RemoteIPHeaders = []string{"X-Forwarded-For"}
	if err := e.SetTrustedProxies(opts.TrustedProxies); err != nil {
		return nil, err
	}
	e.Use(a.around)
	e.GET("/seq/:bizType", a.issue)
	e.POST("/seq/:bizType", a.issue)
	e.GET("/seq/:bizType/parse/:id", a.parse)
	e.GET("/biz-types/:bizType/:resource", a.lent(a.resource))
	a.tokenRoutes()
	a.adminRoutes()
	for _, method := range []string{http.MethodGet, http.MethodHead} { // load balancers use HEAD
		e.Handle(method, "/healthz", a.healthz)
		e.Handle(method, "/readyz", a.readyz)
	}
	a.routeDocs()
	a.routeMetrics()
	e.NoRoute(func(c *gin.Context) {
		a.fail(c, seqd.Errorf(seqd.CodeNotFound, "there is nothing at this path; numbers are at /seq/{bizType}"))
	})
	e.NoMethod(func(c *gin.Context) {
		a.fail(c, seqd.Errorf(seqd.CodeMethodNotAllowed, "the method is not one of: %s", c.Writer.Header().Get("Allow")))
	})
	a.countRoutes()
	return a, nil
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Ready sets the issuer and starts issuing.
func (a *API) Ready(issuer *seqd.Issuer) { a.issuer.Store(issuer) }

// Waiting sets why there is no issuer yet.
func (a *API) Waiting(reason *seqd.Error) { a.waiting.Store(reason) }

// Drain makes /readyz answer 503 and each answer end its connection. Everything else continues.
func (a *API) Drain() { a.draining.Store(true) }

// around is the only middleware: request ID, span, limits that do not depend on the route, panics,
// access log. A request counts as in flight only once its body has arrived. Otherwise a client that
// sends its body byte by byte would take a place.
func (a *API) around(c *gin.Context) {
	id := a.ids.of(c.Request)
	c.Writer.Header()["X-Request-Id"] = id
	if a.ends(c.Request) {
		c.Writer.Header()["Connection"] = closing
	}
	if a.counters != nil {
		defer a.counted(c)
	}
	if a.tracer != nil {
		if span := a.beginSpan(c); span != nil {
			defer a.endSpan(c, span, id[0])
		}
	}
	if a.opts.AccessLog {
		defer a.logAccess(c, id[0], time.Now())
	}
	if audited(c) {
		defer a.logAudit(c, id[0])
	}
	defer a.recover(c)
	if err := a.limits(c); err != nil {
		closeGently(c)
		c.Abort()
		a.fail(c, err)
		return
	}
	if places := a.places(c); places != nil {
		if !places.enter() {
			a.refuse(c, &places.busyReply)
			return
		}
		defer places.leave()
	}
	c.Next()
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
func (a *API) ends(r *http.Request) bool {
	if a.draining.Load() || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		return true
	}
	l := a.listener.Load()
	return l != nil && l.crowded()
}

// recover answers 500 if a handler panicked. Defer it directly.
func (a *API) recover(c *gin.Context) {
	p := recover()
	if p == nil {
		return
	}
	a.opts.Log.Error("panic while answering a request", "path", discreet(c.Request.URL.Path), "requestId", requestID(c), "panic", p, "stack", string(debug.Stack()))
	c.Abort()
	if !c.Writer.Written() {
		a.fail(c, &seqd.Error{Code: seqd.CodeInternal, Detail: "an internal error; the log of the service says more"})
	}
}

// limits returns an error if the target is too long, the caller may not make the request, or the
// body is too large. The body of a caller without permission is not read. A body that means nothing
// is read too, so that a caller with a too large one gets an answer instead of a reset. A body that
// means something is kept for the handler.
func (a *API) limits(c *gin.Context) error {
	if len(c.Request.RequestURI) > maxURIBytes {
		return seqd.Errorf(seqd.CodeURITooLong, "the request target has more than %d bytes", maxURIBytes)
	}
	if err := a.allow(c); err != nil {
		return err
	}
	if media := mediaOf(c); media != nil {
		return a.holdBody(c, media)
	}
	if c.Request.ContentLength == 0 {
		return nil
	}
	return a.discardBody(c)
}

func (a *API) healthz(c *gin.Context) {
	write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`))
}
