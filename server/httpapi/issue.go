package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
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

// issuing serves /seq/{bizType}.
type issuing struct {
	gate    *gate.Gate
	errors  *errorWriter
	tracing *tracing
	noRoom  *busyReply
	keyed   *keyed
	clients clients
}

// issue answers GET and POST /seq/{bizType}.
func (i *issuing) issue(c *gin.Context) {
	issuer, err := i.gate.Issuer()
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	count, batch, err := i.count(c.Request.URL.RawQuery)
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	i.tracing.count(c, count)
	if count > gate.Few {
		i.issueMany(c, issuer, count)
		return
	}
	x := exchanges.Get().(*exchange)
	defer x.release()
	contentType, err := i.fill(c, issuer, x, count, batch)
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	write(c, http.StatusOK, contentType, x.body)
}

// issueMany is issue for an answer that may take a lot of memory. While the answer is written, only
// its bytes are held.
func (i *issuing) issueMany(c *gin.Context, issuer *seqd.Issuer, count int) {
	units := count
	if len(c.Request.Header["Idempotency-Key"]) > 0 {
		units *= 2 // the answer is kept as well
	}
	l, ok := i.gate.Room.Borrow(c.Param("bizType"), units, gate.Numbers)
	if !ok {
		i.errors.refuse(c, i.noRoom)
		return
	}
	defer l.End()
	l.Made(count)
	body := bodies.Get().(*largeBody)
	contentType, err := i.make(c, issuer, body, count, int(l.Expected()))
	if err != nil {
		i.errors.fail(c, err)
		return
	}
	l.Settle(len(body.bytes), cap(body.bytes))
	write(c, http.StatusOK, contentType, body.bytes)
	if cap(body.bytes) <= keepBytes {
		bodies.Put(body)
	}
}

// make puts an answer into body. When it returns, everything else that it used is free for other
// requests.
func (i *issuing) make(c *gin.Context, issuer *seqd.Issuer, body *largeBody, count, size int) (contentType []string, err error) {
	x := batches.Get().(*exchange)
	if n := cap(body.bytes); n < size || n > 4*size {
		body.bytes = make([]byte, 0, size)
	}
	x.body = body.bytes[:0]
	contentType, err = i.fill(c, issuer, x, count, true)
	body.bytes, x.body = x.body, nil
	x.call.Caller = seqd.Caller{}
	if cap(body.bytes) <= keepBytes {
		batches.Put(x)
	}
	return contentType, err
}

// fill issues or replays, and puts the answer into the body of x.
func (i *issuing) fill(c *gin.Context, issuer *seqd.Issuer, x *exchange, count int, batch bool) (contentType []string, err error) {
	keys := c.Request.Header["Idempotency-Key"]
	x.call.BizType = c.Param("bizType")
	x.call.Count = count
	x.call.Caller.Name = callerName(c)
	x.call.Caller.Addr = i.clients.addr(c)
	x.call.Caller.RequestID = requestID(c)
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
	text := wantsText(c.Request.Header["Accept"])
	switch {
	case replayed != "":
		header["Idempotent-Replayed"] = replayedTrue
		x.body = appendReplayed(x.body, x.call.BizType, replayed, batch, text)
	case text:
		x.body = x.call.Sequence.AppendIDs(x.body, "", "\n", "")
	default:
		x.body = appendJSON(x.body, &x.call, batch)
	}
	if text {
		return textType, nil
	}
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

// count reads ?count=. batch is true if it is given. Any other parameter is an error.
func (i *issuing) count(query string) (count int, batch bool, err error) {
	if query == "" {
		return 1, false, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, false, seqd.Errorf(seqd.CodeInvalidRequest, "the query cannot be read")
	}
	if len(values) == 0 { // only separators
		return 1, false, nil
	}
	for name := range values {
		if name != "count" {
			return 0, false, seqd.Errorf(seqd.CodeInvalidRequest, "there is no query parameter %.40q; count is the only one", name)
		}
	}
	given := values["count"]
	if len(given) != 1 {
		return 0, false, seqd.Errorf(seqd.CodeInvalidCount, "count is given %d times", len(given))
	}
	count, err = strconv.Atoi(given[0])
	if err != nil || count < 1 || count > i.gate.MaxCount || given[0][0] == '+' {
		return 0, false, seqd.Errorf(seqd.CodeInvalidCount, "count is %.40q and must be a whole number from 1 to %d", given[0], i.gate.MaxCount)
	}
	return count, true, nil
}
