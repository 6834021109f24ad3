package compat

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// cosid answers as CosId's proxy server does (github.com/Ahoo-Wang/CosId), for segments.
//
// Its client creates a distributor once, then gets segments: it asks for step numbers and is told
// the last of them. It asks for several segments at once if it needs many numbers soon. It parses
// the answer as JSON if the content type says so, and rejects text. It tries nothing again, and
// throws on a status of 400 and above.
//
// The offset of a distributor is the number before its first one, and is only used when it is
// created. The step is the client's: each request for numbers has it again.
type cosid struct {
	*guests
	create *creations // nil if clients create no biz types
}

func (s cosid) routes() []httpapi.Extra {
	return []httpapi.Extra{
		{
			Methods: []string{http.MethodPost}, Path: "/segments/distributor/:namespace/:name",
			Guests: true, Changes: s.create != nil, Serve: s.distributor, Fail: failCosID,
		},
		{Methods: []string{http.MethodPatch}, Path: "/segments/:namespace/:name", Guests: true, Serve: s.nextMax, Fail: failCosID},
	}
}

// failCosID answers with an error object. Its code is the status as text, as theirs is.
func failCosID(v *httpapi.Visit, err *seqd.Error) {
	status := gate.StatusOf(err.Code)
	answerFailure(v, status, strconv.Itoa(status), err)
}

func answerFailure(v *httpapi.Visit, status int, code string, err *seqd.Error) {
	answerJSON(v, status, jsonType, struct {
		Code   string `json:"code"`
		Msg    string `json:"msg"`
		Errors []int  `json:"errors"`
	}{Code: code, Msg: err.Detail, Errors: []int{}})
}

// asked returns the biz type that the path names, its issuer and the parameters. The path is
// {namespace}.{name}, where a dot stands for the @ that CosId puts between a name and a period,
// which is not allowed in a name.
func (s cosid) asked(v *httpapi.Visit) (bizType string, issuer *issuer.Issuer, values url.Values, err error) {
	bizType = v.Param("namespace") + "." + strings.ReplaceAll(v.Param("name"), "@", ".")
	if err = seqd.CheckName(bizType); err == nil {
		issuer, err = s.enter(v, bizType)
	}
	if err == nil {
		values, err = v.Parameters()
	}
	return bizType, issuer, values, err
}

// distributor answers POST /segments/distributor/{namespace}/{name}?offset=&step=.
func (s cosid) distributor(v *httpapi.Visit) error {
	bizType, issuer, values, err := s.asked(v)
	if err != nil {
		return err
	}
	offset, err := whole(values, "offset", 0, seqd.MaxNumber-1)
	if err != nil {
		return err
	}
	if _, err := s.step(values); err != nil {
		return err
	}
	err = checkPlain(issuer, bizType)
	if s.create != nil && seqd.CodeOf(err) == seqd.CodeUnknownBizType {
		err = s.make(v, issuer, bizType, offset)
	}
	if err != nil {
		return err
	}
	v.Answer(http.StatusOK, nil, nil)
	return nil
}

// step returns how many numbers the client asks for at once: no more than others may.
func (s cosid) step(values url.Values) (int, error) {
	step, err := whole(values, "step", 1, seqd.MaxNumber)
	if err == nil && step > int64(s.gate.MaxCount()) {
		err = seqd.Errorf(seqd.CodeInvalidCount, "step is %d and must be a whole number from 1 to %d: set server.maxCount higher if clients need more at once", step, s.gate.MaxCount())
	}
	return int(step), err
}

// make creates a biz type whose first number follows offset, unless there is one.
func (s cosid) make(v *httpapi.Visit, issuer *issuer.Issuer, bizType string, offset int64) error {
	catalogue, err := v.Catalogue()
	if err != nil {
		return err
	}
	if err := s.create.begin(v.Context()); err != nil {
		return err
	}
	defer s.create.end()
	if err := s.create.room(v.Context(), catalogue); err != nil {
		// another node may have created this one
		if known := s.follow(v, issuer, bizType); seqd.CodeOf(known) != seqd.CodeUnknownBizType {
			return known
		}
		return err
	}
	definition, err := json.Marshal(map[string]any{"strategy": "segment", "start": offset + 1, "reset": "never", "keyed": false})
	if err != nil {
		return err
	}
	made, _, err := catalogue.Put(v.Context(), bizType, definition, admin.Change{Check: func(version int64) error {
		if version > 0 {
			return seqd.Errorf(seqd.CodePreconditionFailed, "another request has created the biz type %s", bizType)
		}
		return nil
	}})
	if err == nil {
		v.Changed(made.Version)
		return nil
	}
	if seqd.CodeOf(err) != seqd.CodePreconditionFailed {
		return err
	}
	return s.follow(v, issuer, bizType)
}

// follow makes this node use a biz type that another node has created a moment ago. It returns
// [seqd.CodeUnknownBizType] if there is none.
func (s cosid) follow(v *httpapi.Visit, issuer *issuer.Issuer, bizType string) error {
	catalogue, err := v.Catalogue()
	if err != nil {
		return err
	}
	// a change of nothing reads the definition, and this node then follows it
	if _, err := catalogue.Patch(v.Context(), bizType, []byte("{}"), admin.Change{Check: func(int64) error { return nil }}); err != nil {
		return err
	}
	return checkPlain(issuer, bizType)
}

// nextMax answers PATCH /segments/{namespace}/{name}?step=.
func (s cosid) nextMax(v *httpapi.Visit) error {
	bizType, issuer, values, err := s.asked(v)
	if err != nil {
		return err
	}
	step, err := s.step(values)
	if err != nil {
		return err
	}
	run, err := takeRange(v, issuer, bizType, step)
	if s.create != nil && seqd.CodeOf(err) == seqd.CodeUnknownBizType {
		// the client may have created it at another node
		if err = s.follow(v, issuer, bizType); err == nil {
			run, err = takeRange(v, issuer, bizType, step)
		}
	}
	if err != nil {
		return err
	}
	var buf [20]byte
	v.Answer(http.StatusOK, jsonType, strconv.AppendInt(buf[:0], run.First+int64(run.Count)-1, 10))
	return nil
}

// takeRange takes consecutive numbers. The client issues every number of a range, so a biz type that
// leaves some out is refused.
func takeRange(v *httpapi.Visit, issuer *issuer.Issuer, bizType string, step int) (seqd.Run, error) {
	increment, err := issuer.Increment(bizType)
	if err != nil {
		return seqd.Run{}, err
	}
	if increment > 1 {
		return seqd.Run{}, seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s are %d apart, and a client of CosId would issue those between them too: use /seq/%[1]s", bizType, increment)
	}
	run, err := issueRange(v, issuer, bizType, step)
	if err == nil && run.Stride != 1 { // its increment has just changed; the numbers are skipped
		err = seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s are not consecutive any more", bizType)
	}
	return run, err
}
