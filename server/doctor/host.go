package doctor

import (
	"net"
	"net/netip"
)

// Disk is a file system: what kind it is, and how many bytes are free and there in all.
type Disk struct {
	Kind       string
	Free, Size uint64
}

// ThisHost asks the machine that this process runs on. openFiles is how many files it may have open.
func ThisHost(openFiles func() (uint64, bool)) Host {
	return Host{Listen: listen, Addrs: addrs, OpenFiles: openFiles, Disk: disk, Synchronised: synchronised}
}

// listen opens an address, so that the system says whether that is allowed, and lets go of it at once.
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
