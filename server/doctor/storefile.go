package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Less free space than this is reported.
const (
	leastFree  = 1 << 30
	leastShare = 20 // of the whole, as one in
)

// file checks the file of a store. It returns whether the file can be looked into.
func (c storeCheck) file(f *findings, key, path string) bool {
	filesCheck(c).folder(f, key, filepath.Dir(path))
	c.fileSystem(f, key, path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if c.d.Config.Store.MustExist {
			c.fresh(f, "there is no "+path)
			return false
		}
		f.add(Info, key, "where numbers were issued before, put the file back before seqd starts", "there is no %s: seqd makes it, and all numbers begin at their start", path)
		return false
	case err != nil:
		f.add(Fail, key, "", "%v", err)
		return false
	case info.Mode().Perm()&0o077 != 0:
		f.add(Warn, key, "chmod 600 "+path, "%s can be used by others than its owner (mode %#o)", path, info.Mode().Perm())
	}
	filesCheck(c).written(f, key, path)
	return true
}

// volatile are the file systems that are unfit for a data file, and why.
var volatile = map[string]string{
	"tmpfs": "it is memory: all numbers restart with the machine", "ramfs": "it is memory: all numbers restart with the machine",
	"overlay": "it is the container's own file system, which goes with the container",
	"nfs":     "locks and fsync over a network do not always hold", "cifs": "locks and fsync over a network do not always hold",
	"smb2": "locks and fsync over a network do not always hold", "fuse": "whether fsync holds is up to what is behind it", "9p": "whether fsync holds is up to what is behind it",
}

func (c storeCheck) fileSystem(f *findings, key, path string) {
	there := path
	for _, err := os.Stat(there); err != nil && filepath.Dir(there) != there; _, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	disk, err := c.d.Host.Disk(there)
	if err != nil {
		f.add(Info, key, "", "its file system cannot be told: %v", err)
		return
	}
	if why, bad := volatile[disk.Kind]; bad {
		f.add(Warn, key, "put it on a volume of a local disk", "%s is on %s: %s", path, disk.Kind, why)
	}
	free := fmt.Sprintf("%d MiB of %d MiB are free", disk.Free>>20, disk.Size>>20)
	if disk.Free < leastFree || disk.Free < disk.Size/leastShare {
		f.add(Warn, key, "make room: a file that must grow and cannot gives no numbers", "%s on %s", free, disk.Kind)
		return
	}
	f.ok(key, "%s on %s", free, disk.Kind)
}
