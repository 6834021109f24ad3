package admin

import "context"

// Audit is the audit log: who changed what, or tried to. It is safe for concurrent use.
type Audit interface {
	// Write writes a line. It does no I/O besides logging.
	Write(ctx context.Context, a Attempt)
	// List returns at most limit lines of all nodes, the newest first. next is what to continue
	// after, "" at the end. Its errors are of type [*seqd.Error].
	List(ctx context.Context, after string, limit int) (list []AuditLine, next string, err error)
}

// Attempt is a request that changed something, or tried to, or that only administrators may make.
// Nothing in it may be a secret.
type Attempt struct {
	// Caller is the name of the token, "" for none. Addr is the IP address of the caller.
	Caller    string `json:"caller,omitempty"`
	Addr      string `json:"addr"`
	RequestID string `json:"requestId"`
	// Method and Path are those of HTTP. Of the Redis protocol, Method is the command.
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	// Target is what is changed, such as the name of a biz type.
	Target string `json:"target,omitempty"`
	// Status is the HTTP status of the answer. From 400 on the attempt was refused.
	Status int `json:"status"`
	// Version is the revision that the change made or removed, 0 for none.
	Version int64 `json:"version,omitempty"`
	// DryRun is true if the request could not change anything. Such a line is logged, and kept only
	// if the caller had no right to make the request: an editor makes very many.
	DryRun bool `json:"-"`
	// Read is true if the request could only show something. Such a line is logged, and not kept.
	Read bool `json:"-"`
}

// AuditLine is a line as the store has it and administrators see it.
type AuditLine struct {
	// At is when the request was answered, as RFC 3339 in UTC.
	At string `json:"at"`
	// NodeID is the ID of the node that answered, Host the name of its machine, and Node what it
	// listens on.
	NodeID string `json:"nodeId"`
	Host   string `json:"host,omitempty"`
	Node   string `json:"node,omitempty"`
	Attempt
	// LeftOut is how many lines of this node before this one are in its log only.
	LeftOut int64 `json:"leftOut,omitempty"`
}
