package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/gate"
)

// idOf returns the caller's X-Request-Id if it is harmless, otherwise a new ID, as a header value.
func idOf(r *http.Request, ids *gate.IDs) []string {
	if given := r.Header["X-Request-Id"]; len(given) == 1 && harmless(given[0]) && discreet(given[0]) == given[0] {
		return given
	}
	return []string{ids.Next()}
}

// harmless reports whether a caller's ID may go into logs and headers.
func harmless(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// requestID returns the ID of the request.
func requestID(c *gin.Context) string {
	if id := c.Writer.Header()["X-Request-Id"]; len(id) == 1 {
		return id[0]
	}
	return ""
}
