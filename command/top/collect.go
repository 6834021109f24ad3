package top

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// nodeSample is what one node said at one time.
type nodeSample struct {
	admin.Node
	url     string
	at      time.Time       // when its metrics arrived
	metrics *metrics        // nil if there are none
	ready   admin.Readiness // without a status if it did not answer
	// err is why it did not answer, or why it has no metrics.
	err error
}

// sample is what all nodes said.
type sample struct {
	at       time.Time
	complete bool
	nodes    []nodeSample // by address
}

// collector asks nodes.
type collector struct {
	env   *clitool.Env
	conn  clitool.Connection
	nodes map[string]*client.Client // by URL
}

func newCollector(env *clitool.Env) (*collector, error) {
	conn, err := env.Connection()
	if err != nil {
		return nil, err
	}
	c := &collector{env: env, conn: conn, nodes: make(map[string]*client.Client)}
	for _, addr := range conn.Addrs {
		if _, err := c.client(addr); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *collector) close() {
	for _, node := range c.nodes {
		node.CloseIdleConnections()
	}
}

// client returns the client of one node.
func (c *collector) client(addr string) (*client.Client, error) {
	if known := c.nodes[addr]; known != nil {
		return known, nil
	}
	made, err := c.env.Client(func(cfg *client.Config) { cfg.Addrs = []string{addr} })
	if err == nil {
		c.nodes[addr] = made
	}
	return made, err
}

// sample asks all nodes. The error is that of the first address if no node answers.
func (c *collector) sample(ctx context.Context) (*sample, error) {
	s, err := c.find(ctx)
	if err != nil {
		return nil, err
	}
	var asking sync.WaitGroup
	for i := range s.nodes {
		n := &s.nodes[i]
		asked, err := c.client(n.url)
		if err != nil {
			n.err = err
			continue
		}
		asking.Go(func() {
			n.ask(ctx, asked)
			n.err = c.env.Explain(n.err)
		})
	}
	asking.Wait()
	s.at = time.Now()
	return s, ctx.Err()
}

// find asks the named addresses which nodes there are, and where each of them can be asked.
func (c *collector) find(ctx context.Context) (*sample, error) {
	lists, complete, errs := make([][]admin.Node, len(c.conn.Addrs)), make([]bool, len(c.conn.Addrs)), make([]error, len(c.conn.Addrs))
	var asking sync.WaitGroup
	for i, addr := range c.conn.Addrs {
		asked := admin.New(c.nodes[addr])
		asking.Go(func() { lists[i], complete[i], errs[i] = asked.Nodes(ctx) })
	}
	asking.Wait()
	s := &sample{}
	byID := make(map[string]*nodeSample)
	for i, list := range lists {
		s.complete = s.complete || complete[i]
		for _, n := range list {
			if byID[n.ID] == nil {
				byID[n.ID] = &nodeSample{Node: n, url: reachable(n, c.conn.Addrs[0])}
			}
			if n.Self {
				byID[n.ID].Node, byID[n.ID].url = n, c.conn.Addrs[i]
			}
		}
	}
	if len(byID) == 0 {
		return nil, errors.Join(errs[:1]...)
	}
	for _, n := range byID {
		s.nodes = append(s.nodes, *n)
	}
	for i, err := range errs {
		if err != nil && !slices.ContainsFunc(s.nodes, func(n nodeSample) bool { return n.url == c.conn.Addrs[i] }) {
			s.nodes = append(s.nodes, nodeSample{url: c.conn.Addrs[i], err: err})
		}
	}
	slices.SortFunc(s.nodes, func(a, b nodeSample) int {
		return strings.Compare(a.url+" "+a.ID, b.url+" "+b.ID)
	})
	return s, nil
}

// reachable returns the URL of a node that was not named: the address that it listens on, or its
// host if it listens on all addresses. like is the URL of another node.
func reachable(n admin.Node, like string) string {
	scheme, _, _ := strings.Cut(like, "://")
	host, port, err := net.SplitHostPort(n.Addr)
	if err != nil {
		return scheme + "://" + n.Addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.Unmap().IsUnspecified() {
		host = n.Host
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// ask asks the node for its metrics and its readiness.
func (n *nodeSample) ask(ctx context.Context, c *client.Client) {
	if n.ready, n.err = admin.New(c).Ready(ctx); n.err != nil {
		return
	}
	answer, err := c.Do(ctx, client.Request{Op: "metrics", Path: "/metrics", Limit: 256 << 20, Long: true})
	if err != nil {
		n.err = err
		return
	}
	n.at = time.Now()
	n.metrics, n.err = readMetrics(answer.Body)
}
