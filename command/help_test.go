package command

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"-h"}, {"--help"}, {"-help"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			// help must work with a wrong environment
			got := runWith(t, []string{"SEQD_NOPE=1"}, args...)
			if got.code != ExitOK || got.errs != "" {
				t.Errorf("exit code %d, errors %q; want 0 and none", got.code, got.errs)
			}
			for _, command := range []string{"serve", "check-config", "doctor", "raise", "restored", "failover", "compact", "healthcheck", "token", "version"} {
				if !strings.Contains(got.out, "\n  "+command+" ") {
					t.Errorf("the help does not name the command %s", command)
				}
			}
		})
	}
}

// The help of a command is the same however it is asked for, and names no key.
func TestHelpOfACommand(t *testing.T) {
	for _, command := range []string{"serve", "check-config", "raise", "version", "help", "token"} {
		t.Run(command, func(t *testing.T) {
			want := runWith(t, nil, "help", command)
			if want.code != ExitOK || want.errs != "" || !strings.Contains(want.out, "\nUsage:\n  seqd "+command) {
				t.Errorf("%+v", want)
			}
			if strings.Contains(want.out, "\n      --server.addr") {
				t.Errorf("it lists keys: %s", want.out)
			}
			for _, args := range [][]string{{command, "-h"}, {command, "--help"}, {command, "-help"}} {
				must.Equal(t, runWith(t, nil, args...), want, "%v", args)
			}
		})
	}
}

func TestHelpOfConfig(t *testing.T) {
	got := runWith(t, []string{"SEQD_NOPE=1"}, "help", "config")
	lines := strings.Split(got.out, "\n")
	for _, k := range config.Keys() {
		if !containsLine(lines, k.Path, "default "+k.Text()) {
			t.Errorf("the help has no line for %s with its default %s", k.Path, k.Text())
		}
	}
}

func containsLine(lines []string, first, last string) bool {
	for _, line := range lines {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), first+" "); found && strings.TrimSpace(rest) == last {
			return true
		}
	}
	return false
}
