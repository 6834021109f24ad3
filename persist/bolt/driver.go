package bolt

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

func init() {
	driver.Register(driver.Driver{Name: "bolt", Key: "path", Settings: func() driver.Settings {
		return &Settings{Path: "data/seqd.db", LockTimeout: time.Second}
	}})
}

// Settings are those of the embedded store.
type Settings struct {
	// Path is the data file. It and its folder are created. The file `…-history` and the folder
	// `…-answers` are created beside it if they are needed.
	Path string `config:"path"`
	// LockTimeout is how long to wait for another process to release the file.
	LockTimeout time.Duration `config:"lockTimeout" range:"1ms to 1m"`
}

var _ driver.File = (*Settings)(nil)

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	problems.Add("lockTimeout", literal.Within(s.LockTimeout, time.Millisecond, time.Minute))
	return problems
}

// File implements [driver.File].
func (s *Settings) File() string { return s.Path }

// Compact implements [driver.File].
func (s *Settings) Compact() ([]driver.Compacted, error) {
	return compactFile(Options{Path: s.Path, LockTimeout: s.LockTimeout, Now: time.Now})
}

// Place implements [driver.Settings].
func (s *Settings) Place() string {
	if path, err := filepath.Abs(s.Path); err == nil {
		return path
	}
	return s.Path
}

// lockPatience is how long another process may hold the file before it counts as in use, for
// somebody who only looks.
const lockPatience = 200 * time.Millisecond

// Open implements [driver.Settings].
func (s *Settings) Open(_ context.Context, how driver.How) (persist.Store, error) {
	if how.ReadOnly {
		return driver.OrNil(OpenReadOnly(Options{Path: s.Path, LockTimeout: lockPatience, Now: how.Now}))
	}
	return driver.OrNil(Open(Options{Path: s.Path, LockTimeout: s.LockTimeout, Now: how.Now, Synced: how.Synced}))
}

// Examine implements [driver.Settings].
func (s *Settings) Examine(ctx context.Context, e driver.Examination) (readable bool) {
	switch {
	case errors.Is(e.Err, ErrInUse):
		s.inUse(ctx, e)
		return false
	case errors.Is(e.Err, persist.ErrOlder):
		e.Add(driver.Fail, e.Key, "", "%v", e.Err) // which says what to do
		return false
	case e.Err != nil:
		e.Add(driver.Fail, e.Key, "restore a backup; see docs/operations/restore.md", "%v", e.Err)
		return false
	}
	e.OK(e.Key, "%s is of format %d and no process has it", s.Path, fileFormat)
	switch files, answers, err := e.Store.(*Store).InspectAnswers(); {
	case err != nil:
		e.Add(driver.Fail, e.Key, "restore the folder, or remove it as a whole; see docs/IDEMPOTENCY.md",
			"the answers to requests with an Idempotency-Key, which are refused while this lasts: %v", err)
	case files > 0:
		e.OK(e.Key, "%d answers to requests with an Idempotency-Key are in %d files", answers, files)
	}
	return true
}

// inUse asks the node that holds the file how it is.
func (s *Settings) inUse(ctx context.Context, e driver.Examination) {
	said, err := e.Ask(ctx)
	if err != nil {
		e.Add(driver.Warn, e.Key, "find out what has it, with fuser or lsof", "%s is in use, and no seqd answers: %v", s.Path, err)
		return
	}
	e.Add(driver.Info, e.Key, "to have it looked into, stop seqd first", "%s is in use by a running seqd: %s", s.Path, said)
}
