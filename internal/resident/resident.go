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

// clean returns the mappings in a smaps file of /proc that hold nothing but what is in a file: they
// are private, cannot be written to, and have no page of their own. A page of its own has what the
// loader or a debugger wrote into it, which would be lost.
func clean(smaps io.Reader) (list []span, err error) {
	var s span
	candidate := false
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		if own, found := strings.CutPrefix(lines.Text(), "Anonymous:"); found {
			if candidate && strings.TrimSpace(own) == "0 kB" {
				list = append(list, s)
			}
			continue
		}
		var next span
		var access, offset, device, inode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s", &next.first, &next.end, &access, &offset, &device, &inode); n == 6 {
			s, candidate = next, (access == "r-xp" || access == "r--p") && inode != "0"
		}
	}
	return list, lines.Err()
}
