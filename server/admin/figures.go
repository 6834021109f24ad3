package admin

import (
	"context"

	"github.com/seqd/seqd"
)

// Figures shows what happens in the cluster.
type Figures interface {
	// Overview returns the figures of all nodes as JSON, with a newline at its end. The caller must
	// not modify it. Overview waits for the store at most about a second.
	Overview(ctx context.Context) (body []byte, err error)
}

// Reason is why a biz type cannot issue or is degraded.
type Reason struct {
	BizType string    `json:"bizType"`
	Code    seqd.Code `json:"code"`
	Detail  string    `json:"detail"`
}
