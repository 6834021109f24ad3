package httpapi

import (
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// overview serves the figures of the cluster. It is safe for concurrent use.
type overview struct {
	figures atomic.Pointer[admin.Figures] // nil until they are known
	gate    *gate.Gate
}

// show answers GET /overview.
func (o *overview) show(c *gin.Context) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	figures := o.figures.Load()
	if figures == nil {
		return o.gate.Waiting()
	}
	body, err := (*figures).Overview(c.Request.Context())
	if err != nil {
		return err
	}
	c.Writer.Header()["Cache-Control"] = noStore
	write(c, http.StatusOK, jsonType, body)
	return nil
}
