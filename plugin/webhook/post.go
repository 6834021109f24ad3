package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"github.com/seqd/seqd/internal/outbound"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/internal/version"
)

const (
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second // between two attempts, whatever Retry-After says
	// mostAnswer is how much of an answer is read, so that the connection can be reused.
	mostAnswer = 64 << 10
	// signatureHeader has the HMAC-SHA256 of the body.
	signatureHeader = "X-Seqd-Signature"
)

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
		return retry.Permanent(outbound.Quiet(err))
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
	resp, err := outbound.Post(w.client.Transport, req, mostAnswer)
	if err != nil {
		return err
	}
	return w.judge(resp)
}

// judge interprets an answer. A redirect, and a request that the receiver rejects, would fail
// again.
func (w *Webhook) judge(resp *http.Response) error {
	err := outbound.Accepted(resp)
	switch code := resp.StatusCode; {
	case err == nil:
		return nil
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return retry.After(outbound.RetryAfter(resp.Header.Get("Retry-After"), w.now(), longestPause), err)
	case code >= 500, code == http.StatusRequestTimeout:
		return err
	}
	return retry.Permanent(err)
}

// sign returns the signature of a body: sha256= and the HMAC-SHA256 in hexadecimal digits.
func sign(body []byte, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
