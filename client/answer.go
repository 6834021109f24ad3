package client

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"math"
	"mime"
	"net/http"
	"sync"
	"unicode/utf8"
)

// Answers with IDs are read by hand in the form in which the service writes them. Any other form is
// left to encoding/json: IDs with escapes, further fields, another order. Whatever is not exactly
// what was asked for is an error.

// span is where an ID begins and ends in a text.
type span struct{ from, to uint32 }

// scratch holds what reading one answer needs.
type scratch struct {
	spans []span
	table []uint32
	text  []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// keepSpans is the largest scratch that is kept, in IDs.
const keepSpans = 1 << 17

func (s *scratch) release() {
	if cap(s.spans) <= keepSpans {
		s.spans, s.text = s.spans[:0], s.text[:0]
		scratches.Put(s)
	}
}

// decodeID reads the answer to a request for one ID without a count.
func decodeID(a *answer, bizType string) (string, error) {
	if err := checkMedia(a, "application/json"); err != nil {
		return "", err
	}
	if rest, ok := afterHead(a.body, bizType, `","id":"`); ok {
		end := plainEnd(rest, 0)
		if end > 0 && string(rest[end:]) == `"}` {
			return string(rest[:end]), nil
		}
	}
	issued, err := decodeSlowly(a.body, bizType)
	if err != nil {
		return "", err
	}
	if issued.ID == nil || *issued.ID == "" || issued.IDs != nil {
		return "", badAnswer("the answer has no id, or other fields than the request asked for")
	}
	return *issued.ID, nil
}

// decodeIDs reads the answer to a request for n IDs.
func decodeIDs(a *answer, bizType string, n int) (list idList, err error) {
	if err := checkMedia(a, "application/json"); err != nil {
		return list, err
	}
	if list, ok := decodeEven(a.body, bizType, n); ok {
		return list, nil
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	text := a.body
	if !s.scan(text, bizType) {
		issued, err := decodeSlowly(a.body, bizType)
		if err != nil {
			return list, err
		}
		if issued.IDs == nil || issued.ID != nil {
			return list, badAnswer("the answer has no ids, or other fields than the request asked for")
		}
		text = s.join(issued.IDs)
	}
	if err := s.check(text, n); err != nil {
		return list, err
	}
	return idList{n: n, ids: s.strings(text)}, nil
}

// checkText checks an answer of n IDs, one on each line.
func checkText(a *answer, n int) error {
	if err := checkMedia(a, "text/plain"); err != nil {
		return err
	}
	if len(a.header["X-Request-Id"]) == 0 {
		// Text has nothing of its own that tells an answer of seqd from any other page.
		return badAnswer("the answer has no X-Request-Id, so it is not one of seqd; is there a proxy or another program at this address?")
	}
	if bytes.IndexByte(a.body, '\r') >= 0 {
		return badAnswer("the answer has carriage returns, which no ID has")
	}
	if uint64(len(a.body)) > math.MaxUint32 {
		return badAnswer("the answer has more than 4 GiB; ask for fewer IDs at a time")
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	from := 0
	for from < len(a.body) {
		length := bytes.IndexByte(a.body[from:], '\n')
		if length < 0 {
			return badAnswer("the answer ends in the middle of an ID")
		}
		s.spans = append(s.spans, span{uint32(from), uint32(from + length)})
		from += length + 1
	}
	return s.check(a.body, n)
}

// checkMedia refuses an answer that is not a 200 of a media type.
func checkMedia(a *answer, want string) error {
	if a.status != http.StatusOK {
		return badAnswer("the answer is %s, not 200", statusText(a.status))
	}
	return checkIs(a, want)
}

// checkIs refuses an answer of another media type.
func checkIs(a *answer, want string) error {
	if mediaType(a.header) != want {
		return badAnswer("the answer is not %s, so it is not one of seqd; is there a proxy or another program at this address?", want)
	}
	return nil
}

// mediaType returns the media type of an answer, "" if it has none.
func mediaType(header http.Header) string {
	text := header.Get("Content-Type")
	if text == "application/json" {
		return text // the usual one, without the work
	}
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return media
}

// afterHead returns what follows `{"bizType":"`, the biz type and next.
func afterHead(body []byte, bizType, next string) (rest []byte, ok bool) {
	const begin = `{"bizType":"`
	at := len(begin) + len(bizType)
	if len(body) < at+len(next) || string(body[:len(begin)]) != begin || string(body[len(begin):at]) != bizType || string(body[at:at+len(next)]) != next {
		return nil, false
	}
	return body[at+len(next):], true
}

// plainEnd returns where the characters end, from on, that stand for themselves in a JSON string:
// visible ASCII and spaces, without quotes and backslashes.
func plainEnd(text []byte, from int) int {
	for from < len(text) && plain[text[from]] {
		from++
	}
	return from
}

var plain = func() (table [256]bool) {
	for c := ' '; c <= '~'; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// scan finds the IDs in an answer in the usual form.
func (s *scratch) scan(body []byte, bizType string) bool {
	rest, ok := afterHead(body, bizType, `","ids":["`)
	if !ok || uint64(len(body)) > math.MaxUint32 {
		return false
	}
	from := len(body) - len(rest)
	for {
		to := plainEnd(body, from)
		if to+2 >= len(body) || body[to] != '"' {
			return s.fail()
		}
		s.spans = append(s.spans, span{uint32(from), uint32(to)})
		if body[to+1] == ',' && body[to+2] == '"' {
			from = to + 3
			continue
		}
		if string(body[to+1:]) != "]}" {
			return s.fail()
		}
		return true
	}
}

func (s *scratch) fail() bool {
	s.spans = s.spans[:0]
	return false
}

// issued is an answer with IDs in any form.
type issued struct {
	BizType string   `json:"bizType"`
	ID      *string  `json:"id"`
	IDs     []string `json:"ids"`
}

// decodeSlowly reads an answer in any form.
func decodeSlowly(body []byte, bizType string) (got issued, err error) {
	if !utf8.Valid(body) {
		return got, badAnswer("the answer is not valid UTF-8")
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return got, badAnswer("the answer is not the JSON that was asked for, or was cut off")
	}
	if got.BizType != bizType {
		return got, badAnswer("the answer is for another biz type: %.80q", got.BizType)
	}
	return got, nil
}

// join puts IDs into one text.
func (s *scratch) join(ids []string) []byte {
	for _, id := range ids {
		from := len(s.text)
		s.text = append(s.text, id...)
		s.spans = append(s.spans, span{uint32(from), uint32(len(s.text))})
	}
	return s.text
}

// check refuses an answer that has not n IDs, an empty ID, or an ID twice.
func (s *scratch) check(text []byte, n int) error {
	if len(s.spans) != n {
		return badAnswer("the answer has %d IDs, and %d were asked for", len(s.spans), n)
	}
	ascending := true
	for i, at := range s.spans {
		if at.from == at.to {
			return badAnswer("ID %d of the answer is empty", i+1)
		}
		ascending = ascending && (i == 0 || less(text, s.spans[i-1], at))
	}
	// What ascends has nothing twice. Few biz types, such as obfuscated ones, need the table.
	if !ascending {
		return s.checkTwice(text)
	}
	return nil
}

// less orders IDs by length, and then by their bytes.
func less(text []byte, a, b span) bool {
	if x, y := a.to-a.from, b.to-b.from; x != y {
		return x < y
	}
	return string(text[a.from:a.to]) < string(text[b.from:b.to])
}

var seed = maphash.MakeSeed()

// checkTwice refuses an ID that is there twice. The table has twice as many places as IDs, or more,
// and holds indexes from 1 on.
func (s *scratch) checkTwice(text []byte) error {
	size := 2
	for size < 2*len(s.spans) {
		size *= 2
	}
	if cap(s.table) < size {
		s.table = make([]uint32, size)
	}
	s.table = s.table[:size]
	clear(s.table)
	for i, at := range s.spans {
		id := text[at.from:at.to]
		place := maphash.Bytes(seed, id)
		for ; ; place++ {
			entry := &s.table[place&uint64(size-1)]
			if *entry == 0 {
				*entry = uint32(i + 1)
				break
			}
			other := s.spans[*entry-1]
			if string(text[other.from:other.to]) == string(id) {
				return badAnswer("the answer has the ID %.80q twice", id)
			}
		}
	}
	return nil
}

// chunkBytes is about how much text the IDs of one chunk share. An ID that a caller keeps holds the
// memory of its chunk.
const chunkBytes = 1024

// strings returns the IDs as parts of strings of about chunkBytes.
func (s *scratch) strings(text []byte) []string {
	ids := make([]string, 0, len(s.spans))
	for spans := s.spans; len(spans) > 0; {
		begin := spans[0].from
		n := 1
		for n < len(spans) && spans[n].to-begin <= chunkBytes {
			n++
		}
		chunk := string(text[begin:spans[n-1].to])
		for _, at := range spans[:n] {
			ids = append(ids, chunk[at.from-begin:at.to-begin])
		}
		spans = spans[n:]
	}
	return ids
}
