package httpapi

import (
	"net/http"
	"strconv"
	"strings"

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

// Prefers reports whether the Accept header prefers a type of text, such as text/plain, to JSON.
// Without a preference, or if the header is malformed, it returns false.
func Prefers(accept []string, textType string) bool {
	if len(accept) == 0 || len(accept) == 1 && accept[0] == "*/*" {
		return false
	}
	// The quality of each form comes from the most specific media range that matches it (RFC 9110,
	// section 12.5.1).
	var text, json preference
	for _, line := range accept {
		for entry := range strings.SplitSeq(line, ",") {
			mediaType, params, _ := strings.Cut(entry, ";")
			q := quality(params)
			switch strings.ToLower(strings.TrimSpace(mediaType)) {
			case textType:
				text.set(3, q)
			case "text/*":
				text.set(2, q)
			case "application/json":
				json.set(3, q)
			case "application/*":
				json.set(2, q)
			case "*/*":
				text.set(1, q)
				json.set(1, q)
			}
		}
	}
	return text.quality > json.quality
}

type preference struct {
	specific int
	quality  float64
}

func (p *preference) set(specific int, q float64) {
	if specific >= p.specific {
		p.specific, p.quality = specific, q
	}
}

// quality returns q=… of the parameters of a media type: 1 if there is none, 0 if it is malformed.
func quality(params string) float64 {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil || !(q >= 0 && q <= 1) { // NaN fails this too
				return 0
			}
			return q
		}
	}
	return 1
}
