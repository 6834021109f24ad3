package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/errorpage"
	"github.com/seqd/seqd/server/gate"
)

const (
	errorsPath = "/errors/"
	errorRoute = errorsPath + ":code"
)

// appendType appends the type of a problem document: a reference to the page of its code. It is
// relative to the URL of the request, because a proxy may serve the node below any path.
func appendType(dst []byte, c *gin.Context, code seqd.Code) []byte {
	path := strings.TrimPrefix(c.Request.URL.EscapedPath(), "/")
	for range strings.Count(path, "/") {
		dst = append(dst, "../"...)
	}
	return append(append(dst, errorsPath[1:]...), code...)
}

// errorPage answers /errors/{code}: HTML if the caller asks for it, as browsers do, and text if
// not.
func errorPage(c *gin.Context) error {
	code := seqd.Code(c.Param("code"))
	m, ok := errorpage.Of(code)
	if !ok {
		return seqd.Errorf(seqd.CodeNotFound, "there is no error code of this name")
	}
	number, _ := gate.StatusOf(code)
	status := strconv.Itoa(number) + " " + http.StatusText(number)
	header := c.Writer.Header()
	header["Vary"] = []string{"Accept"}
	if accepted(c.Request.Header["Accept"], "text/html") == 0 {
		writeDocument(c, textType, m.Text(code, status))
		return nil
	}
	body, err := m.HTML(code, status)
	if err != nil {
		return err
	}
	header["Content-Security-Policy"] = []string{errorpage.Policy}
	header["Referrer-Policy"] = noReferrer
	writeDocument(c, htmlType, body)
	return nil
}
