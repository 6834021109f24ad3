package resident

import (
	"slices"
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	const smaps = `00400000-01a94000 r-xp 00000000 fe:00 42   /a folder/seqd
Size:              16976 kB
FilePmdMapped:         0 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
01a94000-0325c000 r--p 01694000 fe:00 42   /a folder/seqd
Anonymous:             0 kB
Swap:                  0 kB
0325c000-0334f000 rw-p 02e5c000 fe:00 42   /a folder/seqd
Anonymous:             0 kB
Swap:                  0 kB
0334f000-03350000 r--p 02e6c000 fe:00 42   /a folder/seqd
Anonymous:             4 kB
Swap:                  0 kB
03350000-03360000 r--p 02e7c000 fe:00 42   /a folder/seqd
Anonymous:             0 kB
Swap:                  4 kB
03360000-053a7000 r--p 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
7f0000000000-7f0000010000 r--s 00000000 fe:00 42   /a folder/seqd
Anonymous:             0 kB
Swap:                  0 kB
7f0000010000-7f0000020000 r--p 00000000 fe:00 44   /lib/libc.so.6
Anonymous:             0 kB
Swap:                  0 kB
`
	list, err := clean(strings.NewReader(smaps), "42")
	if want := []span{{0x400000, 0x1a94000}, {0x1a94000, 0x325c000}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("got %x, %v; want %x", list, err, want)
	}
}
