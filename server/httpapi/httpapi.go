// Package httpapi serves the HTTP API: routes, JSON, errors. It uses the [seqd.Issuer], and no
// strategy, store or plugin.
//
// [API] is the handler. [New] makes its parts, and API.routes lists the routes. Each part has a
// type and a file of its own: middleware (what happens around every request), issuing, parsing,
// resources, probes, tokenRoutes, the functions of /biz-types and /nodes. errorWriter writes every
// error.
//
// To add a route, register it in API.routes, decide in admission.need which scope it needs, and
// describe it in package openapi. To add an error code, add it to the map status.
package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Options are the options of [New].
type Options struct {
	Limits
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

// Limits are the limits of requests and answers.
type Limits struct {
	// MaxCount is the largest ?count=.
	MaxCount int
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// MaxInFlight is how many requests are answered at once; 0 means no limit. Further requests are
	// refused at once with [seqd.CodeOverloaded], except /healthz, /readyz and /metrics, which are
	// neither refused nor counted.
	MaxInFlight int
	// MaxInFlightBytes is how much memory large answers may take in total; 0 means no limit.
	// Further requests for large answers are refused as those above MaxInFlight are.
	MaxInFlightBytes int64
}

// API is the handler of all requests. It answers that the service is starting until [API.Ready] is
// called.
type API struct {
	engine     *gin.Engine
	state      *lifecycle
	admin      *administration
	middleware *middleware
	issuing    *issuing
}

// New returns an API that is starting.
func New(opts Options) (*API, error) {
	engine, err := newEngine(opts.TrustedProxies)
	if err != nil {
		return nil, err
	}
	state, room := newLifecycle(), newRoom(opts.MaxInFlightBytes, opts.Log)
	m := newMiddleware(opts, state)
	a := &API{
		engine: engine, state: state, middleware: m, admin: &administration{state: state},
		issuing: &issuing{
			state: state, errors: m.errors, tracing: m.tracing, room: room, keyed: &keyed{answers: opts.Answers},
			clients: clientsOf(opts), maxCount: opts.MaxCount,
		},
	}
	engine.Use(m.around)
	a.routes(opts)
	if opts.Metrics != nil {
		m.counters = newRouteCounters(opts.Metrics, engine.Routes())
	}
	return a, nil
}

// newEngine returns gin's router without routes.
func newEngine(trustedProxies []string) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.UseRawPath = true // an escaped slash is part of a name and not a separator
	e.RemoteIPHeaders = []string{"X-Forwarded-For"}
	return e, e.SetTrustedProxies(trustedProxies)
}

// routes adds all routes.
func (a *API) routes(opts Options) {
	e, errs := a.engine, a.middleware.errors
	e.GET("/seq/:bizType", a.issuing.issue)
	e.POST("/seq/:bizType", a.issuing.issue)
	e.GET("/seq/:bizType/parse/:id", errs.handler(parsing{a.state}.parse))
	e.GET("/biz-types/:bizType/:resource", a.lent(resources{a.state}.show))
	if opts.Tokens != nil {
		a.tokenRoutes(tokenRoutes{opts.Tokens})
	}
	a.adminRoutes()
	probes := probes{state: a.state, errors: errs, admission: a.middleware.limits.admission}
	a.getAndHead("/healthz", healthz) // load balancers use HEAD
	a.getAndHead("/readyz", probes.readyz)
	a.getAndHead("/openapi.json", errs.handler(document))
	a.getAndHead("/docs", errs.handler(page))
	if opts.Metrics != nil {
		a.getAndHead(metricsPath, errs.handler(metricsRoute{opts.Metrics}.show))
	}
	e.NoRoute(errs.handler(func(*gin.Context) error {
		return seqd.Errorf(seqd.CodeNotFound, "there is nothing at this path; numbers are at /seq/{bizType}")
	}))
	e.NoMethod(errs.handler(func(c *gin.Context) error {
		return seqd.Errorf(seqd.CodeMethodNotAllowed, "the method is not one of: %s", c.Writer.Header().Get("Allow"))
	}))
}

// tokenRoutes adds the routes of tokens.
func (a *API) tokenRoutes(t tokenRoutes) {
	e := a.engine
	e.GET("/tokens", a.lent(t.list))
	e.POST("/tokens", a.lent(t.create))
	e.GET("/tokens/:name", a.lent(t.get))
	e.PATCH("/tokens/:name", a.lent(t.change))
	e.DELETE("/tokens/:name", a.lent(t.delete))
}

// adminRoutes adds the routes of biz types and nodes.
func (a *API) adminRoutes() {
	e, admin := a.engine, a.admin
	e.GET("/biz-types", a.lent(admin.catalogue(listBizTypes)))
	e.GET("/biz-types/:bizType", a.lent(admin.catalogue(getBizType)))
	e.PUT("/biz-types/:bizType", a.lent(admin.catalogue(putBizType)))
	e.PATCH("/biz-types/:bizType", a.lent(admin.catalogue(patchBizType)))
	e.DELETE("/biz-types/:bizType", a.lent(admin.catalogue(deleteBizType)))
	e.POST("/biz-types/:bizType/enable", a.lent(admin.catalogue(enableBizType(true))))
	e.POST("/biz-types/:bizType/disable", a.lent(admin.catalogue(enableBizType(false))))
	e.GET("/nodes", a.lent(admin.nodes(listNodes)))
}

// getAndHead adds a route for GET and HEAD.
func (a *API) getAndHead(path string, handler gin.HandlerFunc) {
	a.engine.GET(path, handler)
	a.engine.HEAD(path, handler)
}

// lent returns the handler of a route whose answers can be large.
func (a *API) lent(f func(*gin.Context) error) gin.HandlerFunc {
	errs := a.middleware.errors
	return a.issuing.room.lent(errs, errs.handler(f))
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Ready sets the issuer and starts issuing.
func (a *API) Ready(issuer *seqd.Issuer) { a.state.issuer.Store(issuer) }

// Waiting sets why there is no issuer yet.
func (a *API) Waiting(reason *seqd.Error) { a.state.waiting.Store(reason) }

// Watch sets what tells whether an operator has to look at the store: then /readyz says degraded.
func (a *API) Watch(store func() *seqd.Error) { a.state.store.Store(&store) }

// Drain makes /readyz answer 503 and each answer end its connection. Everything else continues.
func (a *API) Drain() { a.state.draining.Store(true) }

// Administer sets what the routes of administrators use. Until then they answer that the service is
// starting.
func (a *API) Administer(c Catalogue, n Nodes) { a.admin.current.Store(&administered{c, n}) }

// Trace sets the tracer. Call it before the first request. Without it nothing is traced.
func (a *API) Trace(tracer Tracer) { a.middleware.tracing.tracer = tracer }

// AccessLogSkipped returns how many requests got no line in the access log because there were too
// many.
func (a *API) AccessLogSkipped() int64 { return a.middleware.access.skipped.Load() }

// Route is a method of a path that the API answers.
type Route struct {
	Method string
	// Path has its parameters in braces, as in /seq/{bizType}.
	Path string
}

// Routes returns the routes of the API, in no particular order.
func (a *API) Routes() []Route {
	var routes []Route
	for _, r := range a.engine.Routes() {
		routes = append(routes, Route{Method: r.Method, Path: pattern(r.Path)})
	}
	return routes
}
