package httpapi

import (
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// administration gives the routes of administrators what they use. Until that is set, they answer
// that the service is starting. It is safe for concurrent use.
type administration struct {
	current atomic.Pointer[administered]
	gate    *gate.Gate
}

// administered is what administrators read and change.
type administered struct {
	catalogue admin.Catalogue
	nodes     admin.Nodes
}

// catalogue returns a handler that uses the catalogue.
func (a *administration) catalogue(f func(*gin.Context, admin.Catalogue) error) func(*gin.Context) error {
	return a.handler(func(c *gin.Context, to *administered) error { return f(c, to.catalogue) })
}

// nodes returns a handler that uses the list of nodes.
func (a *administration) nodes(f func(*gin.Context, admin.Nodes) error) func(*gin.Context) error {
	return a.handler(func(c *gin.Context, to *administered) error { return f(c, to.nodes) })
}

func (a *administration) handler(f func(*gin.Context, *administered) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		to := a.current.Load()
		if to == nil {
			return a.gate.Waiting()
		}
		c.Writer.Header()["Cache-Control"] = noStore
		return f(c, to)
	}
}
