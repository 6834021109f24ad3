package compat

import (
	"net/http"
	"strconv"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
)

// leaf answers as Leaf's server does (github.com/Meituan-Dianping/Leaf), to any method
// except OPTIONS, which takes no number there either. Leaf has no client of its own: its callers
// read the body as a number if the status is 200.
//
// Its snowflake routes ignore their key, so they issue from one biz type.
//
// Every failure is a status of 500, with a message that has one of three numbers.
type leaf struct {
	*guests
	snowflake string // the biz type of the snowflake routes, "" for none
	now       func() time.Time
}

// Leaf's numbers of failures.
const (
	leafNotReady = -1
	leafNoKey    = -2
	leafNothing  = -3 // there is no number to give
)

func (l leaf) routes() []httpapi.Extra {
	any := []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
	}
	return []httpapi.Extra{
		{Methods: any, Path: "/api/segment/get/:key", Guests: true, Serve: l.segment, Fail: l.fail},
		{Methods: any, Path: "/api/snowflake/get/:key", Guests: true, Serve: l.snowflakeNumber, Fail: l.fail},
		{Methods: any, Path: "/decodeSnowflakeId", Guests: true, Serve: l.decode, Fail: l.fail},
	}
}

// fail answers as Spring Boot does for Leaf's exception.
func (l leaf) fail(v *httpapi.Visit, err *seqd.Error) {
	number := leafNothing
	switch err.Code {
	case seqd.CodeStarting, seqd.CodeStopping:
		number = leafNotReady
	case seqd.CodeUnknownBizType, seqd.CodeInvalidBizType:
		number = leafNoKey
	}
	answerJSON(v, http.StatusInternalServerError, utf8Type, struct {
		Timestamp int64  `json:"timestamp"` // in ms since the Unix epoch
		Status    int    `json:"status"`
		Error     string `json:"error"`
		Message   string `json:"message"`
		Path      string `json:"path"`
	}{
		Timestamp: l.now().UnixMilli(), Status: http.StatusInternalServerError, Error: "Internal Server Error",
		Message: "Result{id=" + strconv.Itoa(number) + ", status=EXCEPTION}", Path: v.Path(),
	})
}

// segment answers /api/segment/get/{key}.
func (l leaf) segment(v *httpapi.Visit) error { return l.number(v, v.Param("key")) }

// snowflakeNumber answers /api/snowflake/get/{key}.
func (l leaf) snowflakeNumber(v *httpapi.Visit) error {
	if l.snowflake == "" {
		return errNoSnowflake
	}
	return l.number(v, l.snowflake)
}

var errNoSnowflake = seqd.Errorf(seqd.CodeUnknownBizType, "compat.leafSnowflake names no biz type")

// number answers with one number.
func (l leaf) number(v *httpapi.Visit, bizType string) error {
	issuer, err := l.enter(v, bizType)
	if err != nil {
		return err
	}
	call, err := issuePlain(v, issuer, bizType, 1)
	if err != nil {
		return err
	}
	defer release(call)
	var buf [20]byte
	v.Answer(http.StatusOK, textType, strconv.AppendInt(buf[:0], call.Sequence.First(), 10))
	return nil
}

// decode answers /decodeSnowflakeId?snowflakeId=. Leaf answers a text that is no number with status
// 200 and a message.
func (l leaf) decode(v *httpapi.Visit) error {
	if l.snowflake == "" {
		return errNoSnowflake
	}
	issuer, err := l.enter(v, l.snowflake)
	if err != nil {
		return err
	}
	values, err := v.Parameters()
	if err != nil {
		return err
	}
	text, err := one(values, "snowflakeId")
	if err != nil {
		return err
	}
	parsed, err := issuer.Parse(l.snowflake, text)
	if seqd.CodeOf(err) == seqd.CodeInvalidID {
		answerJSON(v, http.StatusOK, utf8Type, map[string]string{"errorMsg": seqd.AsError(err).Detail})
		return nil
	}
	if err != nil {
		return err
	}
	if parsed.MachineID == nil || parsed.Sequence == nil {
		return seqd.Errorf(seqd.CodeInvalidRequest, "numbers of %s contain no time and no machine ID", l.snowflake)
	}
	answerJSON(v, http.StatusOK, utf8Type, map[string]string{
		"timestamp":  leafTime(parsed.Time),
		"workerId":   strconv.FormatInt(*parsed.MachineID, 10),
		"sequenceId": strconv.FormatInt(*parsed.Sequence, 10),
	})
	return nil
}

// leafTime shows a time as Leaf does: 1567733700834(2019-09-06 01:35:00.834). Leaf uses the time
// zone of its server; this is UTC.
func leafTime(t time.Time) string {
	return strconv.FormatInt(t.UnixMilli(), 10) + "(" + t.UTC().Format("2006-01-02 15:04:05.000") + ")"
}
