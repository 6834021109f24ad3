package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/client"
)

// source gets lines from the service. It is safe for concurrent use.
type source struct {
	client  *client.Client
	bizType string
	limit   atomic.Int64 // the most IDs that one request asks for
	issued  atomic.Int64 // numbers that may have been issued to this run
}

func newSource(o *job) (*source, error) {
	s := &source{bizType: o.BizType}
	s.limit.Store(int64(o.Batch))
	cfg := o.Client
	cfg.Wait = o.Patience
	cfg.Observe = func(e client.Event) {
		failed, ok := errors.AsType[*client.Error](e.Err)
		if !ok || failed.Unknown {
			s.issued.Add(int64(e.Count))
		}
		if ok && failed.Temporary() && !errors.Is(failed, context.Canceled) {
			o.Waiting(failed)
		}
		if o.Client.Observe != nil {
			o.Client.Observe(e)
		}
	}
	var err error
	if s.client, err = client.New(cfg); err != nil {
		return nil, mistake{err}
	}
	return s, nil
}

// mostDamaged is how many damaged answers in a row are taken for bad luck. Each skips numbers.
const mostDamaged = 5

// lines appends at most the wanted number of lines to dst, and returns how many. The client repeats
// what may succeed later. This repeats, in addition, what was too many IDs for the service, and
// what came back damaged.
func (s *source) lines(ctx context.Context, dst []byte, wanted int) (text []byte, n int, err error) {
	for damaged := 0; ctx.Err() == nil; {
		n = int(min(int64(wanted), s.limit.Load()))
		text, err = s.client.AppendText(ctx, dst, s.bizType, n)
		if err == nil {
			err = check(text[len(dst):], n)
		}
		switch {
		case err == nil:
			return text, n, nil
		case s.allowsLess(err, n):
		case errors.Is(err, client.ErrBadAnswer):
			if damaged++; damaged == mostDamaged {
				return dst, 0, fmt.Errorf("%d answers in a row are of no use: %w", damaged, err)
			}
			pause(ctx, damaged)
		case ctx.Err() == nil:
			return dst, 0, err
		}
	}
	return dst, 0, context.Cause(ctx)
}

// pause waits after a damaged answer, longer each time.
func pause(ctx context.Context, damaged int) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond << damaged):
	}
}

// check returns an error unless text is count lines. The client has checked that already; here it
// is what the file relies on. A zero byte is what a file system may show for data that a power loss
// took, so it must not be in an ID.
func check(text []byte, count int) error {
	detail := ""
	switch lines := bytes.Count(text, newline); {
	case lines != count:
		detail = fmt.Sprintf("the answer has %d lines, and %d were asked for", lines, count)
	case text[len(text)-1] != '\n':
		detail = "the last line of the answer does not end"
	case bytes.IndexByte(text, 0) >= 0:
		detail = "an ID of the answer has a zero byte"
	default:
		return nil
	}
	return &client.Error{Code: client.ErrBadAnswer, Detail: detail}
}

var newline = []byte{'\n'}

// allowed finds the largest count in the detail of invalid_count.
var allowed = regexp.MustCompile(`from 1 to ([0-9]{1,18})\b`)

// allowsLess reports whether the service refused n as too large, and lowers the limit to what it
// allows.
func (s *source) allowsLess(err error, n int) bool {
	refusal, ok := errors.AsType[*client.Error](err)
	if !ok || refusal.Code != client.ErrInvalidCount || n <= 1 {
		return false
	}
	less := int64(n / 2)
	if found := allowed.FindStringSubmatch(refusal.Detail); found != nil {
		if says, err := strconv.ParseInt(found[1], 10, 64); err == nil && says >= 1 && says < int64(n) {
			less = says
		}
	}
	for {
		limit := s.limit.Load()
		if limit <= less || s.limit.CompareAndSwap(limit, less) {
			return true
		}
	}
}
