package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Header values shared by all answers. Do not modify them.
var (
	jsonType    = []string{"application/json"}
	textType    = []string{"text/plain; charset=utf-8"}
	problemType = []string{"application/problem+json"}
	noStore     = []string{"no-store"}
	bearer      = []string{"Bearer"}
)

// writeJSON writes v, which must be encodable, and a newline, as every JSON answer of this package
// ends with: so that a terminal shows its prompt on a line of its own.
func writeJSON(c *gin.Context, code int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	write(c, code, contentType, append(body, '\n'))
}

// write sends a complete answer. It sets the Content-Length if net/http would not, so that large
// answers are not chunked.
func write(c *gin.Context, code int, contentType []string, body []byte) {
	settle(c, body)
	header := c.Writer.Header()
	header["Content-Type"] = contentType
	if len(body) > 2048 {
		header["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Writer.WriteHeader(code)
	// An error means that the caller has gone. Its numbers are skipped.
	_, _ = c.Writer.Write(body)
}

// restartWriteTimeout gives what is written from now on the write timeout of the server.
func restartWriteTimeout(c *gin.Context) {
	if server, ok := c.Request.Context().Value(http.ServerContextKey).(*http.Server); ok && server.WriteTimeout > 0 {
		_ = http.NewResponseController(c.Writer).SetWriteDeadline(time.Now().Add(server.WriteTimeout))
	}
}

// appendQuoted appends s as a JSON string without HTML escaping.
func appendQuoted(dst []byte, s []byte) []byte {
	if plain(s) {
		dst = append(dst, '"')
		dst = append(dst, s...)
		return append(dst, '"')
	}
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(string(s)); err != nil {
		panic(err) // a string can always be encoded
	}
	return append(dst, bytes.TrimRight(buf.Bytes(), "\n")...)
}

// plain reports whether s needs no escaping in a JSON string.
func plain(s []byte) bool {
	for _, c := range s {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// writeLimit sets the fields of draft-ietf-httpapi-ratelimit-headers-07 for the caller's rate
// limit. reset is in seconds, rounded up.
func writeLimit(header http.Header, limit seqd.Limit) {
	header["Ratelimit-Limit"] = []string{strconv.FormatInt(limit.Quota, 10)}
	header["Ratelimit-Remaining"] = []string{strconv.FormatInt(limit.Remaining, 10)}
	header["Ratelimit-Reset"] = []string{strconv.FormatInt(int64(math.Ceil(limit.Reset.Seconds())), 10)}
}
