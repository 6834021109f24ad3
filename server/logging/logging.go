// Package logging makes the log of the service. [Open] returns a logger whose callers never wait
// for the output; [New] returns one that writes at once. [Trouble] logs what fails repeatedly only
// when that begins and ends.
//
// It decides how lines are formatted and written, and which are left out if there are too many. The
// other packages decide what to log.
package logging

import (
	"bytes"
	"io"
	"log/slog"
)

// Options are those of the section log of the configuration.
type Options struct{ Level, Format string }

// New returns the logger that the configuration asks for. If w blocks, the callers of the logger
// block; see [Open].
func New(o Options, w io.Writer) *slog.Logger { return with(levelOf(o.Level), o, w) }

// levelOf reads a level. A configuration that was validated has no other than those of slog.
func levelOf(text string) (level slog.Level) {
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return slog.LevelInfo
	}
	return level
}

func with(level slog.Leveler, o Options, w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	if o.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// Open returns a logger that never waits for w, and the writer behind it, which the caller must
// close.
func Open(o Options, w io.Writer) (*slog.Logger, *Writer) {
	lines := newWriter(w, func(dropped int64) []byte {
		var line bytes.Buffer
		New(o, &line).Warn("lines of the log were dropped: its output did not take them", "count", dropped)
		return line.Bytes()
	})
	lines.SetLevel(o.Level)
	return with(&lines.level, o, lines), lines
}

// Trouble logs a warning when an operation that is repeated begins to fail, and a line when it
// succeeds again. The failures between are not logged. It is not safe for concurrent use.
type Trouble struct {
	Log *slog.Logger
	// Begins is the warning, Ends the line after it, "" for none.
	Begins, Ends string

	failing bool
}

// Note takes the outcome of one attempt.
func (t *Trouble) Note(err error) {
	before := t.failing
	t.failing = err != nil
	switch {
	case t.failing && !before:
		t.Log.Warn(t.Begins, "error", err)
	case before && !t.failing && t.Ends != "":
		t.Log.Info(t.Ends)
	}
}
