package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
)

// longestLine is the longest allowed line of a record. The display forms of the largest batch are
// much shorter.
const longestLine = 64 << 20

// Read calls f with the entries of a record, in the order in which they were written, until f
// returns an error. If the file ends within a frame, as after a crash of the laboratory, Read
// ignores that frame and torn is true. Any other defect is an error.
func Read(path string, f func(*Entry) error) (torn bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	decoder, err := zstd.NewReader(bufio.NewReaderSize(file, 1<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return false, err
	}
	defer decoder.Close()
	return readLines(decoder, f)
}

// readLines reads entries until the end of the lines, whole or torn.
func readLines(from io.Reader, f func(*Entry) error) (torn bool, err error) {
	lines := bufio.NewReaderSize(from, 1<<20)
	for n := 1; ; n++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err == io.EOF && len(line) == 0:
			return false, nil
		case err == io.EOF:
			return false, fmt.Errorf("line %d has no end", n) // frames hold whole lines
		case err != nil:
			return false, fmt.Errorf("line %d: %w", n, err)
		}
		var e Entry
		if err := decode(line, &e); err != nil {
			return false, fmt.Errorf("line %d: %w", n, err)
		}
		if err := f(&e); err != nil {
			return false, err
		}
	}
}

// readLine reads a line of any length.
func readLine(from *bufio.Reader) (line []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if err == nil && line == nil {
			return part, nil
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
		if len(line) > longestLine {
			return nil, errors.New("too long")
		}
	}
}

// decode reads one entry, and rejects anything else.
func decode(line []byte, e *Entry) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(e); err != nil {
		return err
	}
	fields := 0
	for _, set := range []bool{
		e.World != nil, e.Call != nil, e.Life != nil, e.Fault != nil, e.Sample != nil, e.Server != nil, e.Line != nil, e.Offset != nil, e.Account != nil, e.Use != nil, e.Duty != nil, e.Finding != nil, e.Done != nil,
	} {
		if set {
			fields++
		}
	}
	if fields != 1 {
		return fmt.Errorf("%d fields in one entry", fields)
	}
	return nil
}
