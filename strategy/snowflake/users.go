package snowflake

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
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

// users are the biz types of this process that share a holder, with their shapes. It is safe for
// concurrent use.
type users struct {
	listed chan struct{} // has a value if hashes changed; capacity 1

	mu     sync.Mutex        // guards hashes
	hashes map[string]string // by biz type; "" if nothing is known
}

func newUsers() *users {
	return &users{hashes: make(map[string]string), listed: make(chan struct{}, 1)}
}

// serves adds a biz type of this process.
func (u *users) serves(bizType string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.hashes[bizType]; !known {
		u.hashes[bizType] = ""
	}
}

// know copies the state of a biz type from another holder in this process, if this one has none.
func (u *users) know(bizType string, from *users) {
	from.mu.Lock()
	hash := from.hashes[bizType]
	from.mu.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.hashes[bizType] == "" {
		u.hashes[bizType] = hash
	}
}

// remember copies what an earlier process wrote about the biz types of this one, if this one knows
// nothing.
func (u *users) remember(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for name, hash := range parseUsers(text) {
		if known, serves := u.hashes[name]; serves && known == "" {
			u.hashes[name] = hash
		}
	}
}

// names returns the list for the file.
func (u *users) names() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var list []string
	size := 0
	for _, name := range slices.Sorted(maps.Keys(u.hashes)) {
		if hash := u.hashes[name]; hash != "" && hash != struck {
			user := name + "=" + hash
			if size += len(user) + 1; size > mostUsers {
				break
			}
			list = append(list, user)
		}
	}
	return strings.Join(list, ",")
}

// record notes the shape that the store has on record, "" if that is not the one of this process.
func (u *users) record(bizType, shape string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.hashes[bizType] = struck
	if shape != "" {
		u.hashes[bizType] = shapeHash(shape)
	}
}

// changed asks the run goroutine to update the file.
func (u *users) changed() {
	select {
	case u.listed <- struct{}{}:
	default:
	}
}
