package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/ruleset"
	"github.com/seqd/seqd/persist"
)

// Kinds of documents. The key of a stream is its biz type; the others begin with it.
const (
	kind       = "stream"
	pageKind   = "streampage"
	sourceKind = "streamsource"
)

const (
	// pageSize is how many events a page has, so that a position says in which page it is.
	pageSize = 128
	// version is that of the format of a stream, a page and a source.
	version = 1
)

// mostSources is how many sources a stream remembers in its document. Tests make it smaller.
var mostSources = 256

// stream is the state of a stream, in the document of its work.
type stream struct {
	Version int `json:"v"`
	// Page is the number of the open page, from 0, and Events what is in it.
	Page   int64   `json:"page"`
	Events []Event `json:"events"`
	// Sources are those that published last, the latest last.
	Sources []source `json:"sources"`
}

// source is how far a source is in the stream. A source is the document that events tell of.
type source struct {
	Name string `json:"name"`
	Last int64  `json:"last"`
	// Final is true if it has no events after that one.
	Final bool `json:"final,omitempty"`
}

// last returns the position of the last event.
func (s *stream) last() int64 { return s.Page*pageSize + int64(len(s.Events)) }

// lastOf returns the number of the last event of a source that the stream remembers.
func (s *stream) lastOf(name string) (last int64, known bool) {
	i := slices.IndexFunc(s.Sources, func(of source) bool { return of.Name == name })
	if i < 0 {
		return 0, false
	}
	return s.Sources[i].Last, true
}

// batch is a batch that was read, and its document.
type batch struct {
	persist.EventBatch
	doc persist.Document
	// late is true if it has waited for so long that those before it are lost.
	late bool
}

// step is what comes next: in this order, keep what leaves the document, write next, and delete what
// is done.
type step struct {
	// full is the page that next no longer has, nil if it has the same page. leave are the sources that
	// next has forgotten.
	full  []Event
	leave []source
	next  *stream
	// changed is whether next is to be written. more is whether its page is full and the batches have
	// more: then another step follows.
	changed, more bool
	// done are documents all of whose events are in next, or were in the stream before.
	done []persist.Document
}

// publish is V1, once: it returns the step that adds the events of batches to a stream, as far as the
// open page has room. others has, for sources that the stream does not remember, the numbers of
// their last events. without are the rules that a test takes out.
func (s *stream) publish(batches []batch, others map[string]int64, without ruleset.Set[rule]) (st step) {
	next := &stream{Page: s.Page, Events: slices.Clip(s.Events), Sources: slices.Clone(s.Sources)}
	st.next = next
	publishing := make(map[string]bool) // the sources that add events now
	for _, b := range ordered(batches) {
		last, known := next.lastOf(b.Source)
		if !known {
			last = others[b.Source]
		}
		if without.Has(ruleOnce) {
			last = b.First - 1
		}
		switch {
		case b.Last() <= last: // it was copied again
			st.done = append(st.done, b.doc)
			continue
		case b.First > last+1 && !b.late && !without.Has(ruleHole): // the one before is not copied yet
			continue
		}
		if len(next.Events) == pageSize {
			if st.changed {
				st.more = true
				break
			}
			st.full, next.Events = next.Events, nil
			next.Page++
		}
		from := max(last+1-b.First, 0)
		events := b.Events[from:min(from+int64(pageSize-len(next.Events)), int64(len(b.Events)))]
		for i, e := range events {
			next.Events = append(next.Events, Event{
				Position: next.last() + 1, ID: fmt.Sprintf("%s/%d", b.Source, b.First+from+int64(i)), Type: e.Type,
				BizType: b.BizType, Key: b.Key, Period: b.Period, At: e.At, Data: e.Data,
			})
		}
		st.changed, publishing[b.Source] = true, true
		last = b.First + from + int64(len(events)) - 1
		next.note(b.Source, last, b.Final && last == b.Last())
		if last < b.Last() {
			st.more = true
			break
		}
		st.done = append(st.done, b.doc)
	}
	// A source that adds events now stays: keep would say that they are in the stream, and the write of
	// next may fail.
	if n := min(len(next.Sources)-mostSources, len(next.Sources)-len(publishing)); n > 0 {
		st.leave, next.Sources = next.Sources[:n], next.Sources[n:]
	}
	return st
}

// note notes the last event of a source.
func (s *stream) note(name string, last int64, final bool) {
	s.Sources = slices.DeleteFunc(s.Sources, func(of source) bool { return of.Name == name })
	s.Sources = append(s.Sources, source{name, last, final})
}

// ordered returns batches in the order of their numbers for each source, and of when the first of a
// source was added.
func ordered(batches []batch) []batch {
	first := make(map[string]int64)
	for _, b := range batches {
		if at, ok := first[b.Source]; !ok || b.doc.Timestamp < at {
			first[b.Source] = b.doc.Timestamp
		}
	}
	list := slices.Clone(batches)
	slices.SortFunc(list, func(a, b batch) int {
		return cmp.Or(cmp.Compare(first[a.Source], first[b.Source]), cmp.Compare(a.Source, b.Source), cmp.Compare(a.First, b.First), cmp.Compare(b.Last(), a.Last()))
	})
	return list
}

// encode returns a stream as its document has it.
func (s *stream) encode() json.RawMessage {
	s.Version = version
	return text(s)
}

// text returns a body as a document has it.
func text(body any) json.RawMessage {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it is numbers and texts
	}
	return text
}

// decode is the inverse of encode. A stream that is not written yet is empty.
func decode(bizType string, text json.RawMessage) (*stream, error) {
	s := new(stream)
	if text == nil {
		return s, nil
	}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: the stream of %s: %w", persist.ErrInvalid, bizType, err)
	}
	return s, check("the stream of "+bizType, s.Version, s.Page >= 0 && len(s.Events) <= pageSize)
}

func check(what string, v int, sane bool) error {
	if v > version {
		return fmt.Errorf("%w: %s has format %d, this build knows %d", persist.ErrNewer, what, v, version)
	}
	if v < 1 || !sane {
		return fmt.Errorf("%w: %s is damaged", persist.ErrInvalid, what)
	}
	return nil
}

// pageBody is the body of a page, sourceBody that of a source.
type (
	pageBody struct {
		Version int     `json:"v"`
		Events  []Event `json:"events"`
	}
	sourceBody struct {
		Version int   `json:"v"`
		Last    int64 `json:"last"`
	}
)

func pageKey(bizType string, page int64) string { return fmt.Sprintf("%s/%016d", bizType, page) }

// pageDocument returns the document of a page that is full.
func pageDocument(bizType string, page int64, full []Event, now, expires int64) persist.Document {
	return persist.Document{Kind: pageKind, Key: pageKey(bizType, page), Revision: 1, Body: string(text(pageBody{version, full})), Timestamp: now, Expires: expires}
}

func decodePage(doc *persist.Document) ([]Event, error) {
	var b pageBody
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	return b.Events, check(doc.PersistID(), b.Version, len(b.Events) == pageSize)
}
