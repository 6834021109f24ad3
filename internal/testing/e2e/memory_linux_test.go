package e2e

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/node"
)

// A node that has started and does nothing gives back what only its start needed.
func TestMemoryOfAnIdleNode(t *testing.T) {
	const most = 20 << 20
	n := node.StartReady(t, t.TempDir())
	for end := time.Now().Add(time.Minute); n.Memory() > most; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d MiB are resident, want at most %d", n.Memory()>>20, most>>20)
		}
	}
}
