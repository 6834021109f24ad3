package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
)

// markHeader is the header that every request of the page has. Pages of other origins cannot send
// it: a browser would first ask this node whether they may, and the answer is no.
const markHeader = "Seqd-Console"

// Files that the browser saves itself: the page would have to hold them in memory. A browser that
// follows a link sends no header of the page. The answers change nothing, and no page can read them.
var (
	// resultPath matches the paths of results of jobs, listPath those of lists, which are files if the
	// query has a format.
	resultPath = regexp.MustCompile(`^` + apiPath + `/jobs/[0-9a-f]{32}/result$`)
	listPath   = regexp.MustCompile(`^` + apiPath + `/(audit|biz-types/[^/]+/history)$`)
)

// saves reports whether a request can be that of a browser that saves a file.
func saves(r *http.Request) bool {
	path := r.URL.EscapedPath()
	return reads(r) && (resultPath.MatchString(path) || listPath.MatchString(path) && r.URL.Query().Get("format") != "")
}

// checkPage returns an error unless a request is from the page itself.
func checkPage(r *http.Request) error {
	switch mark := r.Header[markHeader]; {
	case len(mark) == 0 && saves(r) && !httpapi.FromElsewhere(r):
	case len(mark) != 1 || mark[0] != "1":
		return seqd.Errorf(seqd.CodeForbidden, "requests to the console have the header %s: 1; programs use the API itself, without %s", markHeader, apiPath)
	case httpapi.FromElsewhere(r):
		return seqd.Errorf(seqd.CodeForbidden, "a web page of another origin makes this request (Origin, Sec-Fetch-Site); "+
			"a proxy in front must pass on the Host that the browser sent, which is %.100q here", r.Host)
	}
	return nil
}

// refusal is the key of a context for why a request does not reach the API.
type refusal struct{}

// refused answers a request that does not reach the API.
func refused(v *httpapi.Visit) error {
	if err, ok := v.Context().Value(refusal{}).(error); ok {
		return err
	}
	return errNotFound
}

var errNotFound = seqd.Errorf(seqd.CodeNotFound, "there is nothing at this path")

// inside returns the request that the API gets for one below /console/api: that behind the prefix,
// with the token of the session, or the same one with the reason why it is refused. It contains no
// cookies, and no Authorization that the caller sent.
func (c *Console) inside(r *http.Request) *http.Request {
	inner := new(http.Request)
	*inner = *r
	inner.Header = r.Header.Clone()
	inner.Header.Del("Authorization")
	inner.Header.Del("Cookie")
	err := checkPage(r)
	if err == nil {
		inner.URL, err = behind(r.URL)
	}
	if err == nil {
		err = c.authorize(inner, r)
	}
	if err != nil {
		inner.URL = r.URL
		return inner.WithContext(context.WithValue(r.Context(), refusal{}, err))
	}
	inner.RequestURI = inner.URL.RequestURI()
	return inner
}

// atRoot is the key of a context for that a request was for /.
type atRoot struct{}

// reads reports whether a request cannot change anything.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// toPage returns the request that the API gets for one for /.
func toPage(r *http.Request) *http.Request {
	inner := r.WithContext(context.WithValue(r.Context(), atRoot{}, true))
	to := *r.URL
	to.Path = rootPath + "/"
	inner.URL = &to
	return inner
}

// authorize gives the request that the API gets the token of the session of the one that came. If
// there is no session, the API says whether one is needed.
func (c *Console) authorize(inner, r *http.Request) error {
	if !c.opts.TokensAskedFor {
		return nil
	}
	of, err := c.sessionOf(r)
	switch {
	case err == nil:
		inner.Header["Authorization"] = []string{"Bearer " + of.Token}
	case seqd.CodeOf(err) == seqd.CodeUnauthorized, inner.URL.Path == "/readyz", inner.URL.Path == "/healthz":
		// these tell everybody whether the store answers
	default:
		return err
	}
	return nil
}

// behind returns a URL without the prefix /console/api, which is spelled the same with and without
// escapes. What is behind it may not lead to the console again.
func behind(u *url.URL) (*url.URL, error) {
	inner := *u
	path, ok := strings.CutPrefix(u.Path, apiPath)
	if !ok || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, rootPath) {
		return nil, errNotFound
	}
	inner.Path = path
	if u.RawPath != "" {
		if inner.RawPath, ok = strings.CutPrefix(u.RawPath, apiPath); !ok || !strings.HasPrefix(inner.RawPath, "/") {
			return nil, errNotFound
		}
	}
	return &inner, nil
}
