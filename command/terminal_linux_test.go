package command

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// terminal is a pseudo terminal. What is written to it is typed, and what is read from it is shown.
type terminal struct {
	*os.File
	slave string
	mu    sync.Mutex
	text  strings.Builder
	ended chan struct{}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	file := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = file.Close() })
	fd := int(file.Fd())
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	return &terminal{File: file, slave: fmt.Sprintf("/dev/pts/%d", n), ended: make(chan struct{})}
}

func (p *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	must.Do(t, unix.IoctlSetWinsize(int(p.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
}

// start runs seqd on the terminal.
func (p *terminal) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	slave := must.Get(os.OpenFile(p.slave, os.O_RDWR, 0))(t)
	defer slave.Close()
	seqd := exec.Command(os.Args[0], args...)
	seqd.Env = []string{beSeqd + "=1"}
	seqd.Stdin, seqd.Stdout, seqd.Stderr = slave, slave, slave
	seqd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, seqd.Start())
	t.Cleanup(func() { _ = seqd.Process.Kill() }) // does nothing if it has ended
	go func() {
		defer close(p.ended)
		buf := make([]byte, 4096)
		for {
			n, err := p.Read(buf)
			p.mu.Lock()
			p.text.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return // the other side is closed
			}
		}
	}()
	return seqd
}

// shown returns everything that was shown so far.
func (p *terminal) shown() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// await waits until what was shown satisfies a condition.
func (p *terminal) await(t *testing.T, what string, ok func(string) bool) {
	t.Helper()
	await.Eventually(t, what, func() error {
		if shown := p.shown(); !ok(shown) {
			return fmt.Errorf("it shows %q", shown)
		}
		return nil
	})
}

// A live table follows the size of the terminal. Ctrl-C ends it and gives the terminal back.
func TestTopOnATerminal(t *testing.T) {
	p := newTerminal(t)
	p.resize(t, 120, 30)
	seqd := p.start(t, "top", "--interval", "1h", "--addr", startService(t))
	const home, below = "\x1b[H", "\x1b[J"
	// size returns the columns and lines of the last whole page.
	size := func(shown string) (columns, lines int) {
		pages := strings.Split(shown, home)
		last := pages[len(pages)-1]
		if !strings.HasSuffix(last, below) {
			return 0, 0
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSuffix(last, below), "\r", ""), "\n") {
			columns = max(columns, utf8.RuneCountInString(strings.TrimSuffix(line, "\x1b[K")))
			lines++
		}
		return columns, lines
	}
	p.await(t, "the first page", func(shown string) bool {
		columns, lines := size(shown)
		return strings.HasPrefix(shown, "\x1b[?1049h\x1b[?25l") && columns > 60 && lines > 6 && strings.Contains(shown, "order")
	})
	p.resize(t, 30, 4)
	p.await(t, "a smaller page", func(shown string) bool {
		columns, lines := size(shown)
		return columns == 30 && lines == 4
	})
	must.Get(p.WriteString("\x03"))(t)
	if err := seqd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	<-p.ended
	if shown := p.shown(); !strings.HasSuffix(shown, "\x1b[?25h\x1b[?1049l") {
		t.Errorf("the terminal is not given back: %q", shown[max(0, len(shown)-100):])
	}
}

// A deletion asks on a terminal, and does nothing without a yes.
func TestDeleteOnATerminal(t *testing.T) {
	url := startService(t)
	for _, test := range []struct {
		typed, want string
		code        int
	}{{"n\n", "seqd: nothing was changed", 1}, {"yes\n", "invite: deleted", 0}} {
		p := newTerminal(t)
		seqd := p.start(t, "biz-types", "delete", "invite", "--addr", url)
		p.await(t, "the question", func(shown string) bool { return strings.Contains(shown, "Delete the biz type invite?") })
		must.Get(p.WriteString(test.typed))(t)
		_ = seqd.Wait() // the exit code says more
		<-p.ended
		if code := seqd.ProcessState.ExitCode(); code != test.code || !strings.Contains(p.shown(), test.want) {
			t.Errorf("%q: exit code %d, %q", test.typed, code, p.shown())
		}
	}
}
