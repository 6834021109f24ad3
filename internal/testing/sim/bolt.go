package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/boltsim"
)

// onBolt are the kinds of faults and actions of a world with one node, whose store is a file of its
// own. The node's clock is the store's too.
var onBolt = []string{
	"kill", "stop", "restart", "rolling-restart", "callers-cut", "callers-reset",
	"clock-step", "clock-midnight", "clock-restart",
	"limits-changed", "live-keys-changed", "tuned", "disabled", "deleted", "pool-changed", "pool-remade",
}

// fastFolder returns a folder for one test, in memory if the system has that: nothing here depends on
// what a disk does.
func fastFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "seqd-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // it would be only a leftover
	return dir
}

// inHand makes the record say that strict numbers wait in the node, as without a shared store, and are
// in order all the same.
func inHand(shapes []load.Shape) {
	for i := range shapes {
		if s := &shapes[i]; s.Sequencer == record.Store {
			s.Sequencer, s.OnRedisDown = "", record.Reject
		}
	}
}

// file is the path of the node's store. the turn is held.
func (n *node) file() string {
	return filepath.Join(n.dir, n.name, fmt.Sprintf("seqd-%d.db", n.killed))
}

// leaveFile leaves the file to the life that was killed, and gives the next one what a kill leaves of
// it. the turn is held.
func (n *node) leaveFile(was string) {
	if err := boltsim.Copy(was, n.file()); err != nil && !errors.Is(err, fs.ErrNotExist) { // it had none yet
		n.journal.Find("the file of %s cannot be copied: %v", n.name, err)
	}
}
