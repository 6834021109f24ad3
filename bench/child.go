package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process that ends with this one, if not before.
type child struct {
	cmd    *exec.Cmd
	end    context.CancelFunc
	out    bytes.Buffer  // read only after the process has ended
	exited chan struct{} // closed after the process has ended and err is set
	err    error
}

func startChild(ctx context.Context, dir string, env []string, path string, args ...string) (*child, error) {
	return startChildAs(ctx, nil, dir, env, path, args...)
}

// startChildAs is startChild for another user, unless who is nil.
func startChildAs(ctx context.Context, who *syscall.Credential, dir string, env []string, path string, args ...string) (*child, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &child{cmd: exec.CommandContext(ctx, path, args...), end: cancel, exited: make(chan struct{})}
	c.cmd.Dir, c.cmd.Env = dir, append(environ(), env...)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 10 * time.Minute
	// The kernel ends the child with the thread that started it, so that thread is kept.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: who}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return c, nil
}

// await waits until the process listens on addr.
func (c *child) await(ctx context.Context, addr string) error {
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s: %w: %s", c.cmd.Path, c.err, c.out.Bytes())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop asks the process to end and waits for it. It does nothing if the process was stopped before.
func (c *child) stop() error {
	c.end()
	<-c.exited
	if !c.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %w: %s", c.cmd.Path, c.err, c.out.Bytes())
	}
	return nil
}

// resident returns the resident memory of the process in bytes.
func (c *child) resident() (float64, error) { return c.memory("VmRSS") }

// anonymous returns the resident memory that the process does not share with files, in bytes.
func (c *child) anonymous() (float64, error) { return c.memory("RssAnon") }

func (c *child) memory(kind string) (float64, error) {
	var kib float64
	_, err := fmt.Sscan(field(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid), kind), &kib)
	return kib * 1024, err
}

// onCPU returns how many seconds the threads of the process have run. It is finer than the hundredths of a
// second in /proc/PID/stat.
func (c *child) onCPU() (seconds float64, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		return 0, errors.Join(errors.New("the kernel does not tell for how long threads have run"), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		ran, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseFloat(ran, 64)
		if err != nil {
			return 0, err
		}
		seconds += ns / 1e9
	}
	return seconds, nil
}

// mostResident returns the most memory that a process that has ended ever had, in bytes.
func mostResident(state *os.ProcessState) (float64, error) {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return float64(usage.Maxrss) * 1024, nil
}

// environ returns the environment without the settings of seqd.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SEQD_") })
}

// freeAddr returns an unused address.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
