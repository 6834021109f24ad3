package admin

import (
	"context"
	"time"

	"github.com/seqd/seqd/client"
)

// AuditLine says who changed a biz type or a token, or tried to.
type AuditLine struct {
	At time.Time `json:"at"`
	// NodeID is the ID of the node that answered, Host the name of its machine, and Node the address
	// that it listens on.
	NodeID string `json:"nodeId"`
	Host   string `json:"host,omitempty"`
	Node   string `json:"node,omitempty"`
	// Caller is the name of the token, "" for none, and Addr the IP address of the caller.
	Caller    string `json:"caller,omitempty"`
	Addr      string `json:"addr"`
	RequestID string `json:"requestId"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	// Query is without what could be a secret.
	Query string `json:"query,omitempty"`
	// Target is the name of the biz type or token.
	Target string `json:"target,omitempty"`
	// Status is the status of the answer. From 400 on nothing was changed, except that after 503
	// it may have been.
	Status int `json:"status"`
	// Version is the one that the change made or removed.
	Version int64 `json:"version,omitempty"`
	// LeftOut is how many lines of the node before this one are in its log only.
	LeftOut int64 `json:"leftOut,omitempty"`
}

// Audit returns a page of the audit lines of all nodes, the newest first. next is what to continue
// after, "" on the last page. It needs the scope admin.
func (a *Admin) Audit(ctx context.Context, p Page) (list []AuditLine, next string, err error) {
	var page struct {
		Lines []AuditLine `json:"lines"`
		Next  string      `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list audit lines", Path: "/audit", Query: p.query()}, &page)
	if err == nil && page.Lines == nil {
		err = errNoList
	}
	return page.Lines, page.Next, err
}
