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
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/internal/version"
)

const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second // between two attempts, whatever Retry-After says
	// mostAnswer is how much of an answer is read, so that the connection can be reused. The
	// content does not matter.
	mostAnswer = 64 << 10
	// signatureHeader has the HMAC-SHA256 of the body.
	signatureHeader = "X-Seqd-Signature"
)

func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		// Posts share a connection of HTTP/2, also after one was not answered.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second},
	}}
}

// post posts a batch, with its retries, and reports whether the receiver accepted it. If not, the
// batch is counted as dropped.
func (w *Webhook) post(batch []Refusal) (accepted bool) {
	dropped := w.dropped.Load()
	body, err := json.Marshal(Post{Refused: batch, Dropped: dropped})
	if err != nil {
		// times beyond the year 9999
		w.log.Error("refusals cannot be written as JSON", "error", err)
		w.drop(len(batch))
		return false
	}
	policy := retry.Policy{First: firstPause, Last: longestPause, Attempts: 1 + w.settings.Retries, Jitter: true}
	err = retry.Do(w.open, policy, func(context.Context) error {
		err := w.attempt(body)
		w.note(err)
		return err
	})
	if err != nil {
		w.drop(len(batch))
		return false
	}
	w.dropped.Add(-dropped)
	return true
}

// note logs when posting begins to fail and when it works again.
func (w *Webhook) note(err error) {
	switch {
	case err != nil && !w.failing:
		w.log.Warn("refusals cannot be posted", "error", err)
	case err == nil && w.failing:
		w.log.Info("refusals can be posted again", "dropped", w.dropped.Load())
	}
	w.failing = err != nil
}

// attempt posts once. Its error says whether and when another attempt makes sense: see package
// retry. The error never contains the URL.
func (w *Webhook) attempt(body []byte) error {
	ctx, cancel := context.WithTimeout(w.sending, w.settings.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url.String(), bytes.NewReader(body))
	if err != nil {
		return retry.Permanent(quiet(err))
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
	// Client.Do would follow redirects, and so send refusals, and secrets in the URL, to where
	// nobody configured them to go. The transport does not.
	resp, err := w.client.Transport.RoundTrip(req)
	if err != nil {
		return quiet(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, mostAnswer)
	return w.judge(resp)
}

// judge interprets an answer. A redirect, and a request that the receiver rejects, would fail
// again.
func (w *Webhook) judge(resp *http.Response) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	err := fmt.Errorf("the answer is %d", code)
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return retry.After(retryAfter(resp.Header.Get("Retry-After"), w.now()), err)
	case code >= 500, code == http.StatusRequestTimeout:
		return err
	}
	return retry.Permanent(err)
}

// retryAfter parses seconds or a date. It returns 0 for anything else, and at most longestPause.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(longestPause/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), longestPause)
	}
	return 0
}

// errNoHTTP replaces an error of the HTTP client whose text may contain the URL.
var errNoHTTP = errors.New("the answer is not HTTP")

// quiet returns an error whose text cannot contain the URL.
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

// sign returns the signature of a body: sha256= and the HMAC-SHA256 in hexadecimal digits.
func sign(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
