package generate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seqd/seqd/internal/folder"
)

// noteSuffix is added to the path of a file that is incomplete, for the note beside it that says
// what belongs into it. The note is removed when the file is complete and on disk.
const noteSuffix = ".seqd"

// noteFormat is the version of the notes that this build writes.
const noteFormat = 1

// errNoNote is for a file without a note.
var errNoNote = errors.New("it is complete, or seqd generate did not make it: there is no file")

// note says what belongs into a file. How far the file has come is in the file alone, so the two
// cannot disagree.
type note struct {
	Format  int    `json:"format"`
	BizType string `json:"bizType"`
	Count   int64  `json:"count"`
	// Once is the Idempotency-Key of the job that the numbers come from, and Job its ID, "" before it
	// is made. Both are "" if there is no job.
	Once string `json:"once,omitempty"`
	Job  string `json:"job,omitempty"`
}

// jobbed reports whether the numbers come from a job.
func (n note) jobbed() bool { return n.Once+n.Job != "" }

// write makes the note durable.
func (n note) write(path string) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	fresh := path + noteSuffix + ".new"
	if err := writeSynced(fresh, append(text, '\n')); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, path+noteSuffix); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return folder.Sync(filepath.Dir(path))
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// same returns the note beside a file, and an error unless the file is for the same numbers.
func (n note) same(path string) (found note, err error) {
	text, err := os.ReadFile(path + noteSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return found, mistakef("%s cannot be resumed: %w %s", path, errNoNote, path+noteSuffix)
	}
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return found, mistakef("%s is damaged: %w", path+noteSuffix, err)
	}
	switch {
	case found.Format != noteFormat:
		return found, mistakef("%s has the format %d, and this version of seqd reads %d", path+noteSuffix, found.Format, noteFormat)
	case found.BizType != n.BizType:
		return found, mistakef("%s is for numbers of %q, not of %q: name another file", path, found.BizType, n.BizType)
	case found.Count != n.Count:
		return found, mistakef("%s is for %d numbers, not for %d: resume it with --count %d", path, found.Count, n.Count, found.Count)
	case found.jobbed() && !n.jobbed():
		return found, mistakef("%s was begun through a job: resume it with --job", path)
	case n.jobbed() && !found.jobbed():
		return found, mistakef("%s was begun without a job: resume it without --job", path)
	case n.Job != "" && n.Job != found.Job:
		return found, mistakef("%s is for the job %q, not for %q: resume it with --job alone", path, found.Job, n.Job)
	}
	return found, nil
}

// removeNote makes a file count as complete.
func removeNote(path string) error {
	if err := os.Remove(path + noteSuffix); err != nil {
		return fmt.Errorf("%s is complete, but its note cannot be removed: %w", path, err)
	}
	return folder.Sync(filepath.Dir(path))
}
