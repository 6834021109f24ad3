package httpapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/gate"
)

// longestKey is how many characters an Idempotency-Key may have.
const longestKey = 255

// replayedTrue is the header value of a replayed answer.
var replayedTrue = []string{"true"}

// keyed answers requests with an Idempotency-Key, and counts them by outcome.
type keyed struct {
	gate                     *gate.Gate
	issued, replayed, failed atomic.Int64
}

// once issues for a request, or returns what was issued for it earlier: in replayed, or in call if
// its ledger has kept it.
func (k *keyed) once(c *gin.Context, keys []string, issuer *issuer.Issuer, call *seqd.Call) (replayed string, err error) {
	replayed, err = k.tryOnce(c, keys, issuer, call)
	k.count(replayed != "" || call.Replayed, err)
	return replayed, err
}

func (k *keyed) tryOnce(c *gin.Context, keys []string, issuer *issuer.Issuer, call *seqd.Call) (replayed string, err error) {
	call.Limit, call.Replayed = seqd.Limit{}, false // call is reused, and this belongs to its previous request
	if c.Request.Method != http.MethodPost {
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is for POST; %s always issues new numbers", c.Request.Method)
	}
	if err := checkKeys(keys); err != nil {
		return "", err
	}
	if err := seqd.CheckName(call.BizType); err != nil {
		return "", err
	}
	call.Once = onceOf(call, keys[0])
	r, err := k.gate.Running()
	if err != nil {
		return "", err
	}
	if r.Answers != nil {
		r.Answers.Admit(call)
	}
	switch {
	case issuer.KeepsAnswers(call.BizType):
		return "", issuer.Issue(c.Request.Context(), call)
	case r.Answers == nil:
		return "", seqd.Errorf(seqd.CodeInvalidRequest, "this service keeps no answers for an Idempotency-Key")
	}
	replayed, err = r.Answers.Once(c.Request.Context(), keys[0], call, issuer.Issue)
	if replayed != "" && call.Want == seqd.ReservedNumbers {
		return "", seqd.Errorf(seqd.CodeIdempotencyKeyReused, "this Idempotency-Key was used for numbers that were issued; a new request needs a new key")
	}
	return replayed, err
}

// onceOf returns what identifies a request in the ledger of its biz type; see [seqd.Order]. It is a
// hash, because an Idempotency-Key can be longer than that may be. It does not depend on what is
// asked for, so that the ledger refuses a key that is used for something else.
func onceOf(call *seqd.Call, key string) string {
	buf := make([]byte, 0, 256)
	for _, part := range [...]string{call.BizType, call.Key, call.Caller.OwnerID(), key} {
		buf = strconv.AppendInt(buf, int64(len(part)), 10)
		buf = append(append(buf, ':'), part...)
	}
	sum := sha256.Sum256(buf)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func (k *keyed) count(replayed bool, err error) {
	switch {
	case err != nil:
		k.failed.Add(1)
	case replayed:
		k.replayed.Add(1)
	default:
		k.issued.Add(1)
	}
}

// checkKeys returns an error unless the values of a header Idempotency-Key that is there are one key.
func checkKeys(keys []string) error {
	switch {
	case len(keys) > 1:
		return seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is given %d times", len(keys))
	case !validKey(keys[0]):
		return seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is not 1 to %d visible ASCII characters", longestKey)
	}
	return nil
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

// appendReplayed appends a replayed answer: the same IDs, in the form that is requested now.
func appendReplayed(dst []byte, bizType, lines string, batch, text bool) []byte {
	if text {
		return append(append(dst, lines...), '\n')
	}
	dst = append(append(dst, `{"bizType":"`...), bizType...)
	if batch {
		dst = append(dst, `","ids":[`...)
	} else {
		dst = append(dst, `","id":`...)
	}
	first := true
	for id := range strings.SplitSeq(lines, "\n") {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendQuoted(dst, []byte(id))
	}
	if batch {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// checkKeyless returns an error for an Idempotency-Key, or a header that somebody takes for one, if
// the answer is not kept and cannot be made again. If it were ignored, a repeated request would
// make another secret, lease another worker ID, or take another number by a drop-in.
func (l *limits) checkKeyless(c *gin.Context) error {
	route := c.FullPath()
	makesAnother := c.Request.Method == http.MethodPost && (route == "/tokens" || route == secretsRoute || route == workersRoute)
	if !makesAnother && l.extras.of(c) == nil {
		return nil
	}
	if len(c.Request.Header["Idempotency-Key"]) > 0 {
		return seqd.Errorf(seqd.CodeInvalidRequest, "Idempotency-Key is for POST /seq/{bizType} and its reservations; the answer to this request is not kept, so a repeated one gets another")
	}
	return checkKeyHeader(c.Request.Header)
}
