package statefile

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// Environment variables that make this test binary the process that is killed: the folder to store
// in, and the step at which it ends itself, if any.
const (
	dirEnv  = "SEQD_TEST_STATEFILE_DIR"
	stepEnv = "SEQD_TEST_STATEFILE_STEP"
)

// victim stores in a loop and prints what it has stored, until it is killed.
func victim(dir, step string) error {
	f, err := Open(dir, fileName, sample().identity)
	if err != nil {
		return err
	}
	s, err := f.Load()
	if errors.Is(err, ErrNone) {
		s, err = sample().state, nil
	}
	if err != nil {
		return err
	}
	_, _ = fmt.Println("ready")
	for i := 0; ; i++ {
		if i == 3 && step != "" {
			f.before = func(now string) error {
				if now == step {
					self, _ := os.FindProcess(os.Getpid())
					_ = self.Kill()
					select {}
				}
				return nil
			}
			if step == stepTruncate || step == stepRemove {
				return f.Invalidate()
			}
		}
		s.Until++
		s.Progress = s.Until
		if err := f.Store(s); err != nil {
			return err
		}
		_, _ = fmt.Println("stored", s.Until)
	}
}

// kill runs a victim, kills it some time after it is ready unless it ends itself, and returns the
// last state that it confirmed. It calls meanwhile while the victim runs.
func kill(t *testing.T, dir, step string, after time.Duration, meanwhile func(pid int)) (confirmed int64) {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	command.Env = append(os.Environ(), dirEnv+"="+dir, stepEnv+"="+step)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	must.Do(t, err)
	must.Do(t, command.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" && step == "" {
			meanwhile(command.Process.Pid)
			time.AfterFunc(after, func() { _ = command.Process.Kill() })
		}
		if text, found := strings.CutPrefix(lines.Text(), "stored "); found {
			if confirmed, err = strconv.ParseInt(text, 10, 64); err != nil {
				t.Error(err)
			}
		}
	}
	if err := command.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the process was not killed: %v", err)
	}
	return confirmed
}

// loaded returns what the file contains after a kill.
func loaded(t *testing.T, dir string) (State, error) {
	t.Helper()
	f := open(t, dir)
	s, err := f.Load()
	must.Is(t, must.Err(os.Lstat(f.path+".tmp")), os.ErrNotExist, "a temporary file was left")
	must.Report(t, f.Close())
	return s, err
}

func TestKilled(t *testing.T) {
	if dir := os.Getenv(dirEnv); dir != "" {
		_, _ = fmt.Println(victim(dir, os.Getenv(stepEnv)))
		os.Exit(1)
	}
	t.Run("at random moments", func(t *testing.T) {
		t.Parallel()
		dir, last := t.TempDir(), sample().state.Until
		for range 25 {
			confirmed := kill(t, dir, "", rand.N(40*time.Millisecond), func(pid int) {
				_, err := Open(dir, fileName, sample().identity)
				if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", pid)) {
					t.Errorf("a second process: %v", err)
				}
			})
			last = max(last, confirmed)
			s, err := loaded(t, dir)
			if errors.Is(err, ErrNone) && last == sample().state.Until {
				continue // it was killed before the first
			}
			if err != nil || s.Until != last && s.Until != last+1 || s.Progress != s.Until {
				t.Fatalf("got %+v, %v; %d was the last that was confirmed", s, err, last)
			}
			last = s.Until
		}
	})
	for _, step := range []string{stepWrite, stepSync, stepRename, stepSyncDir} {
		t.Run("to "+step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			want := kill(t, dir, step, 0, nil)
			if step == stepSyncDir {
				want++
			}
			if s, err := loaded(t, dir); err != nil || s.Until != want {
				t.Errorf("got %+v, %v; want %d", s, err, want)
			}
		})
	}
	for _, step := range []string{stepTruncate, stepRemove} {
		t.Run("to "+step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			confirmed := kill(t, dir, step, 0, nil)
			switch s, err := loaded(t, dir); {
			case step == stepTruncate && (err != nil || s.Until != confirmed):
				t.Errorf("got %+v, %v; want %d", s, err, confirmed)
			case step == stepRemove && !errors.Is(err, ErrNone):
				t.Errorf("got %+v, %v", s, err)
			}
		})
	}
}
