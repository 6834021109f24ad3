package httpapi

import (
	"cmp"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// callerParam is the route parameter that holds the owner that the token stands for. No route has a
// parameter of this name. Storing it in gin's own keys would allocate a map for each request, as a
// second parameter would.
const callerParam = "the caller's owner"

// setCaller says who sent the request.
func setCaller(c *gin.Context, who access.Identity) {
	c.Params = append(c.Params, gin.Param{Key: callerParam, Value: cmp.Or(who.Owner, who.Name)})
}

// callerName returns the name of the request's token, "" if none was required.
func callerName(c *gin.Context) string { return seqd.OwnerName(c.Param(callerParam)) }

// callerOf returns who sent the request.
func callerOf(c *gin.Context, proxies *forwarded.Proxies) seqd.Caller {
	owner := c.Param(callerParam)
	return seqd.Caller{Name: seqd.OwnerName(owner), Owner: owner, Addr: proxies.Text(c.Request.RemoteAddr, c.Request.Header), RequestID: requestID(c)}
}

// admission decides whether a caller may make a request.
type admission struct {
	guard  gate.Guard
	open   atomic.Pointer[open]
	extras *extras
}

// open is what is open without a token.
type open struct {
	pages         *pages // used where the caller of a request needs no token
	publicMetrics bool
}

func newAdmission(g *gate.Gate, opts Options, extras *extras) *admission {
	a := &admission{guard: g.Guard, extras: extras}
	a.open.Store(&open{newPages(opts.Hosts, g.Guard != nil, g.Log), opts.PublicMetrics})
	return a
}

// reopen lets requests with these Hosts pass, and opens the metrics or not. It forgets which Host passed
// before.
func (a *admission) reopen(opts Options) {
	a.open.Store(&open{a.open.Load().pages.with(opts.Hosts), opts.PublicMetrics})
}

// allow returns an error if the caller may not make the request.
func (a *admission) allow(c *gin.Context) error {
	err := a.admitted(c)
	if err != nil {
		c.Writer.Header().Del("Allow") // it was set for a 405, and the answer is another now
	}
	return err
}

func (a *admission) admitted(c *gin.Context) error {
	x := a.extras.of(c)
	linked := x != nil && x.Linked
	if !linked && speculative(c.Request) {
		return errSpeculative
	}
	open := a.open.Load()
	switch {
	case a.guard == nil && linked:
		return open.pages.checkHost(c.Request, false)
	case a.guard == nil || x != nil && x.Guests:
		return open.pages.check(c.Request, isProbe(c))
	case x != nil: // it checks the token itself
		return nil
	}
	needs := open.need(c)
	if needs.nothing {
		if c.FullPath() == metricsPath && !a.mayRead(c) {
			return open.pages.checkHost(c.Request, true)
		}
		return nil
	}
	authorization := c.Request.Header["Authorization"]
	who, err := a.guard.Allow(authorization, needs.scope, needs.counter)
	if err != nil && needs.or != "" && who.Name != "" {
		if _, other := a.guard.Allow(authorization, needs.or, ""); other == nil {
			err = nil
		}
	}
	if who.Name != "" {
		setCaller(c, who)
	}
	return err
}

// isProbe reports whether a request is one of those by which balancers, Kubernetes and Prometheus
// watch a node. They use its IP address, change nothing, and tell a web page nothing: it cannot
// read the answer if it does not own the name.
func isProbe(c *gin.Context) bool {
	if method := c.Request.Method; method != http.MethodGet && method != http.MethodHead {
		return false
	}
	switch c.FullPath() {
	case "/healthz", "/readyz", metricsPath:
		return true
	}
	return false
}

// mayRead reports whether the caller of a route that does not need the scope read may see what it
// shows. An invalid token is treated as none.
func (a *admission) mayRead(c *gin.Context) bool { return a.has(c, access.ScopeRead) }

// mayAdminister reports whether the caller of a route that does not need the scope admin has it. If
// callers need no token, everybody has.
func (a *admission) mayAdminister(c *gin.Context) bool { return a.has(c, access.ScopeAdmin) }

func (a *admission) has(c *gin.Context, scope string) bool {
	if a.guard == nil {
		return true
	}
	_, err := a.guard.Allow(c.Request.Header["Authorization"], scope, "")
	return err == nil
}

// needs is what a request needs.
type needs struct {
	scope   string
	counter string // of the scopes issue and lease
	or      string // another scope that will do, "" for none
	nothing bool   // not even a token
}

// need returns what a request needs. Only the route decides this, so the path cannot be
// interpreted in two ways. A route that is not listed here needs the scope read or, for a change,
// admin: a new route is closed until it is opened.
func (o *open) need(c *gin.Context) needs {
	switch route := c.FullPath(); {
	case route == "/seq/:bizType" || route == reserveRoute:
		return needs{scope: access.ScopeIssue, counter: seqd.CounterOf(c.Param("bizType"), keyIn(c.Request.URL.RawQuery))}
	case route == profileRoute:
		return needs{scope: access.ScopeAdmin}
	case route == "/seq/:bizType/parse/:id":
		return needs{scope: access.ScopeIssue, counter: c.Param("bizType"), or: access.ScopeRead}
	case route == reservationRoute || route == confirmRoute:
		n := needs{scope: access.ScopeIssue, counter: seqd.CounterOf(c.Param("bizType"), seqd.ReservationKey(c.Param(reservationParam))), or: access.ScopeAdmin}
		if c.Request.Method == http.MethodGet {
			n.or = access.ScopeRead
		}
		return n
	case route == workersRoute || route == leaseRoute:
		return needs{scope: access.ScopeLease, counter: c.Param("pool")}
	case route == jobsRoute || route == jobRoute || route == resultRoute: // the handler decides
		return needs{}
	case route == auditPath || route == snapshotPath || ofSubscriptions(route):
		return needs{scope: access.ScopeAdmin}
	case route == "/healthz" || route == "/readyz" || route == errorRoute:
		return needs{nothing: true}
	case route == "/openapi.json" || route == "/docs" || route == "/metrics":
		return needs{scope: access.ScopeRead, nothing: o.publicMetrics}
	case route == "": // nothing is there, or not for this method: any token may learn that
		return needs{nothing: c.Request.URL.Path == "/healthz" || c.Request.URL.Path == "/readyz"}
	case c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead:
		return needs{scope: access.ScopeRead}
	}
	return needs{scope: access.ScopeAdmin}
}
