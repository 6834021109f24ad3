package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

// callerParam is the route parameter that holds the name of the token. No route has a parameter of
// this name. Storing it in gin's own keys would allocate a map for each request.
const callerParam = "the caller's token"

// callerName returns the name of the request's token, "" if none was required.
func callerName(c *gin.Context) string { return c.Param(callerParam) }

// admission decides whether a caller may make a request.
type admission struct {
	guard         gate.Guard
	pages         *pages // used where callers need no token
	publicMetrics bool
	extras        *extras
}

func newAdmission(g *gate.Gate, opts Options, extras *extras) *admission {
	return &admission{guard: g.Guard, pages: newPages(opts.Hosts, g.Log), publicMetrics: opts.PublicMetrics, extras: extras}
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
	switch {
	case a.guard == nil || x != nil && x.Guests:
		return a.pages.check(c.Request)
	case x != nil: // it checks the token itself
		return nil
	}
	scope, bizType, open := a.need(c)
	if open {
		return nil
	}
	name, err := a.guard.Allow(c.Request.Header["Authorization"], scope, bizType)
	if name != "" {
		c.Params = append(c.Params, gin.Param{Key: callerParam, Value: name})
	}
	return err
}

// mayRead reports whether the caller of a route that needs no token may see what the scope read
// shows. An invalid token is treated as none.
func (a *admission) mayRead(c *gin.Context) bool {
	if a.guard == nil {
		return true
	}
	_, err := a.guard.Allow(c.Request.Header["Authorization"], access.ScopeRead, "")
	return err == nil
}

// need returns the scope that a request needs. Only the route decides this, so the path cannot be
// interpreted in two ways. A route that is not listed here needs the scope read or, for a change,
// admin: a new route is closed until it is opened.
func (a *admission) need(c *gin.Context) (scope, bizType string, open bool) {
	switch route := c.FullPath(); {
	case route == "/seq/:bizType" || route == "/seq/:bizType/parse/:id":
		return access.ScopeIssue, c.Param("bizType"), false
	case route == "/healthz" || route == "/readyz":
		return "", "", true
	case route == "/openapi.json" || route == "/docs" || route == "/metrics":
		return access.ScopeRead, "", a.publicMetrics
	case route == "": // nothing is there, or not for this method: any token may learn that
		return "", "", c.Request.URL.Path == "/healthz" || c.Request.URL.Path == "/readyz"
	case c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead:
		return access.ScopeRead, "", false
	}
	return access.ScopeAdmin, "", false
}
