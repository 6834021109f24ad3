package bolt

import (
	"context"
	"path/filepath"
	"time"

	"github.com/seqd/seqd"
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
	return driver.Within(nil, "lockTimeout", s.LockTimeout, time.Millisecond, time.Minute)
}

// File implements [driver.File].
func (s *Settings) File() string { return s.Path }

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
	return driver.OrNil(Open(Options{Path: s.Path, LockTimeout: s.LockTimeout, Now: how.Now}))
}
