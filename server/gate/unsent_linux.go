package gate

import (
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is how much of an answer the system buffers beyond what it can send at once. By
// default it buffers up to 4 MiB per connection (net.ipv4.tcp_wmem), which counts against the
// memory of the service.
const mostUnsent = 16 << 10

// BoundUnsent limits what the system buffers for a caller that does not read. It does not limit
// what is in transit, so callers that read get their answers as fast as before. It must be set on
// each connection. It has no effect on connections of a listener with Multipath TCP, which is Go's
// default.
func BoundUnsent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // the connection is closed
	}
	// An error means that the system has no such limit.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
	})
}
