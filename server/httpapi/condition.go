package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// setETag sets the header that says which revision of a resource an answer shows.
func setETag(header http.Header, revision int64) { header["Etag"] = []string{etag(revision)} }

func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

// ifMatch is the condition of a change on the revision that it changes. The zero value is no
// condition.
type ifMatch struct {
	any  bool     // any revision will do
	tags []string // the revision must be one of these; nil without the header
}

// readIfMatch reads the header If-Match (RFC 9110, section 13.1.1): *, or entity tags separated by
// commas.
func readIfMatch(r *http.Request) (m ifMatch, err error) {
	lines := r.Header["If-Match"]
	if len(lines) == 0 {
		return m, nil
	}
	wrong := seqd.Errorf(seqd.CodeInvalidRequest, `If-Match is neither * nor a list of quoted versions, such as "7"`)
	rest := strings.Trim(strings.Join(lines, ","), " \t,")
	if rest == "*" {
		return ifMatch{any: true}, nil
	}
	for {
		weak := strings.HasPrefix(rest, "W/")
		rest = strings.TrimPrefix(rest, "W/")
		end := strings.IndexByte(rest[min(1, len(rest)):], '"')
		if !strings.HasPrefix(rest, `"`) || end < 0 {
			return m, wrong
		}
		tag := rest[:end+2]
		if weak {
			tag = "" // no revision has this tag: a weak tag never matches for a change
		}
		m.tags = append(m.tags, tag)
		rest = strings.TrimLeft(rest[end+2:], " \t")
		if rest == "" {
			return m, nil
		}
		if rest[0] != ',' {
			return m, wrong
		}
		rest = strings.TrimLeft(rest, " \t,")
	}
}

// asks reports whether the header is there.
func (m ifMatch) asks() bool { return m.any || m.tags != nil }

// check returns nil if the condition holds for the revision.
func (m ifMatch) check(revision int64) error {
	if !m.asks() || m.any && revision > 0 || slices.Contains(m.tags, etag(revision)) {
		return nil
	}
	if revision == 0 {
		return seqd.Errorf(seqd.CodePreconditionFailed, "If-Match asks for a version, and there is none")
	}
	return seqd.Errorf(seqd.CodePreconditionFailed, "If-Match names another version; the present one is %d", revision)
}

// readCondition reads the headers If-Match and If-None-Match, and returns what checks them for the
// version that a change finds; 0 means that there is nothing yet.
func readCondition(r *http.Request) (check func(version int64) error, err error) {
	match, err := readIfMatch(r)
	if err != nil {
		return nil, err
	}
	none, err := readIfNoneMatch(r)
	if err == nil && none && match.asks() {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "If-Match and If-None-Match cannot both be true")
	}
	return func(version int64) error {
		if !none {
			return match.check(version)
		}
		if version > 0 {
			return seqd.Errorf(seqd.CodePreconditionFailed, "If-None-Match is *, and there is version %d", version)
		}
		return nil
	}, err
}

// readIfNoneMatch reads the header If-None-Match. Only * makes sense for a change.
func readIfNoneMatch(r *http.Request) (none bool, err error) {
	lines := r.Header["If-None-Match"]
	if len(lines) == 0 {
		return false, nil
	}
	if len(lines) > 1 || strings.TrimSpace(lines[0]) != "*" {
		return false, seqd.Errorf(seqd.CodeInvalidRequest, "If-None-Match can only be * here")
	}
	return true, nil
}

// Limits of a page of a list.
const (
	usualPage   = 100
	largestPage = 1000
)

// readPage reads ?after= and ?limit=, the only parameters of a list.
func readPage(query string) (after string, limit int, err error) {
	values, err := readQuery(query, "after", "limit")
	if err != nil {
		return "", 0, err
	}
	return pageIn(values)
}

// pageOfBizType returns which page of a list the query asks for, and of which biz type, "" for all.
func pageOfBizType(query string) (bizType, after string, limit int, err error) {
	values, err := readQuery(query, "bizType", "after", "limit")
	if err != nil {
		return "", "", 0, err
	}
	if after, limit, err = pageIn(values); err != nil {
		return "", "", 0, err
	}
	bizType, one := values["bizType"]
	if one {
		err = seqd.CheckName(bizType)
	}
	return bizType, after, limit, err
}

// pageIn returns which page the parameters of a list ask for.
func pageIn(values map[string]string) (after string, limit int, err error) {
	if limit, err = limitIn(values); err != nil {
		return "", 0, err
	}
	if after = values["after"]; !utf8.ValidString(after) {
		return "", 0, seqd.Errorf(seqd.CodeInvalidRequest, "after is not valid UTF-8")
	}
	return after, limit, nil
}

// limitIn returns the limit among the parameters of a list.
func limitIn(values map[string]string) (limit int, err error) {
	given, there := values["limit"]
	if !there {
		return usualPage, nil
	}
	n, ok := literal.Int(given)
	if !ok || n < 1 || n > largestPage {
		return 0, seqd.Errorf(seqd.CodeInvalidRequest, "limit is %.40q and must be a whole number from 1 to %d", given, largestPage)
	}
	return int(n), nil
}

// readFlag reads a query parameter that is true or false. given is false if it is not there.
func readFlag(values map[string]string, name string) (on, given bool, err error) {
	text, given := values[name]
	on, ok := literal.Bool(text)
	if given && !ok {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "%s is not true or false", name)
	}
	return on, given, err
}

// readQuery reads a query. Each parameter must be known and may appear once.
func readQuery(query string, known ...string) (map[string]string, error) {
	if query == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	read := make(map[string]string, len(values))
	for name, given := range values {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, seqd.Errorf(seqd.CodeInvalidRequest, "there is no query parameter %.40q; this takes none", name)
		case !slices.Contains(known, name):
			return nil, seqd.Errorf(seqd.CodeInvalidRequest, "there is no query parameter %.40q; there is %s", name, strings.Join(known, ", "))
		case len(given) != 1:
			return nil, seqd.Errorf(seqd.CodeInvalidRequest, "%s is given %d times", name, len(given))
		}
		read[name] = given[0]
	}
	return read, nil
}
