//go:build !linux

package gate

import "net"

// BoundUnsent does nothing on other systems, on which seqd is only tried out.
func BoundUnsent(*net.TCPConn) {}
