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
	// frameSize is the size of a frame of the file, in bytes of lines.
	frameSize = 1 << 20
	// frameAge is the age at which a frame is written even if it is not full. A crash of the
	// laboratory may lose that much.
	frameAge = time.Second
)

// Writer appends entries to a file. It is safe for concurrent use.
//
// The file has a line of JSON for each entry, in frames of zstd; `zstdcat` shows it. Each frame has
// a checksum. A frame is written by one call, so a crash of the process leaves whole frames and at
// most one torn frame, at the end.
type Writer struct {
	encoder *zstd.Encoder

	mu     sync.Mutex // guards what follows
	file   *os.File
	lines  []byte
	frame  []byte
	since  time.Time // when the first line was added
	failed error     // the first error
}

// Create creates a record. The path must not exist.
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

// Write adds an entry. After an error of the file, every later Write and Close return it.
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

// flush writes the buffered lines as a frame. mu is held.
func (w *Writer) flush() error {
	if len(w.lines) == 0 {
		return nil
	}
	w.frame = w.encoder.EncodeAll(w.lines, w.frame[:0])
	w.lines = w.lines[:0]
	_, err := w.file.Write(w.frame)
	return err
}

// Close writes the buffered lines and closes the file. Later calls have no effect.
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
