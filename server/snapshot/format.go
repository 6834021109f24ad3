// Package snapshot writes all that a store has to a file, and reads it. Package server/ops restores
// one.
//
// A snapshot is lines of JSON: a [Header], a [Record] for each document, counter, registry of
// machine IDs and history record, and an [End] with the SHA-256 of all that is before it. So a file
// that is cut short, or in which one bit is another, is refused as a whole.
//
// [Save] runs beside nodes. It reads each record whole, but not all at one moment, and numbers that
// are issued meanwhile can be above the counter in the snapshot, as those are that are issued
// later. So a restore raises everything.
package snapshot

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/seqd/seqd/persist"
)

// The formats that this build reads: that of a snapshot, and that of an export, which has a [Header].Move.
const (
	Format       = 1
	ExportFormat = 2
)

// longestLine is more bytes than any record has: a registry with 65,536 machine IDs.
const longestLine = 64 << 20

// ErrSnapshot is returned by [Read] for a file that is no snapshot, is damaged or cut short, or is
// of a newer format.
var ErrSnapshot = errors.New("not a snapshot that can be restored")

// Header is the first line.
type Header struct {
	Format int `json:"seqdSnapshot"`
	// Seqd is the version that wrote it.
	Seqd string `json:"seqd"`
	// Cluster is the ID of the cluster, and Created when the store became that of it.
	Cluster string `json:"cluster"`
	Created int64  `json:"created"`
	// Began is when the first record was read, in ms since the Unix epoch by the clock of the
	// store.
	Began int64 `json:"began"`
	// Fence is the present one of a store that can lose something; "" for others. A gapless counter
	// with another one stood still.
	Fence string `json:"fence,omitempty"`
	// FailedOver is whether the store may have lost counters that nobody had raised yet.
	FailedOver bool `json:"failedOver,omitempty"`
	// Move is set in an export: nothing was issued since.
	Move *Move `json:"move,omitempty"`
}

// Move is what the header of an export says besides.
type Move struct {
	// ID identifies the move.
	ID string `json:"id"`
	// Redis is whether the nodes of the former store had a Redis.
	Redis bool `json:"redis,omitempty"`
}

// Counter is a counter, and what its JSON leaves out. A driver counts at most 1000 failovers.
type Counter struct {
	persist.Counter
	Failovers int64 `json:"failovers,omitempty"`
}

// Record is one line: one of its fields is set.
type Record struct {
	Document *persist.Document      `json:"document,omitempty"`
	Counter  *Counter               `json:"counter,omitempty"`
	Registry *persist.Registry      `json:"registry,omitempty"`
	History  *persist.HistoryRecord `json:"history,omitempty"`
}

// validate returns why a record is none.
func (r *Record) validate() error {
	var set []interface{ Validate() error }
	if r.Document != nil {
		set = append(set, r.Document)
	}
	if r.Counter != nil {
		if r.Counter.Failovers < 0 || r.Counter.Failovers > 1000 {
			return fmt.Errorf("a counter with %d failovers", r.Counter.Failovers)
		}
		set = append(set, r.Counter)
	}
	if r.Registry != nil {
		set = append(set, r.Registry)
	}
	if r.History != nil {
		set = append(set, r.History)
	}
	if len(set) != 1 {
		return errors.New("it is not one record")
	}
	return set[0].Validate()
}

// End is the last line.
type End struct {
	// Records is how many lines are between the header and the end.
	Records int64 `json:"records"`
	// Ended is when the last record was read, as Began.
	Ended int64 `json:"ended"`
	// SHA256 is that of all lines before, and of this one with an empty SHA256.
	SHA256 string `json:"sha256"`
}

// writer writes lines.
type writer struct {
	w       *bufio.Writer
	sum     hash.Hash
	records int64
}

func newWriter(w io.Writer) *writer {
	sum := sha256.New()
	return &writer{w: bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16), sum: sum}
}

func (w *writer) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.w.Write(append(text, '\n'))
	return err
}

func (w *writer) record(r Record) error {
	w.records++
	return w.line(r)
}

// end writes the last line.
func (w *writer) end(ended int64) error {
	if err := w.w.Flush(); err != nil {
		return err
	}
	if err := w.line(End{Records: w.records, Ended: ended}.summed(w.sum)); err != nil {
		return err
	}
	return w.w.Flush()
}

// summed returns the end with the SHA-256 of what was summed so far and of itself.
func (e End) summed(sum hash.Hash) End {
	e.SHA256 = ""
	_ = json.NewEncoder(sum).Encode(e) // numbers and a text; a hash takes all
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return e
}

// Read reads a snapshot, and calls header, and each with every record, in the order of the file.
// They may be called for a file that turns out to be damaged: Read returns [ErrSnapshot] then. It
// returns the error of header or each as it is. If each is nil, Read only compares the SHA-256 and the
// number of records.
func Read(from io.Reader, header func(Header) error, each func(Record) error) (End, error) {
	r := reader{in: bufio.NewReaderSize(from, 1<<16), sum: sha256.New()}
	text, err := r.next()
	if err != nil {
		return End{}, err
	}
	var h Header
	switch err := json.Unmarshal(text, &h); {
	case err != nil || h.Format < 1:
		return End{}, fmt.Errorf("%w: it does not begin as one", ErrSnapshot)
	case h.Format > ExportFormat:
		return End{}, fmt.Errorf("%w: seqd %s wrote it in format %d, and this build knows %d: use a build as new as that one", ErrSnapshot, h.Seqd, h.Format, ExportFormat)
	case (h.Format == ExportFormat) != (h.Move != nil):
		return End{}, r.damaged("format and move do not fit")
	case (persist.Cluster{ID: h.Cluster}).Validate() != nil:
		return End{}, r.damaged("the cluster's ID is none")
	}
	if err := header(h); err != nil {
		return End{}, err
	}
	return r.records(each)
}

// reader reads lines, and sums all before the present one.
type reader struct {
	in    *bufio.Reader
	sum   hash.Hash
	lines int64
	last  []byte
}

// next returns a line.
func (r *reader) next() ([]byte, error) {
	r.sum.Write(r.last)
	r.last = nil
	r.lines++
	for {
		part, err := r.in.ReadSlice('\n')
		r.last = append(r.last, part...)
		switch {
		case err == nil:
			return r.last, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: it is cut short: it ends in line %d, and its last line is missing", ErrSnapshot, r.lines)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(r.last) > longestLine:
			return nil, r.damaged("it is too long")
		}
	}
}

func (r *reader) damaged(why any) error {
	return fmt.Errorf("%w: line %d is damaged: %v", ErrSnapshot, r.lines, why)
}

// endMark begins the last line.
var endMark = []byte(`{"records":`)

func (r *reader) records(each func(Record) error) (end End, err error) {
	for {
		text, err := r.next()
		switch {
		case err != nil:
			return end, err
		case bytes.HasPrefix(text, endMark):
			return r.end(text)
		case each == nil:
			continue
		}
		var record Record
		if err := strictly(text, &record); err != nil {
			return end, r.damaged(err)
		}
		if err := record.validate(); err != nil {
			return end, r.damaged(err)
		}
		if err := each(record); err != nil {
			return end, err
		}
	}
}

// end checks the last line.
func (r *reader) end(text []byte) (end End, err error) {
	if err := strictly(text, &end); err != nil {
		return end, r.damaged(err)
	}
	want := End{Records: r.lines - 2, Ended: end.Ended}.summed(r.sum)
	if line, _ := json.Marshal(want); !bytes.Equal(append(line, '\n'), text) {
		return end, fmt.Errorf("%w: it is damaged: it has %d records with the SHA-256 %s, and its last line says %d with %.100q",
			ErrSnapshot, want.Records, want.SHA256, end.Records, end.SHA256)
	}
	if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
		return end, fmt.Errorf("%w: there is something behind its last line", ErrSnapshot)
	}
	return end, nil
}

// strictly decodes a line that has no other fields.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it has more than one value")
	}
	return nil
}
