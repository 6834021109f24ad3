package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// Disk is a file system: its kind, and how many bytes are free and how many there are.
type Disk struct {
	Kind       string
	Free, Size uint64
}

// ThisHost returns the machine that this process runs on. openFiles is how many files the process
// may have open.
func ThisHost(openFiles func() (uint64, bool)) Host {
	return Host{Listen: listen, Addrs: addrs, OpenFiles: openFiles, Disk: disk, Writable: writable, Synchronised: synchronised, Connect: connector{http.ProxyFromEnvironment, nil}.connect}
}

// connector connects to hosts as requests do: through the proxies that the environment names, and
// with the certificates that this machine trusts.
type connector struct {
	proxy func(*http.Request) (*url.URL, error)
	roots *x509.CertPool // nil for those of this machine
}

// connect implements [Host].Connect.
func (c connector) connect(ctx context.Context, u *url.URL) (proxy string, err error) {
	via, err := c.proxy(&http.Request{URL: u})
	if err != nil {
		// the error may show its password
		return "", errors.New("the environment names a proxy that cannot be used")
	}
	addr := hostPort(u)
	if via != nil {
		proxy = hostPort(via)
		addr = proxy
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return proxy, err
	}
	defer conn.Close()
	if via != nil || u.Scheme != "https" {
		return proxy, nil
	}
	return "", tls.Client(conn, &tls.Config{ServerName: u.Hostname(), RootCAs: c.roots}).HandshakeContext(ctx)
}

// hostPort returns the address of a URL.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// listen opens an address to find out whether the system allows it, and closes it at once.
func listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

func addrs() (list []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, prefix.Addr().Unmap())
		}
	}
	return list, err
}
