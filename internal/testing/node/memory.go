package node

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
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

// CPU returns the processor time that the process has used, to 10 ms. It needs Linux.
func (n *Node) CPU() time.Duration {
	n.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	// Fields 14 and 15 are the ticks in user and in system mode, 100 a second. The second field is a
	// name in brackets that may contain anything.
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var ticks int64
	for _, field := range fields[11:13] {
		count, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			n.t.Fatalf("no time in %s: %v", stat, err)
		}
		ticks += count
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
