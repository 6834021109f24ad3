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

// output collects what a server writes in all its lives.
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

// process is one life of a server: a child process and whatever it forks.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended and err is set
	err    error
	paused bool
}

// startProcess starts a program that writes to out; it ends with the test at the latest.
func startProcess(t testing.TB, out *output, path string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.WaitDelay = time.Second
	// A group of its own, so that what the server forks (Redis saving in the background) ends with
	// it. And the kernel ends the process with the thread that started it, so that it does not
	// outlive a test binary that panics or is killed.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
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

// alive reports whether the process has not ended.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process as kill -9 does and returns when it is gone. A process that has ended stays
// so.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // nothing to do when it has ended
	<-p.exited
}

func (p *process) signal(signal syscall.Signal) error {
	if !p.alive() {
		return errors.New("the process has ended")
	}
	return syscall.Kill(-p.cmd.Process.Pid, signal)
}

// pause stops the process until resume: its connections stay, nothing answers.
func (p *process) pause() error {
	p.paused = true
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return node.AwaitHalt(p.cmd.Process.Pid)
}

func (p *process) resume() error {
	p.paused = false
	return p.signal(syscall.SIGCONT)
}

// answers reports whether the process can be expected to answer.
func (p *process) answers() bool { return p.alive() && !p.paused }

// ended is an error when the process has ended, for waits that would be in vain.
func (p *process) ended() error {
	if p.alive() {
		return nil
	}
	return fmt.Errorf("the process has ended: %w", p.err)
}
