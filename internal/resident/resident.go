// Package resident makes the pages of the executable that only the start of a process needed stop
// counting as memory of that process. Most of the resident memory of an idle seqd was such pages:
// each package that is linked in has code and data that run once.
package resident

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// span is a part of the address space, from the first byte up to, but without, end.
type span struct{ first, end uintptr }

// clean returns the mappings of the file with this inode in a smaps file of /proc that hold nothing but
// what is in the file: they are private, cannot be written to, and have no page of their own, in memory
// or swapped out. A page of its own has what the loader or a debugger wrote into it, which would be
// lost.
func clean(smaps io.Reader, inode string) (list []span, err error) {
	var s span
	ours, resident := false, false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		name, size, _ := strings.Cut(lines.Text(), ":")
		none := strings.TrimSpace(size) == "0 kB"
		switch name {
		case "Anonymous":
			resident = !none
		case "Swap": // comes after Anonymous
			if ours && none && !resident {
				list = append(list, s)
			}
		default:
			var next span
			var access, offset, device, node string
			if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s", &next.first, &next.end, &access, &offset, &device, &node); n == 6 {
				s, ours = next, (access == "r-xp" || access == "r--p") && node == inode
			}
		}
	}
	return list, lines.Err()
}
