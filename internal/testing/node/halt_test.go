package node

import (
	"bufio"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// A process that has ended is not waited for, even if its parent does not ask for its end.
func TestAwaitHaltOfAnEndedProcess(t *testing.T) {
	parent := exec.Command("sh", "-c", "sleep 60 & echo $!; exec sleep 60")
	out := must.Get(parent.StdoutPipe())(t)
	must.Do(t, parent.Start())
	defer func() {
		_ = parent.Process.Kill()
		_ = parent.Wait()
	}()
	var child int
	must.Get(fmt.Fscan(bufio.NewReader(out), &child))(t)
	must.Do(t, syscall.Kill(child, syscall.SIGKILL))
	began := time.Now()
	if err := AwaitHalt(child); err != nil || time.Since(began) > await.Patience/2 {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// A process whose parent has asked for its end is gone.
func TestAwaitHaltOfAProcessThatIsGone(t *testing.T) {
	child := exec.Command("true")
	must.Do(t, child.Run())
	must.Report(t, AwaitHalt(child.Process.Pid))
}
