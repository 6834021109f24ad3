package command

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// beSeqd is the environment variable that makes the test program run as seqd.
const beSeqd = "BE_SEQD"

func TestMain(m *testing.M) {
	if os.Getenv(beSeqd) != "" {
		Main()
	}
	os.Exit(m.Run())
}

// startProcess runs the service as another process. It returns where its log can be read, its URL,
// and how it ends.
func startProcess(t *testing.T, args ...string) (seqd *exec.Cmd, log *os.File, url string, ended chan error) {
	t.Helper()
	r, w, err := os.Pipe()
	must.Do(t, err)
	seqd = exec.Command(os.Args[0], append([]string{"--config", write(t, good), "--server.addr", "127.0.0.1:0"}, args...)...)
	seqd.Env, seqd.Stderr = []string{beSeqd + "=1"}, w
	must.Do(t, seqd.Start())
	ended = make(chan error, 1)
	go func() { ended <- seqd.Wait() }()
	t.Cleanup(func() {
		_ = seqd.Process.Kill() // does nothing if it has ended
		_ = r.Close()
	})
	w.Close()
	return seqd, r, "http://" + logs{r: r}.address(t), ended
}

// A hangup ends nothing. A second SIGTERM ends drainDelay, and the numbers that are left are given
// back nevertheless.
func TestSignals(t *testing.T) {
	store := []string{"--store.driver", "bolt", "--store.bolt.path", filepath.Join(t.TempDir(), "seqd.db")}
	seqd, log, url, ended := startProcess(t, append(store, "--server.drainDelay", "1h")...)
	go func(log *os.File) { _, _ = io.Copy(io.Discard, log) }(log)
	send := func(signal syscall.Signal) {
		t.Helper()
		must.Do(t, seqd.Process.Signal(signal))
	}
	get(t, url+"/seq/order")
	send(syscall.SIGHUP)
	send(syscall.SIGTERM)
	await.True(t, "the node has taken the first signal", func() bool { // which the second one is added to otherwise
		ready := must.Get(http.Get(url + "/readyz"))(t)
		defer ready.Body.Close()
		return strings.Contains(string(must.Get(io.ReadAll(ready.Body))(t)), `"stopping"`)
	})
	must.Equal(t, get(t, url+"/seq/order"), `{"bizType":"order","id":"101"}`, "after a hangup, while it stops, it answers")
	send(syscall.SIGTERM)
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	_, log, url, _ = startProcess(t, store...)
	go func() { _, _ = io.Copy(io.Discard, log) }()
	must.Equal(t, get(t, url+"/seq/order"), `{"bizType":"order","id":"102"}`, "after a stop that was hurried it answers")
}

// A file that changes counts after a hangup and after seqd reload, and a wrong one does not.
func TestReload(t *testing.T) {
	path := write(t, good)
	seqd, log, url, _ := startProcess(t, "--config", path, "--store.driver", "memory")
	go func() { _, _ = io.Copy(io.Discard, log) }()
	put := func(text string) { must.Do(t, os.WriteFile(path, []byte(text+good), 0o600)) }
	largest := func(want string) {
		t.Helper()
		await.True(t, "the largest count is "+want, func() bool {
			return strings.Contains(get(t, url+"/seq/order?count=9999999"), "from 1 to "+want+`"`)
		})
	}
	reload := func() (out string, code int) {
		var stdout, stderr strings.Builder
		code = Run(t.Context(), []string{"reload", "--addr", url}, &stdout, &stderr, WithEnv(nil))
		return stdout.String() + stderr.String(), code
	}
	get(t, url+"/seq/order")
	put("log: {level: warn}\n")
	must.Do(t, seqd.Process.Signal(syscall.SIGHUP))
	await.True(t, "the level of the log has changed", func() bool { return strings.Contains(get(t, url+"/log-level"), `"level":"warn"`) })
	put("log: {level: loud}\n")
	if out, code := reload(); code != ExitFailed || !strings.Contains(out, `log.level: "loud" is not one of`) {
		t.Errorf("a wrong file: %d, %s", code, out)
	}
	put("auth: {publicMetrics: true}\nidempotency: {maxBytes: 0, ttl: 2h}\n")
	if out, code := reload(); code != ExitOK || !strings.Contains(out, "log.level, auth.publicMetrics, idempotency.maxBytes  idempotency.ttl") {
		t.Errorf("a good file: %d, %s", code, out)
	}
	largest("10000")
	must.Do(t, os.Remove(path))
	if out, code := reload(); code != ExitFailed || !strings.Contains(out, "no such file") {
		t.Errorf("no file: %d, %s", code, out)
	}
	must.Do(t, seqd.Process.Signal(syscall.SIGHUP))
	await.True(t, "the hangup failed, and the node goes on", func() bool {
		return strings.Contains(get(t, url+"/metrics"), "\nseqd_reload_failures_total 3\n")
	})
	largest("10000")
}

// The reader of the log may end, as journald does when it restarts. Then seqd drops lines and
// continues.
func TestLogReaderEnds(t *testing.T) {
	seqd, r, url, ended := startProcess(t, "--server.accessLog", "on")
	r.Close()
	await.True(t, "a line of the log is dropped", func() bool {
		get(t, url+"/seq/order")
		return !strings.Contains(get(t, url+"/metrics"), "\nseqd_log_lines_dropped_total 0\n")
	})
	must.Equal(t, get(t, url+"/seq/invite"), `{"bizType":"invite","id":"1"}`, "without a reader of its log it answers")
	must.Do(t, seqd.Process.Signal(syscall.SIGTERM))
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// startService runs the service in this process and returns its URL once it issues numbers.
func startService(t *testing.T) (url string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	errs := logPipe(t)
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, []string{"--config", write(t, good), "--server.addr", "127.0.0.1:0"}, io.Discard, errs.w, WithEnv(nil))
		errs.w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	url = "http://" + errs.address(t)
	get(t, url+"/seq/order")
	return url
}

// The reader of numbers may end, as head does: then seqd ends too, quietly.
func TestReaderOfNumbersEnds(t *testing.T) {
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	var errs strings.Builder
	seqd := exec.Command(os.Args[0], "next", "order", "-n", "1000000", "--addr", startService(t))
	seqd.Env, seqd.Stdout, seqd.Stderr = []string{beSeqd + "=1"}, w, &errs
	must.Do(t, seqd.Start())
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil || line != "101\n" {
		t.Errorf("the first line is %q, %v", line, err)
	}
	r.Close()
	if err := seqd.Wait(); err != nil || errs.String() != "" {
		t.Errorf("it ends with %v and says %q", err, errs.String())
	}
}
