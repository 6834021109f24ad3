package console

import (
	"net/http"
)

// encrypted reports whether the browser uses HTTPS, as far as this node knows.
func (c *Console) encrypted(r *http.Request) bool {
	return c.opts.TLS || c.opts.Proxies.Encrypted(r.RemoteAddr, r.Header)
}

// caller returns who counts as one caller in limits: the address that sent the request, as trusted
// proxies report it, or the network of an IPv6 address, because a machine has all of its addresses.
func (c *Console) caller(r *http.Request) string {
	addr := c.opts.Proxies.Addr(r.RemoteAddr, r.Header)
	if addr.Is6() {
		network, _ := addr.Prefix(64) // which every IPv6 address has
		return network.String()
	}
	return addr.String()
}
