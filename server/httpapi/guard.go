package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/access"
)

// Guard says who may call. It is safe for concurrent use.
type Guard interface {
	// Allow checks the values of a request's Authorization header. scope is what the route needs:
	// [access.ScopeIssue] for the named biz type, [access.ScopeRead], [access.ScopeAdmin], or ""
	// when any token will do. It returns the name of the token, also beside an error where it is
	// known.
	Allow(authorization []string, scope, bizType string) (name string, err error)
}

var _ Guard = (*access.Tokens)(nil)

// callerParam is the parameter under which the name of the token is kept. No route has one of this
// name; gin's own place for values would allocate a map for each request.
const callerParam = "the caller's token"

// callerName is the name of the token of the request, "" where none was asked for.
func callerName(c *gin.Context) string { return c.Param(callerParam) }

// allow lets a request go on, or says why not.
func (a *API) allow(c *gin.Context) error {
	err := a.admitted(c)
	if err != nil {
		c.Writer.Header().Del("Allow") // of a 405 that this is not any more
	}
	return err
}

func (a *API) admitted(c *gin.Context) error {
	if a.pages != nil {
		return a.pages.check(c.Request)
	}
	scope, bizType, open := a.need(c)
	if open {
		return nil
	}
	name, err := a.opts.Guard.Allow(c.Request.Header["Authorization"], scope, bizType)
	if name != "" {
		c.Params = append(c.Params, gin.Param{Key: callerParam, Value: name})
	}
	return err
}

// mayRead reports whether the caller of a route that needs no token may see what the scope read
// shows. A token that does not count is as good as none.
func (a *API) mayRead(c *gin.Context) bool {
	if a.opts.Guard == nil {
		return true
	}
	_, err := a.opts.Guard.Allow(c.Request.Header["Authorization"], access.ScopeRead, "")
	return err == nil
}

// need says which scope a request needs, by the route that it was given to and nothing else, so
// that there are no two opinions of a path. Whatever is not named here needs a scope as well: a new
// route is shut until it is opened.
func (a *API) need(c *gin.Context) (scope, bizType string, open bool) {
	switch route := c.FullPath(); {
	case route == "/seq/:bizType" || route == "/seq/:bizType/parse/:id":
		return access.ScopeIssue, c.Param("bizType"), false
	case route == "/healthz" || route == "/readyz":
		return "", "", true
	case route == "/openapi.json" || route == "/docs" || route == "/metrics":
		return access.ScopeRead, "", a.opts.PublicMetrics
	case route == "": // nothing is there, or not for this method: any token may learn that
		return "", "", c.Request.URL.Path == "/healthz" || c.Request.URL.Path == "/readyz"
	case c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead:
		return access.ScopeRead, "", false
	}
	return access.ScopeAdmin, "", false
}
