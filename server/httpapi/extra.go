package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
)

// Extra is a route that another package serves inside the middleware of the API: request IDs,
// limits, the check of web pages, metrics, traces and the access log are those of every request. It
// is not in /openapi.json. It checks tokens itself, and its errors can have a shape of their own.
// Its path is not below /seq/.
type Extra struct {
	Methods []string
	// Path has its parameters as gin writes them: /api/segment/get/:key. No other Extra has the
	// same.
	Path string
	// Form is true if a POST may have a form as its body, which [Visit.Parameters] reads. Otherwise
	// a body means nothing.
	Form bool
	// Object is the most bytes of the JSON object that a POST has as its body, which [Visit.Text]
	// reads. 0 means that there is none.
	Object int64
	// Guests is true if callers need no token of their own, although others may. Then web pages of
	// other origins are kept out as they are if nobody needs a token.
	Guests bool
	// Linked is true if web pages of other origins may lead to the route even if callers need no
	// token: it has no data, and changes nothing.
	Linked bool
	// Changes is true if requests other than GET and HEAD are changes. They get an audit line.
	Changes bool
	// Serve answers a request, or returns an error and writes nothing.
	Serve func(*Visit) error
	// Fail answers a request that failed, even before Serve. The headers Seqd-Error, which has the
	// code, and Retry-After are set. It must be fast. If Fail is nil, the answer is that of every
	// other route: a problem document.
	Fail func(*Visit, *seqd.Error)
}

// extras are the extra routes.
type extras struct {
	api    *API
	routes map[string]*Extra // by gin's name of the route
}

func newExtras(list []Extra) *extras {
	e := &extras{routes: make(map[string]*Extra, len(list))}
	for i := range list {
		e.routes[list[i].Path] = &list[i]
	}
	return e
}

// of returns the extra route of a request, or nil.
func (e *extras) of(c *gin.Context) *Extra {
	route := c.FullPath()
	if len(e.routes) == 0 || strings.HasPrefix(route, "/seq/") { // issuing must not wait for the map
		return nil
	}
	return e.routes[route]
}

// changes reports whether a request is a change by an extra route.
func (e *extras) changes(c *gin.Context) bool {
	x := e.of(c)
	return x != nil && x.Changes && c.Request.Method != http.MethodGet && c.Request.Method != http.MethodHead
}

// object returns the most bytes of the JSON object that the body of a request is, 0 for none.
func (e *extras) object(c *gin.Context) int64 {
	if x := e.of(c); x != nil && c.Request.Method == http.MethodPost {
		return x.Object
	}
	return 0
}

// readsForm reports whether the body of a request is a form that an extra route reads.
func (e *extras) readsForm(c *gin.Context) bool {
	x := e.of(c)
	return x != nil && x.Form && c.Request.Method == http.MethodPost && checkMedia(c.Request.Header, mediaForm) == nil
}

// extraRoutes adds the extra routes.
func (a *API) extraRoutes(list []Extra) {
	for _, x := range list {
		serve := x.Serve
		a.engine.Match(x.Methods, x.Path, a.middleware.errors.handler(func(c *gin.Context) error {
			return serve(&Visit{c: c, api: a})
		}))
	}
}

// Visit is a request of an [Extra] and its answer.
type Visit struct {
	c   *gin.Context
	api *API
}

// Request returns the request. The caller must not modify it.
func (v *Visit) Request() *http.Request { return v.c.Request }

// Context returns the context of the request.
func (v *Visit) Context() context.Context { return v.c.Request.Context() }

// Path returns the path of the request, unescaped.
func (v *Visit) Path() string { return v.c.Request.URL.Path }

// Param returns a parameter of the path, unescaped.
func (v *Visit) Param(name string) string { return v.c.Param(name) }

// Parameters returns the parameters in the query and after them those in the form, if the route
// reads forms. Its error repeats nothing of them.
func (v *Visit) Parameters() (url.Values, error) {
	values, err := url.ParseQuery(v.c.Request.URL.RawQuery)
	if err != nil {
		return nil, seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	if !v.api.middleware.extras.readsForm(v.c) {
		return values, nil
	}
	form, err := url.ParseQuery(string(body(v.c)))
	if err != nil {
		return nil, seqd.Errorf(seqd.CodeInvalidRequest, "the form cannot be read")
	}
	for name, list := range form {
		values[name] = append(values[name], list...)
	}
	return values, nil
}

// Text returns the text under a key of the JSON object that is the body, if the route reads one.
// The object has no other key.
func (v *Visit) Text(key string) (text string, err error) {
	o, err := readObject(body(v.c), key)
	if err != nil {
		return "", err
	}
	if _, there := o[key]; !there {
		return "", invalidBody("%s is missing", key)
	}
	return text, o.take(key, "text", &text)
}

// As says which token a request was let in with, "" for none, and which biz type it is for. Traces
// and the audit log show them.
func (v *Visit) As(who access.Identity, bizType string) {
	if who.Name != "" {
		setCaller(v.c, who)
		_ = placeOf(v.c.Request).Show() // if it has been closed, the answer gets lost as it can at any time
	}
	v.c.Params = append(v.c.Params, gin.Param{Key: "bizType", Value: bizType})
	if v.api.middleware.extras.changes(v.c) {
		setTarget(v.c, bizType)
	}
}

// Changed says which version of a definition a request made. The audit log shows it.
func (v *Visit) Changed(version int64) { setRevision(v.c, version) }

// Caller returns who sent the request.
func (v *Visit) Caller() seqd.Caller { return callerOf(v.c, &v.api.issuing.proxies) }

// Counted says how many numbers are requested. Traces show it.
func (v *Visit) Counted(n int) { v.api.issuing.tracing.count(v.c, n) }

// Catalogue returns what changes biz types, or why it cannot be used yet.
func (v *Visit) Catalogue() (admin.Catalogue, error) {
	r, err := v.api.gate.Running()
	if err != nil {
		return nil, err
	}
	return r.Catalogue, nil
}

// Header returns the header of the answer.
func (v *Visit) Header() http.Header { return v.c.Writer.Header() }

// Answer writes the answer, which is not cached unless its header says so. contentType is nil if
// there is no body. The caller must not modify it.
func (v *Visit) Answer(status int, contentType []string, body []byte) {
	if header := v.c.Writer.Header(); len(header["Cache-Control"]) == 0 {
		header["Cache-Control"] = noStore
	}
	write(v.c, status, contentType, body)
}
