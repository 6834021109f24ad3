package console

import (
	"net/http"
	"net/netip"
	"strings"
)

// clients finds out how callers reach this node.
type clients struct {
	proxies []netip.Prefix
	tls     bool
}

// newClients returns clients that trust these addresses and networks.
func newClients(proxies []string, tls bool) clients {
	c := clients{tls: tls}
	for _, text := range proxies {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			c.proxies = append(c.proxies, prefix.Masked())
		} else if addr, err := netip.ParseAddr(text); err == nil {
			c.proxies = append(c.proxies, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
		}
	}
	return c
}

// trusts reports whether an address is that of a trusted proxy.
func (c *clients) trusts(addr netip.Addr) bool {
	for _, prefix := range c.proxies {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// peer returns the address of the other end of the connection, which may be a proxy.
func peer(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr) // without one nobody is trusted
	return addr.Addr().Unmap()
}

// encrypted reports whether the browser uses HTTPS, as far as this node knows.
func (c *clients) encrypted(r *http.Request) bool {
	if c.tls {
		return true
	}
	scheme, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(scheme), "https") && c.trusts(peer(r))
}

// caller returns who counts as one caller in limits: the address that sent the request, as trusted
// proxies report it, or the network of an IPv6 address, because a machine has all of its addresses.
func (c *clients) caller(r *http.Request) string {
	addr := c.addr(r)
	if addr.Is6() {
		network, _ := addr.WithZone("").Prefix(64) // which every IPv6 address has
		return network.String()
	}
	return addr.String()
}

// addr returns the address that sent a request: the last one in X-Forwarded-For that is not a
// trusted proxy, if a trusted proxy sent the header.
func (c *clients) addr(r *http.Request) netip.Addr {
	addr := peer(r)
	list := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for i := len(list) - 1; i >= 0 && c.trusts(addr); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(list[i]))
		if err != nil {
			break
		}
		addr = before.Unmap()
	}
	return addr
}
