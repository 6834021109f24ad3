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

// Keys under which a handler stores what the audit line says of a change.
const (
	auditTarget   = "audit target"
	auditRevision = "audit revision"
)

// audited reports whether a request is a change, or an attempt at one, and so gets an audit line.
// The route decides this, so no handler can forget it.
func audited(c *gin.Context) bool {
	return c.Request.Method != http.MethodGet && administrative(c)
}

// administrative reports whether a request is for one of the routes of administrators.
func administrative(c *gin.Context) bool {
	route := c.FullPath()
	return strings.HasPrefix(route, "/tokens") || strings.HasPrefix(route, "/biz-types")
}

// setTarget says what is being changed, if the path does not. name must be valid, because it is
// logged.
func setTarget(c *gin.Context, name string) { c.Set(auditTarget, name) }

// setRevision says which revision a change made or removed.
func setRevision(c *gin.Context, revision int64) { c.Set(auditRevision, revision) }

// auditLog writes the audit log.
type auditLog struct {
	log     *slog.Logger
	clients clients
}

// write writes the audit line of a request. The line contains nothing from headers and bodies, and
// nothing from path and query that could be a secret.
func (l auditLog) write(c *gin.Context, id string) {
	target := c.GetString(auditTarget)
	for _, param := range []string{"name", "bizType"} {
		if target == "" {
			target = c.Param(param)
		}
	}
	l.log.LogAttrs(c.Request.Context(), slog.LevelInfo, "audit",
		slog.String("token", callerName(c)), slog.String("client", l.clients.addr(c)), slog.String("requestId", id),
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.String("target", discreet(target)), slog.Int("status", c.Writer.Status()), slog.Int64("version", c.GetInt64(auditRevision)))
}

// notShown replaces what may be a secret.
const notShown = "(not shown)"

// longestShown is the most bytes of a caller's text that are logged: more than any meaningful path
// has.
const longestShown = 256

// discreet removes secrets that seqd generated from a text such as a path, in case somebody puts
// one there. It cuts a text that is too long.
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
var shownParams = []string{"count", "after", "limit", "from", "to", "dryRun", "force"}

// shownQuery returns a query as it is logged: the known parameters that have plausible values.
// Nothing is shown after a token: Tinyid's client does not escape its token, so what looks like
// another parameter may be a part of it.
func shownQuery(query string) string {
	if query == "" {
		return ""
	}
	pairs := strings.SplitN(query, "&", len(shownParams)+1) // the rest means nothing
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if name == "token" {
			return strings.Join(append(pairs[:i], notShown), "&")
		}
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
