//go:build drill

package year

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/record"
)

// member is one node of the installation. It is a [load.Node]; its address stays the same over all
// of its processes, with whatever program and store.
type member struct {
	*year
	name, addr, resp, dir string
	program               string   // of the next process
	own                   []string // settings that the others do not have
	life                  atomic.Int64

	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	log    log
}

func (m *member) Name() string                { return m.name }
func (m *member) Life() int                   { return int(m.life.Load()) }
func (m *member) URL() string                 { return "https://" + named(m.addr) }
func (m *member) DialRESP() (net.Conn, error) { return m.callers.dial(named(m.resp)) }

// named returns an address with the name that certificates have.
func named(addr string) string { return "localhost" + addr[len("127.0.0.1"):] }

// log collects what the processes of a node write, and passes on each line.
type log struct {
	mu   sync.Mutex
	all  bytes.Buffer
	rest []byte // the beginning of an incomplete line
	see  func(line []byte)
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ended := bytes.Cut(l.rest, []byte("\n"))
		if !ended {
			return l.all.Write(p)
		}
		l.see(line)
		l.rest = rest
	}
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// environment returns the settings of the node, and of commands that an operator runs beside it.
func (m *member) environment() []string {
	return slices.Concat(m.settings, m.store, []string{"SEQD_SERVER_ADDR=" + m.addr, "SEQD_RESP_ADDR=" + m.resp}, m.own)
}

// launch starts the next process of the node, and does not wait.
func (m *member) launch() {
	m.t.Helper()
	m.cmd = command(m.program, m.dir, m.environment(), "--config", m.file)
	m.cmd.Stdout, m.cmd.Stderr = &m.log, &m.log
	life := int(m.life.Add(1))
	m.log.see = func(line []byte) { m.load.Journal.Line(m.name, life, line) }
	m.load.Journal.Lived(m.name, life, "")
	m.exited = run(m.t, m.cmd)
}

// run starts a process, which ends with this program whatever becomes of that: the kernel kills it
// with the thread that started it. The channel is closed when it has ended.
func run(t *testing.T, cmd *exec.Cmd) (exited chan struct{}) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	exited = make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ends is in its log
		}
	}()
	must.Do(t, <-started)
	return exited
}

// start starts the next process of the node, and waits until it can issue.
func (m *member) start() {
	m.t.Helper()
	m.launch()
	m.awaitIssuing()
}

// awaitIssuing waits until the node can issue everything except perhaps numbers of snowflake: after a
// failover or a restore of a store that can lose writes, leases of machine IDs begin more than a
// minute later.
func (m *member) awaitIssuing() {
	m.t.Helper()
	m.await(func(states map[string]string) bool {
		for bizType, code := range states {
			if code == "starting" && slices.Contains(snowflakes, bizType) {
				delete(states, bizType)
			}
		}
		return len(states) == 0
	})
}

// snowflakes are the biz types that need a machine ID.
var snowflakes = []string{"user", "guest", sharedRacks}

// awaitReady waits until the node can issue everything.
func (m *member) awaitReady() {
	m.t.Helper()
	m.await(func(states map[string]string) bool { return len(states) == 0 })
}

// await waits until the node is ready, and has the right biz types with a code.
func (m *member) await(right func(states map[string]string) bool) {
	m.t.Helper()
	await.Eventually(m.t, m.name+" can issue", func() error {
		if m.ended() {
			m.t.Fatalf("%s has ended\n%s", m.name, m.tail())
		}
		states, status, _ := load.Readiness(m.t.Context(), m.load.HTTP, m.URL())
		if told := status == http.StatusOK || len(states) > 0; told && right(states) {
			return nil
		}
		return fmt.Errorf("it says %d: %v\n%s", status, states, m.tail())
	})
}

func (m *member) ended() bool {
	select {
	case <-m.exited:
		return true
	default:
		return false
	}
}

// stop ends the process as an operator does, and waits for it.
func (m *member) stop() {
	m.t.Helper()
	must.Do(m.t, m.cmd.Process.Signal(syscall.SIGTERM))
	await.True(m.t, m.name+" stops", m.ended)
	m.load.Journal.Lived(m.name, m.Life(), record.Stopped)
}

// kill ends the process as kill -9 does.
func (m *member) kill() {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Kill() // fails only if it has ended
	<-m.exited
	m.load.Journal.Lived(m.name, m.Life(), record.Killed)
}

// pause suspends the process, as a machine that is frozen does, until resume.
func (m *member) pause() {
	m.t.Helper()
	must.Do(m.t, m.cmd.Process.Signal(syscall.SIGSTOP))
	must.Do(m.t, node.AwaitHalt(m.cmd.Process.Pid))
}

func (m *member) resume() {
	m.t.Helper()
	must.Do(m.t, m.cmd.Process.Signal(syscall.SIGCONT))
}

func (m *member) tail() string {
	const most = 4000
	text := m.log.String()
	return text[max(0, len(text)-most):]
}

// command returns a command that runs a seqd with settings. It ends with the test.
func command(program, dir string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cmd
}

// seqd runs a command of seqd as the operator does, and returns what it says and how it exits. One
// without env asks the service, and waits for as long as this machine needs.
func (y *year) seqd(env []string, args ...string) (said string, code int) {
	y.t.Helper()
	if env == nil {
		args = append(slices.Clone(args), "--timeout", await.Patience.String())
	}
	y.say("   $ seqd %s", clip(fmt.Sprint(args)))
	cmd := command(y.programs[len(y.programs)-1], y.dir, append(y.asOperator(), env...), args...)
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		y.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// do is like seqd, for a command that must succeed.
func (y *year) do(env []string, args ...string) string {
	y.t.Helper()
	said, code := y.seqd(env, args...)
	if code != 0 {
		y.t.Fatalf("seqd %v exits with %d: %s", args, code, said)
	}
	return said
}

// asOperator returns the settings of commands that ask the service: its certificates, and the token
// of the operator, which the configuration has.
func (y *year) asOperator() []string {
	return []string{"SEQD_CLIENT_ADDR=" + y.nodes[0].URL(), "SEQD_CLIENT_TOKEN=" + operatorSecret, "SSL_CERT_FILE=" + filepath.Join(y.dir, "trusted.pem")}
}

// clip shortens a text for the list of what was done.
func clip(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}
