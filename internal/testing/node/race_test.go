//go:build race

package node

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// racyEnv makes the test binary a program with a race, if the value is "race", or without one. It
// prints a line and waits to be killed.
const racyEnv = "TEST_RACY"

func init() {
	kind := os.Getenv(racyEnv)
	if kind == "" {
		return
	}
	shared, done := 0, make(chan struct{})
	go func() { shared++; close(done) }()
	if kind == "race" {
		shared++
	}
	<-done
	fmt.Println(shared)
	time.Sleep(time.Hour)
}

// recorder is a test that notes how it failed, and whose end is called explicitly.
type recorder struct {
	testing.TB
	cleanups []func()
	failures []string
}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

// A race in a process fails the test that started it, even if the process is killed.
func TestRaceInAProcess(t *testing.T) {
	for kind, want := range map[string]int{"race": 1, "none": 0} {
		t.Run(kind, func(t *testing.T) {
			test := &recorder{TB: t}
			cmd := command(test, os.Args[0], t.TempDir(), []string{racyEnv + "=" + kind})
			killAfterALine(t, cmd)
			test.end()
			if len(test.failures) != want || want > 0 && !strings.Contains(test.failures[0], "DATA RACE") {
				t.Errorf("the test failed with %q", test.failures)
			}
		})
	}
}

func killAfterALine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Report(t, must.Err(bufio.NewReader(out).ReadString('\n')))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}
