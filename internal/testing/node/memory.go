package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakMemory returns the peak resident memory of the process in bytes. It needs Linux.
func (n *Node) PeakMemory() int64 {
	n.t.Helper()
	return n.status("VmHWM")
}

// Memory returns the resident memory of the process in bytes. It needs Linux.
func (n *Node) Memory() int64 {
	n.t.Helper()
	return n.status("VmRSS")
}

// status returns a size from the status of the process, in bytes.
func (n *Node) status(name string) int64 {
	n.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	size, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		n.t.Fatalf("no %s in %s: %v", name, status, err)
	}
	return size << 10
}
