package persist

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// HistoryRun is Count numbers: First, First+Stride, First+2·Stride and so on.
type HistoryRun struct {
	First  int64 `json:"first,string" bson:"first"`
	Stride int64 `json:"stride,string" bson:"stride"`
	Count  int   `json:"count" bson:"count"`
}

// Holds reports whether a number is one of the run.
func (r HistoryRun) Holds(n int64) bool {
	if r.Stride == 0 {
		return n == r.First && r.Count > 0
	}
	i := (n - r.First) / r.Stride
	return i >= 0 && i < int64(r.Count) && r.First+i*r.Stride == n
}

// HistoryRecord says what was issued in answer to one request. It is written once and never
// changed.
type HistoryRecord struct {
	// ID is a [HistoryID]: unique, and in the order of time.
	ID string `json:"id"`
	// BizType is the name of the biz type.
	BizType string `json:"bizType"`
	// Key is the key that the numbers were issued for; "" if the biz type is not keyed. It is at
	// most 512 bytes of UTF-8.
	Key string `json:"key,omitempty"`
	// Time is when the numbers were issued, in ms since the Unix epoch, as in ID.
	Time int64 `json:"time"`
	// First and Last are the first and the last number in the order they were taken, Count is how
	// many there are. They are text in JSON, because they can be above 2^53.
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
	Count int   `json:"count"`
	// Runs are the numbers. There are no runs if the numbers are evenly spaced from First to Last.
	// If there were more runs than a record holds, the last ones are missing.
	Runs []HistoryRun `json:"runs,omitempty"`
	// IDs are the numbers as they were shown; none if they were shown as decimal digits. If there
	// are fewer than Count, they are the first and the last.
	IDs []string `json:"ids,omitempty"`
	// Caller, Addr and RequestID are who asked; see seqd.Caller.
	Caller    string `json:"caller,omitempty"`
	Addr      string `json:"addr,omitempty"`
	RequestID string `json:"requestId,omitempty"`
}

// PersistID is the biz type and the ID, so the records of a biz type are in the order of time.
func (r HistoryRecord) PersistID() string { return r.BizType + historySeparator + r.ID }

// historySeparator is in no name of a biz type and in no ID.
const historySeparator = "/"

// Validate returns ErrInvalid and the field that is out of its range.
func (r HistoryRecord) Validate() error {
	if err := checkHistoryBizType(r.BizType); err != nil {
		return err
	}
	at, err := HistoryTime(r.ID)
	switch {
	case err != nil:
		return err
	case at != r.Time:
		return invalid("time %d is not that of ID %s", r.Time, r.ID)
	case r.Count < 1:
		return invalid("count %d is less than 1", r.Count)
	case len(r.Key) > longestKey:
		return invalid("key %.100q has more than %d bytes", r.Key, longestKey)
	}
	for _, text := range append([]string{r.Key, r.Caller, r.Addr, r.RequestID}, r.IDs...) {
		if !utf8.ValidString(text) {
			return invalid("%q is not UTF-8", text)
		}
	}
	return nil
}

func checkHistoryBizType(name string) error {
	if name == "" || strings.Contains(name, historySeparator) || !utf8.ValidString(name) {
		return invalid("biz type %q", name)
	}
	return nil
}

// The parts of an ID, in hexadecimal digits.
const (
	historyTimeDigits   = 12
	historyOriginDigits = 16
	historyCountDigits  = 12
	historyIDLength     = historyTimeDigits + historyOriginDigits + historyCountDigits
	mostHistoryTime     = 1<<(4*historyTimeDigits) - 1
)

// HistoryID makes the ID of a record: time, in ms since the Unix epoch (0 to 2^48 − 1), then
// origin, which each writer draws at random, then n (0 to 2^48 − 1), which a writer never uses
// twice. A time outside these bounds is moved to the nearest one. Of n the lowest 48 bits are used.
func HistoryID(time int64, origin, n uint64) string {
	var raw [historyIDLength / 2]byte
	binary.BigEndian.PutUint64(raw[:], uint64(clampTime(time))<<16)
	binary.BigEndian.PutUint64(raw[6:], origin)
	binary.BigEndian.PutUint32(raw[14:], uint32(n>>16))
	binary.BigEndian.PutUint16(raw[18:], uint16(n))
	return hex.EncodeToString(raw[:])
}

func clampTime(time int64) int64 { return min(max(time, 0), mostHistoryTime) }

// HistoryTime returns the time in an ID, in ms since the Unix epoch, or ErrInvalid for a text that
// [HistoryID] never makes.
func HistoryTime(id string) (int64, error) {
	var raw [historyIDLength / 2]byte
	if len(id) != historyIDLength || id != strings.ToLower(id) {
		return 0, invalid("history ID %.50q", id)
	}
	if _, err := hex.Decode(raw[:], []byte(id)); err != nil {
		return 0, invalid("history ID %.50q", id)
	}
	time := int64(0)
	for _, b := range raw[:historyTimeDigits/2] {
		time = time<<8 | int64(b)
	}
	return time, nil
}

// HistoryQuery asks for the records of one biz type.
type HistoryQuery struct {
	BizType string
	// Key, unless empty, is that of the records that are returned. No index helps to find them: the
	// query reads the records of the biz type until it has found enough. From and To bound that.
	Key string
	// Before, unless empty, is an ID: only records below it are returned. The last ID of a page
	// gives the next page.
	Before string
	// From and To bound the time, in ms since the Unix epoch: From ≤ time < To. 0 is no bound.
	From, To int64
	// Limit is the largest number of records to return; 0 or less returns none.
	Limit int
}

// Wants reports whether a record between the bounds of Range is one that the query asks for.
func (q HistoryQuery) Wants(r HistoryRecord) bool { return q.Key == "" || q.Key == r.Key }

// Range returns the bounds of the persist IDs that the query is about, low ≤ persist ID < high, or
// ErrInvalid.
func (q HistoryQuery) Range() (low, high string, err error) {
	if err := checkHistoryBizType(q.BizType); err != nil {
		return "", "", err
	}
	if q.Before != "" {
		if _, err := HistoryTime(q.Before); err != nil {
			return "", "", err
		}
	}
	below := historyAbove
	if q.To != 0 {
		below = fmt.Sprintf("%012x", clampTime(q.To))
	}
	if q.Before != "" {
		below = min(below, q.Before)
	}
	prefix := q.BizType + historySeparator
	return prefix + fmt.Sprintf("%012x", clampTime(q.From)), prefix + below, nil
}

// PurgeRange returns the bounds of the persist IDs of the records of a biz type from before a time,
// in ms since the Unix epoch: low ≤ persist ID < high. Or it returns ErrInvalid.
func PurgeRange(bizType string, before int64) (low, high string, err error) {
	if err := checkHistoryBizType(bizType); err != nil {
		return "", "", err
	}
	prefix := bizType + historySeparator
	return prefix, prefix + fmt.Sprintf("%012x", clampTime(before)), nil
}

// historyAbove is greater than every ID.
const historyAbove = "g"

// HistoryStore keeps what was issued to whom. It is safe for concurrent use. It keeps records until
// they are purged, unless a driver says otherwise.
type HistoryStore interface {
	// Append stores records. A record whose ID exists stays as it is. After an error any of them
	// may be stored: append all of them again. When Append returns nil, they are durable.
	Append(ctx context.Context, records []HistoryRecord) error
	// List returns records in descending order of their IDs: the newest first. A caller that reads
	// page after page sees every record once that existed when the first page was read, whatever is
	// appended meanwhile.
	List(ctx context.Context, query HistoryQuery) ([]HistoryRecord, error)
	// Remove removes the records of a biz type that have these IDs: at most 1000. It is no error if
	// there are none. When it returns nil, that is durable. A store that only appends returns
	// [errors.ErrUnsupported].
	Remove(ctx context.Context, bizType string, ids []string) error
	// Purge removes the oldest records of a biz type from before a time, in ms since the Unix
	// epoch: at most limit of them. It returns how many it removed: fewer than limit if there are
	// no more. Several processes may purge at once.
	Purge(ctx context.Context, bizType string, before int64, limit int) (int, error)
}
