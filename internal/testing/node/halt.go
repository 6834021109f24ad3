package node

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

// AwaitHalt waits until all threads of a process have stopped after SIGSTOP, or have ended. Without
// it some threads may still send answers.
func AwaitHalt(pid int) error {
	for deadline := time.Now().Add(await.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		stopped, err := halted(pid)
		if err != nil || stopped {
			return err
		}
	}
	return fmt.Errorf("process %d still runs after SIGSTOP", pid)
}

// halted reports whether all threads of a process are in the state T, or in Z: the process has
// ended, and its parent, which may itself be stopped, has not yet asked how. A process that is gone
// has no threads. The state is the third field of a stat file, after a name in brackets that may
// contain anything.
func halted(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		if _, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")); !bytes.HasPrefix(rest, []byte("T")) && !bytes.HasPrefix(rest, []byte("Z")) {
			return false, nil
		}
	}
	return true, nil
}
