package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/node"
)

// checkNumbers fails unless a file has exactly count lines: numbers that n has issued, each once.
func checkNumbers(t *testing.T, n *node.Node, bizType, path string, count int) {
	t.Helper()
	_, text := n.Status("/seq/" + bizType)
	_, text, _ = strings.Cut(text, "INV-")
	next, err := strconv.ParseInt(strings.TrimSuffix(text, `"}`), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
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
	if lines != count {
		t.Errorf("%d lines, want %d", lines, count)
	}
	if _, err := os.Stat(path + ".seqd"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the note of a complete file: %v", err)
	}
}

const invites = `SEQD_BIZTYPES=[{"name":"invite","plugins":[{"name":"format","template":"INV-{seq:08}"}]}]`

// seqd generate is killed or interrupted twenty times at random moments, and its service once. In the
// end the file has all lines, and none was lost on the way.
func TestGenerateKilled(t *testing.T) {
	const count = 3_000_000
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 1))
	data := filepath.Join(dir, "node")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	n := node.StartReady(t, data, invites)
	path := filepath.Join(dir, "codes.txt")
	generate := func(more ...string) *exec.Cmd {
		return n.Tool(dir, append([]string{"generate", "invite", "--count", strconv.Itoa(count), "-o", "codes.txt", "--resume"}, more...)...)
	}
	var before []byte // the whole lines after the last stop
	var size int64    // of the file then
	grown := 0
	for stops := range 20 {
		cmd := generate("--batch", "500", "--parallel", "2")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitGrowth(t, path, size)
		time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
		signal := syscall.SIGKILL
		if stops%3 == 2 {
			signal = syscall.SIGINT
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("it was done before it was stopped")
		}
		if code := cmd.ProcessState.ExitCode(); signal == syscall.SIGINT && (code != 1 || !strings.Contains(errs.String(), "interrupted\n") || !strings.Contains(errs.String(), "--resume continues")) {
			t.Errorf("after Ctrl-C it exits with %d and says %s", code, errs.String())
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole := now[:bytes.LastIndexByte(now, '\n')+1]
		if signal == syscall.SIGINT && len(whole) != len(now) {
			t.Error("after Ctrl-C the last line is not whole")
		}
		if !bytes.HasPrefix(now, before) {
			t.Fatal("lines were lost")
		}
		if len(whole) > len(before) {
			grown++
		}
		before, size = whole, int64(len(now))
		if stops == 10 {
			n.Kill()
			n = node.StartReady(t, data, invites)
		}
	}
	if grown < 15 {
		t.Errorf("the file grew in %d of 20 runs", grown)
	}
	if out, err := generate().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkNumbers(t, n, "invite", path, count)
}

// awaitGrowth waits until a file has more than size bytes.
func awaitGrowth(t *testing.T, path string, size int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		info, err := os.Stat(path)
		if err == nil && info.Size() > size {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the file does not grow: %v", err)
		}
	}
}

// The service ends while a file grows, and comes back: the command waits, or it ends and says how to
// continue.
func TestGenerateWithoutService(t *testing.T) {
	dir := t.TempDir()
	n := node.StartReady(t, dir, invites)
	cmd := n.Tool(dir, "generate", "invite", "--count", "100000000", "-o", "codes.txt", "--patience", "200ms", "--json")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "codes.txt")
	awaitGrowth(t, path, 0)
	n.Kill()
	_ = cmd.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Count(text, []byte("\n"))
	want := fmt.Sprintf("codes.txt has %d of 100000000 lines. The same command with --resume continues.", lines)
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "cannot be reached") {
		t.Errorf("it exits with %d and says %s, want %s", code, errs.String(), want)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Error("the last line is not whole")
	}
}
