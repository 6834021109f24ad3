package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Option changes how numbers are requested, or an ID is read.
type Option func(*options)

type options struct {
	once, key       string
	hasOnce, hasKey bool
}

// Key names the key whose numbers a call wants, for keyed biz types: each key counts on its own. A
// key is 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit. A keyed biz type refuses calls
// without one, and any other refuses calls with one, both with [ErrInvalidKey].
func Key(key string) Option {
	return func(o *options) { o.key, o.hasKey = key, true }
}

// IdempotencyKey makes a call leave no gap if its answer gets lost: it is sent by POST, and each
// request with the same key, biz type, [Key] and token gets the same numbers, for as long as the service
// keeps answers (idempotency.ttl, 24 h). So a key is for one thing that needs a number, such as one
// invoice. A key is 1 to 255 visible ASCII characters; [NewIdempotencyKey] draws one.
//
// Without a key a call whose answer gets lost is repeated too, and gets other numbers. Those of the
// lost answer are skipped.
func IdempotencyKey(key string) Option {
	return func(o *options) { o.once, o.hasOnce = key, true }
}

// Next returns one ID of a biz type.
//
// If the answer of a node gets lost, or the node refuses for the moment, it asks again, as
// [IdempotencyKey] explains.
func (c *Client) Next(ctx context.Context, bizType string, opts ...Option) (string, error) {
	r, err := issue("next", bizType, 1, false, opts)
	if err != nil {
		return "", err
	}
	var id string
	r.decode = func(a *answer) (err error) {
		id, err = decodeID(a, bizType)
		return err
	}
	if err := c.do(ctx, r); err != nil {
		return "", err
	}
	return id, nil
}

// NextN returns n IDs in the order in which they were issued, by one request. The service says how
// many one request may ask for (server.maxCount, 10,000 unless configured) and refuses more with
// [ErrInvalidCount]; NextN does not split requests, because the IDs of several might not be in
// order. It returns n IDs or an error. The IDs share memory, up to 256 of them: one that is kept
// for long is better copied by [strings.Clone].
func (c *Client) NextN(ctx context.Context, bizType string, n int, opts ...Option) ([]string, error) {
	list, err := c.list(ctx, "next", bizType, n, opts, nil)
	if err != nil {
		return nil, err
	}
	return list.all(), nil
}

// list requests n IDs.
func (c *Client) list(ctx context.Context, op, bizType string, n int, opts []Option, failed func(*Error)) (list idList, err error) {
	r, err := issue(op, bizType, n, true, opts)
	if err != nil {
		return list, err
	}
	r.failed = failed
	r.decode = func(a *answer) (err error) {
		list, err = decodeIDs(a, bizType, n)
		return err
	}
	err = c.do(ctx, r)
	return list, err
}

// AppendText appends n IDs to dst, each followed by a line break, and returns the extended slice.
// It is for large numbers of IDs: nothing is allocated for an ID, and a slice that is used again
// not at all. The limits are those of [Client.NextN]. After an error it returns dst as it was; the
// bytes behind its length may have changed.
func (c *Client) AppendText(ctx context.Context, dst []byte, bizType string, n int, opts ...Option) ([]byte, error) {
	r, err := issue("text", bizType, n, true, opts)
	if err != nil {
		return dst, err
	}
	r.accept = "text/plain"
	if r.dst = dst; dst == nil {
		r.dst = []byte{}
	}
	var whole []byte
	r.decode = func(a *answer) error {
		whole = a.whole
		return checkText(a, n)
	}
	if err := c.do(ctx, r); err != nil {
		return dst, err
	}
	return whole, nil
}

// issue returns the call for n IDs. It says how many only if it is to be answered by a list.
func issue(op, bizType string, n int, counted bool, opts []Option) (*call, error) {
	if err := checkBizType(bizType); err != nil {
		return nil, err
	}
	if n < 1 {
		return nil, &Error{Code: ErrInvalidCount, Detail: fmt.Sprintf("the number of IDs is %d and must be at least 1", n)}
	}
	r := &call{op: op, bizType: bizType, count: n, method: http.MethodGet, target: "/seq/" + bizType, accept: "application/json", repeat: true, limit: largestAnswer(n)}
	if counted {
		r.target += "?count=" + strconv.Itoa(n)
	}
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.hasKey {
		if err := checkKey(o.key); err != nil {
			return nil, err
		}
		separator := "?key="
		if counted {
			separator = "&key="
		}
		r.target += separator + o.key // it has no character that a query escapes
	}
	if o.hasOnce {
		if !validOnce(o.once) {
			return nil, errInvalidOnce()
		}
		r.method, r.once = http.MethodPost, o.once
	}
	return r, nil
}

// largestAnswer returns how many bytes an answer with n IDs may have.
func largestAnswer(n int) int64 { return 64<<10 + int64(min(n, mostBelieved))*1024 }

// mostBelieved bounds the number of IDs from which sizes and times are computed. No service allows
// more in one request.
const mostBelieved = 1_000_000_000

// checkBizType refuses what cannot be the name of a biz type, so that no name changes the path of a
// request.
func checkBizType(name string) error {
	valid := len(name) >= 1 && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		valid = valid && (letter || i > 0 && ('0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'))
	}
	if valid {
		return nil
	}
	return &Error{Code: ErrInvalidBizType, Detail: fmt.Sprintf("%.80q is not the name of a biz type: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter", name)}
}

// checkKey refuses what cannot be a key of a biz type.
func checkKey(key string) error {
	valid := len(key) >= 1 && len(key) <= 64
	for i := range len(key) {
		c := key[i]
		first := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		valid = valid && (first || i > 0 && (c == '.' || c == '_' || c == '-'))
	}
	if valid {
		return nil
	}
	return &Error{Code: ErrInvalidKey, Detail: fmt.Sprintf("%.80q is not a key: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit", key)}
}

func validOnce(key string) bool {
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return key != "" && len(key) <= 255
}

func errInvalidOnce() *Error {
	return &Error{Code: ErrInvalidRequest, Detail: "the idempotency key is not 1 to 255 visible ASCII characters"}
}

// seqPath returns the path of a route below /seq/{bizType}.
func seqPath(bizType string, parts ...string) string {
	path := "/seq/" + bizType
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}
