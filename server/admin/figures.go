package admin

import (
	"context"

	"github.com/seqd/seqd"
)

// Figures returns the figures of the cluster: counts over time, and levels.
type Figures interface {
	// Overview returns the figures of all nodes as JSON that ends with a newline. The caller must not
	// modify body. Overview waits for the store for about 1 s at most.
	Overview(ctx context.Context) (body []byte, err error)
}

// Reason is why a biz type cannot issue or is degraded.
type Reason struct {
	BizType string    `json:"bizType"`
	Code    seqd.Code `json:"code"`
	Detail  string    `json:"detail"`
}
