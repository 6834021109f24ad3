package ledger

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/seqd/seqd/persist"
)

// Bounds of the body of a document, in bytes. A store accepts 1 MiB.
const (
	// roomToBegin is how large it may become by what begins: reservations and answers to be kept.
	roomToBegin = 640 << 10
	// roomToEnd is how large it may become by what ends reservations and makes numbers void, and by
	// events of numbers that are issued at once. An end adds a little more than it removes, so it fits
	// as long as the outbox is emptied.
	roomToEnd = 1000 << 10

	// The longest encoding of the fields of a state, of a released run, of a run and of a writer.
	fieldsSize, releasedSize, runSize, writerSize = 1024, 50, 34, 80
	// The longest encoding of the fields of a reservation or an entry, except its runs, Once,
	// caller and reason.
	partSize = 220
)

// flushAfter is how long an entry may stay in the outbox before it is due that somebody copies it,
// in ms.
const flushAfter = 30_000

// Size returns an upper bound of the length of the body.
func (s *State) Size() int {
	return fieldsSize + runSize*len(s.Eras) + s.size + releasedSize*len(s.Released) + writerSize*mostWriters
}

// hasRoom reports whether the body stays below a bound after an operation that touches some runs,
// or numbers that can be so many runs.
func (s *State) hasRoom(bound int, op *Op, runs int64) bool {
	size := s.Size() + partSize + (int(runs)+1)*(2*runSize+releasedSize)
	if op != nil {
		size += 2*partSize + len(op.Once) + 2*6*(len(op.Caller)+len(op.Reason))
	}
	return size <= bound
}

// version is the version of the format of the body of a ledger that has told events, and plain that
// of any other: a seqd that knows no events must not take theirs for void numbers.
const (
	version      = persist.FormatVersion + 1
	plainVersion = persist.FormatVersion
)

// Document returns the document of the counter with the state as its next revision, and the
// earliest moment at which something is due as Expires. now is when it is written, in ms since the
// Unix epoch. The error wraps [persist.ErrInvalid] if the state does not fit.
func (s *State) Document(counter string, now int64) (persist.Document, error) {
	return s.document(counter, now, nil)
}

// document uses the memory of buf.
func (s *State) document(counter string, now int64, buf *[]byte) (persist.Document, error) {
	if buf == nil {
		buf = new([]byte)
	}
	*buf = s.append((*buf)[:0])
	if len(*buf) > 1<<20 {
		return persist.Document{}, fmt.Errorf("%w: the ledger of %s takes %d bytes, more than a document can hold", persist.ErrInvalid, counter, len(*buf))
	}
	due := s.Due(&Policy{Ends: s.Ends})
	if len(s.Outbox) > 0 {
		due = earliest(due, s.Outbox[0].At+flushAfter)
	}
	return persist.Document{
		Kind: persist.LedgerKind, Key: counter, Revision: s.Revision + 1, Body: string(*buf), Timestamp: now, Expires: due,
	}, nil
}

func (s *State) append(b []byte) []byte {
	b = append(b, `{"v":`...)
	if s.Told || s.Events > 0 || s.tells() {
		b = strconv.AppendInt(b, version, 10)
	} else {
		b = strconv.AppendInt(b, plainVersion, 10)
	}
	b = appendField(b, "b", s.Born)
	b = appendNumber(b, "g", s.Era)
	b = appendNumber(b, "f", s.First)
	b = append(b, `,"l":`...)
	b = strconv.AppendInt(b, s.Last, 10)
	b = appendNumber(b, "n", s.Voids)
	b = appendNumber(b, "d", s.Dropped)
	b = appendNumber(b, "e", s.Ends)
	b = appendField(b, "c", s.Fence)
	b = appendFlag(b, "p", s.Void)
	b = appendFlag(b, "k", s.Closed)
	b = appendFlag(b, "t", s.Told)
	b = appendNumber(b, "s", s.Events)
	if len(s.Eras) > 0 {
		b = append(b, `,"h":[`...)
		for i, era := range s.Eras {
			b = strconv.AppendInt(comma(b, i), era.Era, 10)
			b = strconv.AppendInt(append(b, ','), era.Revision, 10)
		}
		b = append(b, ']')
	}
	if len(s.Reserved) > 0 {
		b = append(b, `,"r":[`...)
		for i, r := range s.Reserved {
			b = append(comma(b, i), r.text...)
		}
		b = append(b, ']')
	}
	if len(s.Released) > 0 {
		b = append(b, `,"q":[`...)
		for i, r := range s.Released {
			b = strconv.AppendInt(comma(b, i), r.From, 10)
			b = strconv.AppendInt(append(b, ','), r.To, 10)
			b = strconv.AppendInt(append(b, ','), r.At, 10)
		}
		b = append(b, ']')
	}
	if len(s.Outbox) > 0 {
		b = append(b, `,"o":[`...)
		for i, e := range s.Outbox {
			b = append(comma(b, i), e.text...)
		}
		b = append(b, ']')
	}
	return append(s.appendWriters(b), '}')
}

func (s *State) appendWriters(b []byte) []byte {
	if len(s.Writers) == 0 {
		return b
	}
	b = append(b, `,"w":[`...)
	for i, w := range s.Writers {
		b = append(comma(b, i), `{"i":`...)
		b = appendText(b, w.ID)
		b = appendNumber(b, "n", w.N)
		b = append(appendNumber(b, "x", w.Rev), '}')
	}
	return append(b, ']')
}

func (r *Reservation) append(b []byte) []byte {
	b = append(b, `{"i":`...)
	b = appendText(b, r.ID)
	b = appendNumber(b, "m", r.Made)
	b = appendNumber(b, "t", r.TTL)
	b = appendField(b, "c", r.Caller)
	b = appendFlag(b, "s", r.Suspect)
	return append(appendRuns(b, r.Runs), '}')
}

func (e *Entry) append(b []byte) []byte {
	b = append(b, `{"k":"`...)
	b = append(b, byte(e.Kind), '"')
	b = appendNumber(b, "x", e.Rev)
	b = appendNumber(b, "g", e.Era)
	b = appendNumber(b, "q", e.Seq)
	b = appendField(b, "i", e.ID)
	b = appendField(b, "o", e.Once)
	if e.End != Open {
		b = appendField(b, "z", string(rune(e.End)))
	}
	b = appendNumber(b, "m", e.Made)
	b = appendNumber(b, "t", e.TTL)
	b = appendNumber(b, "u", e.Asked)
	b = appendNumber(b, "a", e.At)
	b = appendNumber(b, "y", e.Keep)
	b = appendField(b, "c", e.Caller)
	b = appendField(b, "w", e.Reason)
	return append(appendRuns(b, e.Runs), '}')
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return b
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

// appendNumber appends a field unless it is 0, appendField one unless it is empty, and appendFlag
// one if it is set.
func appendNumber(b []byte, key string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(appendKey(b, key), n, 10)
}

func appendField(b []byte, key, text string) []byte {
	if text == "" {
		return b
	}
	return appendText(appendKey(b, key), text)
}

func appendFlag(b []byte, key string, set bool) []byte {
	if !set {
		return b
	}
	return append(appendKey(b, key), "true"...)
}

func appendRuns(b []byte, runs []Run) []byte {
	b = append(b, `,"n":[`...)
	for i, r := range runs {
		b = strconv.AppendInt(comma(b, i), r.From, 10)
		b = strconv.AppendInt(append(b, ','), r.To, 10)
	}
	return append(b, ']')
}

// appendText appends a text as JSON.
func appendText(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
