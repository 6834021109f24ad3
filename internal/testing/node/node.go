// Package node runs the real binary as child processes for tests. It starts, loads, stops and kills
// them.
package node

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

// BinariesEnv is the environment variable with the folder of the binaries to use instead of
// building them: seqd and mongostandin. scripts/test builds them once for all packages.
// scripts/long builds those of seqd with the race detector.
const BinariesEnv = "SEQD_TEST_BINARIES"

// built is the folder that build created, if any.
var built string

// build returns the path of the binary. It builds the binary once per test process if needed.
var build = sync.OnceValues(func() (string, error) {
	const name = "seqd"
	if folder := os.Getenv(BinariesEnv); folder != "" {
		return filepath.Join(folder, name), nil
	}
	var err error
	if built, err = os.MkdirTemp("", "seqd-node-"); err != nil {
		return "", err
	}
	binary := filepath.Join(built, name)
	// the tests may be in another module
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/seqd/seqd").Output()
	if err != nil {
		return "", fmt.Errorf("find the main module: %w", err)
	}
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/seqd")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build seqd: %w: %s", err, out)
	}
	return binary, nil
})

// Main runs tests and removes the binaries they built. A TestMain calls it.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is like [Main], for a TestMain that has more to do at the end. It returns the exit code.
func Run(m *testing.M) int {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	return code
}

// Node is one seqd process.
type Node struct {
	// URL is the address that it listens on.
	URL    string
	t      testing.TB
	cmd    *exec.Cmd
	log    *logBuffer
	client *http.Client
	exited chan struct{} // closed after the process has ended and err is set
	err    error
}

// logBuffer collects the output of a process.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// patient are settings with which seqd on a slow machine refuses nothing that it could do, as far as it
// permits. A test of an outage overrides those that it has to wait for.
var patient = []string{
	"SEQD_SERVER_READHEADERTIMEOUT=3m", "SEQD_SERVER_READTIMEOUT=3m", "SEQD_SERVER_WRITETIMEOUT=5m", "SEQD_SERVER_STOPTIMEOUT=3m",
	"SEQD_SEGMENT_ACQUIRETIMEOUT=1m", "SEQD_GAPLESS_ACQUIRETIMEOUT=1m", "SEQD_REDIS_TIMEOUT=5s",
	"SEQD_STORE_MONGO_TIMEOUT=10s", "SEQD_STORE_POSTGRES_TIMEOUT=10s", "SEQD_STORE_MYSQL_TIMEOUT=10s",
}

// command returns a command that runs seqd in dir, patiently, with settings as environment variables. If the
// binary was built with the race detector, a race fails the test.
func command(t testing.TB, binary, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SEQD_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "SEQD_SERVER_ADDR=127.0.0.1:0", `SEQD_BIZTYPES=[{"name":"order","start":100}]`)
	cmd.Env = slices.Concat(cmd.Env, patient, env, []string{reportRaces(t)})
	return cmd
}

// Program returns the path of the binary.
func Program(t testing.TB) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// Command runs a sub-command of seqd to its end, and returns its output, including errors, and its
// exit code.
func Command(t testing.TB, dir string, env []string, args ...string) (output string, code int) {
	t.Helper()
	cmd := command(t, Program(t), dir, env, args...)
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// Tool returns a command that was not started: a sub-command of seqd that is a client of this node.
func (n *Node) Tool(dir string, args ...string) *exec.Cmd {
	n.t.Helper()
	return command(n.t, Program(n.t), dir, []string{"SEQD_CLIENT_ADDR=" + n.URL}, args...)
}

// Launch starts seqd in dir with settings as environment variables. It does not wait.
func Launch(t testing.TB, dir string, env ...string) *Node {
	t.Helper()
	return launch(t, Program(t), dir, env)
}

func launch(t testing.TB, binary, dir string, env []string) *Node {
	t.Helper()
	n := &Node{t: t, cmd: command(t, binary, dir, env), log: new(logBuffer), exited: make(chan struct{}), client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
		Timeout:   await.Patience, // longer than any node is paused
	}}
	n.cmd.Stderr = n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.err = n.cmd.Wait(); close(n.exited) }()
	t.Cleanup(func() { n.Kill(); n.client.CloseIdleConnections() })
	return n
}

// Start is like [Launch] and waits until the port is open. The process may have ended since.
func Start(t testing.TB, dir string, env ...string) *Node {
	t.Helper()
	return Launch(t, dir, env...).listening()
}

// StartProgram is like [StartReady], with a seqd that was built elsewhere.
func StartProgram(t testing.TB, program, dir string, env ...string) *Node {
	t.Helper()
	n := launch(t, program, dir, env).listening()
	n.AwaitAll()
	return n
}

// listening waits until the port is open, and returns n.
func (n *Node) listening() *Node {
	t := n.t
	t.Helper()
	for n.URL == "" {
		ended := n.Ended() // read first, so that the log is complete if it has ended
		for line := range strings.SplitSeq(n.log.String(), "\n") {
			var entry struct{ Msg, Addr string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
				n.URL = "http://" + entry.Addr
			}
		}
		switch {
		case n.URL != "":
		case ended:
			t.Fatalf("seqd ended: %v\n%s", n.err, n.log)
		default:
			time.Sleep(time.Millisecond)
		}
	}
	return n
}

// StartReady is like [Start] and waits until every biz type of the node can issue.
func StartReady(t testing.TB, dir string, env ...string) *Node {
	t.Helper()
	n := Start(t, dir, env...)
	n.AwaitAll()
	return n
}

// AwaitAll waits until every biz type of the node can issue.
func (n *Node) AwaitAll() {
	n.t.Helper()
	await.Eventually(n.t, "every biz type can issue", func() error {
		var answer struct{ Unready int }
		status, body := n.Status("/readyz")
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || answer.Unready > 0 {
			return fmt.Errorf("it says %d: %s %v\n%s", status, body, err, n.tail())
		}
		return nil
	})
}

// At returns the same process at another address that it listens on.
func (n *Node) At(url string) *Node {
	return &Node{URL: url, t: n.t, cmd: n.cmd, client: n.client, exited: n.exited, log: n.log}
}

// Kill ends the process as kill -9 does.
func (n *Node) Kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// Stop asks the process to stop and waits for its end.
func (n *Node) Stop() {
	n.t.Helper()
	if err := n.End(); err != nil {
		n.t.Fatalf("a clean stop ended with %v\n%s", err, n.tail())
	}
}

// End is like [Stop], for a process that may fail; it returns the process's error.
func (n *Node) End() error {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(await.Patience):
		n.t.Fatalf("seqd does not stop\n%s", n.tail())
	}
	return n.err
}

// Pause suspends the process (SIGSTOP). Its connections stay open, and nothing is answered.
func (n *Node) Pause() {
	n.t.Helper()
	n.signal(syscall.SIGSTOP)
	if err := AwaitHalt(n.cmd.Process.Pid); err != nil {
		n.t.Fatalf("%v\n%s", err, n.tail())
	}
}

// Resume continues a paused process (SIGCONT).
func (n *Node) Resume() {
	n.t.Helper()
	n.signal(syscall.SIGCONT)
}

func (n *Node) signal(signal syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(signal); err != nil {
		n.t.Fatalf("%v: %v\n%s", signal, err, n.tail())
	}
}

// Ended reports whether the process has ended.
func (n *Node) Ended() bool {
	select {
	case <-n.exited:
		return true
	default:
		return false
	}
}

// Fails waits until the process ends with an error and returns its output.
func (n *Node) Fails() string {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(await.Patience):
		n.t.Fatalf("seqd still runs\n%s", n.log)
	}
	if n.err == nil {
		n.t.Errorf("seqd ended without an error\n%s", n.log)
	}
	return n.log.String()
}

// ErrStatus is returned by Take if the status is not 200.
var ErrStatus = errors.New("not 200")

// Take asks for count numbers. If the status is not 200, the error wraps ErrStatus and has the
// body.
func (n *Node) Take(bizType string, count int) ([]int64, error) {
	resp, err := n.client.Get(fmt.Sprintf("%s/seq/%s?count=%d", n.URL, bizType, count))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w but %d: %s", ErrStatus, resp.StatusCode, body)
	}
	var answer struct{ IDs []string }
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.IDs) != count {
		return nil, fmt.Errorf("asked for %d and got %s: %w", count, body, err)
	}
	numbers := make([]int64, count)
	for i, id := range answer.IDs {
		if numbers[i], err = strconv.ParseInt(id, 10, 64); err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// Status requests a path and returns the status and the body.
func (n *Node) Status(path string) (int, string) {
	n.t.Helper()
	status, body, err := n.tryStatus(path)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, n.tail())
	}
	return status, body
}

// tryStatus is like [Status], for a process that may have ended.
func (n *Node) tryStatus(path string) (int, string, error) {
	resp, err := n.client.Get(n.URL + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// Await requests a path until it has the status.
func (n *Node) Await(path string, want int) string {
	n.t.Helper()
	var body string
	await.Eventually(n.t, fmt.Sprintf("%s says %d", path, want), func() error {
		var got int
		if got, body = n.Status(path); got != want {
			return fmt.Errorf("it says %d: %s\n%s", got, body, n.tail())
		}
		return nil
	})
	return body
}

// Readiness is the answer of /readyz about the biz type order and the store.
type Readiness struct {
	// Status is the HTTP status.
	Status int
	// Code is why it cannot issue, or how it is degraded; "" otherwise.
	Code string
	// Body is the whole answer.
	Body string
}

// Readiness requests /readyz.
func (n *Node) Readiness() Readiness {
	n.t.Helper()
	r := Readiness{}
	r.Status, r.Body = n.Status("/readyz")
	var answer struct {
		Status   any // text if ready, a number if not
		Code     string
		Store    struct{ Code string }
		BizTypes []struct{ BizType, Code string }
	}
	if err := json.Unmarshal([]byte(r.Body), &answer); err != nil {
		n.t.Fatalf("readyz says %s: %v", r.Body, err)
	}
	r.Code = cmp.Or(answer.Code, answer.Store.Code)
	for _, b := range answer.BizTypes {
		if b.BizType == "order" {
			r.Code = b.Code
		}
	}
	if answer.Status == "degraded" && r.Code == "" {
		n.t.Fatalf("readyz does not say how it is degraded: %s", r.Body)
	}
	return r
}

// AwaitReadiness requests /readyz until it has the status and the code.
func (n *Node) AwaitReadiness(status int, code string) {
	n.t.Helper()
	n.awaitReady(fmt.Sprintf("%d %q", status, code), func(r Readiness) bool { return r.Status == status && r.Code == code })
}

// awaitReady requests /readyz until condition is true; what describes it.
func (n *Node) awaitReady(what string, condition func(Readiness) bool) {
	n.t.Helper()
	await.Eventually(n.t, "readyz is "+what, func() error {
		if r := n.Readiness(); !condition(r) {
			return fmt.Errorf("it says %d: %s\n%s", r.Status, r.Body, n.tail())
		}
		return nil
	})
}

// AwaitLog waits until one line of the log has all parts.
func (n *Node) AwaitLog(parts ...string) {
	n.t.Helper()
	await.Eventually(n.t, fmt.Sprintf("the log has %q", parts), func() error {
		for line := range strings.Lines(n.Log()) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
				return nil
			}
		}
		return errors.New(n.tail())
	})
}

// tail returns the end of the log, for messages.
func (n *Node) tail() string {
	const most = 8000
	log := n.log.String()
	if len(log) > most {
		return "…" + log[len(log)-most:]
	}
	return log
}

// Log returns what the process has written so far.
func (n *Node) Log() string { return n.log.String() }

// Answer is an HTTP answer.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request with a JSON body, "" for none, and headers as pairs of name and value.
func (n *Node) Do(method, path, body string, headers ...string) (Answer, error) {
	req, err := http.NewRequest(method, n.URL+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := n.client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}
