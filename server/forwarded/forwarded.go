// Package forwarded finds out who sent a request that proxies passed on. What the log, histories,
// limits and the console say of a caller's address comes from here.
package forwarded

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
)

// The headers in which a proxy says who sent a request. A caller can send the others, because a
// proxy that sets one passes the others on: so only one is read.
const (
	For    = "X-Forwarded-For"
	Std    = "Forwarded" // RFC 7239
	RealIP = "X-Real-Ip"
)

// Headers are all of them.
func Headers() []string { return []string{For, Std, RealIP} }

// Proxies are the proxies whose header is believed. The zero value believes nobody. Copies believe the
// same. Its methods take the other end of the connection that a request came by, as host:port, and the
// request's header with canonical names. It is safe for concurrent use.
type Proxies struct{ now *atomic.Pointer[believed] }

// believed are proxies that do not change.
type believed struct {
	header string
	nets   []netip.Prefix
}

// nobody is what the zero Proxies have.
var nobody = new(believed)

// New returns proxies with these addresses and networks, which say in a header, one of [Headers] in
// any case, who sent a request.
func New(header string, proxies []string) (p Proxies, err error) {
	p.now = new(atomic.Pointer[believed])
	p.now.Store(nobody)
	return p, p.Become(header, proxies)
}

// Become lets proxies that New has made, and their copies, be these. After an error they are as they
// were.
func (p *Proxies) Become(header string, proxies []string) error {
	b := &believed{header: textproto.CanonicalMIMEHeaderKey(header)}
	if len(proxies) > 0 && !slices.Contains(Headers(), b.header) {
		return fmt.Errorf("%q is not one of the headers %q", header, Headers())
	}
	for _, text := range proxies {
		net, err := Network(text)
		if err != nil {
			return err
		}
		b.nets = append(b.nets, net)
	}
	p.now.Store(b)
	return nil
}

func (p *Proxies) believed() *believed {
	if p.now == nil {
		return nobody
	}
	return p.now.Load()
}

// Network reads an address, without a zone, or a network, as the one that requests come from: an
// IPv6 form of an IPv4 network is that. An address in a network has two readings, and is neither.
func Network(text string) (netip.Prefix, error) {
	net, err := netip.ParsePrefix(text)
	if addr, addrErr := netip.ParseAddr(text); addrErr == nil && addr.Zone() == "" {
		net, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return net, fmt.Errorf("%q is neither an IP address nor a network", text)
	}
	if mapped := net.Addr().Is4In6(); mapped && net.Bits() >= 96 {
		net = netip.PrefixFrom(net.Addr().Unmap(), net.Bits()-96)
	}
	if network := net.Masked(); network != net { // one address was meant, or all of them
		return net, fmt.Errorf("%q is an address in the network %s: write one of the two", text, network)
	}
	return net, nil
}

func (p *believed) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p.nets, func(net netip.Prefix) bool { return net.Contains(addr) })
}

// Addr returns the address that sent a request, without a zone: the last one in the header that is
// no trusted proxy, or the first one. What callers claim stands before it. If a proxy names no
// address there, it is that of the proxy. It is invalid if the connection has none.
func (p *Proxies) Addr(peer string, header map[string][]string) netip.Addr {
	addr, _ := p.believed().sender(peer, header)
	return addr
}

// sender returns the address that sent a request, and the element of the header that names it, ""
// if it is the other end of the connection.
func (p *believed) sender(peer string, header map[string][]string) (addr netip.Addr, named string) {
	addr = addrOf(peer)
	for _, line := range slices.Backward(header[p.header]) {
		for line != "" {
			if !p.trust(addr) {
				return addr, named
			}
			comma := strings.LastIndexByte(line, ',') // no address has one, so quotes do not matter
			element := strings.Trim(line[comma+1:], " \t")
			line = line[:max(comma, 0)]
			if element == "" {
				continue
			}
			before := p.read(element)
			if !before.IsValid() {
				return addr, named
			}
			addr, named = before, element
		}
	}
	return addr, named
}

// read returns the address in an element of the header, invalid if there is none.
func (p *believed) read(element string) netip.Addr {
	if p.header == Std {
		return parse(param(element, "for"))
	}
	return parse(element)
}

// param returns the value of a parameter of an element of Forwarded, without quotes; "" if it is
// missing or there are two.
func param(element, name string) (value string) {
	times := 0
	for pair := range strings.SplitSeq(element, ";") {
		key, text, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(key, name) {
			continue
		}
		times++
		if inner := strings.TrimPrefix(text, `"`); inner != text {
			text = strings.TrimSuffix(inner, `"`)
		}
		value = text
	}
	if times != 1 {
		return ""
	}
	return value
}

// parse reads an address as proxies write it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1]
// or [2001:db8::1]:80. Ports and zones are left out. It is invalid for everything else, such as
// unknown.
func parse(text string) netip.Addr {
	inner, bracketed := strings.CutPrefix(text, "[")
	switch end := strings.IndexByte(inner, ']'); {
	case bracketed && (end < 0 || len(inner) > end+1 && inner[end+1] != ':'):
		return netip.Addr{}
	case bracketed:
		text = inner[:end]
	case strings.Count(text, ":") == 1:
		text = text[:strings.IndexByte(text, ':')]
	}
	addr, _ := netip.ParseAddr(text) // which is invalid if that fails
	if addr = addr.WithZone("").Unmap(); addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// addrOf returns the address of the other end of the connection, which may be a proxy.
func addrOf(peer string) netip.Addr {
	addr, _ := netip.ParseAddrPort(peer) // without one nobody is trusted
	return addr.Addr().WithZone("").Unmap()
}

// Text returns Addr as text. It does not allocate if no proxy is trusted.
func (p *Proxies) Text(peer string, header map[string][]string) string {
	if len(p.believed().nets) > 0 {
		if addr := p.Addr(peer, header); addr.IsValid() {
			return addr.String()
		}
	}
	return Host(peer)
}

// Host returns the host in an address of the form host:port as Text shows it: without brackets and
// zone.
func Host(text string) string {
	if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
		text = text[:colon]
	}
	text, _, _ = strings.Cut(strings.Trim(text, "[]"), "%")
	return text
}

// Encrypted reports whether trusted proxies say that the sender uses HTTPS: by the parameter proto
// of Forwarded, or else by X-Forwarded-Proto.
func (p *Proxies) Encrypted(peer string, header map[string][]string) bool {
	now := p.believed()
	if now.header == Std {
		_, named := now.sender(peer, header)
		return strings.EqualFold(param(named, "proto"), "https")
	}
	scheme, _, _ := strings.Cut(textproto.MIMEHeader(header).Get("X-Forwarded-Proto"), ",")
	return strings.EqualFold(strings.TrimSpace(scheme), "https") && now.trust(addrOf(peer))
}
