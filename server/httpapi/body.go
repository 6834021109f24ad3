package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Media types of the bodies of changes.
var (
	mediaJSON  = []string{"application/json"}
	mediaPatch = []string{"application/merge-patch+json", "application/json"}
	mediaForm  = []string{"application/x-www-form-urlencoded"}
)

// mediaOf returns the media types that the body of a request may have, or nil if the handler reads
// no body, as for numbers.
func mediaOf(c *gin.Context) []string {
	route := c.FullPath()
	switch method := c.Request.Method; {
	case route == "" || strings.HasPrefix(route, "/seq/"):
		return nil
	case method == http.MethodPut, method == http.MethodPost && (route == "/tokens" || route == voidsRoute || route == workersRoute || route == jobsRoute || route == replayRoute || route == secretsRoute && hasBody(c)),
		method == http.MethodDelete && route == leaseRoute && hasBody(c):
		return mediaJSON
	case method == http.MethodPatch:
		return mediaPatch
	}
	return nil
}

// bodyReader reads the bodies of requests.
type bodyReader struct{ most int64 } // the largest size, in bytes

// discard reads a body of at most the largest size.
func (b bodyReader) discard(c *gin.Context) error { return b.copy(c, io.Discard) }

// refuse reads a body of at most the largest size, and returns an error unless it is empty: whoever
// sends one means something by it.
func (b bodyReader) refuse(c *gin.Context) error {
	var read size
	if err := b.copy(c, &read); err != nil {
		return err
	}
	if read > 0 {
		return invalidBody("this request has no body: its parameters are in the query, such as ?count=3, and an Idempotency-Key is a header")
	}
	return nil
}

// size counts what is written to it, in bytes.
type size int64

func (s *size) Write(p []byte) (int, error) {
	*s += size(len(p))
	return len(p), nil
}

// hold reads a body of at most the largest size, which must have one of the media types, and
// keeps it for the handler.
func (b bodyReader) hold(c *gin.Context, media []string) error {
	if err := checkMedia(c.Request.Header, media); err != nil {
		return err
	}
	var text bytes.Buffer // it grows with what arrives, whatever Content-Length says
	if err := b.copy(c, &text); err != nil {
		return err
	}
	c.Request.Body = io.NopCloser(&text)
	return nil
}

// copy reads a body of at most the largest size. If there is more, MaxBytesReader makes
// net/http close the connection gently, so that the caller can read the answer. It needs the writer
// below gin's for that.
func (b bodyReader) copy(c *gin.Context, to io.Writer) error {
	tooLarge := seqd.Errorf(seqd.CodeBodyTooLarge, "the body has more than %d bytes", b.most)
	if c.Request.ContentLength > b.most && c.Request.Header.Get("Expect") != "" {
		return tooLarge // the caller sent Expect: 100-continue and waits
	}
	_, err := io.Copy(to, http.MaxBytesReader(below(c), c.Request.Body, b.most))
	if _, limit := errors.AsType[*http.MaxBytesError](err); limit {
		return tooLarge
	}
	if err != nil {
		return &seqd.Error{Code: seqd.CodeInvalidRequest, Detail: "the body cannot be read", Err: err}
	}
	return nil
}

// closeGently prepares an answer that does not read the body, on a connection that it ends.
// net/http would close the connection at once, and the caller would get a reset instead of the
// answer. The only way to prevent that is a MaxBytesReader that exceeds its limit.
func closeGently(c *gin.Context) {
	ends := c.Request.Close || len(c.Writer.Header()["Connection"]) > 0
	if !ends || c.Request.ContentLength == 0 {
		return
	}
	_, _ = http.MaxBytesReader(below(c), io.NopCloser(strings.NewReader("more")), 0).Read(make([]byte, 1))
}

// below returns the writer below gin's.
func below(c *gin.Context) http.ResponseWriter {
	if inner, ok := c.Writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return inner.Unwrap()
	}
	return c.Writer
}

// body returns what bodyReader.hold has read.
func body(c *gin.Context) []byte {
	text, _ := io.ReadAll(c.Request.Body) // it is in memory
	return text
}

func checkMedia(header http.Header, allowed []string) error {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || len(header["Content-Type"]) != 1 || !slices.Contains(allowed, mediaType) {
		return seqd.Errorf(seqd.CodeUnsupportedMediaType, "the Content-Type must be %s", strings.Join(allowed, " or "))
	}
	if encoding := header["Content-Encoding"]; len(encoding) > 1 || len(encoding) == 1 && !strings.EqualFold(encoding[0], "identity") {
		return seqd.Errorf(seqd.CodeUnsupportedMediaType, "the body must not be compressed")
	}
	return nil
}

// object is a JSON object with undecoded values.
type object map[string]json.RawMessage

// readObject reads a body that must be a JSON object. Each key must be known, in exactly this
// spelling, and may appear once.
func readObject(body []byte, known ...string) (object, error) {
	if !utf8.Valid(body) {
		return nil, invalidBody("the body is not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, invalidBody("the body is not a JSON object")
	}
	read := make(object)
	for decoder.More() {
		token, err := decoder.Token()
		key, isText := token.(string)
		if err != nil || !isText {
			return nil, invalidBody("the body is not JSON")
		}
		if !slices.Contains(known, key) {
			return nil, invalidBody("%.40q is not one of the keys %s", key, strings.Join(known, ", "))
		}
		if _, twice := read[key]; twice {
			return nil, invalidBody("%s appears twice", key)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, invalidBody("the value of %s is not JSON", key)
		}
		read[key] = value
	}
	if _, err := decoder.Token(); err != nil { // the end of the object
		return nil, invalidBody("the body is not JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalidBody("there is something after the JSON object")
	}
	return read, nil
}

func invalidBody(format string, args ...any) *seqd.Error {
	return seqd.Errorf(seqd.CodeInvalidRequest, format, args...)
}

// null reports whether the key is there and its value is null.
func (o object) null(key string) bool { return string(o[key]) == "null" }

// take decodes the value of a key, if the key is there, into to. kind is the expected kind of
// value, for the error.
func (o object) take(key, kind string, to any) error {
	raw, there := o[key]
	if !there {
		return nil
	}
	if o.null(key) || json.Unmarshal(raw, to) != nil {
		return invalidBody("%s: it is not %s", key, kind)
	}
	return nil
}

// takeTexts is take for a list of strings. It rejects null, which package json would accept as an
// empty list.
func (o object) takeTexts(key string, to *[]string) error {
	const kind = "a list of text"
	if _, there := o[key]; !there {
		return nil
	}
	var items []*string
	if err := o.take(key, kind, &items); err != nil {
		return err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if item == nil {
			return invalidBody("%s: it is not %s", key, kind)
		}
		texts[i] = *item
	}
	*to = texts
	return nil
}
