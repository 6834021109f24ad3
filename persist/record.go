package persist

import (
	"bytes"
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

// envelope is how a record is written by the drivers that store bytes. Sum is the CRC-32 (IEEE) of
// the model: a flipped digit would otherwise be another maximum.
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

// Decode reads what Encode wrote. It returns ErrNewer for a newer format, and ErrInvalid for bytes
// that are not a record.
func Decode[M Record](data []byte) (m M, err error) {
	// The model is cut out before the envelope is parsed. Otherwise it is parsed twice, which takes
	// as long as all else.
	outer, model, found := bytes.Cut(data, []byte(`,"m":`))
	if found {
		outer, model = append(outer[:len(outer):len(outer)], '}'), bytes.TrimSuffix(model, []byte("}"))
	}
	var e envelope
	if err := json.Unmarshal(outer, &e); err != nil {
		return m, invalid("damaged record: %v", err)
	}
	if e.Version > FormatVersion {
		return m, fmt.Errorf("%w: record format %d, this build knows %d", ErrNewer, e.Version, FormatVersion)
	}
	if e.Version < 1 || e.Sum != crc32.ChecksumIEEE(model) {
		return m, invalid("damaged record: its checksum does not fit")
	}
	if err := json.Unmarshal(model, &m); err != nil {
		return m, invalid("damaged record: %v", err)
	}
	return m, m.Validate()
}
