package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// checkNumbers fails unless a file has exactly count lines: numbers that n has issued, each once.
func checkNumbers(t *testing.T, n *node.Node, bizType, path string, count int) {
	t.Helper()
	_, text := n.Status("/seq/" + bizType)
	_, text, _ = strings.Cut(text, "INV-")
	next := must.Get(strconv.ParseInt(strings.TrimSuffix(text, "\"}\n"), 10, 64))(t)
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	seen, lines := make([]bool, next), 0
	for scanner := bufio.NewScanner(f); scanner.Scan(); lines++ {
		number, err := strconv.ParseInt(strings.TrimPrefix(scanner.Text(), "INV-"), 10, 64)
		if err != nil || number < 1 || number >= next {
			t.Fatalf("line %d is %q, and the next number is %d", lines+1, scanner.Text(), next)
		}
		if seen[number] {
			t.Fatalf("%d is there twice, again in line %d", number, lines+1)
		}
		seen[number] = true
	}
	must.Equal(t, lines, count, "the lines")
	must.Is(t, must.Err(os.Stat(path+".seqd")), fs.ErrNotExist, "the note of a complete file")
}

const invites = `SEQD_BIZTYPES=[{"name":"invite","plugins":[{"name":"format","template":"INV-{seq:08}"}]}]`

// meter is a proxy that answers no more requests than it has tokens for.
type meter struct {
	*httptest.Server
	tokens atomic.Pointer[chan struct{}]
	target atomic.Pointer[url.URL]
}

func newMeter(t *testing.T) *meter {
	m := &meter{}
	proxy := &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(m.target.Load()) },
		ErrorLog: log.New(io.Discard, "", 0), // of callers that were killed
	}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-*m.tokens.Load():
			proxy.ServeHTTP(w, r)
		case <-r.Context().Done(): // the caller has ended
		}
	}))
	t.Cleanup(m.Close)
	return m
}

// refill replaces the tokens.
func (m *meter) refill(n int) {
	tokens := make(chan struct{}, n)
	for range n {
		tokens <- struct{}{}
	}
	m.tokens.Store(&tokens)
}

// unlimited answers all requests from now on.
func (m *meter) unlimited() {
	tokens := make(chan struct{})
	close(tokens)
	m.tokens.Store(&tokens)
}

// pointAt makes a node the target.
func (m *meter) pointAt(t *testing.T, n *node.Node) {
	target := must.Get(url.Parse(n.URL))(t)
	m.target.Store(target)
}

// seqd generate is killed or interrupted twenty times after a random number of bytes, and its service
// once. In the end the file has all lines, and none was lost on the way.
func TestGenerateKilled(t *testing.T) {
	// However late a run is stopped, it has not got all numbers: 20 × requests × batch are fewer.
	const count, batch, requests = 800_000, 200, 150
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	data := filepath.Join(dir, "node")
	must.Do(t, os.Mkdir(data, 0o700))
	n := node.StartReady(t, data, invites)
	m := newMeter(t)
	m.pointAt(t, n)
	path := filepath.Join(dir, "codes.txt")
	generate := func(more ...string) *exec.Cmd {
		return n.Tool(dir, append([]string{"generate", "invite", "--addr", m.URL, "--count", strconv.Itoa(count), "-o", "codes.txt", "--resume"}, more...)...)
	}
	var before []byte // the whole lines after the last stop
	var size int64    // of the file then
	for stops := range 20 {
		m.refill(requests)
		cmd := generate("--batch", strconv.Itoa(batch), "--parallel", "2")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		must.Do(t, cmd.Start())
		const line = 13 // bytes; at least a whole one is added
		awaitGrowth(t, path, size+2*line+random.Int64N(requests*batch*line/2))
		signal := syscall.SIGKILL
		if stops%3 == 2 {
			signal = syscall.SIGINT
		}
		must.Do(t, cmd.Process.Signal(signal))
		if err := cmd.Wait(); err == nil {
			t.Fatal("it was done before it was stopped")
		}
		if code := cmd.ProcessState.ExitCode(); signal == syscall.SIGINT && (code != 1 || !strings.Contains(errs.String(), "interrupted\n") || !strings.Contains(errs.String(), "--resume continues")) {
			t.Errorf("after Ctrl-C it exits with %d and says %s", code, errs.String())
		}
		now := must.Get(os.ReadFile(path))(t)
		whole := now[:bytes.LastIndexByte(now, '\n')+1]
		if signal == syscall.SIGINT && len(whole) != len(now) {
			t.Error("after Ctrl-C the last line is not whole")
		}
		if !bytes.HasPrefix(now, before) {
			t.Fatal("lines were lost")
		}
		if len(whole) <= len(before) {
			t.Error("the file has no line more")
		}
		before, size = whole, int64(len(now))
		if stops == 10 {
			n.Kill()
			n = node.StartReady(t, data, invites)
			m.pointAt(t, n)
		}
	}
	m.unlimited()
	if out, err := generate().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkNumbers(t, n, "invite", path, count)
}

// awaitGrowth waits until a file has more than size bytes.
func awaitGrowth(t *testing.T, path string, size int64) {
	t.Helper()
	await.Eventually(t, "the file grows", func() error {
		info, err := os.Stat(path)
		if err == nil && info.Size() <= size {
			err = fmt.Errorf("it has %d bytes", info.Size())
		}
		return err
	})
}

// The service ends while a file grows, and comes back: the command waits, or it ends and says how to
// continue.
func TestGenerateWithoutService(t *testing.T) {
	dir := t.TempDir()
	n := node.StartReady(t, dir, invites)
	cmd := n.Tool(dir, "generate", "invite", "--count", "100000000", "-o", "codes.txt", "--patience", "200ms", "--json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	must.Do(t, cmd.Start())
	path := filepath.Join(dir, "codes.txt")
	awaitGrowth(t, path, 0)
	n.Kill()
	_ = cmd.Wait()
	text := must.Get(os.ReadFile(path))(t)
	lines := bytes.Count(text, []byte("\n"))
	want := fmt.Sprintf("codes.txt has %d of 100000000 lines; the same command with --resume continues", lines)
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "cannot be reached") {
		t.Errorf("it exits with %d and says %s, want %s", code, errs.String(), want)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Error("the last line is not whole")
	}
}
