package logging

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// mostWaiting is how many bytes wait to be written. What does not fit is dropped.
const mostWaiting = 1 << 20

var newline = []byte("\n")

// Writer writes the lines of a log in the background, in order, so that nobody waits for an output
// that blocks (a pipe that nobody reads, a hung disk). Lines that do not fit into its buffer, or
// that the output refuses, are dropped. When the output takes lines again, one says how many were
// dropped. It is safe for concurrent use.
type Writer struct {
	out    io.Writer
	notice func(dropped int64) []byte // the line that says how many were dropped; empty for none
	done   chan struct{}              // closed when nothing is written any more
	level  slog.LevelVar
	torn   bool // the output took a part of a line; only run uses it

	mu      sync.Mutex // guards what follows
	more    sync.Cond  // there is something to write, or the log is closed
	waiting []byte     // whole lines
	closed  bool
	dropped int64 // lines, ever
	unsaid  int64 // dropped lines that no line of the log has reported
}

var _ io.Writer = (*Writer)(nil)

// newWriter starts to write to out. The caller must close it.
func newWriter(out io.Writer, notice func(dropped int64) []byte) *Writer {
	l := &Writer{out: out, notice: notice, done: make(chan struct{})}
	l.more.L = &l.mu
	go l.run()
	return l
}

// SetLevel sets the lowest level that is logged.
func (l *Writer) SetLevel(text string) { l.level.Set(levelOf(text)) }

// Level returns the lowest level that is logged.
func (l *Writer) Level() string { return strings.ToLower(l.level.Level().String()) }

// Write takes one line. It never blocks and never fails.
func (l *Writer) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.waiting)+len(line) > mostWaiting {
		l.lose(1)
		return len(line), nil
	}
	l.waiting = append(l.waiting, line...)
	l.more.Signal()
	return len(line), nil
}

// lose counts dropped lines. mu is held.
func (l *Writer) lose(lines int64) {
	l.dropped += lines
	l.unsaid += lines
}

// Dropped returns how many lines were dropped so far.
func (l *Writer) Dropped() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Close waits until the remaining lines are written, for at most patience. Later lines are dropped.
func (l *Writer) Close(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.more.Signal()
	l.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.done:
	case <-late.C: // the output takes nothing, not even a message
	}
}

// run writes until the log is closed and nothing is left.
func (l *Writer) run() {
	defer close(l.done)
	var batch []byte
	for {
		if batch = l.next(batch[:0]); len(batch) == 0 {
			return
		}
		l.flush(batch)
	}
}

// next waits for lines and returns all there are, none when the log is closed. empty becomes the
// buffer for the next ones.
func (l *Writer) next(empty []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 && !l.closed {
		l.more.Wait()
	}
	lines := l.waiting
	l.waiting = empty
	return lines
}

// flush writes lines, and then how many were dropped before, if the output took them.
func (l *Writer) flush(lines []byte) {
	lost := l.write(lines)
	l.mu.Lock()
	l.lose(lost)
	unsaid := l.unsaid
	l.mu.Unlock()
	if lost > 0 || unsaid == 0 || l.write(l.notice(unsaid)) > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsaid -= unsaid
}

// write returns how many lines the output did not take. The error is dropped: there is nowhere to
// log it.
func (l *Writer) write(lines []byte) (lost int64) {
	if l.torn { // the rest of that line is lost; end it
		if _, err := l.out.Write(newline); err != nil {
			return int64(bytes.Count(lines, newline))
		}
		l.torn = false
	}
	n, err := l.out.Write(lines)
	if err == nil {
		return 0
	}
	l.torn = n > 0 && lines[n-1] != '\n'
	return int64(bytes.Count(lines[n:], newline))
}
