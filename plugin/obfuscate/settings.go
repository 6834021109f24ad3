package obfuscate

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/seqd/seqd"
)

// Limits of the settings.
const (
	// mostDigits is the length of the largest number of 63 bits.
	mostDigits = 19
	// mostBits is the number of bits of a number.
	mostBits = 63
	// leastKey and mostKey limit the length in bytes of a key that somebody chose.
	leastKey = 8
	mostKey  = 4096
)

// Settings are the settings of one binding. Exactly one of Digits and Bits is set, and exactly one
// of Key, KeyEnv and KeyFile.
type Settings struct {
	// Digits is how many decimal digits an ID has, with leading zeros. Numbers are below 10^`digits`.
	// Set this or `bits`.
	Digits int `config:"digits" range:"0 to 19" unit:"digits" zero:"not set" exactlyOneOf:"digits, bits"`
	// Bits is how many bits an ID has, which is written as a decimal number without leading zeros.
	// Numbers are below 2^`bits`. Set this or `digits`.
	Bits int `config:"bits" range:"0 to 63" unit:"bits" zero:"not set" exactlyOneOf:"digits, bits"`
	// Key is the key itself, 8 to 4096 bytes. Set one of `key`, `keyEnv` and `keyFile`.
	Key Secret `config:"key" secret:"true" exactlyOneOf:"key, keyEnv, keyFile"`
	// KeyEnv is the name of the environment variable that contains the key, of the same length. It
	// begins with `bizTypeVariables`.
	KeyEnv string `config:"keyEnv" exactlyOneOf:"key, keyEnv, keyFile"`
	// KeyFile is the path of the file that contains the key, in `bizTypeFolder`. It is created with a
	// random key if it does not exist.
	KeyFile string `config:"keyFile" exactlyOneOf:"key, keyEnv, keyFile"`
	// Version is the version of the algorithm. 1 shows a number of all keys and periods as the same
	// ID, 2 shows it as another one for each. If it is not set, a biz type that has issued numbers
	// continues with the version that it had. A new one gets 2 if it is `keyed` or resets, and
	// otherwise 1; but if it has a `start` or an `increment` too, it must be set. Where numbers
	// continue in another store, set it to the version that they had.
	Version int `config:"version" range:"0 to 2" zero:"not set"`

	reach *seqd.Reach // what KeyEnv and KeyFile may name

	mu    sync.Mutex // guards what follows
	known *material  // what was derived from the key, once it was read
}

// material is what is derived from a key.
type material struct {
	permutation *permutation // oneForAll
	family      *family      // oneForEach
	fingerprint string       // distinguishes keys; it does not reveal a strong key
	made        bool         // the key file was just created
}

// Secret is text that is hidden by everything that prints or encodes it.
type Secret string

// hidden replaces a secret.
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

// Validate implements [seqd.Validator]. It reads neither the environment nor a file.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	switch {
	case s.Digits != 0 && s.Bits != 0:
		check(false, "bits", "it is %d and digits is %d: set only one of them", s.Bits, s.Digits)
	case s.Bits != 0:
		check(s.Bits >= 1 && s.Bits <= mostBits, "bits", "%d is outside 1 to %d", s.Bits, mostBits)
	case s.Digits == 0:
		check(false, "digits", "neither digits nor bits is set: digits is how many decimal digits an ID has, 1 to %d", mostDigits)
	default:
		check(s.Digits >= 1 && s.Digits <= mostDigits, "digits", "%d is outside 1 to %d", s.Digits, mostDigits)
	}
	check(s.Version >= 0 && s.Version <= oneForEach, "version", "%d is outside 0 to %d", s.Version, oneForEach)
	switch sources := s.sources(); {
	case len(sources) == 0:
		check(false, "key", "key, keyEnv and keyFile are empty: one of them must give the key")
	case len(sources) > 1:
		check(false, sources[1], "it is set, and so is %s: set only one of key, keyEnv and keyFile", sources[0])
	case s.Key != "":
		_, err := s.given()
		check(err == nil, sources[0], "%v", err)
	}
	return problems
}

// Confine implements [seqd.Confined].
func (s *Settings) Confine(r *seqd.Reach) []seqd.Problem {
	s.reach = r
	var problems seqd.Problems
	if s.KeyEnv != "" {
		problems.Add("keyEnv", r.CheckVariable(s.KeyEnv))
	}
	if s.KeyFile != "" {
		problems.Add("keyFile", r.Check(s.KeyFile))
	}
	return problems
}

// sources returns which of the settings key, keyEnv and keyFile are set.
func (s *Settings) sources() (set []string) {
	for _, source := range []struct{ key, value string }{{"key", string(s.Key)}, {"keyEnv", s.KeyEnv}, {"keyFile", s.KeyFile}} {
		if source.value != "" {
			set = append(set, source.key)
		}
	}
	return set
}

// given returns the key in the settings or the environment.
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

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() seqd.Traits {
	t := seqd.Traits{Decimal: true, Digits: s.Digits, Outside: s.KeyFile, OutsideKey: "keyFile"}
	if s.KeyEnv != "" {
		t.Outside, t.OutsideKey = s.KeyEnv, "keyEnv"
	}
	return t
}

// size returns the size of the domain: numbers are below it. The settings must be valid.
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

// domain returns the name and the value of the setting that defines the size.
func (s *Settings) domain() (key string, value int) {
	if s.Bits > 0 {
		return "bits", s.Bits
	}
	return "digits", s.Digits
}

// missing looks whether the key is there. A key file is created if it does not exist.
func missing(binding seqd.PluginBinding) (makes bool, err error) {
	switch s, _ := binding.Settings.(*Settings); {
	case s == nil: // New reports it
	case s.KeyEnv != "":
		_, err = s.given()
	case s.KeyFile != "":
		path, failed := s.reach.Resolve(s.KeyFile)
		if failed == nil {
			_, failed = os.Stat(path)
		}
		makes = errors.Is(failed, fs.ErrNotExist)
	}
	return makes, err
}

// material reads the key, or creates its file. It keeps the result, so that the plugin and its
// shape use the same key even if the file changes between. It is safe for concurrent use.
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
		path, failed := s.reach.Resolve(s.KeyFile)
		if failed != nil {
			return nil, fmt.Errorf("keyFile: %w", failed)
		}
		key, made, err = readOrMakeKey(path)
	} else {
		key, err = s.given()
	}
	if err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return nil, errors.New("the key is empty")
	}
	fingerprint := derive(oneForAll, "fingerprint", 0, key) // the same in all versions
	s.known = &material{newPermutation(key, s.size()), newFamily(key, s.size()), fmt.Sprintf("%x", fingerprint[:16]), made}
	return s.known, nil
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
	_ seqd.Confined  = (*Settings)(nil)
)
