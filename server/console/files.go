package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
)

//go:embed web
var embedded embed.FS

// pageName is the file that is the page. It is a template, whose data is [pageData].
const pageName = "index.html"

// pageData is the data of the page.
type pageData struct {
	// Build is the folder below /console that has the other files.
	Build string
	// Modules are the scripts. A browser loads them all at once, and so has them if the node is
	// away later.
	Modules []string
}

// Parameters of the path of a file.
const (
	buildParam = "build"
	fileParam  = "file"
)

// contentTypes are the types of files by the end of their names. There are no others.
var contentTypes = map[string][]string{
	".html": {"text/html; charset=utf-8"},
	".css":  {"text/css; charset=utf-8"},
	".js":   {"text/javascript; charset=utf-8"},
	".svg":  {"image/svg+xml"},
}

// policy allows the page its own files and requests to its own origin, and nothing else. Scripts
// cannot make HTML from text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Headers of the page and its files. Do not modify them.
var (
	safe = http.Header{
		"Content-Security-Policy":      {policy},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"},
		"Referrer-Policy":              {"no-referrer"},
		"Vary":                         {"Accept-Encoding"},
		"X-Frame-Options":              {"DENY"}, // for browsers that do not know frame-ancestors
	}
	gzipped   = []string{"gzip"}
	noStore   = []string{"no-store"}
	noCache   = []string{"no-cache"} // another node or a newer version has other files
	immutable = []string{"public, max-age=31536000, immutable"}
)

// site is the page and its files.
type site struct {
	build string
	page  *file
	files map[string]*file
}

// file is a file as it is sent. It is compressed once, when somebody first wants that.
type file struct {
	contentType []string
	plain       []byte
	zipped      func() []byte
}

// web returns the site. It is made when it is first requested, because most nodes never need it.
var web = sync.OnceValue(func() *site {
	s, err := newSite(embedded, "web")
	if err != nil {
		panic(err) // a test rules this out
	}
	return s
})

// newSite returns the site of a folder.
func newSite(from fs.FS, folder string) (*site, error) {
	list, err := fs.ReadDir(from, folder) // sorted by name
	if err != nil {
		return nil, err
	}
	s, sum := &site{files: make(map[string]*file)}, sha256.New()
	for _, entry := range list {
		text, err := fs.ReadFile(from, path.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(sum, "%s %d\n", entry.Name(), len(text)) // a hash cannot fail
		sum.Write(text)
		if s.files[entry.Name()], err = newFile(entry.Name(), text); err != nil {
			return nil, err
		}
	}
	s.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return s, s.makePage()
}

// makePage takes the page out of the files and fills it in.
func (s *site) makePage() error {
	source, there := s.files[pageName]
	if !there {
		return fs.ErrNotExist
	}
	delete(s.files, pageName)
	t, err := template.New(pageName).Parse(string(source.plain))
	if err != nil {
		return err
	}
	data := pageData{Build: s.build}
	for name := range s.files {
		if path.Ext(name) == ".js" {
			data.Modules = append(data.Modules, name)
		}
	}
	slices.Sort(data.Modules)
	var text bytes.Buffer
	if err := t.Execute(&text, data); err != nil {
		return err
	}
	s.page, err = newFile(pageName, text.Bytes())
	return err
}

func newFile(name string, text []byte) (*file, error) {
	contentType, known := contentTypes[path.Ext(name)]
	if !known {
		return nil, fmt.Errorf("%s: files of this kind are not served", name)
	}
	return &file{contentType: contentType, plain: text, zipped: sync.OnceValue(func() []byte { return zip(text) })}, nil
}

// zip returns a text compressed with gzip.
func zip(text []byte) []byte {
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // it is a level that there is
	_, _ = z.Write(text)                                       // a buffer takes everything
	_ = z.Close()
	return zipped.Bytes()
}

// servePage answers /console.
func servePage(v *httpapi.Visit) error {
	s := web()
	header := v.Header()
	header["Cache-Control"] = noCache
	etag := `W/"` + s.build + `"`
	header["Etag"] = []string{etag}
	if matches(v.Request().Header["If-None-Match"], etag) {
		setSafe(header)
		v.Answer(http.StatusNotModified, nil, nil)
		return nil
	}
	s.page.send(v)
	return nil
}

// matches reports whether an If-None-Match header lists an ETag.
func matches(lines []string, etag string) bool {
	for _, line := range lines {
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry == etag || entry == "*" {
				return true
			}
		}
	}
	return false
}

// redirectToPage answers /console/, and / to browsers. Where it leads is relative, because only a
// proxy in front knows below which path people find this node.
func redirectToPage(v *httpapi.Visit) error {
	to, status := ".."+rootPath, http.StatusPermanentRedirect
	if v.Context().Value(atRoot{}) != nil {
		to, status = "."+rootPath, http.StatusTemporaryRedirect
	}
	v.Header()["Location"] = []string{to}
	v.Answer(status, nil, nil)
	return nil
}

// serveFile answers a file of the page. Another version of seqd has another build, and none of the
// files of this one: a page must not mix files of two.
func serveFile(v *httpapi.Visit) error {
	s := web()
	f := s.files[v.Param(fileParam)]
	switch {
	case v.Param(buildParam) != s.build:
		return seqd.Errorf(seqd.CodeNotFound, "this node has another build of the console: load the page again")
	case f == nil:
		return seqd.Errorf(seqd.CodeNotFound, "the console has no such file")
	}
	v.Header()["Cache-Control"] = immutable
	f.send(v)
	return nil
}

// send answers with a file.
func (f *file) send(v *httpapi.Visit) {
	header, body := v.Header(), f.plain
	setSafe(header)
	if httpapi.AcceptsGzip(v.Request().Header["Accept-Encoding"]) {
		header["Content-Encoding"] = gzipped
		body = f.zipped()
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	v.Answer(http.StatusOK, f.contentType, body)
}

// setSafe sets the headers that the page and its files have in common.
func setSafe(header http.Header) {
	for name, values := range safe {
		header[name] = values
	}
}
