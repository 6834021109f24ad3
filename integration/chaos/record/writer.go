package record

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

const (
	// frameSize is how many bytes of lines make a frame of the file.
	frameSize = 1 << 20
	// frameAge is after how long a frame that is not full is written all the same: what a crash of
	// the laboratory may lose.
	frameAge = time.Second
)

// Writer appends entries to a file. It is safe for concurrent use.
//
// The file is lines of JSON, one an entry, in frames of zstd: `zstdcat` shows it. Each frame
// carries a checksum. A frame is handed to the system at once, so a crash of the process leaves
// whole frames and at most one torn one, at the end.
type Writer struct {
	encoder *zstd.Encoder

	mu     sync.Mutex // guards what follows
	file   *os.File
	lines  []byte
	frame  []byte
	since  time.Time // when the first of lines was added
	failed error     // what went wrong first
}

// Create begins a record. It refuses a path where there is something.
func Create(path string) (*Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	return &Writer{encoder: encoder, file: file}, nil
}

// Write adds an entry. What goes wrong with the file is returned by every Write after it, and by
// Close.
func (w *Writer) Write(e Entry) error {
	line, err := json.Marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
	if w.failed != nil {
		return w.failed
	}
	if len(w.lines) == 0 {
		w.since = time.Now()
	}
	w.lines = append(append(w.lines, line...), '\n')
	if len(w.lines) >= frameSize || time.Since(w.since) >= frameAge {
		w.failed = w.flush()
	}
	return w.failed
}

// flush writes what there is as a frame. mu is held.
func (w *Writer) flush() error {
	if len(w.lines) == 0 {
		return nil
	}
	w.frame = w.encoder.EncodeAll(w.lines, w.frame[:0])
	w.lines = w.lines[:0]
	_, err := w.file.Write(w.frame)
	return err
}

// Close writes what is left and closes the file. Only the first call does anything.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	if w.failed == nil {
		w.failed = w.flush()
	}
	err := errors.Join(w.failed, w.file.Close())
	w.file, w.failed = nil, os.ErrClosed
	return err
}
