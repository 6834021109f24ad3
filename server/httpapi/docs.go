package httpapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/server/openapi"
)

// Header values of the document and its page. Do not modify them.
var (
	htmlType   = []string{"text/html; charset=utf-8"}
	noCache    = []string{"no-cache"} // a newer seqd has a newer document
	noReferrer = []string{"no-referrer"}
)

// document answers /openapi.json. The description is built when it is first requested, because most
// nodes never need it.
func document(c *gin.Context) error {
	d, err := openapi.Load()
	if err != nil { // a test rules this out
		return err
	}
	writeDocument(c, jsonType, d.JSON)
	return nil
}

// page answers /docs.
func page(c *gin.Context) error {
	d, err := openapi.Load()
	if err != nil {
		return err
	}
	c.Writer.Header()["Content-Security-Policy"] = []string{d.Policy}
	c.Writer.Header()["Referrer-Policy"] = noReferrer
	writeDocument(c, htmlType, d.Page)
	return nil
}

func writeDocument(c *gin.Context, contentType []string, body []byte) {
	c.Writer.Header()["Cache-Control"] = noCache
	write(c, http.StatusOK, contentType, body)
}

// pattern converts a path of gin, such as /seq/:bizType, to the form with braces.
func pattern(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if part != "" && strings.ContainsAny(part[:1], ":*") {
			parts[i] = "{" + part[1:] + "}"
		}
	}
	return strings.Join(parts, "/")
}
