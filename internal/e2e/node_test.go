// Package e2e runs the real binary and ends it in all the ways a process can end.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the built seqd.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "seqd-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "seqd")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, "../../cmd/seqd").CombinedOutput(); err != nil {
			err = fmt.Errorf("build seqd: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// node is one seqd process.
type node struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    logBuffer
	url    string
	client *http.Client
	exited chan struct{} // closed when the process has ended and err is set
	err    error
}

// logBuffer collects what the process writes.
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

// launch starts seqd in dir with settings as environment variables and does not wait for anything.
func launch(t *testing.T, dir string, env ...string) *node {
	t.Helper()
	n := &node{t: t, cmd: exec.Command(binary), exited: make(chan struct{}), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	n.cmd.Dir = dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SEQD_") {
			n.cmd.Env = append(n.cmd.Env, v)
		}
	}
	n.cmd.Env = append(n.cmd.Env, "SEQD_SERVER_ADDR=127.0.0.1:0", `SEQD_BIZTYPES=[{"name":"order","start":100}]`)
	n.cmd.Env = append(n.cmd.Env, env...)
	n.cmd.Stderr = &n.log
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { n.err = n.cmd.Wait(); close(n.exited) }()
	t.Cleanup(func() { n.kill(); n.client.CloseIdleConnections() })
	return n
}

// start is launch and waits until the port is open.
func start(t *testing.T, dir string, env ...string) *node {
	t.Helper()
	n := launch(t, dir, env...)
	for n.url == "" {
		select {
		case <-n.exited:
			t.Fatalf("seqd ended: %v\n%s", n.err, &n.log)
		case <-time.After(time.Millisecond):
		}
		for line := range strings.SplitSeq(n.log.String(), "\n") {
			var entry struct{ Msg, Addr string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
				n.url = "http://" + entry.Addr
			}
		}
	}
	return n
}

// startReady is start and waits until the node is ready.
func startReady(t *testing.T, dir string, env ...string) *node {
	t.Helper()
	n := start(t, dir, env...)
	n.await("/readyz", http.StatusOK)
	return n
}

// kill ends the process as kill -9 does.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// stop asks the process to end and waits for it.
func (n *node) stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	<-n.exited
	if n.err != nil {
		n.t.Fatalf("a clean stop ended with %v\n%s", n.err, &n.log)
	}
}

// fails waits for the process to end with an error and returns what it wrote.
func (n *node) fails() string {
	n.t.Helper()
	select {
	case <-n.exited:
	case <-time.After(20 * time.Second):
		n.t.Fatalf("seqd goes on\n%s", &n.log)
	}
	if n.err == nil {
		n.t.Errorf("seqd ended without an error\n%s", &n.log)
	}
	return n.log.String()
}

var errStatus = errors.New("not 200")

// take asks for numbers. A status other than 200 is errStatus with the body.
func (n *node) take(bizType string, count int) ([]int64, error) {
	resp, err := n.client.Get(fmt.Sprintf("%s/seq/%s?count=%d", n.url, bizType, count))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w but %d: %s", errStatus, resp.StatusCode, body)
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

// status asks a route for its status.
func (n *node) status(path string) (int, string) {
	n.t.Helper()
	resp, err := n.client.Get(n.url + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// await asks a route until it has the status.
func (n *node) await(path string, want int) string {
	n.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; {
		got, body := n.status(path)
		if got == want {
			return body
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s still says %d: %s\n%s", path, got, body, &n.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
