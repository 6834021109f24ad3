package compat

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// tinyid answers as Tinyid's server does (github.com/didi/tinyid), to a GET or a POST with the
// parameters bizType, batchSize and token in the query or in a form.
//
// Its client only uses nextSegmentIdSimple. It posts an empty form, escapes neither the token nor
// the biz type, and reads currentId, loadingId, maxId, delta and remainder, separated by commas. It
// issues the numbers in (currentId, maxId] that are remainder modulo delta, and gets the next
// segment once it has issued loadingId. It tries nothing again, and throws on an empty body or a
// status of 400 and above. It would ask for ever if it got an empty segment.
//
// Everything is answered with status 200. Failures have the code 5 or 6 in the JSON object, and an
// empty body as text.
type tinyid struct{ gate *gate.Gate }

// Tinyid's codes.
const (
	tinyidBadToken = 5
	tinyidFailed   = 6
)

// loadingPercent is the share of a segment after which the client gets the next one.
const loadingPercent = 20

// maxExact is the largest number in JSON that every client reads exactly.
const maxExact = seqd.MaxNumber

func (t tinyid) routes() []httpapi.Extra {
	route := func(name string, serve func(*httpapi.Visit) error, fail func(*httpapi.Visit, *seqd.Error)) httpapi.Extra {
		return httpapi.Extra{
			Methods: []string{http.MethodGet, http.MethodPost}, Path: "/tinyid/id/" + name, Form: true, Serve: serve, Fail: fail,
		}
	}
	return []httpapi.Extra{
		route("nextId", t.nextID, t.failJSON),
		route("nextIdSimple", t.nextIDSimple, failEmpty),
		route("nextSegmentId", t.nextSegment, t.failJSON),
		route("nextSegmentIdSimple", t.nextSegmentSimple, failEmpty),
	}
}

// failJSON answers with an object that has no data.
func (t tinyid) failJSON(v *httpapi.Visit, err *seqd.Error) {
	answer := struct {
		Data    *int   `json:"data"`
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{Code: tinyidFailed, Message: err.Detail}
	if t.gate.Guard != nil && (err.Code == seqd.CodeUnauthorized || err.Code == seqd.CodeForbidden) {
		answer.Code, answer.Message = tinyidBadToken, "token is error"
	}
	answerJSON(v, http.StatusOK, utf8Type, answer)
}

// failEmpty answers with an empty body.
func failEmpty(v *httpapi.Visit, err *seqd.Error) {
	v.Answer(http.StatusOK, textType, nil)
}

// enter reads the parameters and checks the token.
func (t tinyid) enter(v *httpapi.Visit) (issuer *issuer.Issuer, bizType string, values url.Values, err error) {
	if values, err = v.Parameters(); err != nil {
		return nil, "", nil, err
	}
	if bizType, err = one(values, "bizType"); err != nil {
		return nil, "", nil, err
	}
	secret, err := one(values, "token")
	if err != nil {
		return nil, "", nil, err
	}
	who, err := t.gate.Allow(secret, access.ScopeIssue, bizType)
	v.As(who, bizType)
	if err != nil {
		return nil, "", nil, err
	}
	if err := seqd.CheckName(bizType); err != nil {
		return nil, "", nil, err
	}
	issuer, err = t.gate.Issuer()
	return issuer, bizType, values, err
}

// batch returns how many numbers are requested: 1 if the request does not say, and at most
// server.maxCount.
func (t tinyid) batch(values url.Values) (int, error) {
	text, err := one(values, "batchSize")
	if err != nil || text == "" {
		return 1, err
	}
	const most = 1<<31 - 1 // it is an int in Java
	n, err := whole(values, "batchSize", 1, most)
	return min(int(n), t.gate.MaxCount()), err
}

// numbers writes the numbers of a biz type between open and end, separated by commas.
func (t tinyid) numbers(v *httpapi.Visit, contentType []string, open, end string, most int64) error {
	issuer, bizType, values, err := t.enter(v)
	if err != nil {
		return err
	}
	count, err := t.batch(values)
	if err != nil {
		return err
	}
	var loan gate.Loan
	if count > gate.Few {
		var ok bool
		if loan, ok = t.gate.Room.Borrow(bizType, count, gate.Numbers); !ok {
			t.gate.Room.Refused.Count()
			return t.gate.Room.Refusal()
		}
		defer loan.End()
	}
	if form, err := issuer.Form(bizType); err != nil {
		return err
	} else if !form.Exact && most <= maxExact {
		return notExact(bizType)
	}
	call, err := issuePlain(v, issuer, bizType, count)
	if err != nil {
		return err
	}
	if err := checkExact(&call.Sequence, bizType, most); err != nil {
		release(call)
		return err
	}
	b := bodies.Get().(*body)
	b.text = append(b.text[:0], open...)
	b.text = call.Sequence.AppendIDs(b.text, "", "", ",")
	b.text = append(b.text, end...)
	release(call)
	if count > gate.Few {
		loan.Settle(len(b.text), cap(b.text))
	}
	v.Answer(http.StatusOK, contentType, b.text)
	if cap(b.text) <= keepBytes {
		bodies.Put(b)
	}
	return nil
}

// body is the body of an answer.
type body struct{ text []byte }

// bodies are reused, except those above keepBytes.
var bodies = sync.Pool{New: func() any { return new(body) }}

const keepBytes = 64 << 10

// checkExact returns an error if a number is above most. Numbers that were taken are skipped.
func checkExact(seq *seqd.Sequence, bizType string, most int64) error {
	for _, run := range seq.Runs() {
		if run.First > most || run.First+int64(run.Count-1)*run.Stride > most {
			return notExact(bizType)
		}
	}
	return nil
}

func notExact(bizType string) error {
	return seqd.Errorf(seqd.CodeInvalidRequest,
		"numbers of %s may be above 2^53, which not every client reads exactly in JSON: use nextIdSimple, or /seq/%[1]s", bizType)
}

// nextID answers {"data":[1,2],"code":200,"message":""}.
func (t tinyid) nextID(v *httpapi.Visit) error {
	return t.numbers(v, utf8Type, `{"data":[`, `],"code":200,"message":""}`, maxExact)
}

// nextIDSimple answers 1,2.
func (t tinyid) nextIDSimple(v *httpapi.Visit) error {
	return t.numbers(v, textType, "", "", 1<<63-1)
}

// segment is numbers that a client issues: those above CurrentID and up to MaxID that are Remainder
// modulo Delta. The client first counts up from CurrentID to such a number, so any number from
// first - Delta to first - 1 means the same to it.
type segment struct {
	CurrentID int64 `json:"currentId"` // one below the first number
	LoadingID int64 `json:"loadingId"` // once this was issued, the client gets the next segment
	MaxID     int64 `json:"maxId"`
	Delta     int   `json:"delta"`
	Remainder int   `json:"remainder"`
}

// take takes a segment.
func (t tinyid) take(v *httpapi.Visit) (s segment, err error) {
	issuer, bizType, _, err := t.enter(v)
	if err != nil {
		return s, err
	}
	run, err := issueRange(v, issuer, bizType, 0)
	if err != nil {
		return s, err
	}
	s = segment{
		CurrentID: run.First - 1, MaxID: run.First + int64(run.Count-1)*run.Stride,
		Delta: int(run.Stride), Remainder: int(run.First % run.Stride),
	}
	s.LoadingID = s.CurrentID + (s.MaxID-s.CurrentID)*loadingPercent/100
	return s, nil
}

// nextSegment answers {"data":{…},"code":200,"message":""}.
func (t tinyid) nextSegment(v *httpapi.Visit) error {
	s, err := t.take(v)
	if err != nil {
		return err
	}
	answerJSON(v, http.StatusOK, utf8Type, struct {
		Data    segment `json:"data"`
		Code    int     `json:"code"`
		Message string  `json:"message"`
	}{Data: s, Code: http.StatusOK})
	return nil
}

// nextSegmentSimple answers currentId,loadingId,maxId,delta,remainder.
func (t tinyid) nextSegmentSimple(v *httpapi.Visit) error {
	s, err := t.take(v)
	if err != nil {
		return err
	}
	var buf [96]byte
	text := buf[:0]
	for _, n := range []int64{s.CurrentID, s.LoadingID, s.MaxID, int64(s.Delta)} {
		text = append(strconv.AppendInt(text, n, 10), ',')
	}
	v.Answer(http.StatusOK, textType, strconv.AppendInt(text, int64(s.Remainder), 10))
	return nil
}
