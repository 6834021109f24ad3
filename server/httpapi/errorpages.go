package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/errorpage"
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
	m, known := code.Meaning()
	if !known {
		return seqd.Errorf(seqd.CodeNotFound, "there is no error code of this name")
	}
	status := strconv.Itoa(m.Status) + " " + http.StatusText(m.Status)
	header := c.Writer.Header()
	header["Vary"] = []string{"Accept"}
	if accepted(c.Request.Header["Accept"], "text/html") == 0 {
		writeDocument(c, textType, errorpage.Text(m, status))
		return nil
	}
	body, err := errorpage.HTML(m, status)
	if err != nil {
		return err
	}
	header["Content-Security-Policy"] = []string{errorpage.Policy}
	header["Referrer-Policy"] = noReferrer
	writeDocument(c, htmlType, body)
	return nil
}
