//go:build !linux

package httpapi

import "net"

// boundUnsent does nothing: other systems are for trying seqd out.
func boundUnsent(*net.TCPConn) {}
