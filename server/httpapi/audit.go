package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/access"
)

// What a handler tells of a change, for its line in the log.
const (
	auditTarget   = "audit target"
	auditRevision = "audit revision"
)

// audited reports whether a request is a change, or an attempt at one, that the log tells of. It is
// decided by the route, so that no handler can forget it.
func audited(c *gin.Context) bool {
	return c.Request.Method != http.MethodGet && administrative(c)
}

// administrative reports whether a request is for what administrators read and change.
func administrative(c *gin.Context) bool {
	route := c.FullPath()
	return strings.HasPrefix(route, "/tokens") || strings.HasPrefix(route, "/biz-types")
}

// setTarget says what is being changed, where the path does not. name must be a good one: it goes
// into the log.
func setTarget(c *gin.Context, name string) { c.Set(auditTarget, name) }

// setRevision says which revision a change made, or removed.
func setRevision(c *gin.Context, revision int64) { c.Set(auditRevision, revision) }

// logAudit writes the line. It holds nothing of headers and bodies, and of paths and queries only
// what cannot be a secret.
func (a *API) logAudit(c *gin.Context, id string) {
	target := c.GetString(auditTarget)
	for _, param := range []string{"name", "bizType"} {
		if target == "" {
			target = c.Param(param)
		}
	}
	a.opts.Log.LogAttrs(c.Request.Context(), slog.LevelInfo, "audit",
		slog.String("token", callerName(c)), slog.String("client", a.clientAddr(c)), slog.String("requestId", id),
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.String("target", discreet(target)), slog.Int("status", c.Writer.Status()), slog.Int64("version", c.GetInt64(auditRevision)))
}

// notShown stands in the log for what may be a secret.
const notShown = "(not shown)"

// longestShown is how much of a text of a caller a line of the log holds: more than any path has
// that means something.
const longestShown = 256

// discreet takes secrets that seqd made out of a text, such as a path: somebody will put one there.
// What is too long is cut.
func discreet(text string) string {
	at := strings.Index(text, access.SecretPrefix)
	if at < 0 && len(text) <= longestShown {
		return text
	}
	var shown strings.Builder
	for ; at >= 0 && shown.Len() < longestShown; at = strings.Index(text, access.SecretPrefix) {
		shown.WriteString(text[:at])
		shown.WriteString(notShown)
		text = text[at+len(access.SecretPrefix):]
		for text != "" && harmless(text[:1]) {
			text = text[1:]
		}
	}
	if at < 0 {
		shown.WriteString(text)
	}
	return cut(shown.String(), longestShown)
}

// longestMethod is how much of a method a line of the log holds: more than any that there is.
const longestMethod = 32

// loggedMethod returns a method as it is logged: callers can send any word of any length.
func loggedMethod(method string) string { return cut(discreet(method), longestMethod) }

// cut ends a text that has more than most bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}

// shownParams are the query parameters that are logged.
var shownParams = []string{"count", "after", "limit", "from", "to", "dryRun", "force"}

// shownQuery returns a query as it is logged: with the known parameters, where their values look as
// they should.
func shownQuery(query string) string {
	if query == "" {
		return ""
	}
	pairs := strings.SplitN(query, "&", len(shownParams)+1) // the rest is none that means something
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if !slices.Contains(shownParams, name) || err != nil || !plainValue(value) || discreet(value) != value {
			pairs[i] = notShown
		}
	}
	return strings.Join(pairs, "&")
}

// plainValue reports whether a value is a number, a name, true, false or a time.
func plainValue(value string) bool {
	return len(value) <= 64 && !strings.ContainsFunc(value, func(r rune) bool { return r != ':' && r != '+' && !harmless(string(r)) })
}
