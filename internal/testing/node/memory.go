package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// PeakMemory returns the peak resident memory of the process in bytes (VmHWM). It needs Linux.
func (n *Node) PeakMemory() int64 {
	n.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	peak, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		n.t.Fatalf("no peak in %s: %v", status, err)
	}
	return peak << 10
}
