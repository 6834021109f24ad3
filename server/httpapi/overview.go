package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/gate"
)

// overview serves the figures of the cluster.
type overview struct{ gate *gate.Gate }

// show answers GET /overview.
func (o overview) show(c *gin.Context) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	r, err := o.gate.Running()
	if err != nil {
		return err
	}
	body, err := r.Figures.Overview(c.Request.Context())
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	write(c, http.StatusOK, jsonType, body)
	return nil
}
