package ops

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/seqd/seqd/server/certificate"
	"github.com/seqd/seqd/server/config"
)

// ErrHealthcheck is returned by [Healthcheck] when the configuration cannot be used for asking.
var ErrHealthcheck = errors.New("nothing to ask")

const (
	// healthPatience bounds a whole Healthcheck: supervisors kill a check that takes longer than
	// their own bound, and then it says nothing.
	healthPatience = 2 * time.Second
	// largestHealth is more than the largest answer of /readyz, which names at most 100 biz types.
	largestHealth = 1 << 20
)

// Healthcheck asks the node that runs with this configuration whether it is alive, for at most 2 s,
// and returns a line about what /readyz says. A node that is not ready is alive. Healthcheck opens
// neither store nor Redis. With TLS it talks only to a process that shows the certificate in the
// configured file. The error says why the node is not alive; it wraps [ErrHealthcheck] if the
// configuration cannot be used for asking.
func Healthcheck(ctx context.Context, cfg *config.Config) (string, error) {
	return healthcheck(ctx, cfg, healthPatience, new(net.Dialer).DialContext)
}

// dialer connects to a node.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// healthcheck is Healthcheck with another bound, and the function that connects.
func healthcheck(ctx context.Context, cfg *config.Config, patience time.Duration, dial dialer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := newHealth(cfg, dial)
	if err != nil {
		return "", err
	}
	defer h.client.CloseIdleConnections()
	if err := h.alive(ctx); err != nil {
		return "", fmt.Errorf("%s: %w", h.base, err)
	}
	return h.base + " is alive, " + h.readiness(ctx), nil
}

// health is one call of [Healthcheck].
type health struct {
	base   string // of URLs
	client *http.Client
}

func newHealth(cfg *config.Config, dial dialer) (*health, error) {
	addr, err := reachable(cfg.Server.Addr)
	if err != nil {
		return nil, err
	}
	// without a proxy: the node is here
	transport := &http.Transport{DialContext: dial, MaxResponseHeaderBytes: largestHealth}
	h := &health{"http://" + addr, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if cfg.Server.TLS.Configured() {
		h.base = "https://" + addr
		transport.TLSClientConfig, err = pinned(cfg.Server.TLS.CertFile)
	}
	return h, err
}

// reachable turns the address to listen on into one to connect to. "Every address of the machine"
// becomes 127.0.0.1: seqd then listens on IPv4 even if the address is written as one of IPv6, and a
// container often has no ::1.
func reachable(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%w: server.addr: %w", ErrHealthcheck, err)
	}
	if port == "0" {
		return "", fmt.Errorf("%w: server.addr: port 0 is another one at each start", ErrHealthcheck)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && ip.Unmap().IsUnspecified():
		host = "127.0.0.1"
	case err == nil:
		host = ip.Unmap().String() // a node without tokens refuses IPv6 forms of IPv4
	}
	return net.JoinHostPort(host, port), nil
}

// pinned accepts the certificate in a file and no other. It checks neither names nor dates: the
// address is usually loopback, which certificates do not name, and a node whose certificate has
// expired is alive. The handshake proves that the other side has the key.
func pinned(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: server.tls.certFile: %w", ErrHealthcheck, err)
	}
	known := certificate.First(text)
	if known == nil {
		return nil, fmt.Errorf("%w: %w", ErrHealthcheck, certificate.ErrNone)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection is stricter
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, known.Raw) {
				return errors.New("another certificate than that in server.tls.certFile is shown")
			}
			return nil
		},
	}, nil
}

// alive returns an error unless /healthz answers as seqd does.
func (h *health) alive(ctx context.Context) error {
	status, body, err := h.get(ctx, "/healthz")
	if err != nil {
		return err
	}
	var answer struct{ Status string }
	if json.Unmarshal(body, &answer) != nil || status != http.StatusOK || answer.Status != "ok" {
		return fmt.Errorf("/healthz answers %d and is not that of seqd", status)
	}
	return nil
}

// readiness returns what /readyz says, as text.
func (h *health) readiness(ctx context.Context) string {
	status, body, err := h.get(ctx, "/readyz")
	var answer struct {
		Status any // a number in a problem document
		Detail string
	}
	switch {
	case err != nil:
		return "/readyz: " + err.Error()
	case json.Unmarshal(body, &answer) == nil && status == http.StatusOK:
		return fmt.Sprint(answer.Status)
	case answer.Detail != "":
		return "not ready: " + answer.Detail
	}
	return fmt.Sprintf("/readyz answers %d", status)
}

// get returns the status of an answer and up to largestHealth bytes of it.
func (h *health) get(ctx context.Context, path string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.base+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := h.client.Do(request)
	if err != nil {
		return 0, nil, cause(err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, largestHealth))
	return response.StatusCode, body, cause(err)
}

// cause returns the error of a request without the URL, which the caller adds.
func cause(err error) error {
	var outer *url.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %s", healthPatience)
	case errors.As(err, &outer):
		return outer.Err
	}
	return err
}
