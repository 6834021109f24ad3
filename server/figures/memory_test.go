package figures

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/seqd/seqd"
)

// busyWindow returns a full window of so many biz types, all of which are busy.
func busyWindow(bizTypes int) *window {
	w, c := begun()
	for range intervals {
		c.pass(intervalLength)
		w.move(c.now, c.elapsed)
		for i := range bizTypes {
			w.add(fmt.Sprint("order-", i), int64(i), 0)
		}
		for i := range 8 {
			w.calls[w.at][i+3] = uint32(1000 * i)
		}
	}
	return w
}

// A full window takes a bounded amount of memory.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	w := busyWindow(1000)
	for i := range 42 {
		w.addCode(seqd.Code(fmt.Sprint("code", i)), 1)
	}
	after := heap()
	runtime.KeepAlive(w)
	t.Logf("a full window takes %d KB", (after-before)>>10)
	if after-before > 300<<10 {
		t.Errorf("a full window takes %d bytes", after-before)
	}
}
