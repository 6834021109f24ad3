package postgres

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5/pgtype"
)

// bytea is the type of bytes, which byteaCodec reads.
var bytea = &pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: byteaCodec{}}

// byteaCodec reads bytes in both text formats, whichever bytea_output the session has. The client
// library knows only the one that begins with \x.
type byteaCodec struct{ pgtype.ByteaCodec }

// PlanScan implements [pgtype.Codec].
func (c byteaCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := c.ByteaCodec.PlanScan(m, oid, format, target)
	if _, ok := target.(*[]byte); ok && format == pgtype.TextFormatCode {
		return scanBytea{plan}
	}
	return plan
}

// scanBytea scans text into a *[]byte.
type scanBytea struct{ hex pgtype.ScanPlan }

// Scan implements [pgtype.ScanPlan].
func (s scanBytea) Scan(text []byte, target any) (err error) {
	if text == nil || bytes.HasPrefix(text, []byte(`\x`)) {
		return s.hex.Scan(text, target)
	}
	*target.(*[]byte), err = unescape(text)
	return err
}

var errEscape = errors.New("bytes end within an escape sequence")

// unescape reads the format "escape": a backslash is doubled, and other bytes are themselves or a
// backslash and three octal digits.
func unescape(text []byte) ([]byte, error) {
	read := make([]byte, 0, len(text))
	for {
		before, after, found := bytes.Cut(text, []byte(`\`))
		read = append(read, before...)
		switch {
		case !found:
			return read, nil
		case bytes.HasPrefix(after, []byte(`\`)):
			read, text = append(read, '\\'), after[1:]
			continue
		case len(after) < 3:
			return nil, errEscape
		}
		b, err := strconv.ParseUint(string(after[:3]), 8, 8)
		if err != nil {
			return nil, err
		}
		read, text = append(read, byte(b)), after[3:]
	}
}
