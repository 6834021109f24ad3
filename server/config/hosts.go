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
		key := fmt.Sprintf("server.hosts[%d]", i)
		if addr, err := netip.ParseAddr(host); err == nil {
			p.check(!addr.IsUnspecified() && !addr.Is4In6() && addr.Zone() == "", key,
				"%.80q never passes: give the IP address that callers use, not as an IPv6 form of IPv4, and without a zone", host)
			continue
		}
		good := len(host) <= 253 && hostName.MatchString(host) && hasLetter.MatchString(host)
		p.check(good, key, "%.80q is neither an IP address, without brackets, nor a host name such as seqd.example.com, "+
			"without scheme, port, final dot and wildcard (localhost and 127.0.0.1 need not be listed)", host)
	}
}

// HostNames returns the names and IP addresses that the service is called by: those in Hosts, and
// the one in Addr unless that stands for every address of this machine.
func (s *Server) HostNames() []string {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil || host == "" {
		return s.Hosts
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap().WithZone("") // as callers write it
		if addr.IsUnspecified() {
			return s.Hosts
		}
		host = addr.String()
	}
	return append(slices.Clone(s.Hosts), strings.TrimSuffix(host, "."))
}
