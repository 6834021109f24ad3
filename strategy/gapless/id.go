package gapless

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// The ID of a reservation is 20 hexadecimal digits. If numbers reset, a dot and the digits of the
// period follow; if the biz type is keyed, a dot, these digits if there are any, a dot and the key:
//
//	4f3a…  4f3a….2026  4f3a…..tenant-42  4f3a….2026.tenant-42

// idBytes is how many random bytes an ID has: 80 bits. An ID is only unique among those of its
// counter.
const idBytes = 10

// newID draws the part of an ID that is its own.
func newID() string {
	var random [idBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// fullID returns the ID of a reservation of a counter.
func fullID(own string, counter counters.Name) string {
	return ledger.FullID(own, counter.Key, strings.ReplaceAll(counter.Period.String(), "-", ""))
}

// counterOf reads an ID: the counter that it names, and the part that is its own. An ID that cannot
// be one of a biz type with these settings is unknown.
func (s *Settings) counterOf(id string) (counter counters.Name, own string, err error) {
	own, rest, _ := strings.Cut(id, ".")
	digits, key, _ := strings.Cut(rest, ".")
	raw, err := hex.DecodeString(own)
	ok := err == nil && len(raw) == idBytes && s.Keyed == (key != "") && (key == "" || seqd.CheckKey(key) == nil)
	if counter.Key = key; digits != "" {
		period, known := counters.ParsePeriod(digits)
		counter.Period, ok = period, ok && known
	}
	if !ok || fullID(hex.EncodeToString(raw), counter) != id {
		return counters.Name{}, "", unknownReservation(id)
	}
	return counter, own, nil
}

func unknownReservation(id string) *seqd.Error {
	return seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %.120q; one that ended is known for 24 hours", id)
}
