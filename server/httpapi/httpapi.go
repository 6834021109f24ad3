// Package httpapi is the HTTP contract: routes, JSON, errors. It knows the [seqd.Issuer] and
// nothing of strategies, stores or plugins.
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

// Options are what the API is built from.
type Options struct {
	// MaxCount is the largest ?count=.
	MaxCount int
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// TrustedProxies are addresses and networks whose X-Forwarded-For is believed.
	TrustedProxies []string
	// Guard says who may call; nil opens everything to everybody but web pages of other origins.
	Guard Guard
	// Hosts are names, without a port, that requests may have as their Host while Guard is nil,
	// besides IP addresses and localhost.
	Hosts []string
	// PublicMetrics opens what describes the service without saying anything of its numbers.
	PublicMetrics bool
	// Tokens are what /tokens manages; nil for no such routes.
	Tokens Tokens
	// MaxInFlight is how many requests are answered at once, 0 for no bound. More are refused at
	// once with [seqd.CodeOverloaded], but for /healthz, /readyz and /metrics, which are neither
	// refused nor counted.
	MaxInFlight int
	// MaxInFlightBytes is how much memory answers take at once that can be large, 0 for no bound.
	// Requests for more are refused like those above MaxInFlight.
	MaxInFlightBytes int64
	// AccessLog logs requests: of those answered below 500, and of those answered above,
	// AccessLogPerSecond each second, or all where that is 0.
	AccessLog          bool
	AccessLogPerSecond int
	// Answers remembers what was answered to requests with an Idempotency-Key; nil refuses them.
	Answers Answers
	// Metrics counts requests and is what /metrics shows; nil for no such route.
	Metrics Metrics
	Log     *slog.Logger
}

// closing is the header of an answer that ends its connection; it is never written to.
var closing = []string{"close"}

// maxURIBytes is the longest request target; a longer one is answered 414.
const maxURIBytes = 4096

// API answers requests. Until [API.Ready] is called it says that the service is starting.
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
	scrapes  *inFlight // the places of /metrics
	// what counts requests, by gin's name of the route; nil where nothing does
	counters map[string]func(method string, status int)
	keyed    keyed
	access   *accessLog
	tracer   Tracer                   // nil where nothing is traced
	listener atomic.Pointer[listener] // nil where the connections are not known
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
	e.UseRawPath = true // an escaped slash is part of a name, not a separator
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
	for _, method := range []string{http.MethodGet, http.MethodHead} { // balancers ask with HEAD
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

// Ready begins issuing.
func (a *API) Ready(issuer *seqd.Issuer) { a.issuer.Store(issuer) }

// Waiting says why there is no issuer yet.
func (a *API) Waiting(reason *seqd.Error) { a.waiting.Store(reason) }

// Drain makes /readyz say 503 and each answer end its connection, while everything else goes on.
func (a *API) Drain() { a.draining.Store(true) }

// around is the one middleware: request ID, span, limits that need no route, panics, access log. A
// request counts as in flight only once its body is here: else a client that sends one byte by byte
// would take a place.
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
			a.refuse(c, &places.refusal)
			return
		}
		defer places.leave()
	}
	c.Next()
}

// ends reports whether the connection ends with the answer to a request.
//
// While the service stops, a caller must learn from an answer that its connection will not last:
// its next request would meet the end.
//
// A request with Transfer-Encoding may have had a Content-Length as well, and one of HTTP/1.0 a
// Transfer-Encoding; net/http removes what does not count and does not tell. Whoever stands in
// front may have gone by the other one, and take what follows for something else, so nothing may
// follow (RFC 9112, section 6.1).
func (a *API) ends(r *http.Request) bool {
	if a.draining.Load() || len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		return true
	}
	l := a.listener.Load()
	return l != nil && l.crowded()
}

// recover answers 500 for a panic in a handler. It must be deferred directly.
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

// limits refuses targets that are too long, callers who may not do this, and bodies that are too
// large. Who may not call has no body read. Where a body means nothing it is read so that a too
// large one is answered instead of cut off; where it means something it is kept for the handler.
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
