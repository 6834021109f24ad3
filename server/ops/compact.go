package ops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/config"
)

// ErrCompact is returned by [Compact] when there is nothing to compact.
var ErrCompact = errors.New("nothing was compacted")

// Compact rewrites the files of store.driver bolt without their free space, and writes to w how
// large each was and is. No seqd may be running on them.
func Compact(cfg *config.Config, w io.Writer) error {
	if cfg.Store.Driver != "bolt" {
		return fmt.Errorf("%w: store.driver: %s has no file; only bolt does", ErrCompact, cfg.Store.Driver)
	}
	file := cfg.Store.Settings["bolt"].(*bolt.Settings)
	done, err := bolt.Compact(bolt.Options{Path: file.Path, LockTimeout: file.LockTimeout, Now: time.Now})
	for _, one := range done {
		fmt.Fprintf(w, "%s: %d → %d bytes, %d records, all there\n", one.Path, one.Before, one.After, one.Records)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: store.bolt.path: there is no file %s", ErrCompact, file.Path)
	}
	return err
}
