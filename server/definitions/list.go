package definitions

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/glob"
	"github.com/seqd/seqd/server/admin"
)

const (
	// page is how many documents are read at a time if many of them are left out of a list.
	page = 1000
	// mostLooked is the most names that one request with a pattern looks at.
	mostLooked = 10_000
	// searchPatience is how long a request with a pattern waits for those of others. They look at
	// names one after the other, because each may take a good part of a second of a processor.
	searchPatience = 5 * time.Second
)

var errSearching = &seqd.Error{Code: seqd.CodeOverloaded, Detail: "others look for biz types by patterns", RetryAfter: time.Second}

// List implements [admin.Catalogue].
func (e *Editor) List(ctx context.Context, want admin.Listing) (list []admin.BizType, next string, err error) {
	prefix, exact := glob.Prefix(want.Match)
	switch {
	case want.Match == "":
	case exact:
		list, err = e.listOne(ctx, want)
		return list, "", err
	case want.After < prefix:
		want.After = justBefore(prefix)
	}
	if want.Match != "" {
		if err := e.searching.LockWithin(ctx, searchPatience, errSearching); err != nil {
			return nil, "", err
		}
		defer e.searching.Unlock()
	}
	if e.catalogue.locked {
		return e.listConfigured(want)
	}
	return e.listStored(ctx, want)
}

// listOne lists the biz type whose name is the pattern, if there is one.
func (e *Editor) listOne(ctx context.Context, want admin.Listing) ([]admin.BizType, error) {
	if want.After >= want.Match {
		return nil, nil
	}
	b, err := e.Get(ctx, want.Match)
	switch {
	case seqd.CodeOf(err) == seqd.CodeUnknownBizType:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []admin.BizType{b}, nil
}

// justBefore returns a text that comes before a prefix, which is not empty, and after every name
// that comes before the prefix. Names have no character as high as a tilde.
func justBefore(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string(rune(prefix[last]-1)) + "~"
}

// listStored lists what the store says. With a pattern it looks at mostLooked names at most.
func (e *Editor) listStored(ctx context.Context, want admin.Listing) (list []admin.BizType, next string, err error) {
	prefix, _ := glob.Prefix(want.Match)
	after, left := want.After, mostLooked
	for many := want.Limit + 1; ; many = page { // one more, to know whether this is the last page
		if want.Match != "" {
			many = min(many, left)
		}
		docs, err := e.records.documents.List(ctx, kind, after, many)
		if err != nil {
			return nil, "", storeError(err)
		}
		for _, doc := range docs {
			after = doc.Key
			if !strings.HasPrefix(doc.Key, prefix) { // so are all that follow
				return list, "", nil
			}
			if want.Match != "" && !glob.Match(want.Match, doc.Key) {
				continue
			}
			said, err := decode(doc)
			switch {
			case err == nil && said.Deleted:
			case len(list) == want.Limit:
				return list, list[want.Limit-1].Name, nil
			default:
				list = append(list, e.shown(doc.Key, doc.Revision, doc.Timestamp, said))
			}
		}
		if len(docs) < many {
			return list, "", nil
		}
		if left -= len(docs); want.Match != "" && left <= 0 {
			return list, after, nil
		}
	}
}

// listConfigured lists what the configuration says.
func (e *Editor) listConfigured(want admin.Listing) (list []admin.BizType, next string, err error) {
	var names []string
	for _, b := range e.cfg.BizTypes {
		if b.Name > want.After && (want.Match == "" || glob.Match(want.Match, b.Name)) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(want.Limit, len(names))] {
		list = append(list, e.configured(name))
	}
	if len(names) > want.Limit {
		next = names[want.Limit-1]
	}
	return list, next, nil
}
