package seqd

import "strings"

// MaxKeyLength is the longest key of a keyed biz type, in bytes.
const MaxKeyLength = 64

// CheckKey returns nil for a key of the form [A-Za-z0-9][A-Za-z0-9._-]{0,63}, and an [Error] with
// [CodeInvalidKey] for any other. It does not allocate for a valid key.
func CheckKey(key string) error {
	if key == "" {
		return Errorf(CodeInvalidKey, "the key is empty")
	}
	if len(key) > MaxKeyLength {
		return Errorf(CodeInvalidKey, "the key has %d bytes, more than %d", len(key), MaxKeyLength)
	}
	for i := range len(key) {
		c := key[i]
		first := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		inner := c == '.' || c == '_' || c == '-'
		if first || i > 0 && inner {
			continue
		}
		return Errorf(CodeInvalidKey,
			"the key %q has a character at byte %d that is not allowed: it starts with a letter or digit and continues with letters, digits, '.', '_' or '-'",
			key, i)
	}
	return nil
}

// CounterOf returns the name of the counter of a biz type for a key, "" for none: order or
// invoice/tenant-42. No biz type can have a name with a slash. [Period.Counter] adds the period.
func CounterOf(bizType, key string) string {
	if key == "" {
		return bizType
	}
	return bizType + "/" + key
}

// ReservationKey returns the key in the ID of a reservation, "" if there is none: what follows the
// second dot. Whether a caller may use the ID depends on it, so a [Ledger] looks for a reservation
// only in the counter of this key.
func ReservationKey(id string) string {
	_, rest, _ := strings.Cut(id, ".")
	_, key, _ := strings.Cut(rest, ".")
	return key
}

// SplitCounter returns what [CounterOf] and [Period.Counter] joined: the biz type, the key, and the
// digits of the period, which [Reset.Parse] reads. Key and digits are "" for none. ok is false for a
// name that they never make, such as invoice/ or invoice@: what is kept under it is no counter of
// numbers. bizType is set also then.
func SplitCounter(name string) (bizType, key, digits string, ok bool) {
	rest, digits, dated := strings.Cut(name, "@")
	bizType, key, keyed := strings.Cut(rest, "/")
	return bizType, key, digits, bizType != "" && keyed == (key != "") && dated == (digits != "")
}
