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

// AuditOf says which audit lines are wanted: those that fit all that is set.
type AuditOf struct {
	// Caller is the name of a token, "" for none. It is nil for all.
	Caller *string
	// Action is a method, a path or both, such as DELETE /tokens/*. In the path, * stands for a name.
	Action string
	// BizType is the biz type of the request, Target the name of what it is to change, of any kind.
	BizType, Target, RequestID string
	// From and To bound the time: From ≤ time < To.
	From, To time.Time
}

// Audit returns a page of the audit lines of all nodes, the newest first. next is what to continue
// after, "" on the last page. A page with next may have no lines: looking for some can take several.
// It needs the scope admin.
func (a *Admin) Audit(ctx context.Context, of AuditOf, p Page) (list []AuditLine, next string, err error) {
	q := p.query()
	for name, value := range map[string]string{
		"action": of.Action, "bizType": of.BizType, "target": of.Target, "requestId": of.RequestID, "from": instant(of.From), "to": instant(of.To),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if of.Caller != nil {
		q.Set("caller", *of.Caller)
	}
	var page struct {
		Lines []AuditLine `json:"lines"`
		Next  string      `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list audit lines", Path: "/audit", Query: q}, &page)
	if err == nil && page.Lines == nil {
		err = errNoList
	}
	return page.Lines, page.Next, err
}
