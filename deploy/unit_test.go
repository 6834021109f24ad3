package deploy

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd/command"
)

// beCrash is the environment variable that makes the test program panic in a goroutine, as seqd
// could.
const beCrash = "BE_CRASH"

func TestMain(m *testing.M) {
	if os.Getenv(beCrash) != "" {
		go panic("a mistake in the program")
		select {}
	}
	os.Exit(m.Run())
}

// crashed is the exit code of a Go program that panicked.
func crashed(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), beCrash+"=1")
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatalf("a panic ends with %v", err)
	}
	return exit.ExitCode()
}

// setting returns the values of a setting of the unit.
func setting(t *testing.T, name string) (words []string) {
	t.Helper()
	for line := range strings.Lines(read(t, "seqd.service")) {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			words = append(words, strings.Fields(value)...)
		}
	}
	return words
}

// No core dump is written, which would have secrets in it.
func TestUnitDumpsNoCore(t *testing.T) {
	if limit := setting(t, "LimitCORE"); !slices.Equal(limit, []string{"0"}) {
		t.Errorf("LimitCORE is %q", limit)
	}
}

// systemctl reload lets seqd read its configuration again.
func TestUnitReloads(t *testing.T) {
	if reload := setting(t, "ExecReload"); !slices.Equal(reload, []string{"/bin/kill", "-HUP", "$MAINPID"}) {
		t.Errorf("ExecReload is %q", reload)
	}
}

// systemd restarts seqd if it crashed or failed, but not if its configuration is wrong.
func TestUnitRestarts(t *testing.T) {
	if policy := setting(t, "Restart"); !slices.Equal(policy, []string{"on-failure"}) {
		t.Errorf("Restart is %q, want on-failure, which is after every exit code but those below, and after signals", policy)
	}
	if limit := setting(t, "StartLimitIntervalSec"); !slices.Equal(limit, []string{"0"}) {
		t.Errorf("StartLimitIntervalSec is %q, want 0: systemd would give up, and the reason may pass", limit)
	}
	never := append(setting(t, "RestartPreventExitStatus"), setting(t, "SuccessExitStatus")...)
	for what, code := range map[string]int{"a panic": crashed(t), "a failure": command.ExitFailed} {
		if slices.Contains(never, strconv.Itoa(code)) {
			t.Errorf("%s ends with %d, and the unit does not restart after %q", what, code, never)
		}
	}
	if !slices.Contains(never, strconv.Itoa(command.ExitConfig)) {
		t.Errorf("a wrong configuration ends with %d, and the unit restarts after all codes but %q", command.ExitConfig, never)
	}
}
