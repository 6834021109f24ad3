package admin

import (
	"context"
	"strings"
	"time"
)

// Audit is the audit log. It says who changed what, or tried to. It is safe for concurrent use.
type Audit interface {
	// Write writes a line. It does no I/O besides logging.
	Write(ctx context.Context, a Attempt)
	// List returns at most limit lines of all nodes that are wanted, newest first. To get the next page,
	// pass next as after; next is "" on the last page. A page may have few lines, or none, and a next.
	// The errors of List are of type [*seqd.Error].
	List(ctx context.Context, of AuditOf, after string, limit int) (list []AuditLine, next string, err error)
}

// AuditOf says which lines are wanted: those that fit all that is set.
type AuditOf struct {
	// Caller is the name of a token, "" for none. It is nil for all.
	Caller *string
	// Action is a method, a path or both with a space between them. In the path, * stands for a name.
	Action string
	// BizType is a biz type whose lines are wanted. Target is that of any kind.
	BizType, Target, RequestID string
	// From and To bound the time: From ≤ time < To.
	From, To time.Time
}

// Any reports whether lines have to be looked at to find those that are wanted.
func (of *AuditOf) Any() bool {
	return of.Caller != nil || of.Action != "" || of.BizType != "" || of.Target != "" || of.RequestID != ""
}

// Wants reports whether a line is wanted, apart from its time.
func (of *AuditOf) Wants(line *AuditLine) bool {
	return (of.Caller == nil || *of.Caller == line.Caller) && (of.Target == "" || of.Target == line.Target) &&
		(of.RequestID == "" || of.RequestID == line.RequestID) && of.didSo(line) && of.ofBizType(line)
}

// didSo reports whether the action of a line is wanted.
func (of *AuditOf) didSo(line *AuditLine) bool {
	method, path, _ := strings.Cut(of.Action, " ")
	if strings.HasPrefix(method, "/") {
		method, path = "", method
	}
	return (method == "" || strings.EqualFold(method, line.Method)) && (path == "" || fits(path, line.Path))
}

// fits reports whether a path has the names of a pattern, of which * is any.
func fits(pattern, path string) bool {
	for pattern != "" && path != "" {
		var want, name string
		want, pattern, _ = strings.Cut(pattern, "/")
		name, path, _ = strings.Cut(path, "/")
		if want != "*" && want != name {
			return false
		}
	}
	return pattern == path
}

// ofBizType reports whether a line is of the biz type that is wanted.
func (of *AuditOf) ofBizType(line *AuditLine) bool {
	if of.BizType == "" {
		return true
	}
	path, isBizType := strings.CutPrefix(line.Path, "/biz-types")
	if isBizType && (path == "" || path[0] == '/') && line.Target == of.BizType {
		return true
	}
	issued, isIssued := strings.CutPrefix(line.Path, "/seq/")
	name, _, _ := strings.Cut(issued, "/")
	return isIssued && name == of.BizType
}

// Attempt is a request that changed something or tried to, or a request that only administrators may
// make. It must not contain a secret.
type Attempt struct {
	// Caller is the name of the token, "" for none. Addr is the IP address of the caller.
	Caller    string `json:"caller,omitempty"`
	Addr      string `json:"addr"`
	RequestID string `json:"requestId"`
	// Method and Path are those of the HTTP request. For the Redis protocol, Method is the command.
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	// Target is what is changed, such as the name of a biz type.
	Target string `json:"target,omitempty"`
	// Status is the HTTP status of the answer. If it is 400 or above, the attempt was refused.
	Status int `json:"status"`
	// Version is the version of Target that the change made or removed; 0 if there is none.
	Version int64 `json:"version,omitempty"`
	// DryRun is true if the request asked for a dry run. Its line is logged. The line is kept in the
	// store only if the caller had no right to make the request, because an editor makes very many
	// dry runs.
	DryRun bool `json:"-"`
	// Read is true if the request only asked to see something. Its line is logged, and not kept in
	// the store.
	Read bool `json:"-"`
}

// AuditLine is a line of the audit log, as it is kept in the store and shown to administrators.
type AuditLine struct {
	// At is when the request was answered, as RFC 3339 in UTC.
	At string `json:"at"`
	// NodeID is the ID of the node that answered. Host is the name of its machine. Node is the
	// address that it listens on.
	NodeID string `json:"nodeId"`
	Host   string `json:"host,omitempty"`
	Node   string `json:"node,omitempty"`
	Attempt
	// LeftOut is how many lines before this one the node wrote to its log and not to the store.
	LeftOut int64 `json:"leftOut,omitempty"`
}
