package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/node"
)

// output collects what a server writes over all restarts.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// Log returns what the server has written so far, over all its restarts.
func (o *output) Log() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a child process and everything that it forks.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed after the process has ended and err is set
	err    error
	paused bool
	// leaves says that its children leave its process group, as those of PostgreSQL do.
	leaves bool
}

// startProcess starts a program that writes to out. It is killed at the end of the test.
func startProcess(t testing.TB, out *output, path string, args ...string) *process {
	t.Helper()
	return startProcessAs(t, out, nil, syscall.SIGKILL, path, args...)
}

// startProcessAs is like startProcess. It runs the program as another user, unless that is nil. The
// process gets the signal when the test binary has ended.
func startProcessAs(t testing.TB, out *output, user *syscall.Credential, orphaned syscall.Signal, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second
	// The process has its own group, so that its forks (Redis saving in the background) are killed
	// with it. The kernel ends the process with the thread that started it, so that it does not
	// outlive a test binary that panics or is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: orphaned, Credential: user}
	_, _ = fmt.Fprintf(out, "--- start %s\n", time.Now().Format(time.TimeOnly+".000"))
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", path, err)
	}
	t.Cleanup(p.kill)
	return p
}

// run keeps the thread that starts the process until it has ended.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.exited)
}

// alive reports whether the process is running.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process and its children as kill -9 does, and waits for the end of all. It does
// nothing if the process has ended.
func (p *process) kill() {
	var children []int
	if p.leaves && p.alive() {
		_ = p.pause() // fails only if the process is ending
		children = childrenOf(p.cmd.Process.Pid)
	}
	_ = p.signal(syscall.SIGKILL) // fails only if it has ended
	<-p.exited
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // fails only if it has ended
	}
	for _, child := range children {
		awaitState(child, "")
	}
}

// signal sends a signal to the process group.
func (p *process) signal(signal syscall.Signal) error {
	if !p.alive() {
		return errors.New("the process has ended")
	}
	return syscall.Kill(-p.cmd.Process.Pid, signal)
}

// pause suspends the process until resume, and then its children, so that there will be no others.
// Its connections stay open, and nothing is answered.
func (p *process) pause() error {
	p.paused = true
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := node.AwaitHalt(p.cmd.Process.Pid); err != nil || !p.leaves {
		return err
	}
	children := childrenOf(p.cmd.Process.Pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGSTOP) // fails only if it has ended
	}
	for _, child := range children {
		awaitState(child, "T")
	}
	return nil
}

// resume continues the children and then the process.
func (p *process) resume() error {
	p.paused = false
	if p.leaves {
		for _, child := range childrenOf(p.cmd.Process.Pid) {
			_ = syscall.Kill(child, syscall.SIGCONT) // fails only if it has ended
		}
	}
	return p.signal(syscall.SIGCONT)
}

// answers reports whether the process can be expected to answer.
func (p *process) answers() bool { return p.alive() && !p.paused }

// ended returns an error if the process has ended, so that a wait can stop.
func (p *process) ended() error {
	if p.alive() {
		return nil
	}
	return fmt.Errorf("the process has ended: %w", p.err)
}
