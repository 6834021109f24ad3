package server

import (
	"bytes"
	"io"
	"log/slog"

	"github.com/seqd/seqd/server/config"
)

// NewLogger returns the logger that the configuration asks for, writing to w. A w that blocks
// blocks whoever logs; [Run] writes its own log, to standard error or [WithLogOutput], in the
// background.
func NewLogger(cfg config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Level)); err != nil {
		// the configuration was validated; this is for callers that built one by hand
		level = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: level}
	if cfg.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// failing remembers whether what is done again and again failed last, so that the first failure of
// a row is logged and the others are not.
type failing bool

// begins notes how it went, and reports whether a row of failures begins.
func (f *failing) begins(err error) bool {
	before := *f
	*f = err != nil
	return err != nil && !bool(before)
}

// openLog returns a logger that never keeps its callers waiting for w, and what writes its lines.
func openLog(cfg config.Log, w io.Writer) (*slog.Logger, *logWriter) {
	lines := newLogWriter(w, func(dropped int64) []byte {
		var line bytes.Buffer
		NewLogger(cfg, &line).Warn("lines of the log were dropped: its output did not take them", "count", dropped)
		return line.Bytes()
	})
	return NewLogger(cfg, lines), lines
}
