package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// hostName is a name as DNS, Docker Compose (with underscores) and Kubernetes have them, in at most
// 253 bytes, without a final dot. The last part has a letter: otherwise it is an address, or looks
// like one.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

var hasLetter = regexp.MustCompile(`[A-Za-z_][^.]*$`)

func (s *Server) validateHosts(p *problems) {
	for i, host := range s.Hosts {
		good := len(host) <= 253 && hostName.MatchString(host) && hasLetter.MatchString(host)
		p.check(good, fmt.Sprintf("server.hosts[%d]", i),
			"%.80q is not a host name such as seqd.example.com, without scheme, port, final dot and wildcard (IP addresses and localhost need not be listed)", host)
	}
}

// HostNames returns the names that the service is called by: those in Hosts, and the one in Addr if
// that is no IP address.
func (s *Server) HostNames() []string {
	host, _, err := net.SplitHostPort(s.Addr)
	if _, notIP := netip.ParseAddr(host); err != nil || host == "" || notIP == nil {
		return s.Hosts
	}
	return append(slices.Clone(s.Hosts), strings.TrimSuffix(host, "."))
}
