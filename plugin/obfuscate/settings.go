package obfuscate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
)

// Limits of the settings.
const (
	// mostDigits is as many as a number of 63 bits can need.
	mostDigits = 19
	// mostBits is as many as a number has.
	mostBits = 63
	// leastKey and mostKey are how many bytes a key has that somebody chose.
	leastKey = 8
	mostKey  = 4096
)

// Settings are those of one binding. Exactly one of Digits and Bits is set, and exactly one of Key,
// KeyEnv and KeyFile.
type Settings struct {
	// Digits is how many decimal digits an ID has, 1 to 19, with zeros in front; the numbers are
	// below 10^Digits. 0 for none.
	Digits int `config:"digits"`
	// Bits is how many bits an ID has, 1 to 63, written as a decimal number without zeros in front;
	// the numbers are below 2^Bits. 0 for none.
	Bits int `config:"bits"`
	// Key is the key itself, 8 to 4096 bytes.
	Key Secret `config:"key" secret:"true"`
	// KeyEnv is the name of the environment variable that holds the key, which is as long.
	KeyEnv string `config:"keyEnv"`
	// KeyFile is the path of the file that holds the key. It is made with a random key when it is
	// not there.
	KeyFile string `config:"keyFile"`

	mu    sync.Mutex // guards what follows
	known *material  // what the key made, once it was read
}

// material is what is made of a key.
type material struct {
	permutation *permutation
	fingerprint string // tells keys apart and is no secret for a strong key
	made        bool   // the file of the key was not there before
}

// Secret is text that is not shown by anything that prints or encodes it.
type Secret string

// hidden stands for a secret.
const hidden = "(hidden)"

// Format implements [fmt.Formatter].
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(hidden)) }

// LogValue implements [slog.LogValuer].
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText implements [encoding.TextMarshaler].
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

var (
	_ fmt.Formatter  = Secret("")
	_ slog.LogValuer = Secret("")
)

// Validate implements [seqd.Validator]. It reads the environment, and no file.
func (s *Settings) Validate() (problems []seqd.Problem) {
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			problems = append(problems, seqd.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	switch {
	case s.Digits != 0 && s.Bits != 0:
		check(false, "bits", "%d, and digits is %d: an ID has either so many decimal digits or so many bits", s.Bits, s.Digits)
	case s.Bits != 0:
		check(s.Bits >= 1 && s.Bits <= mostBits, "bits", "%d is outside 1 to %d", s.Bits, mostBits)
	case s.Digits == 0:
		check(false, "digits", "it is not set, nor is bits: say how many decimal digits an ID has, 1 to %d", mostDigits)
	default:
		check(s.Digits >= 1 && s.Digits <= mostDigits, "digits", "%d is outside 1 to %d", s.Digits, mostDigits)
	}
	switch sources := s.sources(); {
	case len(sources) == 0:
		check(false, "key", "it is empty, and so are keyEnv and keyFile: one of them must say the key")
	case len(sources) > 1:
		check(false, sources[1], "it is set, and so is %s: only one of key, keyEnv and keyFile can say the key", sources[0])
	case s.KeyFile == "":
		_, err := s.given()
		check(err == nil, sources[0], "%v", err)
	}
	return problems
}

// sources lists the keys of the settings that say where the key is.
func (s *Settings) sources() (set []string) {
	for _, source := range []struct{ key, value string }{{"key", string(s.Key)}, {"keyEnv", s.KeyEnv}, {"keyFile", s.KeyFile}} {
		if source.value != "" {
			set = append(set, source.key)
		}
	}
	return set
}

// given returns the key that the settings or the environment hold.
func (s *Settings) given() ([]byte, error) {
	text, where := string(s.Key), "the key"
	if s.KeyEnv != "" {
		text, where = os.Getenv(s.KeyEnv), "the environment variable "+s.KeyEnv
		if text == "" {
			return nil, fmt.Errorf("%s is empty or not set", where)
		}
	}
	if len(text) < leastKey || len(text) > mostKey {
		return nil, fmt.Errorf("%s has %d bytes, which is outside %d to %d", where, len(text), leastKey, mostKey)
	}
	return []byte(text), nil
}

// DisplayWidth implements [seqd.Decimal].
func (s *Settings) DisplayWidth() int { return s.Digits }

// size is the size of the domain: numbers are below it. The settings are valid.
func (s *Settings) size() uint64 {
	if s.Bits > 0 {
		return 1 << s.Bits
	}
	size := uint64(1)
	for range s.Digits {
		size *= 10
	}
	return size
}

// domain is the key and the value of the setting that says the size.
func (s *Settings) domain() (key string, value int) {
	if s.Bits > 0 {
		return "bits", s.Bits
	}
	return "digits", s.Digits
}

var _ plugin.Maker = (*Settings)(nil)

// Makes implements [plugin.Maker]: it reports whether the file of the key is still to be made.
func (s *Settings) Makes() bool {
	if s.KeyFile == "" {
		return false
	}
	_, err := os.Stat(s.KeyFile)
	return errors.Is(err, fs.ErrNotExist)
}

// material reads the key, and makes its file where it is not there. It does so until that worked
// once: the plugin and its shape come from the same key whatever becomes of the file between them.
// It is safe for concurrent use.
func (s *Settings) material() (*material, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known != nil {
		return s.known, nil
	}
	var key []byte
	var err error
	made := false
	if s.KeyFile != "" {
		key, made, err = readOrMakeKey(s.KeyFile)
	} else {
		key, err = s.given()
	}
	if err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return nil, errors.New("the key is empty")
	}
	fingerprint := derive("fingerprint", 0, key)
	s.known = &material{newPermutation(key, s.size()), fmt.Sprintf("%x", fingerprint[:16]), made}
	return s.known, nil
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.Decimal   = (*Settings)(nil)
)
