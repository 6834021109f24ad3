//go:build !linux

package httpapi

import "net"

// boundUnsent does nothing on other systems, on which seqd is only tried out.
func boundUnsent(*net.TCPConn) {}
