package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/seqd/seqd/internal/version"
)

const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second // between two attempts, whatever Retry-After says
	// mostAnswer is how much of an answer is read, so that the connection can be used again.
	// Nothing in it is looked at.
	mostAnswer = 64 << 10
	// signatureHeader carries the HMAC-SHA256 of the body.
	signatureHeader = "X-Seqd-Signature"
)

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}}
}

// failure is why an attempt failed.
type failure struct {
	cause error
	// final means that the same POST would fail again.
	final bool
	// wait is how long the receiver asked to be left alone, 0 where it did not.
	wait time.Duration
}

// post posts a batch, with its retries, and reports whether it was taken. One that was not is
// counted as dropped.
func (w *Webhook) post(batch []Refusal) (taken bool) {
	dropped := w.dropped.Load()
	body, err := json.Marshal(Post{Rejected: batch, Dropped: dropped})
	if err != nil {
		// times beyond the year 9999
		w.log.Error("refusals cannot be written as JSON", "error", err)
		w.drop(len(batch))
		return false
	}
	for attempt := 0; ; attempt++ {
		failed := w.attempt(body)
		w.note(failed)
		switch {
		case failed == nil:
			w.dropped.Add(-dropped)
			return true
		case failed.final || attempt >= w.settings.Retries || !w.rest(pause(attempt, failed.wait)):
			w.drop(len(batch))
			return false
		}
	}
}

// pause is how long to wait after an attempt, 0 the first: twice as long each time, half of it by
// chance, so that nodes do not come back together; and at least as long as the receiver asked.
func pause(attempt int, asked time.Duration) time.Duration {
	grown := min(firstPause<<attempt, longestPause)
	return min(max(grown/2+rand.N(grown/2+1), asked), longestPause)
}

// rest waits, and reports whether another attempt is due. None is when the service stops.
func (w *Webhook) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return w.running()
	case <-w.stopping:
		return false
	}
}

func (w *Webhook) running() bool {
	select {
	case <-w.stopping:
		return false
	default:
		return true
	}
}

// note logs the first failure of an episode, and its end.
func (w *Webhook) note(failed *failure) {
	switch {
	case failed != nil && !w.failing:
		w.log.Warn("refusals cannot be posted", "error", failed.cause)
	case failed == nil && w.failing:
		w.log.Info("refusals can be posted again", "dropped", w.dropped.Load())
	}
	w.failing = failed != nil
}

// attempt posts once.
func (w *Webhook) attempt(body []byte) *failure {
	ctx, cancel := context.WithTimeout(w.sending, w.settings.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return &failure{cause: quiet(err), final: true}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", version.UserAgent())
	if w.settings.Secret != "" {
		req.Header.Set(signatureHeader, sign(body, w.settings.Secret))
	}
	if u := w.url.User; u != nil {
		password, _ := u.Password()
		req.SetBasicAuth(u.Username(), password)
	}
	// Not by Do, which would read where a redirect leads. The transport follows no redirects, as
	// the client would: they would take refusals, and what the URL holds, to where nobody
	// configured them to go.
	resp, err := w.client.Transport.RoundTrip(req)
	if err != nil {
		return &failure{cause: quiet(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, mostAnswer)
	return w.judge(resp)
}

// judge returns what an answer means. What is neither 2xx nor can pass is final: a redirect, or a
// request that the receiver calls wrong.
func (w *Webhook) judge(resp *http.Response) *failure {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	passes := code >= 500 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests
	f := &failure{cause: fmt.Errorf("the answer is %d", code), final: !passes}
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		f.wait = retryAfter(resp.Header.Get("Retry-After"), w.now())
	}
	return f
}

// retryAfter reads seconds or a date; 0 for anything else. It is at most longestPause.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(longestPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), longestPause)
	}
	return 0
}

// errNoHTTP stands for what the receiver sent that is no answer. Its text is not shown: it may hold
// the URL.
var errNoHTTP = errors.New("the answer is no HTTP")

// quiet returns an error whose text cannot hold the URL.
func quiet(err error) error {
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return known
		}
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e
	}
	return errNoHTTP
}

// sign is the signature of a body: sha256= and the HMAC-SHA256 in hexadecimal digits.
func sign(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
