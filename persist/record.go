package persist

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
)

// invalid returns ErrInvalid with what is wrong.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Record is what drivers that store bytes encode.
type Record interface {
	// PersistID is the key of the record among those of its type.
	PersistID() string
	// Validate returns ErrInvalid and the field that is out of its range.
	Validate() error
}

// envelope is how a model is written by the drivers that store bytes. Sum is the CRC-32 (IEEE) of
// the model as it stands there: a digit that rotted would make another maximum.
type envelope struct {
	Version int             `json:"v"`
	Sum     uint32          `json:"sum"`
	Model   json.RawMessage `json:"m"`
}

// Encode returns m as bytes with the format version.
func Encode[M Record](m M) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{Version: FormatVersion, Sum: crc32.ChecksumIEEE(text), Model: text})
}

// Decode reads what Encode wrote. It returns ErrNewer for a newer format and ErrInvalid for
// anything that is no record.
func Decode[M Record](data []byte) (m M, err error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return m, invalid("damaged record: %v", err)
	}
	if e.Version > FormatVersion {
		return m, fmt.Errorf("%w: record format %d, this build knows %d", ErrNewer, e.Version, FormatVersion)
	}
	if e.Version < 1 || e.Sum != crc32.ChecksumIEEE(e.Model) {
		return m, invalid("damaged record: its checksum does not fit")
	}
	if err := json.Unmarshal(e.Model, &m); err != nil {
		return m, invalid("damaged record: %v", err)
	}
	return m, m.Validate()
}

// Allocated returns the counter and the range after req, computed only: a driver writes the counter
// before it returns the range. now is in ms since the Unix epoch.
func (c Counter) Allocated(req Request, now int64) (Counter, Range, error) {
	if err := req.Validate(); err != nil {
		return c, Range{}, err
	}
	if epoch, ok := req.To.Cursor(); ok && epoch != c.Epoch {
		return c, Range{}, fmt.Errorf("%s: %w", c.BizTag, ErrEpoch)
	}
	base := c.Max
	if base < req.Floor {
		base = req.Floor + min(req.Gap, MaxNumber-req.Floor)
	}
	if req.Size > MaxNumber-base {
		return c, Range{}, fmt.Errorf("%w: %s has %d numbers left", ErrExhausted, c.BizTag, MaxNumber-base)
	}
	c.Max = base + req.Size
	if !req.To.Keeps() {
		c.Epoch = req.To.Epoch()
	}
	if req.Step > 0 {
		c.Step, c.Timestamp = req.Step, now
	}
	return c, Range{First: base + 1, Last: c.Max}, nil
}
