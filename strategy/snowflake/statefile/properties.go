package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// formatVersion is the version of the format that this package writes, and the highest one that
	// it reads.
	formatVersion = 1
	// maxText is the largest length of a text, in bytes.
	maxText = 1024
	// maxSize is larger than any file, in bytes: four texts of which each byte may become six.
	maxSize = 64 << 10
	// header is part of the format: a file with another one is refused.
	header = "# The lease of a machine ID: seqd starts from it while the registry of machine IDs cannot be reached.\n" +
		"# Never copy, edit or restore this file: whoever starts from a copy issues the same numbers once more.\n" +
		"# All times are in milliseconds since the Unix epoch.\n"
	checksumKey = "checksum="
)

// Identity says whom a file belongs to. The texts are UTF-8 of 1 to 1024 bytes.
type Identity struct {
	Cluster string // 32 hexadecimal digits in lower case
	Layout  string // the text of the layout
	Key     string // app.port.ip
}

// State is a lease of a machine ID. All times are in ms since the Unix epoch, and at least 0.
type State struct {
	MachineID int64  // at least 0
	Token     string // proves that the lease is the holder's: UTF-8 of 1 to 1024 bytes
	Lower     int64  // the lease begins above it
	Until     int64  // the last time of the lease; at least Lower
	// how far the lease may be extended without the registry; below Until if it may not
	Reserved int64
	Progress int64  // the highest time that may have been used without the registry; 0 if none
	Users    string // who may use the lease: UTF-8 of at most 4 KiB
}

// inode identifies a file of a file system, whatever its name.
type inode struct {
	device, number uint64
	born           int64 // in ns since the Unix epoch; 0 if the file system does not know it
}

// is reports whether both are the same inode. The device number may change when the machine
// restarts. It does not matter if the time of birth is known.
func (i inode) is(other inode) bool {
	return i.number == other.number && i.born == other.born && (i.born != 0 || i.device == other.device)
}

// record is the content of a file.
type record struct {
	identity Identity
	state    State
	inode    inode // of the file to which it was written
}

// encode returns the text of a file, in the format of Java's properties.
func (r *record) encode() []byte {
	var out bytes.Buffer
	_, _ = out.WriteString(header)
	for _, field := range []struct{ key, value string }{
		{"format", strconv.Itoa(formatVersion)},
		{"cluster", escape(r.identity.Cluster)},
		{"layout", escape(r.identity.Layout)},
		{"key", escape(r.identity.Key)},
		{"machineId", strconv.FormatInt(r.state.MachineID, 10)},
		{"token", escape(r.state.Token)},
		{"lower", strconv.FormatInt(r.state.Lower, 10)},
		{"until", strconv.FormatInt(r.state.Until, 10)},
		{"reserved", strconv.FormatInt(r.state.Reserved, 10)},
		{"progress", strconv.FormatInt(r.state.Progress, 10)},
		{"users", escape(r.state.Users)},
		{"device", strconv.FormatUint(r.inode.device, 10)},
		{"inode", strconv.FormatUint(r.inode.number, 10)},
		{"born", strconv.FormatInt(r.inode.born, 10)},
	} {
		_, _ = out.WriteString(field.key + "=" + field.value + "\n")
	}
	return seal(out.Bytes())
}

// seal appends the checksum to a text.
func seal(text []byte) []byte {
	sum := sha256.Sum256(text)
	return append(text, checksumKey+hex.EncodeToString(sum[:])+"\n"...)
}

// parse parses the text of a file. It accepts exactly what encode writes, and returns ErrDamaged or
// ErrNewer otherwise. To distinguish files of later formats from damaged ones, every format must
// begin with comment lines and format=, and end with the checksum.
func parse(text []byte) (record, error) {
	var r record
	if len(text) > maxSize {
		return r, fmt.Errorf("%w: it is larger than %d bytes", ErrDamaged, maxSize)
	}
	body := text[:bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n')+1]
	if !bytes.HasPrefix(text[len(body):], []byte(checksumKey)) {
		return r, fmt.Errorf("%w: it does not end with a checksum", ErrDamaged)
	}
	if !bytes.Equal(seal(bytes.Clone(body)), text) {
		return r, fmt.Errorf("%w: the checksum does not match", ErrDamaged)
	}
	values, err := fields(string(body))
	if err != nil {
		return r, err
	}
	if err := r.fill(values); err != nil {
		return r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if !bytes.Equal(r.encode(), text) {
		return r, fmt.Errorf("%w: it is not written the way seqd writes it", ErrDamaged)
	}
	return r, nil
}

// fields returns the values of a text whose format is known.
func fields(body string) (map[string]string, error) {
	values := make(map[string]string)
	first := true
	for line := range strings.Lines(body) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("%w: a line without =", ErrDamaged)
		}
		if first {
			switch version, err := strconv.ParseUint(value, 10, 31); {
			case key != "format" || err != nil || version == 0:
				return nil, fmt.Errorf("%w: it does not begin with its format", ErrDamaged)
			case version > formatVersion:
				return nil, fmt.Errorf("%w: format %d, this seqd reads up to %d", ErrNewer, version, formatVersion)
			}
		}
		first = false
		values[key] = value
	}
	return values, nil
}

// fill sets the record to the values of a file. A missing value is an empty text, which is not a
// number either.
func (r *record) fill(values map[string]string) error {
	var problems []error
	text := func(key string) string {
		s, err := unescape(values[key])
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
		return s
	}
	number := func(key string) int64 {
		n, err := strconv.ParseInt(values[key], 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
		return n
	}
	unsigned := func(key string) uint64 {
		n, err := strconv.ParseUint(values[key], 10, 64)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", key, err))
		}
		return n
	}
	*r = record{
		identity: Identity{Cluster: text("cluster"), Layout: text("layout"), Key: text("key")},
		state: State{
			MachineID: number("machineId"), Token: text("token"), Lower: number("lower"),
			Until: number("until"), Reserved: number("reserved"), Progress: number("progress"), Users: text("users"),
		},
		inode: inode{device: unsigned("device"), number: unsigned("inode"), born: number("born")},
	}
	return errors.Join(append(problems, r.identity.validate(), r.state.validate())...)
}

func (i *Identity) validate() error {
	if raw, err := hex.DecodeString(i.Cluster); err != nil || len(raw) != 16 || i.Cluster != strings.ToLower(i.Cluster) {
		return fmt.Errorf("%w: cluster %q is not 32 hexadecimal digits in lower case", ErrInvalid, i.Cluster)
	}
	return errors.Join(validText("layout", i.Layout), validText("key", i.Key))
}

func (s *State) validate() error {
	for _, field := range []struct {
		name  string
		value int64
	}{{"machineId", s.MachineID}, {"lower", s.Lower}, {"until", s.Until}, {"reserved", s.Reserved}, {"progress", s.Progress}} {
		if field.value < 0 {
			return fmt.Errorf("%w: %s %d is negative", ErrInvalid, field.name, field.value)
		}
	}
	if s.Until < s.Lower {
		return fmt.Errorf("%w: until %d is below lower %d", ErrInvalid, s.Until, s.Lower)
	}
	if len(s.Users) > maxUsers || !utf8.ValidString(s.Users) {
		return fmt.Errorf("%w: users is not at most %d bytes of UTF-8", ErrInvalid, maxUsers)
	}
	return validText("token", s.Token)
}

// maxUsers is the largest length of State.Users, in bytes.
const maxUsers = 4 << 10

func validText(name, text string) error {
	if text == "" || len(text) > maxText || !utf8.ValidString(text) {
		return fmt.Errorf("%w: %s is not 1 to %d bytes of UTF-8", ErrInvalid, name, maxText)
	}
	return nil
}

// escape escapes a text as Java's properties do: a backslash before a backslash and a leading
// space, \uXXXX (UTF-16) for everything that is not printable ASCII.
func escape(text string) string {
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == '\\', r == ' ' && i == 0:
			_, _ = out.WriteString(`\` + string(r))
		case r >= ' ' && r <= '~':
			_, _ = out.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				_, _ = fmt.Fprintf(&out, `\u%04X`, unit)
			}
		}
	}
	return out.String()
}

// unescape is the inverse of escape. It also accepts texts that escape never writes; parse
// compares.
func unescape(text string) (string, error) {
	var units []uint16
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, `\u`) && len(text) >= 6:
			unit, err := strconv.ParseUint(text[2:6], 16, 16)
			if err != nil {
				return "", err
			}
			units, text = append(units, uint16(unit)), text[6:]
		case text[0] == '\\' && len(text) > 1:
			units, text = append(units, uint16(text[1])), text[2:]
		case text[0] == '\\':
			return "", errors.New("a backslash at its end")
		default:
			units, text = append(units, uint16(text[0])), text[1:]
		}
	}
	return string(utf16.Decode(units)), nil
}
