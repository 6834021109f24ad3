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

// OpenReadOnly opens a store that exists to look at it, and creates and changes nothing: every write returns an error. While it is open no process can open
// the file to write. The error is one of fs.ErrNotExist and ErrInUse, as errors.Is tells, or says why the file cannot be used.
func OpenReadOnly(opts Options) (*Store, error) {
	s := &Store{}
	opts.advice = counterAdvice
	s.path, s.guard = opts.Path, &guard{path: opts.Path, advice: opts.advice}
	if info, err := os.Stat(opts.Path); err != nil {
		return nil, err
	} else if info.Size() == 0 {
		return nil, fmt.Errorf("%w: %s is empty, which seqd never leaves behind", persist.ErrInvalid, opts.Path)
	}
	err := guarded(func() (err error) {
		s.db, err = bbolt.Open(opts.Path, 0o600, &bbolt.Options{Timeout: opts.LockTimeout, ReadOnly: true, OpenFile: func(name string, _ int, _ os.FileMode) (*os.File, error) {
			f, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			s.file, err = f.Stat()
			return f, err
		}})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrInUse, opts.Path)
	case err != nil:
		return nil, fmt.Errorf("open store file %s: %w", opts.Path, err)
	}
	if err := s.verify(countersBucket, shapesBucket); err != nil {
		return nil, err
	}
	s.fill(opts)
	s.history.closed, s.answers.closed = true, true // they would make their files
	if there, err := s.whole(); err != nil || !there {
		return nil, errors.Join(fmt.Errorf("%s was made by one of the first versions of seqd, and can be looked at once this one has run on it", opts.Path), err, s.Close())
	}
	return s, nil
}
