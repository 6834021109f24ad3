package idempotency

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seqd/seqd"
)

// entry is what is kept for a key, as text:
//
//	1 p <owner> <count>             a request is under way
//	1 d <owner> <count> <form><ids> it was answered
//
// 1 is the format version, owner who wrote it, count how many IDs were asked for. The form says how
// the IDs are written: n for numbers that are shown as they are, as runs "first:stride:count" with
// a comma between two; t for display forms that plugins made, a line each; b for the same in
// base64, where they are no UTF-8.
type entry struct {
	done  bool
	owner string
	count int
	ids   string // with its form; only when done
}

const version = "1"

// errNewer is returned for an entry that a newer version wrote.
var errNewer = &seqd.Error{Code: seqd.CodeConflict, Detail: "the answer kept for this Idempotency-Key was written by a newer version of seqd"}

// errDamaged is returned for an entry that no version wrote.
var errDamaged = errors.New("what is kept for an Idempotency-Key cannot be read")

func (e entry) text() string {
	state := " p "
	if e.done {
		state = " d "
	}
	text := version + state + e.owner + " " + strconv.Itoa(e.count)
	if e.done {
		text += " " + e.ids
	}
	return text
}

// parse reads what [entry.text] wrote.
func parse(text string) (e entry, err error) {
	parts := strings.SplitN(text, " ", 5)
	if known, err := strconv.Atoi(parts[0]); err != nil || known < 1 {
		return e, errDamaged
	}
	if parts[0] != version {
		return e, errNewer
	}
	if len(parts) < 4 || parts[2] == "" {
		return e, errDamaged
	}
	e.owner = parts[2]
	if e.count, err = strconv.Atoi(parts[3]); err != nil || e.count < 1 || e.count > seqd.MaxCount {
		return e, errDamaged
	}
	switch {
	case parts[1] == "p" && len(parts) == 4:
		return e, nil
	case parts[1] == "d" && len(parts) == 5:
		e.done, e.ids = true, parts[4]
		return e, nil
	}
	return e, errDamaged
}

// mostBytes is how many bytes the IDs of one answer may take: as many as a document has room for,
// beside the rest of the entry.
const mostBytes = 1<<20 - 256

// write returns the IDs of a sequence, with their form.
func write(seq *seqd.Sequence) string {
	if !seq.Shown() {
		var b strings.Builder
		b.WriteByte('n')
		for i, run := range seq.Runs() {
			if i > 0 {
				b.WriteByte(',')
			}
			var buf [64]byte
			text := append(strconv.AppendInt(buf[:0], run.First, 10), ':')
			text = append(strconv.AppendInt(text, run.Stride, 10), ':')
			b.Write(strconv.AppendInt(text, int64(run.Count), 10))
		}
		return b.String()
	}
	lines := seq.AppendIDs([]byte("t"), "", "", "\n")
	if utf8.Valid(lines) {
		return string(lines)
	}
	return "b" + base64.StdEncoding.EncodeToString(lines[1:])
}

// lines returns the display forms of an entry that is done, a line each, without a line break at
// the end.
func (e entry) lines() (string, error) {
	form, rest := e.ids[:min(1, len(e.ids))], e.ids[min(1, len(e.ids)):]
	switch form {
	case "n":
		return e.numbers(rest)
	case "b":
		data, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return "", errDamaged
		}
		rest = string(data)
	case "t":
	default:
		return "", errDamaged
	}
	if rest == "" || strings.Count(rest, "\n") != e.count-1 {
		return "", errDamaged
	}
	return rest, nil
}

// numbers reads runs.
func (e entry) numbers(runs string) (string, error) {
	var seq seqd.Sequence
	for run := range strings.SplitSeq(runs, ",") {
		first, rest, _ := strings.Cut(run, ":")
		stride, count, _ := strings.Cut(rest, ":")
		f, err1 := strconv.ParseInt(first, 10, 64)
		s, err2 := strconv.ParseInt(stride, 10, 64)
		c, err3 := strconv.Atoi(count)
		if errors.Join(err1, err2, err3) != nil || c < 1 || c > e.count-seq.Len() {
			return "", errDamaged
		}
		seq.Add(f, c, s)
	}
	if seq.Len() != e.count {
		return "", errDamaged
	}
	return string(seq.AppendIDs(make([]byte, 0, 20*e.count), "", "", "\n")), nil
}
