package httpapi

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// pages keeps web pages of other origins out where callers need no token. Listening on a loopback
// address keeps other machines out, but not the pages in a browser on this machine: they can send
// requests to any address, and can read the answers if a name of theirs resolves to this machine
// (DNS rebinding). Where a token is required, no page gets in, because browsers do not add them.
//
// While nobody needs a token, the same rule holds for every route and method, because a GET issues
// numbers too: the Host must be one of this service, and a page that sends a request must have the
// same origin. If callers need tokens, it holds for guests of extra routes, and public metrics have
// the rule of the Host. /healthz and /readyz take any Host then, because balancers send names that
// nobody has listed; all that they tell is how the node, or a biz type that the probe names, is.
type pages struct {
	remedy string // what else than server.hosts lets a request pass
	names  []string
	addrs  []netip.Addr
	// the first Host that passed on every route; most requests have the same
	passed  atomic.Pointer[string]
	refused *gate.Episodes
}

// newPages returns the rule for a service with these names and IP addresses. guarded is true if
// callers need tokens on most routes.
func newPages(hosts []string, guarded bool, log *slog.Logger) *pages {
	p := pages{refused: gate.NewEpisodes("requests were refused: their Host is not in server.hosts, and they need no token", log)}
	if !guarded {
		p.remedy = ", or configure tokens (auth.tokens)"
	}
	return p.with(hosts)
}

// with returns the same rule for other names and addresses.
func (p *pages) with(hosts []string) *pages {
	p = &pages{remedy: p.remedy, refused: p.refused}
	for _, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			p.addrs = append(p.addrs, addr)
		} else if !strings.EqualFold(host, localhost) { // which passes anyway, without a final dot
			p.names = append(p.names, host)
		}
	}
	return p
}

// check returns an error if a request is refused. It allocates only then. probe is true if the
// request changes nothing, and its sender may know no more of the service than an IP address.
func (p *pages) check(r *http.Request, probe bool) error {
	if err := p.checkHost(r, probe); err != nil {
		return err
	}
	if FromElsewhere(r) {
		return seqd.Errorf(seqd.CodeForbidden, "a web page of another origin makes this request (Origin, Sec-Fetch-Site), and seqd answers none, with or without tokens: "+
			"let the server of that page call seqd; to look at an answer in a browser, type the address instead of following a link")
	}
	return nil
}

// checkHost returns an error if the Host of a request is not one of this service.
func (p *pages) checkHost(r *http.Request, probe bool) error {
	if passed := p.passed.Load(); passed != nil && *passed == r.Host || p.pass(r.Host) {
		return nil
	}
	addr := addrOf(r.Host)
	if probe && plainAddr(addr) {
		return nil
	}
	p.refused.Count()
	const why = "the Host %.100q is not one of this node, and the request needs no token: "
	switch {
	case plainAddr(addr):
		return seqd.Errorf(seqd.CodeForbidden, why+"add %q to server.hosts (SEQD_SERVER_HOSTS)%s", r.Host, addr, p.remedy)
	case addr.IsValid():
		return seqd.Errorf(seqd.CodeForbidden, why+"use localhost or 127.0.0.1, because 0.0.0.0, ::, IPv6 forms of IPv4 and zones never pass, whatever server.hosts says%s", r.Host, p.remedy)
	}
	return seqd.Errorf(seqd.CodeForbidden, why+"add its name, without the port, to server.hosts (SEQD_SERVER_HOSTS)%s", r.Host, p.remedy)
}

// pass reports whether a Host may pass on every route, and remembers the first that does.
func (p *pages) pass(host string) bool {
	if !p.known(host) {
		return false
	}
	if p.passed.Load() == nil {
		first := strings.Clone(host)
		p.passed.CompareAndSwap(nil, &first)
	}
	return true
}

// known reports whether a Host belongs to this service, and no web page can use it unnoticed.
//
// A name of this service qualifies because nobody else can make it resolve to this machine, and so
// does localhost. Names below localhost do not: not every resolver keeps them on this machine.
// Neither does localhost with a final dot, which not every browser takes for this machine.
//
// A loopback address qualifies because it is not resolved, and browsers say which page sends a
// request there. They do not say it to any other plain HTTP address, so one qualifies only if the
// operator has named it. An empty Host qualifies, because every browser sends one, while health
// checks of HTTP/1.0 may not.
func (p *pages) known(host string) bool {
	if host == "" || p.named(host) {
		return true
	}
	addr := addrOf(host)
	return plainAddr(addr) && (addr.IsLoopback() || slices.Contains(p.addrs, addr))
}

// named reports whether a Host is localhost or a name of this service. The port must be valid; its
// value does not matter.
func (p *pages) named(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	if !isPort(host[len(name):]) {
		return false
	}
	if strings.EqualFold(name, localhost) {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	return slices.ContainsFunc(p.names, func(own string) bool { return strings.EqualFold(name, own) })
}

const localhost = "localhost"

// addrOf returns the IP address in a Host, the zero Addr if there is none.
func addrOf(host string) netip.Addr {
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, port, closed := strings.Cut(inner, "]")
		if addr, err := netip.ParseAddr(inner); err == nil && addr.Is6() && closed && isPort(port) {
			return addr
		}
		return netip.Addr{}
	}
	text, _, _ := strings.Cut(host, ":")
	if addr, err := netip.ParseAddr(text); err == nil && isPort(host[len(text):]) {
		return addr
	}
	return netip.Addr{}
}

// plainAddr reports whether an address is written in the one form that browsers judge rightly.
// 0.0.0.0, :: and the IPv6 forms of 127.0.0.1 lead to this machine too, but browsers do not take
// them for loopback, and send no Sec-Fetch-Site there.
func plainAddr(addr netip.Addr) bool {
	return addr.IsValid() && !addr.IsUnspecified() && !addr.Is4In6() && addr.Zone() == ""
}

// isPort reports whether text may follow the name in a Host: nothing, or a colon and digits.
func isPort(text string) bool {
	if text == "" {
		return true
	}
	for i := range len(text) - 1 {
		if c := text[i+1]; c < '0' || c > '9' {
			return false
		}
	}
	return text[0] == ':' && len(text) <= len(":65535")
}

// FromElsewhere reports whether a browser says that a page of another origin makes the request.
// That includes a page of the same host and another port, which browsers call same-site. Programs
// send neither header. If the user typed the address, Sec-Fetch-Site is none.
func FromElsewhere(r *http.Request) bool {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "none" && site != "same-origin" {
			return true
		}
	}
	for _, origin := range r.Header["Origin"] {
		scheme, host, _ := strings.Cut(origin, "://")
		if scheme != "http" && scheme != "https" || host == "" || !strings.EqualFold(host, r.Host) {
			return true
		}
	}
	return false
}

// errSpeculative is the error of a request that a browser sends before, or without, its user's
// wish. Such a request must not take a number.
var errSpeculative = seqd.Errorf(seqd.CodeForbidden, "a browser makes this request before anybody wants the answer (Sec-Purpose, Purpose, X-Moz, X-Purpose), and it could take a number: "+
	"load the address itself")

// speculative reports whether a browser says that it prefetches, prerenders or previews an address.
func speculative(r *http.Request) bool {
	for _, header := range [...]string{"Sec-Purpose", "Purpose", "X-Moz", "X-Purpose"} {
		for _, purpose := range r.Header[header] {
			purpose = strings.ToLower(purpose)
			if strings.Contains(purpose, "prefetch") || strings.Contains(purpose, "prerender") || strings.Contains(purpose, "preview") {
				return true
			}
		}
	}
	return false
}
