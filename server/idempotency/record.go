package idempotency

import (
	"bytes"
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
// for. form says how the IDs are written:
//
//	n  plain numbers, as runs "first:stride:count" separated by commas
//	f  numbers between the same texts, in version 2: "width:bytes:bytes:" and then the text before,
//	   the text after, and the runs; a number has zeros in front up to the width
//	z  display forms, one per line, in version 2: deflated, in base64
//	t  display forms, one per line
//	b  the same in base64, if they are not valid UTF-8
type record struct {
	done  bool
	owner string
	count int
	ids   string // with its form; only if done
}

// Versions of the format. A record has the first one if that can express it, so nodes of earlier
// versions can read it.
const (
	version = "1"
	compact = "2" // with the forms f and z
)

// errNewer is returned for a record that a newer version wrote.
var errNewer = &seqd.Error{Code: seqd.CodeConflict, Detail: "the answer kept for this Idempotency-Key was written by a newer version of seqd"}

// errDamaged is returned for a record that no version wrote.
var errDamaged = errors.New("what is kept for an Idempotency-Key cannot be read")

func (rec record) text() string {
	state := " p "
	if rec.done {
		state = " d "
	}
	text := rec.version() + state + rec.owner + " " + strconv.Itoa(rec.count)
	if rec.done {
		text += " " + rec.ids
	}
	return text
}

// version returns the version of the format in which a record is written.
func (rec record) version() string {
	if strings.HasPrefix(rec.ids, "f") || strings.HasPrefix(rec.ids, "z") {
		return compact
	}
	return version
}

// parse is the inverse of [record.text].
func parse(text string) (rec record, err error) {
	parts := strings.SplitN(text, " ", 5)
	if known, err := strconv.Atoi(parts[0]); err != nil || known < 1 {
		return rec, errDamaged
	}
	if parts[0] != version && parts[0] != compact {
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

// mostBytes is how many bytes the IDs of one answer may take in a record. With the rest of the
// record they must fit into a document. mostShown is how many they may take when they are shown.
const (
	mostBytes = 1<<20 - 256
	mostShown = 512 << 20
)

// fewShown is how many bytes of display forms are not worth deflating.
const fewShown = 128

// write returns the IDs of a sequence with their form, the shortest that gives them back exactly.
func write(seq *seqd.Sequence) string {
	if !seq.Shown() {
		return "n" + runsOf(seq)
	}
	lines := seq.AppendIDs(nil, "", "", "\n")
	if f, ok := formOf(seq); ok && f.fits(seq.Len()) && bytes.Equal(lines, f.lines(seq)) {
		if text := "f" + f.text() + runsOf(seq); len(text) < len(lines) {
			return text
		}
	}
	text := "b" + base64.StdEncoding.EncodeToString(lines)
	if utf8.Valid(lines) {
		text = "t" + string(lines)
	}
	if len(lines) > fewShown && len(lines) <= mostShown {
		if z := "z" + base64.StdEncoding.EncodeToString(deflate(lines)); len(z) < len(text) {
			return z
		}
	}
	return text
}

// runsOf returns the runs of a sequence as text.
func runsOf(seq *seqd.Sequence) string {
	var text []byte
	for i, run := range seq.Runs() {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendInt(text, run.First, 10), ':')
		text = append(strconv.AppendInt(text, run.Stride, 10), ':')
		text = strconv.AppendInt(text, int64(run.Count), 10)
	}
	return string(text)
}

// lines returns the display forms of a finished record, separated by line breaks.
func (rec record) lines() (string, error) {
	if rec.ids == "" {
		return "", errDamaged
	}
	rest, err := rec.ids[1:], error(nil)
	switch rec.ids[0] {
	case 'n':
		return rec.numbers(form{}, rest)
	case 'f':
		return rec.numbers(parseForm(rest))
	case 'z':
		rest, err = inflate(rest)
	case 'b':
		var data []byte
		data, err = base64.StdEncoding.DecodeString(rest)
		rest = string(data)
	case 't':
	default:
		return "", errDamaged
	}
	if err != nil || rest == "" || strings.Count(rest, "\n") != rec.count-1 {
		return "", errDamaged
	}
	return rest, nil
}

// numbers returns the numbers of runs in a form, separated by line breaks.
func (rec record) numbers(f form, runs string) (string, error) {
	var seq seqd.Sequence
	for run := range strings.SplitSeq(runs, ",") {
		first, rest, _ := strings.Cut(run, ":")
		stride, count, _ := strings.Cut(rest, ":")
		n, err1 := strconv.ParseInt(first, 10, 64)
		s, err2 := strconv.ParseInt(stride, 10, 64)
		c, err3 := strconv.Atoi(count)
		if errors.Join(err1, err2, err3) != nil || c < 1 || c > rec.count-seq.Len() {
			return "", errDamaged
		}
		seq.Add(n, c, s)
	}
	if seq.Len() != rec.count || !f.fits(rec.count) {
		return "", errDamaged
	}
	return string(f.lines(&seq)), nil
}
