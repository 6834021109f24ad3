package httpapi

import (
	"net/http"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// exchange holds what one request for numbers needs. It is reused, so that a request for one ID
// allocates almost nothing.
type exchange struct {
	call seqd.Call
	body []byte
}

var (
	exchanges = sync.Pool{New: func() any { return &exchange{body: make([]byte, 0, 256)} }}
	// batches holds the exchanges of requests for more than a few IDs, which are large. Their
	// bodies are in bodies, because they are in use for longer.
	batches = sync.Pool{New: func() any { return new(exchange) }}
	bodies  = sync.Pool{New: func() any { return new(largeBody) }}
)

// largeBody is the body of an answer. It is used for longer than its exchange.
type largeBody struct{ bytes []byte }

// keepBytes is the largest body that is kept for reuse.
const keepBytes = 512 << 10

func (x *exchange) release() {
	if cap(x.body) > keepBytes {
		return
	}
	x.call.Caller = seqd.Caller{}
	x.body = x.body[:0]
	exchanges.Put(x)
}

// issuing serves /seq/{bizType} and POST /seq/{bizType}/reservations.
type issuing struct {
	gate    *gate.Gate
	errors  *errorWriter
	tracing *tracing
	noRoom  *busyReply
	keyed   *keyed
	proxies forwarded.Proxies
}

// issue answers GET and POST /seq/{bizType}.
func (i *issuing) issue(c *gin.Context) { i.answer(c, seqd.AnyNumbers) }

// answer answers a request for numbers.
func (i *issuing) answer(c *gin.Context, want seqd.Want) {
	issuer, err := i.gate.Issuer()
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	o, err := readOrder(c.Request.URL.RawQuery, want, i.gate.MaxCount())
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	if err := checkKeyHeader(c.Request.Header); err != nil {
		i.errors.fail(c, err)
		return
	}
	i.tracing.count(c, o.count)
	if o.count > gate.Few {
		i.answerMany(c, issuer, &o)
		return
	}
	x := exchanges.Get().(*exchange)
	defer x.release()
	contentType, err := i.fill(c, issuer, x, &o)
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	write(c, o.status(), contentType, x.body)
}

// checkKeyHeader returns an error for a header that somebody takes for Idempotency-Key. If it were
// ignored, a repeated request would take another number.
func checkKeyHeader(header http.Header) error {
	for _, name := range [...]string{"X-Idempotency-Key", "Idempotency_key", "Idempotent-Key"} {
		if len(header[name]) > 0 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "there is no header %s: it is Idempotency-Key", name)
		}
	}
	return nil
}

// answerMany is answer for an answer that may take a lot of memory. While the answer is written,
// only its bytes are held.
func (i *issuing) answerMany(c *gin.Context, issuer *issuer.Issuer, o *order) {
	units := o.count
	if len(c.Request.Header["Idempotency-Key"]) > 0 {
		units *= 2 // the answer is kept as well
	}
	l, ok := i.gate.Room.Borrow(c.Param("bizType"), units, gate.Numbers)
	if !ok {
		i.errors.refuse(c, i.noRoom)
		return
	}
	defer l.End()
	l.Made(o.count)
	body := bodies.Get().(*largeBody)
	contentType, err := i.make(c, issuer, body, o, int(l.Expected()))
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	l.Settle(len(body.bytes), cap(body.bytes))
	write(c, o.status(), contentType, body.bytes)
	if cap(body.bytes) <= keepBytes {
		bodies.Put(body)
	}
}

// make puts an answer into body. When it returns, everything else that it used is free for other
// requests.
func (i *issuing) make(c *gin.Context, issuer *issuer.Issuer, body *largeBody, o *order, size int) (contentType []string, err error) {
	x := batches.Get().(*exchange)
	if n := cap(body.bytes); n < size || n > 4*size {
		body.bytes = make([]byte, 0, size)
	}
	x.body = body.bytes[:0]
	contentType, err = i.fill(c, issuer, x, o)
	body.bytes, x.body = x.body, nil
	x.call.Caller = seqd.Caller{}
	if cap(body.bytes) <= keepBytes {
		batches.Put(x)
	}
	return contentType, err
}

// fill issues, reserves or replays, and puts the answer into the body of x.
func (i *issuing) fill(c *gin.Context, issuer *issuer.Issuer, x *exchange, o *order) (contentType []string, err error) {
	keys := c.Request.Header["Idempotency-Key"]
	x.call.BizType = c.Param("bizType")
	x.call.Count, x.call.Want, x.call.Key, x.call.TTL, x.call.Once = o.count, o.want, o.key, o.ttl, ""
	x.call.AnswerKept = false
	x.call.Caller = callerOf(c, &i.proxies)
	replayed := ""
	if len(keys) == 0 {
		err = issuer.Issue(c.Request.Context(), &x.call)
	} else {
		replayed, err = i.keyed.once(c, keys, issuer, &x.call)
	}
	header := c.Writer.Header()
	if x.call.Limit.Quota > 0 {
		writeLimit(header, x.call.Limit)
	}
	if err != nil {
		return nil, err
	}
	header["Cache-Control"] = noStore
	if replayed != "" || x.call.Replayed {
		header["Idempotent-Replayed"] = replayedTrue
	}
	if o.want == seqd.ReservedNumbers {
		header["Location"] = []string{reservationPath(x.call.Reservation.ID)}
		x.body = appendReservation(x.body, &x.call, false)
		return jsonType, nil
	}
	text := Prefers(c.Request.Header["Accept"], "text/plain")
	switch {
	case replayed != "":
		x.body = appendReplayed(x.body, x.call.BizType, replayed, o.batch, text)
	case text:
		x.body = x.call.Sequence.AppendIDs(x.body, "", "\n", "")
	default:
		x.body = appendJSON(x.body, &x.call, o.batch)
	}
	if text {
		return textType, nil
	}
	x.body = append(x.body, '\n')
	return jsonType, nil
}

// appendJSON appends {"bizType":"order","id":"100"}, or "ids" with an array for a batch.
func appendJSON(dst []byte, call *seqd.Call, batch bool) []byte {
	dst = append(dst, `{"bizType":"`...)
	dst = append(dst, call.BizType...) // a valid name needs no escaping
	if batch {
		dst = append(dst, `","ids":[`...)
		dst = appendStrings(dst, &call.Sequence)
		return append(dst, "]}"...)
	}
	dst = append(dst, `","id":`...)
	dst = appendStrings(dst, &call.Sequence)
	return append(dst, '}')
}

// appendStrings appends the IDs as JSON strings. It escapes display forms made by plugins, which
// may contain anything.
func appendStrings(dst []byte, seq *seqd.Sequence) []byte {
	if !seq.Shown() {
		return seq.AppendIDs(dst, `"`, `"`, ",")
	}
	first := true
	for shown := range seq.Displays() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendQuoted(dst, shown)
	}
	return dst
}
