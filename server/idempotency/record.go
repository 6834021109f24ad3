package idempotency

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seqd/seqd"
)

// record is what is kept for a key. It is written as text:
//
//	1 p <owner> <count>             a request is in progress
//	1 d <owner> <count> <form><ids> the request was answered
//
// 1 is the version of the format, owner is who wrote the record, count is how many IDs were asked
// for. form says how the IDs are written: n for plain numbers, as runs "first:stride:count"
// separated by commas; t for display forms made by plugins, one per line; b for the same in base64,
// if they are not valid UTF-8.
type record struct {
	done  bool
	owner string
	count int
	ids   string // with its form; only if done
}

const version = "1"

// errNewer is returned for a record that a newer version wrote.
var errNewer = &seqd.Error{Code: seqd.CodeConflict, Detail: "the answer kept for this Idempotency-Key was written by a newer version of seqd"}

// errDamaged is returned for a record that no version wrote.
var errDamaged = errors.New("what is kept for an Idempotency-Key cannot be read")

func (rec record) text() string {
	state := " p "
	if rec.done {
		state = " d "
	}
	text := version + state + rec.owner + " " + strconv.Itoa(rec.count)
	if rec.done {
		text += " " + rec.ids
	}
	return text
}

// parse is the inverse of [record.text].
func parse(text string) (rec record, err error) {
	parts := strings.SplitN(text, " ", 5)
	if known, err := strconv.Atoi(parts[0]); err != nil || known < 1 {
		return rec, errDamaged
	}
	if parts[0] != version {
		return rec, errNewer
	}
	if len(parts) < 4 || parts[2] == "" {
		return rec, errDamaged
	}
	rec.owner = parts[2]
	if rec.count, err = strconv.Atoi(parts[3]); err != nil || rec.count < 1 || rec.count > seqd.MaxCount {
		return rec, errDamaged
	}
	switch {
	case parts[1] == "p" && len(parts) == 4:
		return rec, nil
	case parts[1] == "d" && len(parts) == 5:
		rec.done, rec.ids = true, parts[4]
		return rec, nil
	}
	return rec, errDamaged
}

// mostBytes is how many bytes the IDs of one answer may take. With the rest of the record they must
// fit into a document.
const mostBytes = 1<<20 - 256

// write returns the IDs of a sequence with their form.
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

// lines returns the display forms of a finished record, separated by line breaks.
func (rec record) lines() (string, error) {
	form, rest := rec.ids[:min(1, len(rec.ids))], rec.ids[min(1, len(rec.ids)):]
	switch form {
	case "n":
		return rec.numbers(rest)
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
	if rest == "" || strings.Count(rest, "\n") != rec.count-1 {
		return "", errDamaged
	}
	return rest, nil
}

// numbers returns the numbers of runs, separated by line breaks.
func (rec record) numbers(runs string) (string, error) {
	var seq seqd.Sequence
	for run := range strings.SplitSeq(runs, ",") {
		first, rest, _ := strings.Cut(run, ":")
		stride, count, _ := strings.Cut(rest, ":")
		f, err1 := strconv.ParseInt(first, 10, 64)
		s, err2 := strconv.ParseInt(stride, 10, 64)
		c, err3 := strconv.Atoi(count)
		if errors.Join(err1, err2, err3) != nil || c < 1 || c > rec.count-seq.Len() {
			return "", errDamaged
		}
		seq.Add(f, c, s)
	}
	if seq.Len() != rec.count {
		return "", errDamaged
	}
	return string(seq.AppendIDs(make([]byte, 0, 20*rec.count), "", "", "\n")), nil
}
