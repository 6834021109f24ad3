package snowflake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// The file of the reservation lists the biz types that may use it without the store, with their
// shapes (invariant U6): name=hash, separated by commas. A biz type is listed once its shape was
// seen on record in the store, until another shape is seen there.

// struck replaces the hash if the store has another shape on record.
const struck = "-"

// mostUsers is the largest length of the list in the file, in bytes. Biz types that do not fit need
// the store at the start.
const mostUsers = 4 << 10

// shapeHash returns a shape as written to the file: the first 128 bits of its SHA-256, in
// hexadecimal digits.
func shapeHash(shape string) string {
	sum := sha256.Sum256([]byte(shape))
	return hex.EncodeToString(sum[:16])
}

// parseUsers returns the hashes in a file by biz type. It ignores names without a hash.
func parseUsers(text string) map[string]string {
	users := make(map[string]string)
	for user := range strings.SplitSeq(text, ",") {
		if name, hash, _ := strings.Cut(user, "="); hash != "" {
			users[name] = hash
		}
	}
	return users
}

// serves adds a biz type of this process.
func (h *holder) serves(bizType string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.users[bizType]; !known {
		h.users[bizType] = ""
	}
}

// know copies the state of a biz type from another holder in this process, if this one has none.
func (h *holder) know(bizType string, from *holder) {
	from.mu.Lock()
	hash := from.users[bizType]
	from.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users[bizType] == "" {
		h.users[bizType] = hash
	}
}

// remember copies what an earlier process wrote about the biz types of this one, if this one knows
// nothing.
func (h *holder) remember(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, hash := range parseUsers(text) {
		if known, serves := h.users[name]; serves && known == "" {
			h.users[name] = hash
		}
	}
}

// names returns the list for the file.
func (h *holder) names() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []string
	size := 0
	for _, name := range slices.Sorted(maps.Keys(h.users)) {
		if hash := h.users[name]; hash != "" && hash != struck {
			user := name + "=" + hash
			if size += len(user) + 1; size > mostUsers {
				break
			}
			list = append(list, user)
		}
	}
	return strings.Join(list, ",")
}

// onRecord notes the shape that the store has on record, "" if that is not the one of this process.
// The run goroutine updates the file. If the holder is not running, onRecord removes the biz type
// from the file itself.
func (h *holder) onRecord(bizType, shape string) {
	h.mu.Lock()
	h.users[bizType] = struck
	if shape != "" {
		h.users[bizType] = shapeHash(shape)
	}
	idle := h.stop == nil
	h.mu.Unlock()
	select {
	case h.listed <- struct{}{}:
	default:
	}
	if idle && shape == "" && h.settings.OfflineStart > 0 {
		if err := h.strike(); err != nil {
			h.env.Log.Error("the file of the reservation still lists a biz type that it must not", "bizType", bizType, "error", err)
		}
	}
}

// strike rewrites the list in the file while the holder is not running.
func (h *holder) strike() (err error) {
	if _, err := os.Lstat(h.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := statefile.Open(h.settings.StateDir, h.fileName, h.identity)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	saved, err := file.Load()
	if err != nil {
		return nil // nobody can start from it
	}
	h.remember(saved.Users)
	saved.Users = h.names()
	return file.Store(saved)
}

// vouch updates the list in the file and changes nothing else there.
func (h *holder) vouch() error {
	s := h.kept
	if s.Users = h.names(); h.file == nil || s.Token == "" || s.Users == h.kept.Users {
		return nil
	}
	return h.keep(s)
}
