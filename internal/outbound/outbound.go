// Package outbound posts to receivers of other people, at URLs that a configuration or an
// administrator names. Errors never contain the URL, which may have a secret in it.
package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seqd/seqd/internal/literal"
)

// ParseURL parses the URL of a receiver, http or https. Its error does not show the URL.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("it does not begin with http:// or https://")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("it has no host")
	case u.Fragment != "":
		return nil, errors.New("it has a fragment, which is never sent")
	}
	// a request parses it again: zones of addresses are printed less strictly than they are parsed
	if _, err := url.Parse(u.String()); err != nil {
		return nil, errors.New("it is not a URL")
	}
	if port := u.Port(); port != "" {
		if n, ok := literal.Port(port); !ok || n == 0 {
			return nil, errors.New("its port is outside 1 to 65535")
		}
	}
	return u, nil
}

// NewTransport returns a transport that keeps so many idle connections for each receiver.
func NewTransport(idle int) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idle, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		// Posts share a connection of HTTP/2, also after one was not answered.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second},
	}
}

// Post sends a request, and reads at most most bytes of the answer, so that the connection can be
// reused; their content does not matter. The answer has no body then.
func Post(transport http.RoundTripper, req *http.Request, most int64) (*http.Response, error) {
	// Client.Do would follow redirects, and so send what is posted, and secrets in the URL, to where
	// nobody configured them to go. The transport does not.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, Quiet(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, most)
	return resp, nil
}

// Accepted returns nil if an answer says that the receiver has what was posted.
func Accepted(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	return fmt.Errorf("the answer is %d", resp.StatusCode)
}

// RetryAfter returns for how long the header Retry-After of an answer asks to wait, as seconds or a
// date. It returns 0 for anything else, and at most most.
func RetryAfter(text string, now time.Time, most time.Duration) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(seconds, uint64(most/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), most)
	}
	return 0
}

// errNoHTTP replaces an error of the HTTP client whose text may contain the URL.
var errNoHTTP = errors.New("the answer is not HTTP")

// Quiet returns an error whose text cannot contain the URL.
func Quiet(err error) error {
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
