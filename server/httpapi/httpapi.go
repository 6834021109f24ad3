// Package httpapi serves the HTTP API: routes, JSON, errors. It uses the [issuer.Issuer], and no
// strategy, store or plugin.
//
// [API] is the handler. [New] makes its parts, and API.routes lists the routes. Each part has a
// type and a file of its own: middleware (what happens around every request), issuing, parsing,
// resources, probes, tokenRoutes, the functions of /biz-types and /nodes. errorWriter writes every
// error.
//
// To add a route, register it in API.routes, decide in open.need which scope it needs, and
// describe it in package openapi. CONTRIBUTING.md says how to add an error code. Routes whose
// errors have another shape come from other packages: [Extra].
package httpapi

import (
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// Options are the options of [New].
type Options struct {
	// MaxBodyBytes is the largest request body.
	MaxBodyBytes int64
	// Proxies are those that are believed who sent a request.
	Proxies forwarded.Proxies
	// TLS is true if connections to this node are encrypted.
	TLS bool
	// Profiles is true if /debug/pprof/ is served.
	Profiles bool
	// Hosts are names and IP addresses, without a port, that are accepted in the Host header if a
	// caller needs no token, besides localhost and loopback addresses.
	Hosts []string
	// PublicMetrics serves what describes the service, but not its numbers, without a token.
	PublicMetrics bool
	// Tokens is what /tokens manages. If it is nil, there are no such routes.
	Tokens Tokens
	// Audit gets the audit lines, and shows them at /audit.
	Audit admin.Audit
	// Reloader reads the configuration again. If it is nil, there are no routes for that.
	Reloader Reloader
	// Settings is what GET /settings answers, a value that can be encoded as JSON. It is called
	// once. If it is nil, there is no such route.
	Settings func() any
	// Metrics counts requests and serves /metrics. If it is nil, there is no such route.
	Metrics Metrics
	// Tracer decides which requests are traced. If it is nil, none are.
	Tracer Tracer
	// Extra are routes beside those of the API.
	Extra []Extra
}

// API is the handler of all requests. It answers that the service is starting until the gate is
// ready. While the service drains, /readyz answers 503, and each answer ends its connection.
type API struct {
	engine     *gin.Engine
	gate       *gate.Gate
	middleware *middleware
	issuing    *issuing
}

// New returns an API behind a gate.
func New(g *gate.Gate, opts Options) (*API, error) {
	engine := newEngine()
	m := newMiddleware(g, opts)
	a := &API{
		engine: engine, gate: g, middleware: m,
		issuing: &issuing{
			gate: g, errors: m.errors, tracing: m.tracing, noRoom: newBusyReply(g.Room.Refused, g.Room.Refusal),
			keyed: &keyed{gate: g}, proxies: opts.Proxies,
		},
	}
	m.extras.api = a
	engine.Use(m.around)
	a.routes(opts)
	a.extraRoutes(opts.Extra)
	if opts.Metrics != nil {
		m.counters = newRouteCounters(opts.Metrics, engine.Routes())
	}
	return a, nil
}

// release lets gin print nothing. The mode is a global of gin without a lock.
var release = sync.OnceFunc(func() { gin.SetMode(gin.ReleaseMode) })

// newEngine returns gin's router without routes.
func newEngine() *gin.Engine {
	release()
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.UseRawPath = true // an escaped slash is part of a name and not a separator
	return e
}

// routes adds all routes.
func (a *API) routes(opts Options) {
	e, errs := a.engine, a.middleware.errors
	e.GET("/seq/:bizType", a.issuing.issue)
	e.POST("/seq/:bizType", a.issuing.issue)
	e.GET("/seq/:bizType/parse/:id", errs.handler(parsing{a.gate}.parse))
	a.ledgerRoutes()
	e.GET(resourceRoute, a.lent(resources{a.gate, accounts{a.gate}}.show))
	e.DELETE(historyRoute, a.lent(resources{a.gate, accounts{a.gate}}.eraseHistory))
	if opts.Tokens != nil {
		a.tokenRoutes(tokenRoutes{opts.Tokens})
	}
	a.adminRoutes()
	e.GET(auditPath, a.lent(listAudit(opts.Audit)))
	if opts.Settings != nil {
		e.GET("/settings", a.lent(settingsRoute(opts.Settings)))
	}
	if opts.Reloader != nil {
		a.reloadRoutes(opts.Reloader)
	}
	if opts.Profiles {
		e.GET(profileRoute, errs.handler(profile))
	}
	probes := probes{a.gate, errs, a.middleware.limits.admission, make(chan struct{}, mostLooks), new(surveys)}
	a.getAndHead("/healthz", errs.handler(healthz)) // load balancers use HEAD
	a.getAndHead("/readyz", errs.handler(probes.readyz))
	a.getAndHead("/openapi.json", errs.handler(document))
	a.getAndHead("/docs", errs.handler(page))
	a.getAndHead(errorRoute, errs.handler(errorPage))
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

// Routes of biz types whose strategy accounts for every number, with what other parts need of them.
const (
	reserveRoute     = "/seq/:bizType/reservations"
	reservationParam = "reservation"
	reservationRoute = "/seq/:bizType/reservations/:" + reservationParam
	confirmRoute     = reservationRoute + "/confirm"
	resourceRoute    = "/biz-types/:bizType/:resource"
	historyRoute     = "/biz-types/:bizType/history"
	voidsRoute       = "/biz-types/:bizType/voids"
)

// ledgerRoutes adds the routes of biz types whose strategy accounts for every number.
func (a *API) ledgerRoutes() {
	e, r := a.engine, reservations{a.issuing, a.middleware.limits.admission}
	e.POST(reserveRoute, r.reserve)
	e.GET(reservationRoute, a.lent(r.find))
	e.DELETE(reservationRoute, a.lent(r.release))
	e.POST(confirmRoute, a.lent(r.confirm))
	e.POST(voidsRoute, a.lent(accounts{a.gate}.void))
}

// tokenRoutes adds the routes of tokens.
func (a *API) tokenRoutes(t tokenRoutes) {
	e := a.engine
	e.GET("/tokens", a.lent(t.list))
	e.POST("/tokens", a.lent(t.create))
	e.GET("/tokens/:name", a.lent(t.get))
	e.PATCH("/tokens/:name", a.lent(t.change))
	e.DELETE("/tokens/:name", a.lent(t.delete))
	e.GET(secretsRoute, a.lent(t.listSecrets))
	e.POST(secretsRoute, a.lent(t.addSecret))
	e.DELETE(secretsRoute+"/:secret", a.lent(t.removeSecret))
	e.GET(madeRoute, a.lent(t.listMade))
	e.DELETE(madeRoute, a.lent(t.revokeMade))
}

// adminRoutes adds the routes of biz types and nodes.
func (a *API) adminRoutes() {
	e, admin := a.engine, administration{a.gate}
	e.GET("/biz-types", a.lent(admin.catalogue(listBizTypes)))
	e.GET("/biz-types/:bizType", a.lent(admin.catalogue(getBizType)))
	e.PUT("/biz-types/:bizType", a.lent(admin.catalogue(putBizType)))
	e.PATCH("/biz-types/:bizType", a.lent(admin.catalogue(patchBizType)))
	e.DELETE("/biz-types/:bizType", a.lent(admin.catalogue(deleteBizType)))
	e.POST("/biz-types/:bizType/enable", a.lent(admin.catalogue(enableBizType(true))))
	e.POST("/biz-types/:bizType/disable", a.lent(admin.catalogue(enableBizType(false))))
	a.workerRoutes(admin)
	a.jobRoutes(jobs{a.gate, a.middleware.limits.admission, a.issuing.proxies})
	e.GET(eventsRoute, a.middleware.errors.handler(admin.handler(func(c *gin.Context, r *gate.Running) error { return listEvents(c, r.Events) })))
	a.subscriptionRoutes(admin)
	e.GET(snapshotPath, a.middleware.errors.handler(admin.handler(saveSnapshot)))
	e.GET("/nodes", a.lent(admin.nodes(listNodes)))
	e.GET(countersRoute, a.lent(admin.handler(listCounters)))
	e.GET("/overview", a.lent(overview{a.gate}.show))
}

// workerRoutes adds the routes of worker IDs.
func (a *API) workerRoutes(admin administration) {
	e, errs := a.engine, a.middleware.errors
	e.GET(poolsRoute, a.lent(admin.workers(listPools)))
	e.GET(poolRoute, a.lent(admin.workers(getPool)))
	e.PUT(poolRoute, a.lent(admin.workers(setPool(true))))
	e.PATCH(poolRoute, a.lent(admin.workers(setPool(false))))
	e.DELETE(poolRoute, a.lent(admin.workers(deletePool)))
	e.POST(workersRoute, errs.handler(admin.workers(leaseWorker)))
	e.POST(leaseRoute, errs.handler(admin.workers(renewLease)))
	e.DELETE(leaseRoute, errs.handler(admin.workers(releaseLease)))
}

// jobRoutes adds the routes of jobs.
func (a *API) jobRoutes(j jobs) {
	e := a.engine
	e.POST(jobsRoute, a.lent(j.handler(j.create)))
	e.GET(jobsRoute, a.lent(j.handler(j.list)))
	e.GET(jobRoute, a.lent(j.handler(j.get)))
	e.DELETE(jobRoute, a.lent(j.handler(j.remove)))
	e.GET(resultRoute, a.middleware.errors.handler(j.handler(j.result)))
}

// getAndHead adds a route for GET and HEAD.
func (a *API) getAndHead(path string, handler gin.HandlerFunc) {
	a.engine.GET(path, handler)
	a.engine.HEAD(path, handler)
}

// lent returns the handler of a route whose answers can be large.
func (a *API) lent(f func(*gin.Context) error) gin.HandlerFunc {
	errs := a.middleware.errors
	return lent(a.gate.Room, a.issuing.noRoom, errs, errs.handler(f))
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.engine.ServeHTTP(w, r) }

// Gate returns the gate of the API.
func (a *API) Gate() *gate.Gate { return a.gate }

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
