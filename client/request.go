package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Request is a request for [Client.Do].
type Request struct {
	// Op is how the request is called in events and errors, such as "list biz types".
	Op string
	// Method is GET if it is empty.
	Method string
	// Path begins with a slash and is escaped, as by [url.PathEscape].
	Path  string
	Query url.Values
	// Header holds further fields, such as Content-Type and If-Match. The client sets
	// Authorization, User-Agent and X-Request-Id.
	Header http.Header
	Body   []byte
	// Repeat says that the request may be sent again although it may have been carried out already.
	// That is so for GET and HEAD, and with an Idempotency-Key, without saying.
	Repeat bool
	// Also are statuses besides 2xx that are answers, and not errors.
	Also []int
	// Limit is how large the answer may be, in bytes. 0 means 16 MiB.
	Limit int64
	// Long says that the answer may be large: Config.Timeout bounds each wait for more of it, and
	// not all of it.
	Long bool
	// To is what the body of a good answer is written to as it arrives; Answer.Body is empty then. Once
	// something was written the request is not sent again. Nil if Answer.Body has it.
	To io.Writer
}

// Answer is the answer to a [Request].
type Answer struct {
	Status    int
	Header    http.Header
	Body      []byte
	Addr      string // of the node
	RequestID string
}

// JSON reads the body of the answer into v. The error says if it is not JSON of the service.
func (a *Answer) JSON(v any) error {
	media := mediaType(a.Header)
	if media == "application/problem+json" {
		media = "application/json"
	}
	if media != "application/json" {
		return &Error{Code: ErrBadAnswer, Status: a.Status, Addr: a.Addr, RequestID: a.RequestID, Detail: "the answer is not JSON, so it is not one of seqd"}
	}
	if err := json.Unmarshal(a.Body, v); err != nil {
		return &Error{Code: ErrBadAnswer, Status: a.Status, Addr: a.Addr, RequestID: a.RequestID, Detail: "the answer is not the JSON that was asked for, or was cut off"}
	}
	return nil
}

// usualLimit is how large an answer may be that does not consist of IDs.
const usualLimit = 16 << 20

// Do sends any request of the HTTP API, with the same care as the other methods: it goes on to
// another node, waits and gives up as the package documentation says. Package admin is built on it.
func (c *Client) Do(ctx context.Context, req Request) (*Answer, error) {
	r := &call{op: req.Op, method: req.Method, target: req.Path, header: req.Header, body: req.Body, repeat: req.Repeat, also: req.Also, limit: req.Limit, long: req.Long, to: req.To}
	if r.method == "" {
		r.method = http.MethodGet
	}
	if r.limit == 0 {
		r.limit = usualLimit
	}
	if !strings.HasPrefix(req.Path, "/") {
		return nil, &Error{Code: ErrInvalidRequest, Detail: "Request.Path does not begin with a slash"}
	}
	if len(req.Query) > 0 {
		r.target += "?" + req.Query.Encode()
	}
	if r.method == http.MethodGet || r.method == http.MethodHead || req.Header.Get("Idempotency-Key") != "" {
		r.repeat = true
	}
	var got *Answer
	r.decode = func(a *answer) error {
		got = &Answer{Status: a.status, Header: a.header, Body: bytes.Clone(a.body), Addr: a.addr, RequestID: a.id}
		return nil
	}
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	return got, nil
}

// call is a request that is sent to one node after another until one answers it.
type call struct {
	op      string
	bizType string
	count   int // how many IDs it asks for; 0 for other requests
	method  string
	target  string // path and query, escaped
	accept  string
	once    string // the Idempotency-Key, "" for none
	header  http.Header
	body    []byte
	repeat  bool // it may be sent again if its outcome is unknown
	also    []int
	limit   int64
	long    bool // the time-out begins again whenever more of the answer arrives
	to      io.Writer
	// timeout is how long a request to one node may take; 0 means the client's.
	timeout time.Duration
	// dst is what the body of the answer is appended to; nil for a buffer that is used again.
	dst []byte
	// decode uses the answer. It must not keep the body, except if dst is set.
	decode func(*answer) error
	// failed is nil, or called after each failure that does not end the call.
	failed func(*Error)
}

// answer is an answer that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	whole  []byte // what was before the body, and the body
	addr   string
	id     string // of the request
	began  time.Time
}

// do sends a call to one node after another until one answers it, it cannot be sent again, or its
// time is over.
func (c *Client) do(ctx context.Context, r *call) error {
	t := turns{client: c}
	for attempt := 1; ; attempt++ {
		i, err := t.next(ctx)
		if err != nil {
			return err
		}
		e := c.try(ctx, c.nodes[i], r, attempt)
		if e == nil {
			c.worked(i)
			return nil
		}
		if ctx.Err() != nil || !e.Temporary() || e.Unknown && !r.repeat {
			return e
		}
		if r.failed != nil {
			r.failed(e)
		}
		t.failed(i, e)
	}
}

// try sends a call to one node.
func (c *Client) try(ctx context.Context, n *node, r *call, attempt int) *Error {
	a := answer{addr: n.addr, id: c.ids.next(), began: time.Now()}
	err := c.exchange(ctx, r, &a)
	if err != nil {
		err.Addr = n.addr
		if err.RequestID == "" {
			err.RequestID = a.id
		}
	}
	if c.observe != nil {
		event := Event{Op: r.op, BizType: r.bizType, Count: r.count, Addr: n.addr, Attempt: attempt, Status: a.status, Duration: time.Since(a.began)}
		if err != nil {
			event.Err = err
		}
		c.observe(event)
	}
	return err
}

// bodies holds buffers for answers.
var bodies = sync.Pool{New: func() any { return &holder{make([]byte, 0, 512)} }}

type holder struct{ bytes []byte }

// keepBytes is the largest buffer that is kept.
const keepBytes = 4 << 20

// exchange sends a request and uses its answer.
func (c *Client) exchange(ctx context.Context, r *call, a *answer) *Error {
	timed, arrived, cancel := c.bounded(ctx, r)
	defer cancel()
	req, err := c.request(timed, r, a)
	if err != nil {
		return &Error{Code: ErrInvalidRequest, Detail: c.clean(err.Error()), Err: err}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return c.noAnswer(ctx, timed, r, a, err)
	}
	defer resp.Body.Close()
	if r.long {
		resp.Body = watched{resp.Body, arrived}
	}
	a.status, a.header = resp.StatusCode, resp.Header
	if r.dst != nil {
		return c.use(ctx, timed, resp, r, a, r.dst)
	}
	h := bodies.Get().(*holder)
	e := c.use(ctx, timed, resp, r, a, h.bytes[:0])
	if cap(a.whole) <= keepBytes {
		h.bytes = a.whole
		bodies.Put(h)
	}
	return e
}

// use reads the body of an answer behind dst, and uses it.
func (c *Client) use(ctx, timed context.Context, resp *http.Response, r *call, a *answer, dst []byte) *Error {
	good := resp.StatusCode >= 200 && resp.StatusCode < 300 || slices.Contains(r.also, resp.StatusCode)
	limit := r.limit
	if !good {
		limit = usualLimit
	}
	from := len(dst)
	body, err := dst, error(nil)
	if good && r.to != nil && !foreign(resp.Header, a.id) {
		r.repeat = false
		w := noticing{Writer: r.to}
		if _, err = io.Copy(&w, resp.Body); w.failed != nil {
			return &Error{Code: ErrBadAnswer, Status: a.status, Detail: "the answer cannot be written: " + w.failed.Error(), Err: w.failed, Unknown: true}
		}
	} else {
		body, err = readBody(dst, resp, limit)
	}
	a.whole, a.body = body, body[from:]
	switch {
	case errors.Is(err, errTooLarge):
		return &Error{Code: ErrBadAnswer, Status: a.status, Detail: err.Error(), Unknown: true}
	case err != nil:
		e := c.noAnswer(ctx, timed, r, a, err)
		e.Status, e.Unknown = a.status, true
		return e
	case foreign(resp.Header, a.id):
		return &Error{Code: ErrBadAnswer, Status: a.status, Unknown: true, Detail: "the answer belongs to another request, or comes from a cache; look at the proxies between here and seqd"}
	case !good:
		return c.refusal(a)
	}
	if err := r.decode(a); err != nil {
		e := asError(err)
		if e == nil {
			e = badAnswer("%s", c.clean(err.Error()))
		}
		e.Status = a.status
		return e
	}
	return nil
}

// request makes the request to a node.
func (c *Client) request(ctx context.Context, r *call, a *answer) (*http.Request, error) {
	var body io.Reader
	if len(r.body) > 0 {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, a.addr+r.target, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if r.accept != "" {
		req.Header["Accept"] = []string{r.accept}
	}
	if r.once != "" {
		req.Header["Idempotency-Key"] = []string{r.once}
	}
	req.Header["User-Agent"] = userAgent
	req.Header["X-Request-Id"] = []string{a.id}
	delete(req.Header, "Authorization")
	if c.bearer != nil {
		req.Header["Authorization"] = c.bearer
	}
	return req, nil
}

var userAgent = []string{"seqd-client-go"}

// timeoutOf returns how long a request to one node may take.
func (c *Client) timeoutOf(r *call) time.Duration {
	const usual = 10_000 // IDs
	if r.timeout > 0 {
		return r.timeout
	}
	if r.count <= usual {
		return c.timeout
	}
	return c.timeout / usual * time.Duration(min(r.count, mostBelieved))
}

// noAnswer returns the error for a request that got no answer, or no whole one.
func (c *Client) noAnswer(ctx, timed context.Context, r *call, a *answer, err error) *Error {
	e := &Error{Code: ErrUnreachable, Detail: c.clean(err.Error()), Unknown: !unsent(err), Err: err}
	switch {
	case ctx.Err() != nil:
		e.Detail, e.Err = "the context ended before there was an answer", ctx.Err()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || time.Since(a.began) > silence {
			c.distrust()
		}
	case timed.Err() != nil:
		what := "no whole answer within "
		if r.long {
			what = "nothing of the answer arrived for "
		}
		e.Detail, e.Err = what+c.timeoutOf(r).String(), nil
		c.distrust()
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Detail = "the answer was cut off"
	}
	return e
}

// silence is how long a request has no answer before its connection is suspected although the
// caller only lost interest.
const silence = 500 * time.Millisecond

// distrust closes the idle connections after a request that nothing answered: the network may have
// swallowed them all, and would tell for one after the other.
func (c *Client) distrust() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// unsent reports whether a request failed before any of it was sent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

var errTooLarge = errors.New("the answer is larger than it can be")

// noticing notices whether it was the writer that failed.
type noticing struct {
	io.Writer
	failed error
}

// Write implements [io.Writer].
func (n *noticing) Write(p []byte) (int, error) {
	written, err := n.Writer.Write(p)
	n.failed = err
	return written, err
}

// readBody appends the body of an answer to dst.
func readBody(dst []byte, resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return dst, errTooLarge
	}
	const believed = 16 << 20 // what is allocated because an answer announces it
	dst = slices.Grow(dst, int(min(max(resp.ContentLength, 0), believed))+1)
	most := len(dst) + int(limit)
	for {
		n, err := resp.Body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, err
		case len(dst) > most:
			return dst, errTooLarge
		case len(dst) == cap(dst):
			dst = slices.Grow(dst, len(dst)/2+512)
		}
	}
}

// bounded returns the context of a request to one node. If its answer is long, arrived begins the
// time-out again.
func (c *Client) bounded(ctx context.Context, r *call) (timed context.Context, arrived, cancel func()) {
	timeout := c.timeoutOf(r)
	if !r.long {
		timed, cancel = context.WithTimeout(ctx, timeout)
		return timed, nil, cancel
	}
	timed, end := context.WithCancel(ctx)
	timer := time.AfterFunc(timeout, end)
	return timed, func() { timer.Reset(timeout) }, func() { timer.Stop(); end() }
}

// watched is a body that says when some of it has arrived.
type watched struct {
	io.ReadCloser
	arrived func()
}

// Read implements [io.Reader].
func (w watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.arrived()
	return n, err
}
