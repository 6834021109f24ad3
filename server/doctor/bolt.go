package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
)

func (c storeCheck) openBolt() (*bolt.Store, error) {
	return bolt.OpenReadOnly(bolt.Options{Path: c.d.Config.Store.Settings["bolt"].(*bolt.Settings).Path, LockTimeout: lockPatience, Now: c.d.Now})
}

// lockPatience is how long another process may hold the file before it counts as in use.
const lockPatience = 200 * time.Millisecond

const boltKey = "store.bolt.path"

// Less free space than this is reported.
const (
	leastFree  = 1 << 30
	leastShare = 20 // of the whole, as one in
)

func (c storeCheck) boltFile(ctx context.Context, f *findings) {
	path := c.d.Config.Store.Settings["bolt"].(*bolt.Settings).Path
	filesCheck(c).folder(f, boltKey, filepath.Dir(path))
	c.fileSystem(f, path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if c.d.Config.Store.MustExist {
			c.fresh(f, "there is no "+path)
			return
		}
		f.add(Info, boltKey, "where numbers were issued before, put the file back before seqd starts", "there is no %s: seqd makes it, and all numbers begin at their start", path)
		return
	case err != nil:
		f.add(Fail, boltKey, "", "%v", err)
		return
	case info.Mode().Perm()&0o077 != 0:
		f.add(Warn, boltKey, "chmod 600 "+path, "%s can be used by others than its owner (mode %#o)", path, info.Mode().Perm())
	}
	filesCheck(c).written(f, boltKey, path)
	store, err := c.openBolt()
	switch {
	case errors.Is(err, bolt.ErrInUse):
		c.inUse(ctx, f, path)
		return
	case errors.Is(err, persist.ErrOlder):
		f.add(Fail, boltKey, "", "%v", err) // which says what to do
		return
	case err != nil:
		f.add(Fail, boltKey, "restore a backup; see docs/OPERATIONS.md", "%v", err)
		return
	}
	defer store.Close()
	f.ok(boltKey, "%s is of format %d and no process has it", path, bolt.Format)
	c.contents(ctx, f, store)
	switch files, answers, err := store.InspectAnswers(); {
	case err != nil:
		f.add(Fail, boltKey, "restore the folder, or remove it as a whole; see docs/IDEMPOTENCY.md",
			"the answers to requests with an Idempotency-Key, which are refused while this lasts: %v", err)
	case files > 0:
		f.ok(boltKey, "%d answers to requests with an Idempotency-Key are in %d files", answers, files)
	}
}

// inUse asks the node that holds the file how it is.
func (c storeCheck) inUse(ctx context.Context, f *findings, path string) {
	said, err := c.d.Ask(ctx)
	if err != nil {
		f.add(Warn, boltKey, "find out what has it, with fuser or lsof", "%s is in use, and no seqd answers: %v", path, err)
		return
	}
	f.add(Info, boltKey, "to have it looked into, stop seqd first", "%s is in use by a running seqd: %s", path, said)
}

// volatile are the file systems that are unfit for a data file, and why.
var volatile = map[string]string{
	"tmpfs": "it is memory: all numbers restart with the machine", "ramfs": "it is memory: all numbers restart with the machine",
	"overlay": "it is the container's own file system, which goes with the container",
	"nfs":     "locks and fsync over a network do not always hold", "cifs": "locks and fsync over a network do not always hold",
	"smb2": "locks and fsync over a network do not always hold", "fuse": "whether fsync holds is up to what is behind it", "9p": "whether fsync holds is up to what is behind it",
}

func (c storeCheck) fileSystem(f *findings, path string) {
	there := path
	for _, err := os.Stat(there); err != nil && filepath.Dir(there) != there; _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	disk, err := c.d.Host.Disk(there)
	if err != nil {
		f.add(Info, boltKey, "", "its file system cannot be told: %v", err)
		return
	}
	if why, bad := volatile[disk.Kind]; bad {
		f.add(Warn, boltKey, "put it on a volume of a local disk", "%s is on %s: %s", path, disk.Kind, why)
	}
	free := fmt.Sprintf("%d MiB of %d MiB are free", disk.Free>>20, disk.Size>>20)
	if disk.Free < leastFree || disk.Free < disk.Size/leastShare {
		f.add(Warn, boltKey, "make room: a file that must grow and cannot gives no numbers", "%s on %s", free, disk.Kind)
		return
	}
	f.ok(boltKey, "%s on %s", free, disk.Kind)
}
