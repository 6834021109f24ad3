package gate

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
)

// IDs creates IDs for requests that come without one: a prefix drawn at the start and a running
// number. They begin with a letter: 9214857e-16 would be a number to whatever guesses types, such as
// a spreadsheet. They need no system call and sort by time within a process. It is safe for
// concurrent use.
type IDs struct {
	prefix string
	last   atomic.Uint64
}

func newIDs() *IDs {
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails, see crypto/rand
	return &IDs{prefix: "r" + hex.EncodeToString(seed[:]) + "-"}
}

// Next returns a new ID.
func (ids *IDs) Next() string {
	var buf [32]byte
	text := append(buf[:0], ids.prefix...)
	return string(strconv.AppendUint(text, ids.last.Add(1), 36))
}
