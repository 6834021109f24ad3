package ops

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/config"
)

// ErrCompact is returned by [Compact] when there is nothing to compact.
var ErrCompact = errors.New("nothing was compacted")

// Compact rewrites the files of a store that is a file without their free space, and writes to w
// how large each was and is. No seqd may be running on them.
func Compact(cfg *config.Config, w io.Writer) error {
	file, ok := cfg.Store.Chosen().(driver.File)
	if !ok {
		return fmt.Errorf("%w: store.driver: %s has no file", ErrCompact, cfg.Store.Driver)
	}
	done, err := file.Compact()
	for _, one := range done {
		fmt.Fprintf(w, "%s: %d → %d bytes, %d records, all there\n", one.Path, one.Before, one.After, one.Records)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s: there is no file %s", ErrCompact, cfg.Store.Key(), file.File())
	}
	return err
}
