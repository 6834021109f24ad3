package snowflake

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// The file of the reservation says for which biz types it may be used without the store, and in
// which shape (invariant U6): name=hash, by commas. A biz type is named when its shape was seen on
// record in the store, and no more once another one was.

// struck is what stands in place of a hash when the store has another shape on record.
const struck = "-"

// mostUsers is how long the list of biz types in the file may be, in bytes; those behind it need
// the store at the start.
const mostUsers = 4 << 10

// shapeHash is a shape as the file has it: the first 128 bits of its SHA-256, in hexadecimal
// digits.
func shapeHash(shape string) string {
	sum := sha256.Sum256([]byte(shape))
	return hex.EncodeToString(sum[:16])
}

// parseUsers returns what a file says, by biz type. Names without a shape vouch for nothing.
func parseUsers(text string) map[string]string {
	users := make(map[string]string)
	for user := range strings.SplitSeq(text, ",") {
		if name, hash, _ := strings.Cut(user, "="); hash != "" {
			users[name] = hash
		}
	}
	return users
}

// serves notes a biz type of this process.
func (h *holder) serves(bizType string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.users[bizType]; !known {
		h.users[bizType] = ""
	}
}

// know takes over what another holder of this process knows of a biz type, where this one knows
// nothing yet.
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

// remember takes over what an earlier process wrote about biz types of this one, where this one
// knows nothing yet.
func (h *holder) remember(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, hash := range parseUsers(text) {
		if known, serves := h.users[name]; serves && known == "" {
			h.users[name] = hash
		}
	}
}

// names are the biz types as the file has them.
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

// onRecord notes the shape that the store has on record; "" for another than this process makes.
// The file has it as soon as the holder comes to it; one that nobody uses yet, at once.
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
			h.env.Log.Error("the file of the reservation still names a biz type that it must not", "bizType", bizType, "error", err)
		}
	}
}

// strike rewrites the list of the file while the holder does not run.
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

// keep writes the file.
func (h *holder) keep(s statefile.State) error {
	if err := h.file.Store(s); err != nil {
		return fmt.Errorf("%w: %w", errFile, err)
	}
	h.kept = s
	return nil
}

// vouch brings the list of the file up to date. Nothing else in it changes.
func (h *holder) vouch() error {
	s := h.kept
	if s.Users = h.names(); h.file == nil || s.Token == "" || s.Users == h.kept.Users {
		return nil
	}
	return h.keep(s)
}
