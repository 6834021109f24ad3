package httpapi

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// Figures shows what happens in the cluster.
type Figures interface {
	// Overview returns the figures of all nodes as JSON, with a newline at its end. The caller must
	// not modify it. Overview waits for the store at most about a second.
	Overview(ctx context.Context) (body []byte, err error)
}

// overview serves the figures of the cluster. It is safe for concurrent use.
type overview struct {
	figures atomic.Pointer[Figures] // nil until they are known
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

// Reason is why a biz type cannot issue or is degraded.
type Reason struct {
	BizType string    `json:"bizType"`
	Code    seqd.Code `json:"code"`
	Detail  string    `json:"detail"`
}

// ReasonOf returns what callers may see of a reason. It leaves out the cause, as /readyz does.
func ReasonOf(bizType string, why *seqd.Error) Reason {
	return Reason{BizType: bizType, Code: newProblem(why).Code, Detail: why.Detail}
}
