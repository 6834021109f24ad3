package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/internal/sheet"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// auditPath is where the audit lines are shown.
const auditPath = "/audit"

// Keys under which a handler stores what the audit line says of a change.
const (
	auditTarget   = "audit target"
	auditRevision = "audit revision"
	auditToo      = "audit too"
)

// audited reports whether a request is a change, or an attempt at one, or shows tokens, the audit
// log or all that the store has, and so gets an audit line. The route decides this, so no handler can
// forget it. Other requests get one if their caller has no right to make them.
func audited(c *gin.Context) bool {
	route := c.FullPath()
	return administrative(c) && (c.Request.Method != http.MethodGet || !strings.HasPrefix(route, "/biz-types") && route != levelPath && !strings.HasPrefix(route, poolsRoute) && !ofSubscriptions(route))
}

// administrative reports whether a request is for one of the routes of administrators.
func administrative(c *gin.Context) bool {
	route := c.FullPath()
	return strings.HasPrefix(route, "/tokens") || strings.HasPrefix(route, "/biz-types") || strings.HasPrefix(route, poolsRoute) || ofSubscriptions(route) || route == auditPath || route == snapshotPath || route == ReloadPath || route == levelPath
}

// setTarget says what is being changed, if the path does not. name must be valid, because it is
// logged.
func setTarget(c *gin.Context, name string) { c.Set(auditTarget, name) }

// setRevision says which revision a change made or removed.
func setRevision(c *gin.Context, revision int64) { c.Set(auditRevision, revision) }

// alsoAudited says that a request gets an audit line although its route is not one of administrators.
func alsoAudited(c *gin.Context) { c.Set(auditToo, true) }

// auditLog writes the audit log.
type auditLog struct {
	log     admin.Audit
	proxies forwarded.Proxies
}

// write writes the audit line of a request. The line contains nothing from headers and bodies, and
// nothing from path and query that could be a secret.
func (l auditLog) write(c *gin.Context, id, target string, status int) {
	query := shownQuery(c.Request.URL.RawQuery)
	l.log.Write(c.Request.Context(), admin.Attempt{
		Caller: callerName(c), Addr: l.proxies.Text(c.Request.RemoteAddr, c.Request.Header), RequestID: id,
		Method: loggedMethod(c.Request.Method), Path: discreet(c.Request.URL.Path), Query: query,
		Target: discreet(target), Status: status, Version: c.GetInt64(auditRevision),
		// Routes of clients of other services ignore what they do not know, and make the change.
		DryRun: administrative(c) && slices.Contains(strings.Split(query, "&"), "dryRun=true"),
		Read:   c.Request.Method == http.MethodGet && administrative(c),
	})
}

// writeRefused writes the audit line of a request whose caller has no right to make it, unless err
// says something else. Answers for clients of other services may have another status.
func (l auditLog) writeRefused(c *gin.Context, id string, code seqd.Code) {
	if code == seqd.CodeUnauthorized || code == seqd.CodeForbidden {
		l.write(c, id, "", gate.StatusOf(code))
	}
}

// targetOf returns what a request changes.
func targetOf(c *gin.Context) string {
	return cmp.Or(c.GetString(auditTarget), c.Param("name"), c.Param("bizType"), c.Param("pool"), c.Param("job"))
}

// auditPage is the answer of GET /audit.
type auditPage struct {
	Lines []admin.AuditLine `json:"lines"`
	Next  string            `json:"next,omitempty"`
}

var _ seqd.Table = auditPage{}

// Columns implements [seqd.Table].
func (auditPage) Columns() []string {
	return []string{"at", "caller", "addr", "method", "path", "query", "target", "status", "version", "leftOut", "host", "nodeId", "requestId"}
}

// Rows implements [seqd.Table].
func (p auditPage) Rows(yield func(any, []string) bool) {
	for i := range p.Lines {
		l := &p.Lines[i]
		if !yield(l, []string{
			l.At, sheet.ID(l.Caller), sheet.Text(l.Addr), sheet.Text(l.Method), sheet.Text(l.Path), sheet.Text(l.Query), sheet.ID(l.Target), strconv.Itoa(l.Status),
			sheet.Number(l.Version), sheet.Number(l.LeftOut), sheet.ID(l.Host), sheet.ID(l.NodeID), sheet.ID(l.RequestID),
		}) {
			return
		}
	}
}

// NextPage implements [seqd.Table].
func (p auditPage) NextPage() string { return p.Next }

// auditParams are the parameters of GET /audit.
var auditParams = []string{"after", "limit", "caller", "action", "bizType", "target", "requestId", "from", "to", "format"}

// listAudit returns the handler of GET /audit.
func listAudit(log admin.Audit) func(*gin.Context) error {
	return func(c *gin.Context) error {
		values, err := readQuery(c.Request.URL.RawQuery, auditParams...)
		if err != nil {
			return err
		}
		of, err := readAuditOf(values)
		if err != nil {
			return err
		}
		after, limit, err := pageIn(values)
		if err != nil {
			return err
		}
		d, err := readDownload(values, "audit")
		if err != nil {
			return err
		}
		c.Writer.Header()["Cache-Control"] = noStore
		page := func(after string, limit int) (any, error) {
			list, next, err := log.List(c.Request.Context(), of, after, limit)
			return auditPage{append([]admin.AuditLine{}, list...), next}, err
		}
		if d.format != "" {
			return d.write(c, after, page)
		}
		shown, err := page(after, limit)
		if err == nil {
			writeJSON(c, http.StatusOK, jsonType, shown)
		}
		return err
	}
}

// readAuditOf reads which lines are wanted.
func readAuditOf(values map[string]string) (of admin.AuditOf, err error) {
	if caller, there := values["caller"]; there {
		of.Caller = &caller
	}
	for _, p := range []struct {
		name string
		text *string
	}{{"action", &of.Action}, {"bizType", &of.BizType}, {"target", &of.Target}, {"requestId", &of.RequestID}} {
		text, there := values[p.name]
		if *p.text = text; there && text == "" {
			return of, seqd.Errorf(seqd.CodeInvalidRequest, "%s is empty: leave it out for all", p.name)
		}
	}
	if method, path, both := strings.Cut(of.Action, " "); both && (!strings.HasPrefix(path, "/") || method == "") {
		return of, seqd.Errorf(seqd.CodeInvalidRequest, "action is %.80q and must be a method, a path or both, such as DELETE /tokens/*", of.Action)
	}
	for _, p := range []struct {
		name string
		t    *time.Time
	}{{"from", &of.From}, {"to", &of.To}} {
		text, there := values[p.name]
		var ok bool
		if *p.t, ok = literal.Time(text); there && !ok {
			return of, seqd.Errorf(seqd.CodeInvalidRequest, "%s is %.40q and must be a time such as 2026-01-31T23:59:59Z (a + is written %%2B)", p.name, text)
		}
	}
	if !of.From.IsZero() && !of.To.IsZero() && !of.From.Before(of.To) {
		return of, seqd.Errorf(seqd.CodeInvalidRequest, "from is not before to")
	}
	return of, nil
}

// notShown replaces what may be a secret.
const notShown = "(not shown)"

// longestShown is the most bytes of a caller's text that are logged: more than any meaningful path
// has.
const longestShown = 256

// discreet removes secrets that seqd generated from a text such as a path, in case somebody puts
// one there. It cuts a text that is too long.
func discreet(text string) string {
	shown, text, found := strings.Cut(text, access.SecretPrefix)
	for found && len(shown) <= longestShown {
		var next string
		next, text, found = strings.Cut(strings.TrimLeftFunc(text, func(r rune) bool { return harmless(string(r)) }), access.SecretPrefix)
		shown += notShown + next
	}
	return cut(shown, longestShown)
}

// longestMethod is the most bytes of a method that are logged: more than any real method has.
const longestMethod = 32

// loggedMethod returns a method as it is logged. Callers can send a method of any length.
func loggedMethod(method string) string { return cut(discreet(method), longestMethod) }

// cut truncates a text to at most most bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// shownParams are the query parameters that are logged.
var shownParams = []string{"count", "key", "ttl", "period", "after", "limit", "from", "to", "before", "caller", "dryRun", "force"}

// shownQuery returns a query as it is logged: the known parameters that have plausible values, as
// handlers read them, whatever was escaped. Nothing is shown after a token: Tinyid's client does
// not escape its token, so what looks like another parameter may be a part of it.
func shownQuery(query string) string {
	var shown []string
	p := params{rest: query}
	for len(shown) <= len(shownParams) && p.next() { // no change has more of them
		pair := p.name + "=" + p.value
		if !slices.Contains(shownParams, p.name) || !plainValue(p.value) || discreet(p.value) != p.value {
			pair = notShown
		}
		if shown = append(shown, pair); p.name == "token" {
			break
		}
	}
	if p.err != nil {
		shown = append(shown, notShown)
	}
	return strings.Join(shown, "&")
}

// plainValue reports whether a value is a number, a name, true, false or a time.
func plainValue(value string) bool {
	return len(value) <= 64 && !strings.ContainsFunc(value, func(r rune) bool { return r != ':' && r != '+' && !harmless(string(r)) })
}
