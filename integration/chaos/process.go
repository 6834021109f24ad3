package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seqd/seqd/internal/testing/node"
)

// process is one life of a program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed after the process has ended and err is set
	err    error
	asked  bool // its end was requested; guarded by the owner of the process
}

// startProcess starts a program and appends its output to a file. It also calls see with each line,
// unless see is nil.
func startProcess(cmd *exec.Cmd, log string, see func(line []byte)) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "--- start %s\n", time.Now().Format(time.TimeOnly+".000"))
	cmd.Stdout, cmd.Stderr = out, out
	if see != nil {
		lines := &lineWriter{out: out, see: see}
		cmd.Stdout, cmd.Stderr = lines, lines
	}
	cmd.WaitDelay = time.Second
	// The process has its own group, so that its forks are killed with it. The kernel kills it with
	// the thread that started it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started, out)
	return p, <-started
}

// lineWriter forwards its input, and calls a function with each line.
type lineWriter struct {
	out  io.Writer
	see  func(line []byte)
	rest []byte // the beginning of an incomplete line
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, ended := bytes.Cut(w.rest, []byte("\n"))
		if !ended {
			return w.out.Write(p)
		}
		w.see(line)
		w.rest = rest
	}
}

// run keeps the thread that starts the process until it has ended.
func (p *process) run(started chan<- error, out io.Closer) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer func() { _ = out.Close() }()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
		close(p.exited)
	}
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(signal syscall.Signal) error {
	if !p.alive() {
		return errors.New("the process has ended")
	}
	return syscall.Kill(-p.cmd.Process.Pid, signal)
}

// signalAll also reaches children that have left the group, as those of PostgreSQL do. The process
// itself must get SIGSTOP first, so that it makes no others.
func (p *process) signalAll(signal syscall.Signal) error {
	children := childrenOf(p.cmd.Process.Pid)
	err := p.signal(signal)
	for _, child := range children {
		_ = syscall.Kill(child, signal) // fails only if it has ended
	}
	return err
}

// childrenOf returns the processes that a process has started.
func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // fails only if the pattern is wrong
	for _, file := range files {
		text, _ := os.ReadFile(file) // a thread that has ended has no children
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// kill ends the process as kill -9 does, and waits for its end.
func (p *process) kill() {
	if p.pause() == nil {
		_ = p.signalAll(syscall.SIGKILL)
	}
	_ = p.signal(syscall.SIGKILL) // fails only if it has ended
	<-p.exited
}

// stop asks the process to end and waits for it. If it does not end, stop kills it.
func (p *process) stop() error {
	_ = p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		p.kill()
		return fmt.Errorf("it did not end within %v", patience)
	}
}

// pause suspends the process.
func (p *process) pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := node.AwaitHalt(p.cmd.Process.Pid); err != nil {
		return err
	}
	return p.signalAll(syscall.SIGSTOP)
}

func (p *process) resume() error { return p.signalAll(syscall.SIGCONT) }
