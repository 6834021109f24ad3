package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// request is a request of a caller to a node.
type request struct {
	node    Node
	shape   *Shape
	kind    string
	count   int
	key     string // the idempotency key, if any
	of      string // the key of a keyed biz type
	text    bool
	id      string        // of parse
	timeout time.Duration // until the caller gives up
	leave   time.Duration // until the caller disconnects half-way; 0 for never
}

// NewHTTPClient returns a client with enough connections for all loops.
func NewHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true}}
}

// send makes a call, records it and returns it with the numbers of its answer.
func (l *Load) send(ctx context.Context, r request) *record.Call {
	c := &record.Call{Node: r.node.Name(), BizType: r.shape.Name, Kind: r.kind, Key: r.key, Of: r.of, Asked: r.count}
	if r.kind == record.Parse {
		c.Texts = []string{r.id}
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if r.leave > 0 {
		defer time.AfterFunc(r.leave, cancel).Stop()
	}
	by(ctx, c)
	req, err := r.http(ctx)
	if err != nil {
		panic(err) // cannot fail: it is built from constants
	}
	l.Sending.RLock()
	defer l.Sending.RUnlock()
	life := r.node.Life()
	c.Start = l.Journal.Now()
	status, header, body, err := l.exchange(req)
	c.End = l.Journal.Now()
	if life == r.node.Life() {
		c.Life = life
	}
	if err != nil {
		c.Code = Complaint(err)
		c.Cancelled = c.Code == "canceled"
		if status == http.StatusOK && r.text && r.kind == record.Batch {
			r.readTorn(c, body)
		}
	} else {
		c.Status, c.Replayed = status, header.Get("Idempotent-Replayed") != ""
		r.read(c, body)
	}
	l.Journal.Call(c)
	return c
}

// http returns the HTTP request.
func (r *request) http(ctx context.Context) (*http.Request, error) {
	method, target := http.MethodGet, r.node.URL()+"/seq/"+r.shape.Name
	switch r.kind {
	case record.Parse:
		target += "/parse/" + url.PathEscape(r.id)
	case record.Idempotent:
		method = http.MethodPost
	}
	query := url.Values{}
	if r.kind != record.Parse && r.count > 1 {
		query.Set("count", strconv.Itoa(r.count))
	}
	if r.kind != record.Parse && r.of != "" {
		query.Set("key", r.of)
	}
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	if r.text {
		req.Header.Set("Accept", "text/plain")
	}
	return req, nil
}

// sendTo sends a request to a node. The key is its Idempotency-Key, "" for none.
func (l *Load) sendTo(ctx context.Context, n Node, method, path, body, key string) (status int, header http.Header, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, LongPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		panic(err) // cannot fail: it is built from constants and answers
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return l.exchange(req)
}

func (l *Load) exchange(req *http.Request) (status int, header http.Header, body []byte, err error) {
	resp, err := l.HTTP.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(resp.Body)
	if left := req.Context().Err(); err == nil && left != nil && resp.StatusCode == http.StatusServiceUnavailable {
		err = left // the node answered a caller who had left: over TLS it may hear that until it has hung up
	}
	return resp.StatusCode, resp.Header, body, err
}

// Complaint returns why there was no answer.
func Complaint(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed): // the caller closed it
		return "canceled"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	default:
		return "other: " + err.Error()
	}
}

// unreadable is the code of an answer with status 200 that cannot be read.
const unreadable = "unreadable"

// read reads an answer into the call.
func (r *request) read(c *record.Call, body []byte) {
	switch {
	case c.Status != http.StatusOK:
		var problem struct{ Code string }
		_ = json.Unmarshal(body, &problem) // the checker reports an answer without a code
		c.Code = problem.Code
	case r.kind == record.Parse:
		readParsed(c, body)
	case r.text:
		r.readIDs(c, strings.Split(strings.TrimSuffix(string(body), "\n"), "\n"))
	default:
		var answer struct {
			BizType string
			ID      string
			IDs     []string
		}
		if json.Unmarshal(body, &answer) != nil || answer.BizType != r.shape.Name {
			c.Code = unreadable
		}
		if answer.ID != "" {
			answer.IDs = append(answer.IDs, answer.ID)
		}
		r.readIDs(c, answer.IDs)
	}
}

// readTorn reads the complete lines of an answer that was cut off, because its caller has those
// IDs.
func (r *request) readTorn(c *record.Call, body []byte) {
	code := c.Code
	if end := bytes.LastIndexByte(body, '\n'); end > 0 {
		r.readIDs(c, strings.Split(string(body[:end]), "\n"))
	}
	c.Code = code
}

// ReadNumbers reads the answer to a request for some numbers into the call.
func ReadNumbers(c *record.Call, s *Shape, count int, body []byte) {
	r := request{shape: s, count: count}
	r.read(c, body)
}

func (r *request) readIDs(c *record.Call, ids []string) {
	if len(ids) != r.count {
		c.Code = unreadable
	}
	if r.shape.Display != "" {
		c.Texts = ids
		return
	}
	for _, id := range ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != id {
			c.Code = unreadable
			continue
		}
		c.Runs = c.Runs.AppendNumber(n)
	}
}

// readParsed reads a node's answer about an ID.
func readParsed(c *record.Call, body []byte) {
	var answer struct {
		Number, MachineID, Sequence json.Number
		Valid                       bool
		At                          time.Time
		Period                      string
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		c.Code = unreadable
		return
	}
	number, _ := answer.Number.Int64()
	c.Runs = []record.Run{{First: number, Count: 1, Step: 1}}
	c.Parsed = &record.Parsed{Valid: answer.Valid, Period: answer.Period}
	if !answer.At.IsZero() {
		c.Parsed.Time = answer.At.UnixMilli()
	}
	c.Parsed.Machine, _ = answer.MachineID.Int64() // missing if it does not apply
	c.Parsed.Sequence, _ = answer.Sequence.Int64()
}
