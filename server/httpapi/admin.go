package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// administration gives the routes of administrators what they use.
type administration struct{ gate *gate.Gate }

// catalogue returns a handler that uses the catalogue.
func (a administration) catalogue(f func(*gin.Context, admin.Catalogue) error) func(*gin.Context) error {
	return a.handler(func(c *gin.Context, r *gate.Running) error { return f(c, r.Catalogue) })
}

// nodes returns a handler that uses the list of nodes.
func (a administration) nodes(f func(*gin.Context, admin.Nodes) error) func(*gin.Context) error {
	return a.handler(func(c *gin.Context, r *gate.Running) error { return f(c, r.Nodes) })
}

// workers returns a handler that uses what leases worker IDs.
func (a administration) workers(f func(*gin.Context, admin.Workers) error) func(*gin.Context) error {
	return a.handler(func(c *gin.Context, r *gate.Running) error { return f(c, r.Workers) })
}

func (a administration) handler(f func(*gin.Context, *gate.Running) error) func(*gin.Context) error {
	return func(c *gin.Context) error {
		r, err := a.gate.Running()
		if err != nil {
			return err
		}
		c.Writer.Header()["Cache-Control"] = noStore
		return f(c, r)
	}
}
