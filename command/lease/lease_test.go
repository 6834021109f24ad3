package lease_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/command"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
)

// beSeqd is the environment variable that makes the test program run as seqd.
const beSeqd = "BE_SEQD"

func TestMain(m *testing.M) {
	if os.Getenv(beSeqd) != "" {
		command.Main()
	}
	os.Exit(m.Run())
}

// Every signal reaches the command, and seqd waits for it to end. If seqd is killed, the command does
// not survive, because nobody would renew its lease.
func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a command with its parent")
	}
	var asked testlog.Text
	seqd := exec.Command(os.Args[0], "lease", "--addr", leasing(t, 0, &asked), "shop", "--", "sh", "-c", `trap 'echo term' TERM; echo up; while :; do sleep 0.01; done`)
	seqd.Env = append(os.Environ(), beSeqd+"=1")
	out := must.Get(seqd.StdoutPipe())(t)
	must.Do(t, seqd.Start())
	lines := bufio.NewReader(out)
	must.Equal(t, must.Get(lines.ReadString('\n'))(t), "up\n")
	for range 4 {
		must.Do(t, seqd.Process.Signal(syscall.SIGTERM))
		must.Equal(t, must.Get(lines.ReadString('\n'))(t), "term\n")
	}
	must.Do(t, seqd.Process.Kill())
	must.Get(io.ReadAll(lines))(t) // it ends once nobody has the output any more
	_ = seqd.Wait()                // it was killed
}

// With nohup a hangup ends neither seqd nor the command.
func TestNoHangup(t *testing.T) {
	var asked testlog.Text
	seqd := exec.Command("nohup", os.Args[0], "lease", "--addr", leasing(t, 0, &asked), "shop", "--", "sh", "-c", `kill -HUP $PPID; kill -HUP $$; echo still`)
	seqd.Env = append(os.Environ(), beSeqd+"=1")
	must.Equal(t, string(must.Get(seqd.Output())(t)), "still\n")
}

// line runs seqd lease with a service, and returns its exit code, output and messages.
func line(ctx context.Context, url string, errs *testlog.Text, args ...string) (code int, out string) {
	var b strings.Builder
	args = append([]string{"lease", "--timeout", "10m"}, args...)
	code = command.Run(ctx, args, &b, errs, command.WithEnv([]string{"SEQD_CLIENT_ADDR=" + url}), command.WithInput(strings.NewReader("in\n")))
	return code, b.String()
}

// leasing answers the first requests by refusals, and the others as a pool does.
func leasing(t *testing.T, held int32, asked *testlog.Text) string {
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(asked, r.Method, r.URL.RequestURI())
		now := time.Now().UTC()
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(204)
		case n.Add(1) <= held:
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			fmt.Fprint(w, `{"code":"no_machine_id","detail":"all worker IDs are held"}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"pool":"shop","workerId":7,"lease":"x","after":%q,"until":%q,"ttl":"1h","epoch":"2025-01-01T00:00:00.000Z","bitsMachine":10,"bitsSequence":12}`,
				now.Add(-time.Minute).Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A command has the streams of seqd, and its own flags. seqd exits as it does.
func TestLease(t *testing.T) {
	var asked, errs testlog.Text
	url := leasing(t, 0, &asked)
	code, out := line(t.Context(), url, &errs, "shop", "--", "sh", "-c", `read a; echo $WORKER_ID $a $0 $1; echo error >&2; exit 3`, "--wait", "x")
	must.Equal(t, fmt.Sprintf("%d %s%s", code, out, errs.String()), "3 7 in --wait x\nerror\n")
	must.Equal(t, asked.String(), "POST /workers/shop\nDELETE /workers/shop/x\n")
	code, _ = line(t.Context(), url, &errs, "shop", "--", "true")
	must.Equal(t, code, 0)
}

// While all worker IDs are held, it stands by, for as long as it may.
func TestStandsBy(t *testing.T) {
	var asked, errs testlog.Text
	code, out := line(t.Context(), leasing(t, 1, &asked), &errs, "shop", "--", "echo", "up")
	must.Equal(t, fmt.Sprintf("%d %s%s", code, out, errs.String()), "0 up\nseqd: no_machine_id: all worker IDs are held; standing by\n")
	must.Equal(t, asked.String(), "POST /workers/shop\nPOST /workers/shop?wait=20s\nDELETE /workers/shop/x\n")

	var none testlog.Text
	code, _ = line(t.Context(), leasing(t, 1, &asked), &none, "--wait", "0s", "shop", "--", "true")
	must.Equal(t, fmt.Sprintf("%d %s", code, none.String()), "1 seqd: no_machine_id: all worker IDs are held\n")

	var stopped testlog.Text
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		await.True(t, "it stands by", func() bool { return stopped.Count("standing by") > 0 })
		stop()
	}()
	code, _ = line(ctx, leasing(t, 1_000_000, &asked), &stopped, "shop", "--", "true")
	if code != 1 || !strings.HasSuffix(stopped.String(), "seqd: interrupted\n") {
		t.Errorf("%d, %q", code, stopped.String())
	}
}

func TestUsage(t *testing.T) {
	for _, test := range []struct {
		want string
		code int
		args []string
	}{
		{"lease needs POOL -- COMMAND, with -- between them; see seqd help lease", 78, nil},
		{"lease needs POOL -- COMMAND", 78, []string{"shop"}},
		{"lease needs POOL -- COMMAND", 78, []string{"shop", "true"}},
		{"lease needs POOL -- COMMAND", 78, []string{"shop", "--"}},
		{"lease needs POOL -- COMMAND", 78, []string{"--", "shop", "true"}},
		{"no-such-program: executable file not found in $PATH", 78, []string{"shop", "--", "no-such-program"}},
		{"--wait -1s: it must not be negative", 78, []string{"--wait", "-1s", "shop", "--", "true"}},
		{`invalid_request: "a/b" is not the name of a pool`, 1, []string{"a/b", "--", "true"}},
		{"cannot be reached: connection refused", 1, []string{"shop", "--", "true"}},
	} {
		var errs testlog.Text
		code, out := line(t.Context(), "http://127.0.0.1:1", &errs, test.args...)
		if code != test.code || out != "" || !strings.Contains(errs.String(), test.want) {
			t.Errorf("%q: %d, %q, %q, want %d and %q", test.args, code, out, errs.String(), test.code, test.want)
		}
	}
}
