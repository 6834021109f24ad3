package generate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/seqd/seqd/internal/folder"
)

// output is what takes the lines: a file that can be resumed, or a stream that cannot.
type output struct {
	w       io.Writer
	stream  io.Closer // nil for a file and for the standard output
	file    *os.File  // nil for a stream
	path    string    // of the file
	note    note
	count   int64  // lines in the end
	written int64  // lines that are in it or in buf
	pending int64  // lines in buf
	size    int64  // bytes in the file, all of them whole lines
	buf     []byte // whole lines that are not written yet
	began   bool   // by this run, so nothing is lost if it is removed while it is empty
	removed bool   // it was without a line
	broken  bool   // nothing more can be written
}

// enough is how many bytes are written at a time, if there are so many.
const enough = 256 << 10

// lines returns how many lines there are.
func (out *output) lines() int64 { return out.written }

// length returns how many bytes those lines have.
func (out *output) length() int64 { return out.size + int64(len(out.buf)) }

// resumable reports whether a later run can continue.
func (out *output) resumable() bool { return out.file != nil && !out.removed }

// open opens the output. A file is locked until the run ends.
func open(o *job) (*output, error) {
	if o.Output == stdout {
		return &output{w: o.Stdout, path: o.Output, count: o.Count, note: noteOf(o)}, nil
	}
	info, err := os.Stat(o.Output)
	switch {
	case err == nil && info.IsDir():
		return nil, mistakef("%s is a folder: name a file", o.Output)
	case err == nil && !info.Mode().IsRegular(): // a device or a pipe
		f, err := os.OpenFile(o.Output, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &output{w: f, stream: f, path: o.Output, count: o.Count, note: noteOf(o)}, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	out, err := openFile(o)
	if err != nil {
		return nil, err
	}
	if err := out.begin(o); err != nil {
		return nil, errors.Join(err, out.file.Close())
	}
	return out, nil
}

// openFile opens and locks the file.
func openFile(o *job) (*output, error) {
	flags := os.O_RDWR | os.O_CREATE
	if !o.Resume && !o.Force {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(o.Output, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil, mistakef("%s exists: continue it with --resume, replace it with --force, or name another file", o.Output)
	}
	if err != nil {
		return nil, err
	}
	switch err := folder.Lock(f); {
	case errors.Is(err, folder.ErrHeld):
		_ = f.Close()
		return nil, fmt.Errorf("%s is being written by another seqd generate", o.Output)
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", o.Output, err)
	}
	out := &output{w: f, file: f, path: o.Output, count: o.Count}
	if err := out.named(); err != nil { // a run that removes its empty file let go of the lock
		return nil, errors.Join(err, f.Close())
	}
	return out, nil
}

// named returns an error unless the path still leads to the file. What is written to it would be
// lost.
func (out *output) named() error {
	mine, err := out.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(out.path); err != nil || !os.SameFile(mine, there) {
		out.removed = true
		return fmt.Errorf("%s was removed or replaced while it was in use: begin again", out.path)
	}
	return nil
}

// whole returns an error unless the file has what was written to it, and nothing else.
func (out *output) whole() error {
	if err := out.named(); err != nil {
		return err
	}
	if out.written != out.count {
		return fmt.Errorf("%s has %d lines in place of %d", out.path, out.written, out.count)
	}
	switch info, err := out.file.Stat(); {
	case err != nil:
		return err
	case info.Size() != out.size:
		return fmt.Errorf("%s has %d bytes, and %d were written: something else wrote to it", out.path, info.Size(), out.size)
	}
	return nil
}

// begin brings the file to a point where it can grow: empty with a note that says what it is, or as
// an earlier run left it, without a partial line.
func (out *output) begin(o *job) error {
	info, err := out.file.Stat()
	if err != nil {
		return err
	}
	out.note = noteOf(o)
	if o.Resume {
		found, err := out.note.same(out.path)
		// Nothing is lost if the file is empty, but it may be promised to another run.
		if err != nil && (info.Size() > 0 || !errors.Is(err, errNoNote)) {
			return err
		}
		if err == nil && (info.Size() > 0 || found.jobbed()) {
			out.note = found
			return out.measure(info.Size())
		}
	}
	// The old lines are gone for good before the note says whose the file is.
	if err := errors.Join(out.file.Truncate(0), out.file.Sync()); err != nil {
		return out.explain(err)
	}
	if err := out.note.write(out.path); err != nil {
		return errors.Join(out.explain(err), os.Remove(out.path))
	}
	out.began = true
	return nil
}

// measure counts the whole lines of the file, and cuts off what follows them: a partial line, or
// zero bytes in place of data that a power loss took.
func (out *output) measure(size int64) error {
	block := make([]byte, 1<<20)
	var at int64
	for whole := true; whole && at < size; {
		n, err := out.file.ReadAt(block[:min(int64(len(block)), size-at)], at)
		if n == 0 {
			return fmt.Errorf("read %s: %w", out.path, err)
		}
		text := block[:n]
		if zero := bytes.IndexByte(text, 0); zero >= 0 {
			text, whole = text[:zero], false
		}
		out.written += int64(bytes.Count(text, newline))
		if last := bytes.LastIndexByte(text, '\n'); last >= 0 {
			out.size = at + int64(last) + 1
		}
		at += int64(n)
	}
	if out.written > out.count {
		return mistakef("%s has %d lines, more than the %d it is for: something else wrote to it", out.path, out.written, out.count)
	}
	if err := out.file.Truncate(out.size); err != nil {
		return err
	}
	_, err := out.file.Seek(out.size, io.SeekStart)
	return err
}

// append adds whole lines.
func (out *output) append(text []byte, lines int) error {
	if len(out.buf) == 0 && len(text) >= enough {
		out.pending = int64(lines)
		out.written += int64(lines)
		return out.put(text)
	}
	out.buf = append(out.buf, text...)
	out.pending += int64(lines)
	out.written += int64(lines)
	if len(out.buf) < enough {
		return nil
	}
	return out.flush()
}

// flush writes what is in the buffer.
func (out *output) flush() error {
	if out.broken || len(out.buf) == 0 {
		return nil
	}
	text := out.buf
	out.buf = out.buf[:0]
	return out.put(text)
}

// put writes the pending lines. If only a part of them can be written, the whole lines of that part
// are in the file.
func (out *output) put(text []byte) error {
	n, err := out.w.Write(text)
	if err == nil {
		out.size += int64(n)
		out.pending = 0
		return nil
	}
	whole := text[:bytes.LastIndexByte(text[:n], '\n')+1]
	out.size += int64(len(whole))
	out.written += int64(bytes.Count(whole, newline)) - out.pending
	out.pending, out.broken = 0, true
	return out.explain(err)
}

// end finishes the output after a run that ended with cause, nil if it is complete. A file is on
// disk when end returns nil. An incomplete file keeps its note, so that a later run can continue it.
// A new file without a line is removed.
func (out *output) end(cause error) error {
	cause = errors.Join(cause, out.flush())
	if out.file == nil {
		if out.stream != nil {
			cause = errors.Join(cause, out.stream.Close())
		}
		return cause
	}
	if out.broken {
		cause = errors.Join(cause, out.file.Truncate(out.size))
	}
	if cause != nil && out.began && out.written == 0 {
		out.removed = true
		return errors.Join(cause, removeNote(out.path), os.Remove(out.path), out.file.Close())
	}
	if err := out.file.Sync(); err != nil {
		cause = errors.Join(cause, out.explain(err))
	}
	if cause == nil {
		cause = out.whole()
	}
	if cause == nil {
		cause = removeNote(out.path)
	}
	return errors.Join(cause, out.file.Close())
}

// explain says where an error of the file happened, if there is one. Most say it themselves.
func (out *output) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return fmt.Errorf("write %s: %w", out.path, err)
}
