package client

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Defaults of a [Config].
const (
	defaultTimeout = 5 * time.Second
	defaultWait    = 10 * time.Second
)

// Config says where the service is and how it is asked. Only Addrs is needed.
type Config struct {
	// Addrs are the addresses of the nodes, such as http://a:8080. A path is put before every
	// route. A client begins with one of them at random.
	Addrs []string
	// Token is the secret that the service requires, if it does: seqd_…
	Token string
	// Transport sends the requests. It must not follow redirects, nor repeat requests other than as
	// [http.Transport] does. Nil means a transport of the client's own: a copy of
	// [http.DefaultTransport] that keeps up to 64 idle connections to a node. After a request that
	// nothing answered the client closes the idle connections of either. For HTTP/2 set the times of
	// pings in its HTTP2: otherwise it keeps a connection that the network has swallowed.
	Transport http.RoundTripper
	// Timeout is how long one request to one node may take, for up to 10,000 IDs; larger answers
	// get more in proportion. If a [Request] is Long, the node may be silent for so long. 0 means
	// 5 s.
	Timeout time.Duration
	// Wait is how long a call goes on trying while nodes cannot be reached or refuse for the
	// moment. The context of a call may end it earlier. 0 means 10 s. If it is negative, a call
	// asks each node once at most, and never waits.
	Wait time.Duration
	// Observe is called after every request to a node. It must be fast and safe for concurrent use.
	// Nil observes nothing.
	Observe func(Event)
}

// Event is one request to one node, for metrics and logs. It contains no secret.
type Event struct {
	// Op is what the request is for: "next", "buffer", "text", "parse", "reserve", "confirm",
	// "release", "reservation", or the Op of a [Request].
	Op string
	// BizType is the biz type in question, if there is one, and Count the number of IDs asked for.
	BizType string
	Count   int
	// Addr is the address of the node.
	Addr string
	// Attempt is 1 for the first request of a call.
	Attempt int
	// Status is the HTTP status of the answer, 0 if there was none.
	Status   int
	Duration time.Duration
	// Err is nil, or what came of the request: usually an [*Error].
	Err error
}

// Client asks the nodes of one service. It is safe for concurrent use.
type Client struct {
	nodes     []*node
	preferred atomic.Int32 // index of the node that is asked first
	transport http.RoundTripper
	own       *http.Transport // nil if the caller gave one
	token     string
	bearer    []string // the header value, nil without a token
	timeout   time.Duration
	wait      time.Duration
	observe   func(Event)
	ids       *requestIDs
	began     time.Time
}

// node is one address of the service.
type node struct {
	addr string // without a slash at its end
	// shunned is until when other nodes are asked first, in ns since the client was made.
	shunned atomic.Int64
}

// New returns a client. It checks the configuration and sends nothing.
func New(cfg Config) (*Client, error) {
	nodes, err := nodesOf(cfg.Addrs)
	if err != nil {
		return nil, err
	}
	if err := checkToken(cfg.Token); err != nil {
		return nil, err
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("seqd: Config.Timeout is %s and must not be negative", cfg.Timeout)
	}
	c := &Client{nodes: nodes, transport: cfg.Transport, token: cfg.Token, timeout: cfg.Timeout, wait: cfg.Wait, observe: cfg.Observe, ids: newRequestIDs(), began: time.Now()}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.wait == 0 {
		c.wait = defaultWait
	}
	if cfg.Token != "" {
		c.bearer = []string{"Bearer " + cfg.Token}
	}
	if c.transport == nil {
		c.own = newTransport(c.timeout)
		c.transport = c.own
	}
	c.preferred.Store(int32(randomBelow(len(nodes))))
	return c, nil
}

// newTransport returns the transport of a client that was given none, and whose requests have this
// time-out.
func newTransport(timeout time.Duration) *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if ok {
		t = t.Clone()
	} else { // the program replaced it
		t = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second}
	}
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = 64
	t.IdleConnTimeout = 30 * time.Second // less than servers and balancers usually wait
	t.DisableCompression = true
	// All requests to a node share a connection of HTTP/2, also after a time-out: one that the network
	// has swallowed must be found out before that.
	ping := min(max(timeout/4, 100*time.Millisecond), time.Second)
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: ping, PingTimeout: ping}
	return t
}

// nodesOf checks addresses.
func nodesOf(addrs []string) ([]*node, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("seqd: Config.Addrs is empty; name at least one node, such as http://localhost:8080")
	}
	nodes := make([]*node, len(addrs))
	for i, addr := range addrs {
		checked, err := checkAddr(addr)
		if err != nil {
			return nil, fmt.Errorf("seqd: Config.Addrs[%d]: %w", i, err)
		}
		for j, other := range nodes[:i] {
			if other.addr == checked {
				return nil, fmt.Errorf("seqd: Config.Addrs[%d] and [%d] are both %s", j, i, checked)
			}
		}
		nodes[i] = &node{addr: checked}
	}
	return nodes, nil
}

// checkAddr returns an address in the form that requests need. Its errors do not show what may be a
// secret.
func checkAddr(addr string) (string, error) {
	u, err := url.Parse(addr)
	if err != nil || u.Opaque != "" || u.Scheme == "" {
		if !strings.Contains(addr, "://") && !strings.Contains(addr, "@") {
			return "", fmt.Errorf("%q has no scheme; write http://%s or https://%s", addr, addr, addr)
		}
		return "", fmt.Errorf("it is not a URL such as http://localhost:8080")
	}
	switch {
	case u.User != nil:
		return "", fmt.Errorf("it contains a user or password; seqd takes tokens only: use Config.Token")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("it has a query or a fragment; write scheme, host and port only")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%q has the scheme %q; seqd speaks http and https", addr, u.Scheme)
	case u.Hostname() == "":
		return "", fmt.Errorf("%q names no host", addr)
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// checkToken refuses what cannot be sent in a header. Its errors do not show the token.
func checkToken(token string) error {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return fmt.Errorf("seqd: Config.Token contains a space, a line break or another character that no token has")
		}
	}
	return nil
}

// Addrs returns the addresses of the nodes.
func (c *Client) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr
	}
	return addrs
}

// Only returns a client that asks one of the nodes only, and shares everything else with c.
func (c *Client) Only(addr string) (*Client, error) {
	checked, err := checkAddr(addr)
	if err != nil {
		return nil, fmt.Errorf("seqd: %w", err)
	}
	for _, n := range c.nodes {
		if n.addr == checked {
			return &Client{
				nodes: []*node{n}, transport: c.transport, own: c.own, token: c.token, bearer: c.bearer,
				timeout: c.timeout, wait: c.wait, observe: c.observe, ids: c.ids, began: c.began,
			}, nil
		}
	}
	return nil, fmt.Errorf("seqd: %s is not an address of this client", checked)
}

// CloseIdleConnections closes the connections of the client's own transport that are not in use.
// The client can still be used.
func (c *Client) CloseIdleConnections() {
	if c.own != nil {
		c.own.CloseIdleConnections()
	}
}

// NewIdempotencyKey draws a random key for [IdempotencyKey].
func NewIdempotencyKey() string { return randomHex(16) }

func randomHex(bytes int) string {
	buf := make([]byte, bytes)
	if _, err := rand.Read(buf); err != nil {
		panic(err) // the operating system has no random numbers: nothing is safe
	}
	return hex.EncodeToString(buf)
}
