package httpapi

import (
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// pages keeps web pages of other origins out while callers need no token. Listening on a loopback
// address keeps other machines out, but not the pages in a browser on this machine: they can send
// requests to any address, and can read the answers if a name of theirs resolves to this machine
// (DNS rebinding). If tokens are required, no page gets in, because browsers do not add them.
//
// The same rule holds for every route and method, because a GET issues numbers too: the Host must
// be a name of this service, and a page that sends a request must have the same origin.
type pages struct {
	hosts []string
	// the first Host that passed; most requests have the same
	passed  atomic.Pointer[string]
	refused *gate.Episodes
}

func newPages(hosts []string, log *slog.Logger) *pages {
	return &pages{hosts: hosts, refused: gate.NewEpisodes("requests were refused: their Host is not in server.hosts, and callers need no token", log)}
}

// check returns an error if a request is refused. It allocates only then.
func (p *pages) check(r *http.Request) error {
	if err := p.checkHost(r); err != nil {
		return err
	}
	if FromElsewhere(r) {
		return seqd.Errorf(seqd.CodeForbidden, "a web page of another origin makes this request (Origin, Sec-Fetch-Site), and callers need no token: "+
			"configure tokens (auth.tokens) to let pages call; to look at an answer in a browser, type the address instead of following a link")
	}
	return nil
}

// checkHost returns an error if the Host of a request is not a name of this service.
func (p *pages) checkHost(r *http.Request) error {
	if passed := p.passed.Load(); (passed == nil || *passed != r.Host) && !p.pass(r.Host) {
		p.refused.Count()
		return seqd.Errorf(seqd.CodeForbidden, "the Host %.100q is neither an IP address nor localhost nor in server.hosts, and callers need no token: "+
			"add its name to server.hosts, or configure tokens (auth.tokens)", r.Host)
	}
	return nil
}

// pass reports whether a Host may pass, and remembers the first that does.
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

// known reports whether a Host belongs to this service and nobody else can make it resolve to this
// machine.
//
// An IP address qualifies because it is not resolved, and so does localhost. Names below localhost
// do not: not every resolver keeps them on this machine. An empty Host qualifies, because every
// browser sends one, while health checks of HTTP/1.0 may not. The port must be valid; its value
// does not matter.
func (p *pages) known(host string) bool {
	if host == "" {
		return true
	}
	if host[0] == '[' {
		inner, port, closed := strings.Cut(host[1:], "]")
		_, err := netip.ParseAddr(inner)
		return closed && err == nil && isPort(port)
	}
	name, _, _ := strings.Cut(host, ":")
	return isPort(host[len(name):]) && p.named(strings.TrimSuffix(name, "."))
}

// named reports whether a name, or an IPv4 address, belongs to this service.
func (p *pages) named(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	for _, host := range p.hosts {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	if name == "" || name[0] < '0' || name[0] > '9' { // ParseAddr would allocate an error
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
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
