package bolt

import (
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/persist"
)

// ErrInUse is returned by OpenReadOnly while another process has the file.
var ErrInUse = errors.New("another process is using the store file")

// OpenReadOnly opens an existing store to read it. It creates and changes nothing, and every write
// returns an error. While it is open, no process can open the file to write. The error wraps
// fs.ErrNotExist, ErrInUse or persist.ErrOlder, or says why the file cannot be used.
func OpenReadOnly(opts Options) (*Store, error) {
	opts.content = storeContent()
	file, err := lookAt(opts)
	if err != nil {
		return nil, err
	}
	s := &Store{opened: file}
	s.fill(opts)
	s.history.closed, s.answers.closed = true, true // they would create files
	return s, nil
}

// lookAt opens an existing data file to read it.
func lookAt(opts Options) (o opened, err error) {
	o.path, o.guard = opts.Path, &guard{path: opts.Path, advice: opts.content.advice}
	if info, err := os.Stat(opts.Path); err != nil {
		return o, err
	} else if info.Size() == 0 {
		return o, fmt.Errorf("%w: %s is empty, which seqd never leaves behind", persist.ErrInvalid, opts.Path)
	}
	err = guarded(func() (err error) {
		// With the list of free pages, which seqd reads at its start: doctor must not call a file good that a start refuses.
		o.db, err = bbolt.Open(opts.Path, 0o600, &bbolt.Options{Timeout: opts.LockTimeout, ReadOnly: true, PreLoadFreelist: true, OpenFile: func(name string, _ int, _ os.FileMode) (*os.File, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			o.file, err = f.Stat()
			return f, err
		}})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return o, fmt.Errorf("%w: %s", ErrInUse, opts.Path)
	case err != nil:
		return o, fmt.Errorf("open store file %s: %w", opts.Path, err)
	}
	o.settled = newSettled(&o)
	return o, o.verify(opts.content)
}

// InspectAnswers opens all files of answers beside a store that was opened read-only. It returns
// how many there are and how many answers they hold. The error names a file that is missing or
// damaged.
func (s *Store) InspectAnswers() (files, answers int, err error) {
	w := &windows{opts: s.answers.windows.opts}
	numbers, err := w.numbers()
	if err != nil {
		return 0, 0, err
	}
	for _, number := range numbers {
		one := &window{number: number}
		opts := w.opts
		opts.Path = windowPath(opts.Path, number)
		opts.content = answersContent("")
		if one.opened, err = lookAt(opts); err != nil {
			return 0, 0, err
		}
		if err := errors.Join(one.read(), one.close()); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", one.path, err)
		}
		answers += one.state.Count
		w.list = append(w.list, one)
	}
	_, missing := w.needed()
	return len(w.list), answers, missing
}
