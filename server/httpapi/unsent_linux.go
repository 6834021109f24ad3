package httpapi

import (
	"net"

	"golang.org/x/sys/unix"
)

// mostUnsent is how much of an answer the system takes beyond what it can send at once. By default
// it takes up to 4 MiB a connection (net.ipv4.tcp_wmem), and counts it against the memory of the
// service.
const mostUnsent = 16 << 10

// boundUnsent bounds what the system keeps for a caller that does not read. It does not bound what
// is on its way, so callers that read get their answers as fast as before. Each connection needs
// it: one that comes from a listener with Multipath TCP, which is what Go opens, has nothing from
// it.
func boundUnsent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	// An error means that the system cannot bound it: then it takes what it takes.
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent)
	})
}
