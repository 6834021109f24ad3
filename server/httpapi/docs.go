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
	noSniff    = []string{"nosniff"}
	noReferrer = []string{"no-referrer"}
)

// routeDocs adds the routes of the API's description. The description is built when it is first
// requested, because most nodes never need it.
func (a *API) routeDocs() {
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a.engine.Handle(method, "/openapi.json", a.document)
		a.engine.Handle(method, "/docs", a.page)
	}
}

// document answers /openapi.json.
func (a *API) document(c *gin.Context) {
	d, err := openapi.Load()
	if err != nil { // a test rules this out
		a.fail(c, err)
		return
	}
	writeDocument(c, jsonType, d.JSON)
}

// page answers /docs.
func (a *API) page(c *gin.Context) {
	d, err := openapi.Load()
	if err != nil {
		a.fail(c, err)
		return
	}
	c.Writer.Header()["Content-Security-Policy"] = []string{d.Policy}
	c.Writer.Header()["Referrer-Policy"] = noReferrer
	writeDocument(c, htmlType, d.Page)
}

func writeDocument(c *gin.Context, contentType []string, body []byte) {
	c.Writer.Header()["Cache-Control"] = noCache
	c.Writer.Header()["X-Content-Type-Options"] = noSniff
	write(c, http.StatusOK, contentType, body)
}

// Route is a method of a path that the API answers.
type Route struct {
	Method string
	// Path has its parameters in braces, as in /seq/{bizType}.
	Path string
}

// Routes returns the routes of the API, in no particular order.
func (a *API) Routes() []Route {
	var routes []Route
	for _, r := range a.engine.Routes() {
		routes = append(routes, Route{Method: r.Method, Path: pattern(r.Path)})
	}
	return routes
}

// pattern converts a path of gin, such as /seq/:bizType, to the form with braces.
func pattern(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if parameter, ok := strings.CutPrefix(part, ":"); ok {
			parts[i] = "{" + parameter + "}"
		}
	}
	return strings.Join(parts, "/")
}
