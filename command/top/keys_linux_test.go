package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/testing/must"
)

// pty returns both sides of a terminal: what a user types and sees, and what a program uses.
func pty(t *testing.T) (user, program *os.File) {
	t.Helper()
	user = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { _ = user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	must.Do(t, err)
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must.Do(t, err)
	return user, program
}

// q and Ctrl-C end the page, and the terminal has its modes again. Only what keeps a key from being
// read at once is cleared meanwhile: Ctrl-C is a signal as ever.
func TestKeys(t *testing.T) {
	for name, end := range map[string]func(user io.Writer, interrupt func()){
		"q":      func(user io.Writer, _ func()) { _, _ = io.WriteString(user, "xq") },
		"Ctrl-C": func(_ io.Writer, interrupt func()) { interrupt() },
	} {
		t.Run(name, func(t *testing.T) {
			user, program := pty(t)
			modes := func() unix.Termios {
				m := must.Get(unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS))(t)
				return *m
			}
			env := clitool.New(program, program, io.Discard, []string{"SEQD_CLIENT_ADDR=" + newCluster(t).nodes[0].URL})
			must.Do(t, New(env).PersistentFlags().Set("timeout", "10m")) // the other flags have their defaults
			before := modes()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			ended := make(chan error, 1)
			go func() {
				ended <- run(ctx, env, options{interval: time.Hour})
				_, _ = io.WriteString(program, clearBelow) // if it failed, there was no page
			}()
			var screen bytes.Buffer
			for part := make([]byte, 4096); !strings.Contains(screen.String(), clearBelow); {
				n := must.Get(user.Read(part))(t)
				screen.Write(part[:n])
			}
			during := before
			during.Lflag &^= unix.ICANON | unix.ECHO
			if got := modes(); got != during || got.Lflag&unix.ISIG == 0 {
				t.Errorf("modes %+v, want %+v", got, during)
			}
			end(user, interrupt)
			must.Report(t, <-ended)
			must.Equal(t, modes(), before, "modes afterwards")
			_ = program.Close()
		})
	}
}

// A terminal whose input is a pipe is drawn until Ctrl-C: the pipe's bytes are no keys.
func TestNoKeysFromPipe(t *testing.T) {
	_, program := pty(t)
	in := strings.NewReader("q")
	ctx, stop := untilQuit(t.Context(), clitool.New(in, program, io.Discard, nil))
	defer stop()
	if ctx.Err() != nil || in.Len() != 1 {
		t.Error("the pipe was read")
	}
}
