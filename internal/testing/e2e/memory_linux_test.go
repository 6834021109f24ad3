package e2e

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/node"
)

// A node that has started and does nothing gives back what only its start needed.
func TestMemoryOfAnIdleNode(t *testing.T) {
	const most = 20 << 20
	n := node.StartReady(t, t.TempDir())
	await.Eventually(t, "the memory is given back", func() error {
		if resident := n.Memory(); resident > most {
			return fmt.Errorf("%d MiB are resident, want at most %d", resident>>20, most>>20)
		}
		return nil
	})
}
