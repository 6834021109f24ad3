package logging

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// valve is an output that takes nothing while it is shut, and fails while it has an error.
type valve struct {
	open chan struct{} // closed for good when it is opened

	mu   sync.Mutex // guards what follows
	text bytes.Buffer
	err  error
	part int // how many bytes it takes before err
}

func (v *valve) Write(p []byte) (int, error) {
	<-v.open
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		v.text.Write(p[:v.part])
		return v.part, v.err
	}
	return v.text.Write(p)
}

func (v *valve) fail(err error, part int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.err, v.part = err, part
}

func opened() *valve {
	v := &valve{open: make(chan struct{})}
	close(v.open)
	return v
}

func told(n int64) []byte { return fmt.Appendf(nil, "dropped %d\n", n) }

// await waits until the lines that were written so far are out or dropped.
func (l *Writer) await(t *testing.T, condition func() bool) {
	t.Helper()
	await.True(t, "the lines are out or dropped", condition)
}

// Many callers at once: each one's lines come out whole and in its order.
func TestLogKeepsOrder(t *testing.T) {
	out := opened()
	l := newWriter(out, told)
	var callers sync.WaitGroup
	for who := range 4 {
		callers.Go(func() {
			for i := range 500 {
				fmt.Fprintf(l, "%d %d\n", who, i)
			}
		})
	}
	callers.Wait()
	l.Close(await.Patience)
	next := make(map[int]int)
	for line := range strings.Lines(out.text.String()) {
		var who, i int
		if _, err := fmt.Sscanf(line, "%d %d\n", &who, &i); err != nil || next[who] != i {
			t.Fatalf("%q came where %d of %d was due (%v)", line, next[who], who, err)
		}
		next[who]++
	}
	if len(next) != 4 || next[0]+next[1]+next[2]+next[3] != 2000 || l.Dropped() != 0 {
		t.Errorf("%v lines came out, %d were dropped", next, l.Dropped())
	}
}

// With a blocked output callers continue. Lines that do not fit are counted, and the count is
// logged when it takes lines again.
func TestLogOutputIsStuck(t *testing.T) {
	out := &valve{open: make(chan struct{})}
	l := newWriter(out, told)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const lines = 4 << 10 // 4 MiB
	for range lines {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	dropped := l.Dropped()
	// One buffer waits, and another one may be with the output.
	if dropped < lines-2*mostWaiting/1024 || dropped > lines-mostWaiting/1024 {
		t.Errorf("%d of %d lines were dropped", dropped, lines)
	}
	close(out.open)
	l.Close(await.Patience)
	got := out.text.String()
	if kept := strings.Count(got, string(line)); int64(kept) != lines-dropped || !strings.Contains(got, string(told(dropped))) {
		t.Errorf("%d lines came out, want %d, and %q among them", kept, lines-dropped, told(dropped))
	}
	must.Equal(t, l.Dropped(), dropped, "the lines dropped in the end")
}

// Closing a log whose output is stuck ends in time, and what comes later is counted.
func TestLogCloseIsBounded(t *testing.T) {
	out := &valve{open: make(chan struct{})}
	l := newWriter(out, told)
	fmt.Fprintln(l, "a")
	l.Close(10 * time.Millisecond)
	fmt.Fprintln(l, "b")
	must.Equal(t, l.Dropped(), 1, "the lines dropped")
	close(out.open)
	<-l.done
	if got := out.text.String(); !strings.HasPrefix(got, "a\n") || strings.Contains(got, "b\n") {
		t.Errorf("wrote %q", got)
	}
}

// While an output fails, dropped lines are counted. A line of which a part was written ends there.
// When the output takes lines again, one says how many were dropped.
func TestLogOutputFails(t *testing.T) {
	out := opened()
	l := newWriter(out, told)
	out.fail(errors.New("no space left on device"), 3)
	fmt.Fprintln(l, "first")
	l.await(t, func() bool { return l.Dropped() == 1 })
	out.fail(errors.New("no space left on device"), 0)
	fmt.Fprintln(l, "second")
	l.await(t, func() bool { return l.Dropped() == 2 })
	out.fail(nil, 0)
	fmt.Fprintln(l, "third")
	l.Close(await.Patience)
	must.Equal(t, out.text.String(), "fir\nthird\ndropped 2\n", "wrote")
}

// A full disk.
func TestLogToAFullDisk(t *testing.T) {
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	log, lines := Open(Options{Level: "info", Format: "json"}, full)
	for range 100 {
		log.Info("a line")
	}
	lines.Close(await.Patience)
	must.Equal(t, lines.Dropped(), 100, "the lines dropped")
}

// What tells of dropped lines is a line like the others.
func TestLogTellsOfDroppedLines(t *testing.T) {
	for format, want := range map[string]string{"json": `"level":"WARN"`, "text": "level=WARN"} {
		out := opened()
		out.fail(errors.New("no space left on device"), 0)
		log, lines := Open(Options{Level: "info", Format: format}, out)
		log.Info("lost")
		lines.await(t, func() bool { return lines.Dropped() == 1 })
		out.fail(nil, 0)
		log.Info("kept")
		lines.Close(await.Patience)
		got := strings.Split(out.text.String(), "\n")
		if len(got) != 3 || !strings.Contains(got[0], "kept") || !strings.Contains(got[1], want) || !strings.Contains(got[1], "count") {
			t.Errorf("%s: wrote %q", format, got)
		}
	}
}
