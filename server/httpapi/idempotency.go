package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// Answers remembers what was answered.
type Answers interface {
	// Once fills call by issue, or returns the display forms of the numbers that were issued before for the same key, biz type and caller, with a line break
	// between two, never "". An error leaves call without numbers.
	Once(ctx context.Context, key string, call *seqd.Call, issue func(context.Context, *seqd.Call) error) (replayed string, err error)
}

// longestKey is how many characters an Idempotency-Key may have.
const longestKey = 255

// replayedTrue marks an answer that was given before.
var replayedTrue = []string{"true"}

// once issues for a request with an Idempotency-Key, or returns what was issued for it before.
func (a *API) once(c *gin.Context, keys []string, issuer *seqd.Issuer, call *seqd.Call) (replayed string, err error) {
	call.Limit = seqd.Limit{} // of the call that was here before
	switch {
	case c.Request.Method != http.MethodPost:
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is for POST; %s always issues new numbers", c.Request.Method)
	case len(keys) > 1:
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is given %d times", len(keys))
	case !validKey(keys[0]):
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is not 1 to %d visible ASCII characters", longestKey)
	case a.opts.Answers == nil:
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "this service keeps no answers for an Idempotency-Key")
	}
	if err := seqd.CheckName(call.BizType); err != nil {
		return "", err
	}
	return a.opts.Answers.Once(c.Request.Context(), keys[0], call, issuer.Issue)
}

// validKey reports whether a key is 1 to 255 visible ASCII characters.
func validKey(key string) bool {
	if key == "" || len(key) > longestKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// replay gives an answer once more: the same IDs, in the form that is asked for now.
func (a *API) replay(c *gin.Context, call *seqd.Call, lines string, batch bool) {
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	header["Idempotent-Replayed"] = replayedTrue
	if wantsText(c.Request.Header["Accept"]) {
		write(c, http.StatusOK, textType, []byte(lines+"\n"))
		return
	}
	body := make([]byte, 0, 64+len(lines)+3*call.Count)
	body = append(append(body, `{"bizType":"`...), call.BizType...)
	if batch {
		body = append(body, `","ids":[`...)
	} else {
		body = append(body, `","id":`...)
	}
	first := true
	for id := range strings.SplitSeq(lines, "\n") {
		if !first {
			body = append(body, ',')
		}
		first = false
		body = appendQuoted(body, []byte(id))
	}
	if batch {
		body = append(body, ']')
	}
	write(c, http.StatusOK, jsonType, append(body, '}'))
}
